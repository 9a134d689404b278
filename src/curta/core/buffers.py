"""Memory for arrays and arenas: 64-byte aligned, and used again when nobody uses it.

A page that the system hands out costs ten times more to touch first than one that was
touched before, so large results go where dead ones lay. Python tells when an array is
dead: the pool keeps a reference of its own, and when the reference count says that it
is the only one, nothing else can see the memory. Every view of an array holds the
array, because NumPy follows the chain of bases down to the array that was made here
(the base of that one is no array). So there are no finalizers and no bookkeeping.

Each shape and dtype keeps some small arrays to use again; larger arrays are views of
blocks, which all shapes share, and arenas, the memory of a program's temporaries, are
such blocks as well. Big blocks begin on a huge page. The memory that nobody uses is
bounded, and `trim` gives all of it back; that is also done before an allocation fails.

Without the global interpreter lock counts are not exact. There every array has memory
of its own, and large ones are views of leases, which finalizers return (leases.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import sys
from collections import deque
from collections.abc import Callable
from functools import lru_cache, partial
from sys import getrefcount
from typing import Any
from weakref import WeakSet

import numpy as np

from curta._base.once import Lock, has_gil, snapshot
from curta.config import config
from curta.core.leases import LeasedBlock, Leases
from curta.errors import OutOfMemoryError

NDArray = np.ndarray[Any, Any]

ALIGNMENT = 64
_HUGE_PAGE = 2 << 20


def empty(shape: tuple[int, ...], dtype: Any) -> NDArray:
    """An array of undefined content, 64-byte aligned, C-contiguous, writeable.

    Raises:
        OutOfMemoryError: the system has not enough.

    Example:
        >>> from curta.core.buffers import empty
        >>> empty((2, 3), "float32").ctypes.data % 64
        0
    """
    return allocator(shape, np.dtype(dtype))()


def unpooled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray:
    """An array in memory of its own: any view of it holds the array itself.

    A reference count of one says that nobody can see its elements any more.
    """
    size = math.prod(shape) * dtype.itemsize
    try:
        memory = _memory(size + ALIGNMENT, size)
    except OutOfMemoryError:
        raise OutOfMemoryError(size, shape, dtype) from None
    return np.ndarray(shape, dtype, memory, _offset(memory))


def workspace(size: int) -> NDArray:
    """Bytes for a program to work in, at least so many; nobody else's while it lives.

    New ones replace smaller ones that are dead. They begin a cache line after arrays
    do: at the same offset in a page, loads wait for stores that they have nothing to do
    with, and a running maximum of 1e7 elements takes half as long again.

    Raises:
        OutOfMemoryError: the system has not enough.
    """
    if not _RECYCLES:
        lease = _leases.take_fitting(size + ALIGNMENT)
        return np.ndarray(lease.size - ALIGNMENT, np.uint8, lease, ALIGNMENT)
    result = _pool.find(size + ALIGNMENT)
    if result is None:
        _pool.drop_dead(below=size + ALIGNMENT)
        result = _pool.new(size + ALIGNMENT)
    return result[ALIGNMENT:]


def ensure(size: int) -> None:
    """Release idle memory until the system can give a number of bytes to a library.

    OpenBLAS and LLVM end the process where they find no memory.

    Raises:
        OutOfMemoryError: the system has not enough.
    """
    _memory(size, size)


def mapped(size: int) -> bytearray | mmap.mmap:
    """Memory of the system that never is an array's.

    Raises:
        OutOfMemoryError: the system has not enough.
    """
    return _memory(size, size)


def is_last_reference(holder: list[NDArray], i: int, others: int = 0) -> bool:
    """Whether a list alone refers to the memory of its item, which may be written to.

    There may be so many `others` that refer to the item as the list does. The item is
    no longer kept to be used again: it belongs to who asks.
    """
    more = getrefcount(holder[i]) - _ALONE_IN_LIST - others
    x = holder[i]
    if more == 1:
        more -= allocator(x.shape, x.dtype).let_go(x)
    owned = type(x.base) in _OWNERS and x.flags.writeable
    return more == 0 and owned and _RECYCLES


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
        return np.asarray(memoryview(array).toreadonly())  # type: ignore[arg-type]
    if dtype.itemsize not in _WORDS or dtype.kind == "T":
        copy = array.copy()
        copy.flags.writeable = False
        return copy
    # Buffers have no name for such a type.
    words = array.view(_WORDS[dtype.itemsize])
    read_only = memoryview(words).toreadonly()  # type: ignore[arg-type]
    return np.asarray(read_only).view(dtype)


@lru_cache(maxsize=4096)
def allocator(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Allocator:
    """What makes arrays of a shape and dtype; the same object every time."""
    size = math.prod(shape) * dtype.itemsize
    if size == 0:
        return Allocator(shape, dtype)
    if size <= config.tuning.small_array_bytes:
        return (_SmallAllocator if _RECYCLES else Allocator)(shape, dtype)
    return (_BlockAllocator if _RECYCLES else _LeasingAllocator)(shape, dtype)


def unshared(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], NDArray]:
    """An allocator whose arrays the pool does not track: they can be donated."""
    result = allocator(shape, dtype)
    if type(result) is _SmallAllocator:
        return partial(unpooled, shape, dtype)
    return result


class Allocator:
    """Makes arrays of one shape and dtype; this one always makes new ones."""

    __slots__ = ("_dtype", "_shape", "_size")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._shape = shape
        self._dtype = dtype
        self._size = math.prod(shape) * dtype.itemsize

    def __call__(self) -> NDArray:
        return unpooled(self._shape, self._dtype)

    def let_go(self, array: NDArray) -> bool:
        """Keep an array no longer; whether there was a reference to it here."""
        return False

    def refused(self) -> OutOfMemoryError:
        """The error where the system has not the memory for an array."""
        return OutOfMemoryError(self._size, self._shape, self._dtype)


class _SmallAllocator(Allocator):
    """Keeps arrays in a ring and hands out the oldest, if nobody else holds it.

    Two threads that look at one array at a time see each other's references, and
    both take it for alive: no lock is needed.
    """

    __slots__ = ("__weakref__", "_batch", "_kept", "_limit")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        super().__init__(shape, dtype)
        tuning = config.tuning
        most = min(tuning.ring_arrays, tuning.ring_bytes // self._size)
        self._limit = max(4, most)
        self._batch = 1
        self._kept: deque[NDArray] = deque(maxlen=self._limit)
        _small.add(self)

    def __call__(self) -> NDArray:
        kept = self._kept
        try:
            held = (kept[0],)
            kept.rotate(-1)
            if getrefcount(held[0]) == _ALONE:
                return held[0]
        except IndexError:  # the first one, or the ring was trimmed
            self._batch = 1
        else:
            self._batch = min(2 * self._batch, config.tuning.ring_batch, self._limit)
        made = self._make(self._batch)
        # New arrays at the right end: if the deque is full it drops the oldest.
        kept.extend(made)
        kept.rotate(len(made) - 1)
        return made[0]

    def clear(self) -> None:
        """Forget the arrays that are kept."""
        self._kept.clear()

    def let_go(self, array: NDArray) -> bool:
        kept = self._kept
        for i, x in enumerate(list(kept)):
            if x is array:
                with contextlib.suppress(IndexError):  # it was trimmed
                    del kept[i]
                return True
        return False

    def _make(self, count: int) -> list[NDArray]:
        """New arrays side by side in one piece of memory."""
        step = -(-self._size // ALIGNMENT) * ALIGNMENT
        try:
            memory = _memory(count * step + ALIGNMENT, self._size)
        except OutOfMemoryError:
            raise self.refused() from None
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
        block = _dead(self._blocks, config.tuning.block_tries)
        if block is None:
            try:
                block = _pool.new(self._size)
            except OutOfMemoryError:
                raise self.refused() from None
        return np.ndarray(self._shape, self._dtype, block)


class _LeasingAllocator(Allocator):
    """Makes views of leases, whose memory is used again when they are finalized."""

    __slots__ = ()

    def __call__(self) -> NDArray:
        try:
            lease = _leases.take(self._size)
        except OutOfMemoryError:
            raise self.refused() from None
        return np.ndarray(self._shape, self._dtype, lease)


class _Pool:
    """Blocks by size, as many as the bounds allow."""

    def __init__(self) -> None:
        self._blocks: dict[int, deque[NDArray]] = {}
        self._bytes = 0
        self._next_look = config.tuning.idle_bytes
        self._lock = Lock()

    def blocks(self, size: int) -> deque[NDArray]:
        """The ring of blocks of a size."""
        with self._lock:
            return self._blocks.setdefault(size, deque())

    def find(self, size: int) -> NDArray | None:
        """A dead block of the size, or up to twice as large; None if there is none."""
        with self._lock:
            fitting = sorted(n for n in self._blocks if size <= n <= 2 * size)
            result = (_dead(self._blocks[n]) for n in fitting)
            return next((block for block in result if block is not None), None)

    def new(self, size: int) -> NDArray:
        """A new block of at least a size, known to the pool from now on.

        For want of room dead blocks go; then the pool forgets those alive, which the
        system gets back when they die, so that later ones can be used again.
        """
        block, most = _block(size), config.tuning.pool_bytes
        size = block.size
        with self._lock:
            if self._bytes + size > self._next_look:
                self._drop_dead(config.tuning.idle_bytes)
            if self._bytes + size > most:
                self._drop_dead(0)
            if self._bytes + size > most:
                for blocks in self._blocks.values():
                    blocks.clear()
                self._bytes = 0
            if size <= most:
                self._blocks.setdefault(size, deque()).append(block)
                self._bytes += size
        return block

    def drop_dead(self, below: float = math.inf) -> None:
        """Give dead blocks back to the system, those smaller than a size."""
        with self._lock:
            self._drop_dead(0, below)

    def _drop_dead(self, most: int, below: float = math.inf) -> None:
        """Drop dead blocks, but for so many bytes of those made last."""
        for size, blocks in reversed(list(self._blocks.items())):
            if size < below:
                alive, dead = _sorted_out(blocks)
                kept = min(len(dead), most // size)
                most -= kept * size
                blocks.clear()
                blocks.extend(alive + dead[:kept])
                self._bytes -= (len(dead) - kept) * size
        self._next_look = self._bytes + config.tuning.idle_bytes

    def idle(self) -> int:
        """The bytes of dead blocks."""
        with self._lock:
            rings = self._blocks.items()
            return sum(size * len(_sorted_out(blocks)[1]) for size, blocks in rings)


def _dead(blocks: deque[NDArray], tries: int | None = None) -> NDArray | None:
    """The first dead block of a ring, among so many; None if there is none.

    Those handed out last come first, as the caches still have them: the last one, and
    the one before, which a step that makes one array of another leaves behind.
    """
    for end in (-1, -2):
        try:
            held = (blocks[end],)
        except IndexError:
            break
        if getrefcount(held[0]) == _ALONE:
            return held[0]
    for _ in range(len(blocks) if tries is None else min(len(blocks), tries)):
        try:
            held = (blocks[0],)
            blocks.rotate(-1)
        except IndexError:  # another thread emptied the list
            break
        if getrefcount(held[0]) == _ALONE:
            return held[0]
    return None


def _sorted_out(blocks: deque[NDArray]) -> tuple[list[NDArray], list[NDArray]]:
    """Buffers still referenced, and buffers free for reuse."""
    alive: list[NDArray] = []
    dead: list[NDArray] = []
    for _ in range(len(blocks)):
        held = (blocks[0],)
        blocks.rotate(-1)
        (dead if getrefcount(held[0]) == _ALONE else alive).append(held[0])
    return alive, dead


def trim() -> None:
    """Give memory that nobody uses back to the system."""
    for let_go in _holders:
        let_go()
    for small in snapshot(_small):
        small.clear()
    _pool.drop_dead()
    _leases.clear()


def when_trimmed(let_go: Callable[[], None]) -> None:
    """Call a function whenever idle memory is to be given back."""
    _holders.append(let_go)


def idle_bytes() -> int:
    """The bytes of unused blocks in the pool.

    Small arrays, of which each shape keeps at most 64 KiB, are not counted.
    """
    return _pool.idle() + _leases.idle()


def _rounded(size: int) -> int:
    """The size of the block for so many bytes: at most an eighth more."""
    step = max(4096, (1 << (size - 1).bit_length()) // 8)
    if size >= _HUGE_PAGE // 2:
        step = max(step, _HUGE_PAGE)
    return -(-size // step) * step


def _block(wanted: int) -> LeasedBlock:
    """Fresh memory as an array of bytes, at least so many; its base is not an array."""
    size = _rounded(wanted)
    if size < config.tuning.page_bytes:
        memory = _memory(size + ALIGNMENT, wanted)
        return LeasedBlock(size, np.uint8, memory, _offset(memory))
    alignment = _HUGE_PAGE if size >= _HUGE_PAGE else ALIGNMENT
    pages = _memory(size + alignment, wanted)
    start = _offset(pages, alignment)
    if size >= _HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_HUGEPAGE, start, size)  # type: ignore[union-attr]
    return LeasedBlock(size, np.uint8, pages, start)


def _memory(size: int, wanted: int) -> bytearray | mmap.mmap:
    """Memory from the system, which gets idle memory back if it has not enough.

    Raises:
        OutOfMemoryError: the system has not enough; it names what was `wanted`.
    """
    try:
        return from_system(size)
    except _REFUSALS:
        trim()
    try:
        return from_system(size)
    except _REFUSALS:
        raise OutOfMemoryError(wanted) from None


_REFUSALS = (MemoryError, OSError, ValueError, OverflowError)


def from_system(size: int) -> bytearray | mmap.mmap:
    """The one function that asks the system for the memory of arrays and arenas."""
    if size < config.tuning.page_bytes:
        return bytearray(size)
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    # Private, so that a forked process has a copy of its own.
    return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _offset(memory: bytearray | mmap.mmap, alignment: int = ALIGNMENT) -> int:
    """Where in the memory the first aligned byte is."""
    return -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % alignment


_RECYCLES = sys.implementation.name == "cpython" and has_gil()  # by reference counts


def _count_alone() -> int:
    """What getrefcount says of an array that a ring and a tuple hold.

    Not a local variable: whether the call counts as one more reference to what is in
    it depends from Python 3.14 on on the code around.
    """
    ring = deque([np.ndarray(1, np.uint8, bytearray(1))])
    held = (ring[0],)
    return getrefcount(held[0])


def _count_alone_in_list() -> int:
    held = [np.ndarray(1, np.uint8, bytearray(1))]
    return getrefcount(held[0])


_ALONE = _count_alone()
_ALONE_IN_LIST = _count_alone_in_list()
_WORDS = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
# Types of `base` of arrays that own their memory.
_OWNERS = (bytearray, mmap.mmap, LeasedBlock, type(None))
_pool = _Pool()
_leases = Leases(_block, _rounded)
_small: WeakSet[_SmallAllocator] = WeakSet()
_holders: list[Callable[[], None]] = []
