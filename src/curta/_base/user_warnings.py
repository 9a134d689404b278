"""Warnings that point at the user's line, however many calls lie between."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import CodeType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Those that run our functions in between: contexts, cached properties, the importer.
_BETWEEN = (_PACKAGE, contextlib.__file__, functools.__file__, "<frozen")
GENERATED = "__create_fn__"  # by dataclasses, in "<string>", as programs of `python -c`

_threads = threading.local()


@contextlib.contextmanager
def held_back() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Collect this thread's warnings, for `warn`, while what they say may not count."""
    before = getattr(_threads, "held", None)
    held: list[tuple[str, type[Warning]]] = []
    _threads.held = held
    try:
        yield held
    finally:
        _threads.held = before


def warn(
    text: str, category: type[Warning] = UserWarning, of_program: bool = False
) -> None:
    """Warn, and name the line outside of this package that led here.

    By default Python shows a warning once for each line that it names, so that one
    which named a line of ours would be shown for the first mistake only. `of_program`:
    the line of the program, though a library that is installed called this package.
    """
    held = getattr(_threads, "held", None)
    if held is not None:
        held.append((text, category))
        return
    depth = (of_program and _depth(_is_installed)) or _depth(_is_between)
    warnings.warn(text, category, stacklevel=depth or 1)


def _depth(is_passed: Callable[[CodeType], bool]) -> int:
    """The `stacklevel` of the first frame above that is not passed; 0 if all are."""
    depth, frame = 1, sys._getframe(1)
    while is_passed(frame.f_code):
        if frame.f_back is None:
            return 0
        frame = frame.f_back
        # `warnings` leaves the importer's frames out when it counts.
        depth += not frame.f_code.co_filename.startswith("<frozen importlib")
    return depth


def _is_installed(code: CodeType) -> bool:
    return _is_between(code) or "site-packages" in code.co_filename


def _is_between(code: CodeType) -> bool:
    if code.co_filename == "<string>":
        return code.co_qualname.startswith(GENERATED)
    return code.co_filename.startswith(_BETWEEN)
