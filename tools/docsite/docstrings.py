"""Docstrings in Google's style as Markdown: sections become headed lists."""

import logging
import re
from typing import Any

import griffe

OPTIONS = {
    "warn_unknown_params": False,
    "warn_missing_types": False,
    "warnings": False,
    "returns_multiple_items": False,
    "returns_named_value": False,
    "receives_multiple_items": False,
}
# An example begins with a prompt and ends at a blank line.
EXAMPLE = re.compile(r"^([ ]*)>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)
HEADS = {
    "parameters": "Parameters",
    "other parameters": "Other parameters",
    "attributes": "Attributes",
    "returns": "Returns",
    "yields": "Yields",
    "raises": "Raises",
    "warns": "Warns",
    "examples": "Examples",
}
logging.getLogger("griffe").setLevel(logging.CRITICAL)


def markdown(docstring: str) -> str:
    """Return the docstring as Markdown, with its examples in fences."""
    parsed = griffe.Docstring(docstring, lineno=1).parse("google", **OPTIONS)
    return "\n\n".join(filter(None, map(section, parsed)))


def fenced(text: str) -> str:
    return EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", text)


def section(part: Any) -> str:
    kind = part.kind.value
    if kind == "text":
        return fenced(part.value)
    if kind == "admonition":
        body = fenced(part.value.contents)
        return f"**{part.title or part.value.kind.title()}**\n\n{body}"
    if kind == "examples":
        blocks = [fenced(text) for _, text in part.value]
        return "\n\n".join([head(kind), *blocks])
    rows = [item(kind, entry) for entry in part.value]
    return f"{head(kind)}\n\n" + "\n".join(rows)


def head(kind: str) -> str:
    return f'<p class="field">{HEADS.get(kind, kind.title())}</p>'


def item(kind: str, entry: Any) -> str:
    text = fenced(entry.description or "").strip()
    if kind in ("returns", "yields"):
        return text
    name = getattr(entry, "name", None) or str(entry.annotation)
    name = name.replace("*", "\\*")
    return f"- **{name}**: " + text.replace("\n", "\n    ")
