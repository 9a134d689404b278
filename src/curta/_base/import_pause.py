"""Python's garbage collector at rest while Curta is imported, or compiles a program.

Importing makes objects that stay. To look through them for garbage, again and again,
took a tenth of the time, and once more in the first call of a program. Lowering runs no
code of the user's and makes no garbage in circles: half of its time went by in looking.
Tracing runs the user's code, so there Python looks, but rarely: it had gone through all
objects of all libraries, for a third of first calls that find their code in the cache.
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


_MANY = 1_000  # collections of young objects for one of all


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python look through all objects for garbage but rarely, within a block.

    Those of all libraries are among them. Young objects are looked through as before:
    few as they are, they may own large arrays. A program that set a higher number, or
    none, has its will; so has one that sets another meanwhile.

    >>> import gc
    >>> before = gc.get_threshold()
    >>> with rare_collections():
    ...     assert gc.get_threshold()[:2] == before[:2]
    >>> gc.get_threshold() == before
    True
    """
    before = gc.get_threshold()
    rare = *before[:2], max(_MANY, before[2])
    if rare == before or not before[0]:  # within such a block too
        yield
        return
    gc.set_threshold(*rare)
    try:
        yield
    finally:
        if gc.get_threshold() == rare:
            gc.set_threshold(*before)
