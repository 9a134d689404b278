"""What the commands share: mistakes of the user."""

from __future__ import annotations

import os


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
