"""Which line of the user's program an eqn or a tracer comes from."""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple, Self

from curta._base.on_demand import late
from curta._base.user_warnings import GENERATED
from curta.config import config, xla_notes
from curta.core.name_stack import EMPTY, NameStack

# Loaded late, as mesh_scope uses this module, too.
mesh_scope: Any = late("curta.core.mesh_scope")

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_inside: dict[str, bool] = {}  # file name -> whether it is of this package


class ExcludedPaths(list[str]):
    """The beginnings of names of files whose code is not the user's."""

    def append(self, path: str) -> None:
        super().append(path)
        _inside.clear()

    def remove(self, path: str) -> None:
        super().remove(path)
        _inside.clear()


excluded_paths: ExcludedPaths = ExcludedPaths()


class SourceInfo(NamedTuple):
    """A location in a program, resolved to a line only when it is printed.

    >>> from curta.extend import source_info_util
    >>> isinstance(source_info_util.current(), source_info_util.SourceInfo)
    True
    """

    code: CodeType | None
    lasti: int
    name_stack: NameStack = EMPTY
    """The scopes and transformations that the line runs in: `outer/vmap(inner)`."""

    @property
    def line(self) -> int:
        """The line number, 0 if unknown."""
        if self.code is None:
            return 0
        result = self.code.co_firstlineno
        for start, stop, line in self.code.co_lines():
            if line is not None and start <= self.lasti < stop:
                result = line
        return result

    @property
    def short(self) -> str:
        """The file and the line, as `train.py:12`; empty if unknown."""
        if self.code is None:
            return ""
        return f"{os.path.basename(self.code.co_filename)}:{self.line}"

    @property
    def column(self) -> int:
        """Where in its line the expression begins, from 0; 0 if unknown."""
        return self.extent[2] or 0

    @property
    def extent(self) -> tuple[int | None, int | None, int | None, int | None]:
        """The first line and the last, and the columns where they begin and end."""
        if self.code is None:
            return None, None, None, None
        positions = itertools.islice(self.code.co_positions(), self.lasti // 2, None)
        return next(positions, (None,) * 4)

    @property
    def traceback(self) -> SourceInfo | None:
        """The line alone, None if unknown: what `user_context` takes."""
        return None if self.code is None else SourceInfo(self.code, self.lasti)

    def __reduce__(self) -> Any:
        # Code has no meaning in another process.
        return SourceInfo, (None, 0, self.name_stack)

    def __str__(self) -> str:
        if self.code is None:
            return "<unknown>"
        text = f"{self.code.co_filename}:{self.line}:{self.column}"
        return f"{text} ({self.code.co_qualname})"


UNKNOWN = SourceInfo(None, 0)


def source_text(source: SourceInfo) -> str:
    """The expression at a location, if it is on one line of a file that is there."""
    line, last, begin, end = source.extent
    if source.code is None or line is None or line != last:
        return ""
    text = linecache.getline(source.code.co_filename, line)
    return text.encode()[begin:end].decode(errors="replace")


class _Scopes(threading.local):
    names = EMPTY
    location: SourceInfo | None = None  # of the eqn being transformed
    # A cache of one: the last location, the names it was given, the result.
    named: tuple[SourceInfo, NameStack, SourceInfo] = (UNKNOWN, EMPTY, UNKNOWN)


_scopes = _Scopes()


class SetNameStack(contextlib.ContextDecorator):
    """Makes `name_stack` the current one within a `with` block, or a function.

    >>> from curta.extend import source_info_util
    >>> with source_info_util.set_name_stack(source_info_util.new_name_stack("layer")):
    ...     print(source_info_util.current_name_stack())
    layer
    """

    def __init__(self, name_stack: NameStack):
        self.name_stack = name_stack
        self._outer: list[NameStack] = []

    def _recreate_cm(self) -> Self:
        # Several threads may be in a function that is decorated.
        again = copy.copy(self)
        again._outer = []
        return again

    def within(self, outer: NameStack) -> NameStack:
        """The stack inside, where `outer` is that around."""
        return self.name_stack

    def __enter__(self) -> NameStack:
        outer = _scopes.names
        self._outer.append(outer)
        _scopes.names = names = self.within(outer)
        return names

    def __exit__(self, *error: Any) -> None:
        _scopes.names = self._outer.pop()


class NamedScope(SetNameStack):
    """Names the eqns recorded within a `with` block or a decorated function.

    >>> from curta.extend import source_info_util
    >>> with source_info_util.extend_name_stack("layer"):
    ...     print(source_info_util.current_name_stack())
    layer
    """

    def __init__(self, name: str):
        super().__init__(EMPTY.extend(name))

    def within(self, outer: NameStack) -> NameStack:
        return outer + self.name_stack


class OnMesh(NamedScope):
    """Has eqns recorded within know the mesh in scope, and be replayed so."""

    def __init__(self, mesh: Any):
        SetNameStack.__init__(self, EMPTY.on(mesh))


class Transforming(NamedScope):
    """Names a transformation of what is recorded within.

    >>> from curta.extend import source_info_util
    >>> with source_info_util.transform_name_stack("vmap"):
    ...     with source_info_util.extend_name_stack("layer"):
    ...         print(source_info_util.current_name_stack())
    vmap(layer)
    """

    def __init__(self, name: str):
        SetNameStack.__init__(self, EMPTY.transform(name))


class Annotating(SetNameStack):
    """Tells XLA something of the eqns recorded within a `with` block, or a function.

    Programs that are traced within are others than those that are traced outside.
    """

    def __init__(self, entries: tuple[tuple[str, Any], ...]):
        super().__init__(EMPTY.annotate(entries))
        self._entries = entries
        self._settings: list[Any] = []

    def _recreate_cm(self) -> Self:
        again = super()._recreate_cm()
        again._settings = []
        return again

    def within(self, outer: NameStack) -> NameStack:
        return outer + self.name_stack

    def __enter__(self) -> NameStack:
        around = dict(config.curta_xla_notes or ())
        setting = xla_notes((*{**around, **dict(self._entries)}.items(),))
        setting.__enter__()
        self._settings.append(setting)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._settings.pop().__exit__(*error)


def current_name_stack() -> NameStack:
    """The scopes and transformations that this thread is in.

    >>> import curta
    >>> from curta.extend import source_info_util
    >>> with curta.named_scope("layer"):
    ...     print(source_info_util.current_name_stack())
    layer
    """
    return _scopes.names


def is_users(code: CodeType) -> bool:
    """Whether code is not of this package."""
    name = code.co_filename
    if name == "<string>":  # a program given by `python -c`, or a generated method
        return not code.co_qualname.startswith(GENERATED)
    inside = _inside.get(name)
    if inside is None:
        inside = _inside[name] = _is_inside(name)
    return not inside


def is_own(code: CodeType) -> bool:
    """Whether code is of this package, or of one that asked to be taken for it."""
    return code.co_filename.startswith((_PACKAGE, *excluded_paths))


def register_exclusion(path: str) -> None:
    """Let code in files whose names begin with `path` not be the user's.

    >>> from curta.extend import source_info_util
    >>> source_info_util.register_exclusion("/opt/my_framework")
    """
    if path not in excluded_paths:
        excluded_paths.append(path)


def _is_inside(name: str) -> bool:
    if name == contextlib.__file__:  # its wrappers run decorated functions
        return True
    return name.startswith((_PACKAGE, "<frozen", *excluded_paths))


class Replay:
    """Lets what is recorded be at the locations of a jaxpr's eqns, one after the other.

    Their names come behind those that are current when it begins. Call `finish` in
    the end, in any case.
    """

    __slots__ = ("names", "location", "_mesh", "_within")

    def __init__(self) -> None:
        self.names: NameStack = _scopes.names
        self.location: SourceInfo | None = _scopes.location
        self._within: tuple[NameStack, NameStack] = (EMPTY, self.names)
        self._mesh: Any = None  # the context manager of another mesh in scope

    def at(self, source: SourceInfo) -> None:
        """Go on to the eqn of this location."""
        if source.code is not None:
            _scopes.location = source
        inner, names = self._within
        if inner is not source.name_stack:
            names = self.names + source.name_stack
            self._within = source.name_stack, names
            if inner.stack or source.name_stack.stack:
                self._change_mesh(source.name_stack.mesh)
        _scopes.names = names

    def finish(self) -> None:
        """Restore the previous state."""
        self._change_mesh(None)
        _scopes.names = self.names
        _scopes.location = self.location

    def _change_mesh(self, mesh: Any) -> None:
        """Put the mesh in scope; that of the beginning for None."""
        if self._mesh is not None:
            self._mesh.__exit__(None, None, None)
            self._mesh = None
        if mesh is not None:
            self._mesh = mesh_scope.retyped_scope(mesh)
            self._mesh.__enter__()


@contextlib.contextmanager
def anew() -> Iterator[None]:
    """Record what is no part of the eqn, or the scopes, that are at work."""
    names, location = _scopes.names, _scopes.location
    notes = config.curta_xla_notes
    _scopes.names = EMPTY if notes is None else EMPTY.annotate(notes)
    _scopes.location = None
    try:
        yield
    finally:
        _scopes.names, _scopes.location = names, location


@contextlib.contextmanager
def user_context(
    traceback: SourceInfo | None, *, name_stack: NameStack | None = None
) -> Iterator[None]:
    """Let what is recorded be at the line, and in the scopes, of an eqn.

    >>> from curta.extend.source_info_util import (
    ...     current_name_stack, new_name_stack, user_context)
    >>> with user_context(None, name_stack=new_name_stack("copied")):
    ...     print(current_name_stack())
    copied
    """
    names, location = _scopes.names, _scopes.location
    _scopes.names = names if name_stack is None else name_stack
    _scopes.location = location if traceback is None else traceback
    try:
        yield
    finally:
        _scopes.names, _scopes.location = names, location


def current_location(outer: int = 0) -> SourceInfo:
    """The location of the eqn that a transformation is working on, if it is on one.

    Its names are those inside of the `outer` first ones.
    """
    return _named(_scopes.location or UNKNOWN, outer)


def user_frame(outer: int = 0) -> SourceInfo:
    """The line of the user's that is being run, or transformed; see `current_location`.

    >>> from curta.extend import source_info_util
    >>> source_info_util.current().name_stack
    NameStack('')
    """
    if _scopes.location is not None:
        return _named(_scopes.location, outer)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        # Most frames are inside: the dict spares them the call.
        if not _inside.get(code.co_filename) and is_users(code):
            return _named(SourceInfo(code, frame.f_lasti), outer)
        frame = frame.f_back
    return _named(UNKNOWN, outer)


def settle(wanted: bool) -> SourceInfo | None:
    """Find the user's line once for all that is recorded from now on, if `wanted`.

    What the location was before, which `unsettle` takes. For rules and functions of the
    library, of whose ops all are at the line that called for them: to find it is a walk
    up the stack.
    """
    before = _scopes.location
    if wanted and before is None:
        _scopes.location = user_frame()
    return before


def unsettle(before: SourceInfo | None) -> None:
    """Go back to the location that `settle` gave."""
    _scopes.location = before


def _named(location: SourceInfo, outer: int) -> SourceInfo:
    names = _scopes.names
    if outer:
        names = names[outer:]
    if location.name_stack is names:
        return location
    before, with_names, result = _scopes.named
    if before is not location or with_names is not names:
        # The ops of a rule share it.
        result = SourceInfo(location.code, location.lasti, names)
        _scopes.named = location, names, result
    return result
