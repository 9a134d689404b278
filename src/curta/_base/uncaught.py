"""Uncaught errors: their tracebacks are shortened and notes added before display.

They end the program or a thread, or come to a prompt or a notebook's cell. Importing
the package lets `sys.excepthook`, `threading.excepthook` and IPython, if it runs, call
the functions that `before_shown` was given, and then what they called before.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

_Change = Callable[[BaseException], None]
_changes: list[_Change] = []


def before_shown(change: _Change) -> _Change:
    """Let `change` see an uncaught error and alter its traceback."""
    _changes.append(change)
    return change


def prepare(error: BaseException) -> BaseException:
    """The error as it is shown."""
    for change in _changes:
        with contextlib.suppress(Exception):  # one that cannot be changed is shown so
            change(error)
    return error


def _hook_of_program(previous: Callable[..., Any]) -> Callable[..., Any]:
    def show(
        kind: type[BaseException],
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A caller may show a part of the traceback, or an error that was not raised.
        if error is not None and trace is error.__traceback__:
            trace = prepare(error).__traceback__
        previous(kind, error, trace)

    return show


def _hook_of_threads(previous: Callable[..., Any]) -> Callable[..., Any]:
    def show(given: threading.ExceptHookArgs) -> None:
        error = given.exc_value
        if error is not None and given.exc_traceback is error.__traceback__:
            trace = prepare(error).__traceback__
            given = threading.ExceptHookArgs((type(error), error, trace, given.thread))
        previous(given)

    return show


def watch_ipython(shell: Any) -> None:
    """Let IPython's shell show prepared errors, unless it has a way of its own."""
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), _show_in_ipython)


def _show_in_ipython(
    shell: Any,
    kind: type[Exception],
    error: Exception,
    trace: Any,
    tb_offset: int | None = None,
) -> None:
    trace = prepare(error.with_traceback(trace)).__traceback__
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


sys.excepthook = _hook_of_program(sys.excepthook)
threading.excepthook = _hook_of_threads(threading.excepthook)
if "IPython" in sys.modules:
    watch_ipython(getattr(sys.modules["IPython"], "get_ipython", lambda: None)())
