"""Short tracebacks, without the frames of this package (`jax_traceback_filtering`).

    @api_boundary
    def grad_fun(*args): ...  # errors lead from one line of the user's to the next

Only the outermost boundary that an exception passes changes its traceback. An error
that no boundary saw, as those of single operations, is shortened when it is shown
because nobody caught it. Nothing is done until there is an exception.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from curta._base.on_demand import late
from curta._base.uncaught import before_shown
from curta.config import config
from curta.core.source_info import (
    is_own,
    is_users,
    register_exclusion as register_exclusion,
)

remedies: Any = late("curta.core.remedies")  # when there is an error

_Fun = TypeVar("_Fun", bound=Callable[..., Any])
_boundaries: set[types.CodeType] = set()
_RULE = "-" * 20
_NOTE = (
    f"{_RULE}\nFor simplicity, the frames of Curta are not in this traceback."
    " JAX_TRACEBACK_FILTERING=off shows them."
)


class UnfilteredStackTrace(Exception):
    """Carries the whole traceback of the error that it is the cause of."""


def api_boundary(fun: _Fun) -> _Fun:
    """`fun`, which raises its errors with a short traceback."""
    shorten = shorten_traceback

    def with_short_traceback(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            return fun(*args, **kwargs)
        except Exception as error:
            shorten(error)
            raise

    _boundaries.add(with_short_traceback.__code__)
    # In the module of `fun`, where doctest and pickle look for it.
    wrapper = types.FunctionType(
        with_short_traceback.__code__,
        getattr(fun, "__globals__", globals()),
        closure=with_short_traceback.__closure__,
    )
    return cast(_Fun, functools.wraps(fun)(wrapper))


def include_frame(frame: types.FrameType) -> bool:
    """Whether short tracebacks have a frame: whether its code is the user's."""
    return is_users(frame.f_code)


def is_boundary(function: _Fun) -> _Fun:
    """Say that a function calls `shorten_traceback` for every exception."""
    _boundaries.add(function.__code__)
    return function


def shorten_traceback(error: Exception) -> None:
    """Change the traceback of an exception that a boundary is about to raise again.

    `auto` takes frames away in IPython too, which shows the last one even if it is
    marked as hidden (`tracebackhide`).
    """
    mode = config.jax_traceback_filtering
    if mode == "off" or error.__traceback__ is None or _is_inside_another():
        return
    whole = error.__traceback__
    if mode == "tracebackhide":
        for frame, _ in traceback.walk_tb(whole):
            if not include_frame(frame):
                frame.f_locals["__tracebackhide__"] = True
        return
    error.__traceback__ = users_frames(whole)
    remedies.name_function(error, _own_steps(whole))
    if mode == "remove_frames":
        error.__cause__ = _unfiltered(error, whole)
        error.__context__ = None
    else:
        _shorten_earlier(error)
        _add_note(error)


def _add_note(error: BaseException) -> None:
    if _NOTE not in getattr(error, "__notes__", ()):
        error.add_note(_NOTE)


def _take_note(error: BaseException) -> bool:
    """Take the note away, if it is there; whether it was."""
    notes = getattr(error, "__notes__", None)
    if not isinstance(notes, list) or _NOTE not in notes:
        return False
    notes.remove(_NOTE)
    if not notes:
        del error.__notes__
    return True


@before_shown
def add_remedy(error: BaseException) -> None:
    """Say what to do about an error, before the note on its traceback."""
    remedies.add_remedy(error)


@before_shown
def shorten_uncaught(error: BaseException) -> None:
    """Shorten the traceback of an error that is shown, and of those that caused it."""
    mode, whole = config.jax_traceback_filtering, error.__traceback__
    if mode in ("off", "tracebackhide"):
        return
    if users_frames(whole) is not None:
        remedies.name_function(error, _own_steps(whole))
    if mode != "remove_frames":
        _unlink_internal(error)
    errors = [*_chain(error)]
    kept = any(isinstance(e, UnfilteredStackTrace) for e in errors)
    shortened = [
        _without_own_frames(e)
        for e in errors
        if not isinstance(e, UnfilteredStackTrace)
    ]
    if mode == "remove_frames" and shortened[0] and whole is not None and not kept:
        error.__cause__ = _unfiltered(error, whole)
    noted = [_take_note(e) for e in errors]  # said once, of all
    if any(noted) or (mode != "remove_frames" and any(shortened)):
        _add_note(error)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = _shown_before(error)


def _shown_before(error: BaseException) -> BaseException | None:
    """The cause or context that Python shows above an error."""
    if error.__cause__ is None and not error.__suppress_context__:
        return error.__context__
    return error.__cause__


