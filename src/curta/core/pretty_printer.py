"""A small algebra of documents: text that is laid out to fit a width.

A document is text, breaks and the documents made of them. A `Group` is printed on
one line, its breaks as their text, if it fits in what is left of the line; else each
break that belongs to it directly becomes a new line, indented by the nests around it.
After Wadler, "A prettier printer", and Lindig, "Strictly pretty".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from curta._base.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Doc:
    """A document; `width` is its length on one line."""

    width: int

    def __add__(self, other: Doc) -> Doc:
        return concat([self, other])


@dataclass(frozen=True)
class Text(Doc):
    """Text without line ends; `note` is printed at the end of its line."""

    text: str
    style: str = ""
    note: str = ""


@dataclass(frozen=True)
class Break(Doc):
    """Where a line may end; `text` where it does not."""

    text: str


@dataclass(frozen=True)
class Concat(Doc):
    """Documents one after another."""

    parts: tuple[Doc, ...]


@dataclass(frozen=True)
class Nest(Doc):
    """A document whose new lines are indented by `indent` more."""

    indent: int
    body: Doc


@dataclass(frozen=True)
class Group(Doc):
    """A document laid out on one line if it fits."""

    body: Doc


KEYWORD = "34;1"
TYPE = "35"
"""Styles: the numbers of ANSI terminal colours."""

_RESET = {KEYWORD: "39;22", TYPE: "39"}


def text(content: str, style: str = "", note: str = "") -> Doc:
    """Literal text."""
    return Text(len(content), content, style, note)


def line_break(content: str = " ") -> Doc:
    """A line end, or `content` where the group fits on a line."""
    return Break(len(content), content)


def concat(docs: Iterable[Doc]) -> Doc:
    """Documents one after another."""
    parts = tuple(docs)
    return Concat(sum(d.width for d in parts), parts)


def nest(indent: int, body: Doc) -> Doc:
    """`body` with its new lines indented more."""
    return Nest(body.width, indent, body)


def group(body: Doc) -> Doc:
    """`body` on one line if it fits, else broken."""
    return Group(body.width, body)


def join(separator: Doc, docs: Sequence[Doc]) -> Doc:
    """`docs` with `separator` between them."""
    parts = [p for d in docs for p in (separator, d)]
    return concat(parts[1:])


def render(doc: Doc, width: int = 80, use_color: bool = False) -> str:
    """The text of a document, laid out for lines of `width`."""
    lines: list[_Line] = [_Line()]
    pending: list[tuple[int, bool, Doc]] = [(0, True, doc)]  # indent, broken, document
    while pending:
        indent, broken, item = pending.pop()
        if isinstance(item, Text):
            lines[-1].add(item, use_color)
        elif isinstance(item, Break):
            if broken:
                lines.append(_Line(" " * indent))
            else:
                lines[-1].add(item, use_color)
        elif isinstance(item, Concat):
            pending.extend((indent, broken, part) for part in reversed(item.parts))
        elif isinstance(item, Nest):
            pending.append((indent + item.indent, broken, item.body))
        elif isinstance(item, Group):
            fits = lines[-1].length + item.width <= width
            pending.append((indent, not fits, item.body))
    return _aligned(lines)


class _Line:
    """A line being filled."""

    def __init__(self, content: str = "") -> None:
        self.pieces = [content]
        self.length = len(content)
        self.notes: list[str] = []

    def add(self, item: Text | Break, use_color: bool) -> None:
        style = item.style if use_color and isinstance(item, Text) else ""
        if style:
            self.pieces.append(f"\x1b[{style}m{item.text}\x1b[{_RESET[style]}m")
        else:
            self.pieces.append(item.text)
        self.length += item.width
        if isinstance(item, Text) and item.note:
            self.notes.append(item.note)


def _aligned(lines: Sequence[_Line]) -> str:
    """The lines, with their notes in one column."""
    column = max(line.length for line in lines)
    texts = []
    for line in lines:
        content = "".join(line.pieces)
        if line.notes:
            content += " " * (column - line.length) + " # " + " # ".join(line.notes)
        texts.append(content)
    return "\n".join(texts)
