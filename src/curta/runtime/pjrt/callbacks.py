"""Functions of Python that plugins call, from threads of their own."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

#: The callbacks that run now: finalizers leave what they would free to others then.
running: set[object] = set()


def guarded(kind: Any, body: Callable[..., Any], failed: Callable[..., Any]) -> Any:
    """`body` as a function of C of type `kind`.

    No exception leaves it: `failed(error, *args)` gives the result instead, and if
    that raises, too, the error is printed as those of finalizers are.
    """

    def call(*args: Any) -> Any:
        token = object()
        running.add(token)
        try:
            return body(*args)
        except BaseException as error:
            return _failed(failed, error, args)
        finally:
            running.discard(token)

    return kind(call)


def _failed(failed: Callable[..., Any], error: BaseException, args: Any) -> Any:
    try:
        return failed(error, *args)
    except BaseException as second:
        _report(second)
        return None


def _report(error: BaseException) -> None:
    hook: Any = sys.unraisablehook
    hook(_Unraisable(error))


class _Unraisable:
    object = None

    def __init__(self, error: BaseException) -> None:
        self.exc_type, self.exc_value = type(error), error
        self.exc_traceback = error.__traceback__
        self.err_msg = "Exception ignored in a callback of a plugin"


def report(error: BaseException, *args: Any) -> None:
    """Print an error that nobody can be told of."""
    _report(error)


def address_of(function: Any) -> int:
    """The address of a function of C made by `guarded`."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0
