"""What the commands share: mistakes of the user, and errors of the user's programs."""

from __future__ import annotations

import os
import sys
from types import TracebackType

from curta.config import config
from curta.core.tracebacks import users_frames


class UsageError(Exception):
    """An argument that makes no sense; the command ends with status 2."""


def check_writable(path: str) -> None:
    """Raise UsageError if a file cannot be written, before the work is done."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise UsageError(f"{path!r} is a folder, not a file to write")
    if not os.path.isdir(folder):
        raise UsageError(f"{path!r} cannot be written: there is no folder {folder!r}")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(f"{path!r} cannot be written: no permission")


def shorten_uncaught_errors() -> None:
    """Show errors of the user's code, as they end the process, without our frames."""
    sys.excepthook = _show


def _show(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if trace is not None and config.jax_traceback_filtering != "off":
        # None are left of a program that does not even begin, by a SyntaxError.
        if isinstance(error, SyntaxError) or users_frames(trace) is not None:
            trace = users_frames(trace)
    sys.__excepthook__(kind, error.with_traceback(trace), trace)
