"""Warnings that point at the user's line, however many calls lie between."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Those that run our functions in between: contexts, generated methods, the importer.
_BETWEEN = (_PACKAGE, contextlib.__file__, "<string>", "<frozen")


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and name the line outside of this package that led here.

    By default Python shows a warning once for each line that it names, so that one
    which named a line of ours would be shown for the first mistake only.
    """
    depth, frame = 1, sys._getframe(0)
    while frame.f_back and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back
        # `warnings` leaves the importer's frames out when it counts.
        depth += not frame.f_code.co_filename.startswith("<frozen importlib")
    warnings.warn(text, category, stacklevel=depth)
