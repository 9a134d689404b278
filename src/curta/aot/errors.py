"""The exception of functions that cannot be built."""

from __future__ import annotations


class BuildError(ValueError):
    """A function that cannot be built as a library; the message says why, and where.

    >>> import curta
    >>> issubclass(curta.aot.BuildError, ValueError)
    True
    """
