"""Memory for arrays: 64-byte aligned, and used again when an array has died.

A page that the system hands out costs ten times more to touch first than one that was
touched before, so large results go where dead ones lay. Python tells when an array is
dead: the pool keeps a reference of its own, and when the reference count says that it
is the only one, nothing else can see the memory. Every view of an array holds the
array, because NumPy follows the chain of bases down to the array that was made here
(the base of that one is no array). So there are no finalizers and no bookkeeping.

Each shape and dtype keeps some small arrays to use again; larger arrays are views of
blocks, which all shapes share. Big blocks begin on a huge page.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from collections import deque
from functools import lru_cache
from math import prod
from sys import getrefcount
from typing import Any

import numpy as np

from curta.config import config
from curta.errors import OutOfMemoryError
from curta.once import Lock

NDArray = np.ndarray[Any, Any]

ALIGNMENT = 64
_HUGE_PAGE = 2 << 20


def empty(shape: tuple[int, ...], dtype: Any) -> NDArray:
    """An array of undefined content, 64-byte aligned, C-contiguous, writeable.

    Raises:
        OutOfMemoryError: the system has not enough.

    Example:
        >>> from curta.runtime.buffers import empty
        >>> empty((2, 3), "float32").ctypes.data % 64
        0
    """
    return allocator(shape, np.dtype(dtype))()


def unpooled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray:
    """An array in memory of its own: any view of it holds the array itself.

    A reference count of one says that nobody can see its elements any more.
    """
    memory = bytearray(prod(shape) * dtype.itemsize + ALIGNMENT)
    return np.ndarray(shape, dtype, memory, _offset(memory))


def is_last_reference(holder: list[NDArray], i: int, others: int = 0) -> bool:
    """Whether a list alone refers to the memory of its item, which may be written to.

    There may be so many `others` that refer to the item as the list does.
    """
    more = getrefcount(holder[i]) - _ALONE_IN_LIST - others
    x = holder[i]
    if more == 1:
        more -= allocator(x.shape, x.dtype).keeps(x)
    owned = type(x.base) in _OWNERS and x.flags.writeable
    return more == 0 and owned and _can_recycle()


def locked(array: NDArray) -> NDArray:
    """A view of an array that cannot be made writeable, to be handed out.

    NumPy lets a view become writeable if what it is a view of is. So the base is not
    the array but a read-only buffer, which holds the array. Strings, which no buffer
    has, are copied.

    >>> view = locked(empty((2,), "float32"))
    >>> view.flags.writeable = True
    Traceback (most recent call last):
        ...
    ValueError: cannot set WRITEABLE flag to True of this array
    """
    dtype = array.dtype
    if dtype.isbuiltin == 1:
        return np.asarray(memoryview(array).toreadonly())
    if dtype.itemsize not in _WORDS or dtype.kind == "T":
        copy = array.copy()
        copy.flags.writeable = False
        return copy
    # Buffers have no name for such a type.
    words = array.view(_WORDS[dtype.itemsize])
    return np.asarray(memoryview(words).toreadonly()).view(dtype)


@lru_cache(maxsize=4096)
def allocator(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Allocator:
    """What makes arrays of a shape and dtype; the same object every time."""
    size = prod(shape) * dtype.itemsize
    if not _can_recycle() or size == 0:
        return Allocator(shape, dtype)
    return (
        _SmallAllocator(shape, dtype)
        if size <= config.tuning.small_array_bytes
        else _BlockAllocator(shape, dtype)
    )


class Allocator:
    """Makes arrays of one shape and dtype; this one always makes new ones."""

    __slots__ = ("_dtype", "_shape", "_size")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._shape = shape
        self._dtype = dtype
        self._size = prod(shape) * dtype.itemsize

    def __call__(self) -> NDArray:
        block = _block(_rounded(max(self._size, 1)))
        return np.ndarray(self._shape, self._dtype, block)

    def keeps(self, array: NDArray) -> bool:
        """Whether a reference to the array is kept here, to use it again."""
        return False


class _SmallAllocator(Allocator):
    """Keeps arrays in a ring and hands out the oldest, if nobody else holds it.

    Two threads that look at one array at a time see each other's references, and
    both take it for alive: no lock is needed.
    """

    __slots__ = ("_batch", "_kept", "_limit")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        super().__init__(shape, dtype)
        tuning = config.tuning
        most = min(tuning.ring_arrays, tuning.ring_bytes // self._size)
        self._limit = max(4, most)
        self._batch = 1
        self._kept = deque(self._make(1), self._limit)

    def __call__(self) -> NDArray:
        kept = self._kept
        array = kept[0]
        kept.rotate(-1)
        if getrefcount(array) == _ALONE:
            return array
        self._batch = min(2 * self._batch, config.tuning.ring_batch, self._limit)
        made = self._make(self._batch)
        # The oldest were alive: if there is no room it is they who go.
        kept.extend(made)
        kept.rotate(len(made) - 1)
        return made[0]

    def keeps(self, array: NDArray) -> bool:
        return any(x is array for x in list(self._kept))

    def _make(self, count: int) -> list[NDArray]:
        """New arrays side by side in one piece of memory."""
        step = -(-self._size // ALIGNMENT) * ALIGNMENT
        memory = bytearray(count * step + ALIGNMENT)
        first = _offset(memory)
        return [
            np.ndarray(self._shape, self._dtype, memory, first + i * step)
            for i in range(count)
        ]


class _BlockAllocator(Allocator):
    """Makes views of blocks of the pool."""

    __slots__ = ("_blocks",)

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        super().__init__(shape, dtype)
        self._blocks = _pool.blocks(_rounded(self._size))

    def __call__(self) -> NDArray:
        blocks = self._blocks
        for _ in range(min(len(blocks), config.tuning.block_tries)):
            try:
                block = blocks[0]
                blocks.rotate(-1)
            except IndexError:  # another thread gave the blocks back
                break
            if getrefcount(block) == _ALONE:
                return np.ndarray(self._shape, self._dtype, block)
        block = _pool.new(_rounded(self._size))
        return np.ndarray(self._shape, self._dtype, block)


class _Block(np.ndarray[Any, Any]):
    """Memory of which arrays are parts.

    A class of its own, because NumPy follows the bases of a view up to another class:
    so a view of an array holds the array, not the block.
    """


class _Pool:
    """Blocks by size, as many as the bound allows."""

    def __init__(self) -> None:
        self._blocks: dict[int, deque[NDArray]] = {}
        self._bytes = 0
        self._lock = Lock()

    def blocks(self, size: int) -> deque[NDArray]:
        """The ring of blocks of a size."""
        with self._lock:
            return self._blocks.setdefault(size, deque())

    def new(self, size: int) -> NDArray:
        """A new block, known to the pool from now on.

        For want of room dead blocks go; then the pool forgets those alive, which the
        system gets back when they die, so that later ones can be used again.
        """
        block, most = _block(size), config.tuning.pool_bytes
        with self._lock:
            if self._bytes + size > most:
                self._drop_dead()
            if self._bytes + size > most:
                for blocks in self._blocks.values():
                    blocks.clear()
                self._bytes = 0
            if size <= most:
                self._blocks[size].append(block)
                self._bytes += size
        return block

    def _drop_dead(self) -> None:
        for size, blocks in self._blocks.items():
            for _ in range(len(blocks)):
                block = blocks[0]
                blocks.rotate(-1)
                if getrefcount(block) == _ALONE:
                    blocks.pop()
                    self._bytes -= size

    def clear(self) -> None:
        """Give dead blocks back to the system."""
        with self._lock:
            self._drop_dead()


def trim() -> None:
    """Give memory that no array uses back to the system."""
    allocator.cache_clear()
    _pool.clear()


def _rounded(size: int) -> int:
    """The size of the block for so many bytes: at most an eighth more."""
    step = max(4096, (1 << (size - 1).bit_length()) // 8)
    if size >= _HUGE_PAGE // 2:
        step = max(step, _HUGE_PAGE)
    return -(-size // step) * step


def _block(size: int) -> NDArray:
    """Fresh memory as an array of bytes; its base is not an array."""
    if size < config.tuning.page_bytes:
        memory = bytearray(size + ALIGNMENT)
        return _Block(size, np.uint8, memory, _offset(memory))
    alignment = _HUGE_PAGE if size >= _HUGE_PAGE else ALIGNMENT
    try:
        pages = _map(size + alignment)
    except (OSError, ValueError, OverflowError) as error:
        raise OutOfMemoryError(size) from error
    start = _offset(pages, alignment)
    if size >= _HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_HUGEPAGE, start, size)
    return _Block(size, np.uint8, pages, start)


def _map(size: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    # Private, so that a forked process has a copy of its own.
    return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _offset(memory: bytearray | mmap.mmap, alignment: int = ALIGNMENT) -> int:
    """Where in the memory the first aligned byte is."""
    return -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % alignment


def _can_recycle() -> bool:
    """Whether reference counts are exact: without the GIL they are not."""
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return sys.implementation.name == "cpython" and has_gil


def _count_alone() -> int:
    """What getrefcount says of an array that a ring and a local variable hold."""
    ring = deque([np.ndarray(1, np.uint8, bytearray(1))])
    array = ring[0]
    return getrefcount(array)


def _count_alone_in_list() -> int:
    held = [np.ndarray(1, np.uint8, bytearray(1))]
    return getrefcount(held[0])


_ALONE = _count_alone()
_ALONE_IN_LIST = _count_alone_in_list()
_WORDS = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
# What the memory of an array is part of that is no view of another one's.
_OWNERS = (bytearray, mmap.mmap, _Block, type(None))
_pool = _Pool()
