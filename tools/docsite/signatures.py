"""Signatures as a reader wants them: names and defaults, without internal markers."""

import enum
import inspect
import textwrap
from typing import Any

import numpy as np

WIDTH = 78
GLUE = "\0"  # for spaces within a default, where no line is broken


def signature(name: str, value: Any) -> str | None:
    """Return `name(a, b=1)`, on several lines if it is long; None for no call."""
    try:
        found = inspect.signature(value)
    except (ValueError, TypeError):
        return None
    if any(
        p.name[:1] == "_" and p.default is p.empty for p in found.parameters.values()
    ):
        return None  # made by the library, not by users
    parts = parameters(found)
    line = f"{name}({', '.join(parts)})"
    if len(line) <= WIDTH:
        return line
    options = {"initial_indent": "    ", "subsequent_indent": "    "}
    glued = ", ".join(part.replace(" ", GLUE) for part in parts)
    rows = textwrap.fill(glued, WIDTH, break_long_words=False, **options)
    return f"{name}(\n{rows.replace(GLUE, ' ')}\n)"


def parameters(found: inspect.Signature) -> list[str]:
    parts, keyword_only, positional_only = [], False, False
    for p in found.parameters.values():
        if p.name in ("self", "cls"):
            continue
        if p.name.startswith("_") and p.default is not p.empty:
            continue  # for internal callers
        if positional_only and p.kind is not p.POSITIONAL_ONLY:
            parts.append("/")
            positional_only = False
        if p.kind is p.POSITIONAL_ONLY:
            positional_only = True
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(part.startswith("*") for part in parts):
                parts.append("*")
        parts.append(parameter(p))
    if positional_only:
        parts.append("/")
    return parts


def parameter(p: inspect.Parameter) -> str:
    if p.kind is p.VAR_POSITIONAL:
        return f"*{p.name}"
    if p.kind is p.VAR_KEYWORD:
        return f"**{p.name}"
    return p.name if p.default is p.empty else f"{p.name}={default(p.default)}"


def default(value: Any) -> str:
    """Return how a default is written by a user, or an ellipsis for a marker."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (bool, int, float, str, bytes, type(None))):
        return repr(value)
    if isinstance(value, (tuple, list, dict, frozenset)):
        text = repr(value)
        return text if "<" not in text and len(text) < 40 else "..."
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__name__
    if isinstance(value, (np.dtype, np.generic)):
        return str(value)
    return "..."
