"""Which line of the user's program an eqn or a tracer comes from."""

from __future__ import annotations

import os
import sys
from types import CodeType
from typing import NamedTuple

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_inside: dict[CodeType, bool] = {}


class SourceInfo(NamedTuple):
    """A place in a program, resolved to a line only when it is printed."""

    code: CodeType | None
    lasti: int

    @property
    def line(self) -> int:
        """The line number, 0 if unknown."""
        if self.code is None:
            return 0
        found = self.code.co_firstlineno
        for start, stop, line in self.code.co_lines():
            if line is not None and start <= self.lasti < stop:
                found = line
        return found

    def __str__(self) -> str:
        if self.code is None:
            return "<unknown>"
        return f"{self.code.co_filename}:{self.line} ({self.code.co_qualname})"


UNKNOWN = SourceInfo(None, 0)


def _is_inside(code: CodeType) -> bool:
    name = code.co_filename
    # Generated methods are compiled from strings; a prompt is the user's own.
    return name.startswith((_PACKAGE, "<frozen")) or name == "<string>"


def user_frame() -> SourceInfo:
    """The innermost frame outside this package."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        inside = _inside.get(code)
        if inside is None:
            inside = _inside[code] = _is_inside(code)
        if not inside:
            return SourceInfo(code, frame.f_lasti)
        frame = frame.f_back  # type: ignore[assignment]
    return UNKNOWN
