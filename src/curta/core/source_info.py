"""Which line of the user's program an eqn or a tracer comes from."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from types import CodeType
from typing import Any, NamedTuple

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_inside: dict[CodeType, bool] = {}


class SourceInfo(NamedTuple):
    """A place in a program, resolved to a line only when it is printed."""

    code: CodeType | None
    lasti: int
    name_stack: str = ""
    """The names of the scopes that the line runs in: `outer/inner`."""

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


class _Scopes(threading.local):
    names = ""
    place: SourceInfo | None = None  # of the eqn that a transformation is working on


_scopes = _Scopes()


class NamedScope(contextlib.ContextDecorator):
    """Names the eqns recorded within a `with` block or a decorated function."""

    def __init__(self, name: str):
        self.name = name
        self._outer: list[str] = []

    def __enter__(self) -> None:
        outer = _scopes.names
        self._outer.append(outer)
        _scopes.names = f"{outer}/{self.name}" if outer else self.name

    def __exit__(self, *error: Any) -> None:
        _scopes.names = self._outer.pop()


def current_name_stack() -> str:
    """The names of the scopes that this thread is in, `outer/inner`."""
    return _scopes.names


def is_users(code: CodeType) -> bool:
    """Whether code is not of this package."""
    inside = _inside.get(code)
    if inside is None:
        inside = _inside[code] = _is_inside(code)
    return not inside


def _is_inside(code: CodeType) -> bool:
    name = code.co_filename
    # Generated methods are compiled from strings; a prompt is the user's own.
    return name.startswith((_PACKAGE, "<frozen")) or name == "<string>"


def known_place() -> SourceInfo:
    """The place of the eqn that a transformation is working on, if it is on one."""
    return _scopes.place or UNKNOWN


def swap_place(place: SourceInfo | None) -> SourceInfo | None:
    """Let `place` be that of what is recorded, and return what was; use try/finally."""
    before = _scopes.place
    _scopes.place = before if place is UNKNOWN else place
    return before


def user_frame() -> SourceInfo:
    """The line of the user's that is being run, or transformed."""
    if _scopes.place is not None:
        return _scopes.place
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if is_users(code):
            return SourceInfo(code, frame.f_lasti, _scopes.names)
        frame = frame.f_back  # type: ignore[assignment]
    return UNKNOWN
