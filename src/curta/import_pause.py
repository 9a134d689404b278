"""Python's garbage collector at rest while Curta is imported, or lowers a program.

Importing makes objects that stay. To look through them for garbage, again and again,
took a tenth of the time, and once more in the first call of a program. Lowering runs no
code of the user's and makes no garbage in circles: half of its time went by in looking.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_off() -> Iterator[None]:
    """Do not look for garbage within a block, which makes many objects.

    >>> import gc
    >>> with collector_off():
    ...     print(gc.isenabled())
    False
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Make all objects of a block old at once, without looking through them.

    >>> import gc
    >>> with collector_at_rest():
    ...     kept = [[] for _ in range(10_000)]
    >>> gc.get_count()[0] < 10_000
    True
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled and not gc.get_freeze_count():  # frozen objects are the program's
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()
