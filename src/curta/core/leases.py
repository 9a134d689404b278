"""Memory that returns to a ring when its owner is finalized.

Where Python has no global interpreter lock, a reference count that one thread reads may
miss references of other threads: it cannot say that memory is free (core/buffers.py).
A finalizer can, since it runs after the last reference is gone. It costs about a
microsecond for each array.

Invariant: a block is in its ring or belongs to one `Lease`, never both.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from curta._base.once import snapshot
from curta.config import config


class LeasedBlock(np.ndarray[Any, Any]):
    """A block of memory that arrays are views of.

    A class of its own, because NumPy follows the bases of a view up to another class:
    so a view of an array holds the array, not the block.
    """


class Lease(np.ndarray[Any, Any]):
    """A block in use: the base of one array, and of no other.

    Every view of the array holds the array, which holds the lease: its own base is a
    `LeasedBlock`, a class at which NumPy stops following bases.
    """

    leases: Leases
    ring: deque[LeasedBlock]

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        block: Any = self.base
        if block is None or finalizing() or "leases" not in vars(self):
            return
        if self.leases.idle() + block.nbytes <= config.tuning.idle_bytes:
            self.ring.append(block)


class Leases:
    """Blocks that nobody uses, by size.

    Args:
        make: allocate a block of at least a number of bytes.
        rounded: the size of such a block.

    >>> make = lambda size: np.empty(size, np.uint8).view(LeasedBlock)
    >>> leases = Leases(make, lambda size: size)
    >>> first = leases.take(100)
    >>> address = first.ctypes.data
    >>> del first
    >>> leases.idle(), leases.take(100).ctypes.data == address
    (100, True)
    """

    def __init__(
        self, make: Callable[[int], LeasedBlock], rounded: Callable[[int], int]
    ) -> None:
        self._make = make
        self._rounded = rounded
        self._rings: dict[int, deque[LeasedBlock]] = {}

    def take(self, size: int) -> Lease:
        """Return a block of at least `size` bytes, which is the caller's own.

        Raises:
            OutOfMemoryError: if the system has not enough memory.
        """
        ring = self._rings.setdefault(self._rounded(size), deque())
        try:
            block = ring.pop()  # used last, so that the caches may still have it
        except IndexError:
            block = self._make(size)
        return self._lease(block, ring)

    def take_fitting(self, size: int) -> Lease:
        """Return a block as `take` does, which may be up to twice as large.

        If there is none, idle blocks that are smaller go: a new one replaces them.
        """
        rings = snapshot(self._rings.items())
        for known, ring in sorted(rings, key=lambda item: item[0]):
            if size <= known <= 2 * size:
                with contextlib.suppress(IndexError):
                    return self._lease(ring.pop(), ring)
        for known, ring in rings:
            if known < size:
                ring.clear()
        return self.take(size)

    def _lease(self, block: LeasedBlock, ring: deque[LeasedBlock]) -> Lease:
        lease = block.view(Lease)
        lease.ring, lease.leases = ring, self
        return lease

    def idle(self) -> int:
        """Return the bytes of blocks that nobody uses."""
        return sum(size * len(ring) for size, ring in snapshot(self._rings.items()))

    def clear(self) -> None:
        """Give the blocks that nobody uses back to the system."""
        for ring in snapshot(self._rings.values()):
            ring.clear()
