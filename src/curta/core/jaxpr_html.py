"""Jaxprs in notebooks: a line for each eqn, which unfolds to the jaxprs in it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from curta.core import pretty_printer
from curta.core.jaxpr import Eqn, Jaxpr, jaxprs_in_params
from curta.core.pretty import Printer, Settings
from curta.core.pretty_printer import Doc, text

_OPEN = 10  # eqns of a jaxpr, at most, that is unfolded from the beginning
_WIDE = 10_000  # columns: a line for each eqn
_STYLE = "font-family: monospace; white-space: pre-wrap; line-height: 1.4"
_INDENT = "margin-left: 2ch"


def jaxpr_html(jaxpr: Jaxpr) -> str:
    """The jaxpr as HTML; each line has the user's line that made it as its title."""
    printer = HtmlPrinter(jaxpr, Settings())
    names = printer.shared.items()
    shared = [printer.folded(f"let {name} = ", inner) for inner, name in names]
    return f'<div style="{_STYLE}">{"".join(shared)}{printer.block(jaxpr)}</div>'


class HtmlPrinter(Printer):
    """Gives variables the names that they have in the text of the jaxpr."""

    def __init__(self, jaxpr: Jaxpr, settings: Settings):
        super().__init__(jaxpr, settings)
        self._inner: list[str] = []  # the jaxprs of the eqn that is being printed

    def nested(self, jaxpr: Jaxpr) -> Doc:
        """What stands for a jaxpr in the line of its eqn."""
        name = self.shared.get(jaxpr)
        if name is not None:
            return text(name)
        outer, self._inner = self._inner, []
        block = self.block(jaxpr)
        self._inner = [*outer, block]
        return text("{ … }")

    def folded(self, prefix: str, jaxpr: Jaxpr) -> str:
        """A jaxpr under a summary."""
        count = len(jaxpr.eqns)
        summary = f"{escape(prefix)}{{ … }} in <i>({count} eqns)</i>"
        return _details(summary, self.block(jaxpr), count <= _OPEN)

    def block(self, jaxpr: Jaxpr) -> str:
        """A jaxpr: the line of its arguments, its eqns, the line of its results."""
        consts, bound = map(self.binders, (jaxpr.constvars, jaxpr.invars))
        head = escape(f"{{ lambda {_line(consts)}; {_line(bound)}. let")
        body = "".join(self._eqns(jaxpr))
        comma = "," if len(jaxpr.outvars) == 1 else ""
        tail = escape(f"in ({_line(self.atoms(jaxpr.outvars, ','))}{comma}) }}")
        return f'<div>{head}</div><div style="{_INDENT}">{body}</div><div>{tail}</div>'

    def _eqns(self, jaxpr: Jaxpr) -> Iterator[str]:
        for eqn in jaxpr.eqns:
            self._inner = []
            shown = escape(_line(self.eqn(eqn)))
            inner, self._inner = self._inner, []
            title = f' title="{escape(str(eqn.source_info))}"'
            if not inner:
                yield f"<div{title}>{shown}</div>"
                continue
            body = f'<div style="{_INDENT}">{"".join(inner)}</div>'
            yield _details(shown, body, _size(eqn) <= _OPEN, title)


def _details(summary: str, body: str, is_open: bool, attributes: str = "") -> str:
    opened = " open" if is_open else ""
    return f"<details{attributes}{opened}><summary>{summary}</summary>{body}</details>"


def _size(eqn: Eqn) -> int:
    return sum(len(inner.eqns) for inner in jaxprs_in_params(eqn.params))


def _line(doc: Doc) -> str:
    """A document on one line."""
    return pretty_printer.render(doc, width=_WIDE).strip()