def _shorten_earlier(error: BaseException) -> None:
    """Shorten the tracebacks of the errors that Python shows above one."""
    _unlink_internal(error)
    for earlier in [*_chain(error)][1:]:
        if not isinstance(earlier, UnfilteredStackTrace):
            earlier.__traceback__ = users_frames(earlier.__traceback__)


def _unlink_internal(error: BaseException) -> None:
    """Take errors out of a chain that no line of the user's led to.

    They were raised and answered within this package: their frames are its own, and
    those of Python's library and of NumPy below.
    """
    chain = [*_chain(error)]
    for later, earlier in zip(chain, chain[1:]):
        while earlier is not None and _is_internal(earlier):
            earlier = _shown_before(earlier)  # type: ignore[assignment]
        later.__cause__ = earlier if later.__cause__ is not None else None
        if later.__cause__ is None and not later.__suppress_context__:
            later.__context__ = earlier


def _is_internal(error: BaseException) -> bool:
    codes = [step.tb_frame.f_code for step in _steps(error.__traceback__)]
    return any(map(is_own, codes)) and all(is_own(c) or _is_below(c) for c in codes)


_NUMPY = os.path.dirname(np.__file__) + os.sep
_LIBRARY = os.path.dirname(os.__file__) + os.sep


def _is_below(code: types.CodeType) -> bool:
    """Whether code is of NumPy or of Python's library."""
    name = code.co_filename
    in_library = name.startswith(_LIBRARY) and "site-packages" not in name
    return in_library or name.startswith((_NUMPY, "<frozen"))


def _without_own_frames(error: BaseException) -> bool:
    """Take out the frames between the user's; whether there were some below these.

    What Python generates or interprets, as the text given to `exec`, goes only
    together with frames of this package that it was called from or calls.
    """
    kept: list[types.TracebackType] = []
    begun = shortened = False
    steps = [*_steps(error.__traceback__)]
    for users, run in itertools.groupby(steps, lambda s: include_frame(s.tb_frame)):
        group = [*run]
        if users or not any(is_own(step.tb_frame.f_code) for step in group):
            kept += group
        else:  # frames before the user's first one are a launcher's
            shortened = shortened or begun
        begun = begun or users
    # A program that does not even begin, by a SyntaxError, has no frames.
    if len(kept) < len(steps) and (begun or isinstance(error, SyntaxError)):
        error.__traceback__ = _joined(kept)
    return shortened


def _is_inside_another() -> bool:
    """Whether the boundary whose frame called `shorten_traceback` is within another."""
    boundary = sys._getframe(2)
    return any(f.f_code in _boundaries for f in _callers(boundary))


def _callers(frame: types.FrameType) -> Iterator[types.FrameType]:
    while frame.f_back is not None:
        frame = frame.f_back
        yield frame


def users_frames(whole: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without the frames of this package."""
    return _joined([step for step in _steps(whole) if include_frame(step.tb_frame)])


def shown_frames(whole: types.TracebackType | None) -> types.TracebackType | None:
    """The frames of a traceback that is written down, as the setting asks."""
    off = config.jax_traceback_filtering in ("off", "tracebackhide")
    return whole if off else users_frames(whole)


def _own_steps(whole: types.TracebackType | None) -> list[types.TracebackType]:
    """The frames of this package that the last one of the user has called.

    A traceback that begins at a boundary has all frames after that one.
    """
    steps = [*_steps(whole)]
    users = [i for i, step in enumerate(steps) if include_frame(step.tb_frame)]
    return steps[users[-1] + 1 :] if users else steps


def _joined(steps: Sequence[types.TracebackType]) -> types.TracebackType | None:
    result = None
    for step in reversed(steps):
        # Not `f_lasti` of the frame, which may have gone on to a handler.
        result = types.TracebackType(
            result, step.tb_frame, step.tb_lasti, step.tb_lineno
        )
    return result


def _steps(trace: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _unfiltered(
    error: BaseException, whole: types.TracebackType
) -> UnfilteredStackTrace:
    """What the error was before, with the frames above the boundary too."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    cause = UnfilteredStackTrace(
        f"{text}\n\nThe traceback above has all frames; the one below has no frames of"
        f" Curta.\n\n{_RULE}"
    )
    for frame in _callers(whole.tb_frame):
        whole = types.TracebackType(whole, frame, frame.f_lasti, frame.f_lineno)
        if frame.f_code.co_name == "<module>":
            break  # below it are the frames of what imports or runs the module
    cause.__cause__, cause.__context__ = error.__cause__, error.__context__
    cause.__suppress_context__ = error.__suppress_context__
    return cause.with_traceback(whole)
