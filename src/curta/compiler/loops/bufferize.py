"""Where buffers live: arguments, registers, a row on the stack, or the arena.

A value that only its own kernel reads need not be memory. If every load of it reads
what the same iteration of the loops has just stored, it is a register. If it is read at
other inner indices but the same outer ones, one row of it will do. Everything else
that is not an argument or a result of the program shares one arena, in which the memory
of dead values are used again.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.compiler.loops.index import Affine, LoopVar
from curta.compiler.loops.nodes import Buffer, Kernel, LoopNest, Store, memory_of
from curta.compiler.loops.schedule import Schedule
from curta.compiler.sized import Computed, PerSizes, Sizes, number
from curta.config import config
from curta.core.dim import is_symbolic_dim, max_dim

ALIGNMENT = 64


@dataclass(frozen=True)
class BufferPlacement:
    """Where the buffers of one kernel lie.

    `arguments` are in memory; the kernel gets their addresses in this order. `scratch`
    are rows on the stack: their bytes, and the outer variables that they go without.
    """

    arguments: tuple[Buffer, ...]
    registers: frozenset[Buffer]
    scratch: dict[Buffer, tuple[int, frozenset[LoopVar]]]


def placement_of(
    kernel: Kernel, plan: Schedule, outside: Iterable[Buffer]
) -> BufferPlacement:
    """The placement for a kernel; `outside` are the buffers others see."""
    seen = set(outside)
    stored = {s.buffer: (nest, s) for nest in kernel.nests for s in nest.written()}
    registers: set[Buffer] = set()
    scratch: dict[Buffer, tuple[int, frozenset[LoopVar]]] = {}
    tuning = config.tuning
    left = tuning.rows_bytes
    for buffer in stored:
        if memory_of(buffer) in seen:
            continue
        if _in_registers(buffer, kernel, plan):
            registers.add(buffer)
            continue
        size = _row_bytes(buffer, kernel, plan)
        most = min(tuning.row_bytes, left)
        if size is not None and size <= most:
            size = most if is_symbolic_dim(size) else size
            left -= size
            scratch[buffer] = size, frozenset(_around_rows(plan))
    loaded = [e.buffer for e in kernel.loads()]
    memory = dict.fromkeys([*stored, *loaded])
    arguments = [b for b in memory if b not in registers and b not in scratch]
    return BufferPlacement(tuple(arguments), frozenset(registers), scratch)


def _in_registers(buffer: Buffer, kernel: Kernel, plan: Schedule) -> bool:
    """Whether all loads give what the same iteration of the innermost loop stored."""
    stores = {s.offset: (i, nest, s) for i, nest in enumerate(kernel.nests)
              for s in nest.written() if s.buffer is buffer}  # fmt: skip
    for at, nest in enumerate(kernel.nests):
        for load in nest.loads:
            if load.buffer is not buffer:
                continue
            result = stores.get(load.offset)
            if result is None or not _forwarded(result, at, plan):
                return False
    return True


def _forwarded(stored: tuple[int, LoopNest, Store], at: int, plan: Schedule) -> bool:
    stored_at, nest, store = stored
    if stored_at == at:
        return not nest.ordered  # the load gives what an iteration before stored
    if plan.column is not None or plan.together:
        return False
    if store in nest.stores:
        return not nest.dims
    return not nest.kept and not any(store in f.stores for f in nest.folds if f.running)


def _row_bytes(buffer: Buffer, kernel: Kernel, plan: Schedule) -> int | None:
    """The bytes of the row of an iteration; None if iterations share what they read."""
    offsets = [
        s.offset for g in kernel.nests for s in g.written() if s.buffer is buffer
    ]
    offsets += [e.offset for e in kernel.loads() if e.buffer is buffer]
    outer = frozenset(plan.outer)
    rows = [o.substitute(lambda a: 0 if a in outer else None) for o in offsets]
    low = min(r.bounds[0] for r in rows)
    high = max(r.bounds[1] for r in rows)
    if low < 0 or any(not _same_outer(o, offsets[0], outer) for o in offsets):
        return None
    size = high + 1
    if plan.block is not None and plan.together:
        apart = offsets[0].coefficient(plan.block.var)
        if is_symbolic_dim(size) or apart < size:
            return None
        size = (plan.block.factor - 1) * apart + size
    return size * max(1, int(buffer.dtype.itemsize))


def _around_rows(plan: Schedule) -> tuple[LoopVar, ...]:
    """The outer variables that rows on the stack go without: a block has several."""
    return plan.outer[:-1] if plan.together else plan.outer


def _same_outer(a: Affine, b: Affine, outer: frozenset[LoopVar]) -> bool:
    hidden = any(
        v in outer for t in a.terms if t not in outer for v in t.as_index().atoms()
    )
    return not hidden and all(a.coefficient(v) == b.coefficient(v) for v in outer)


# ------------------------------------------------------------------------ arena


@dataclass(frozen=True)
class Arena:
    """Offsets of temporaries in one block of memory."""

    offsets: Mapping[Buffer, Any]
    size: Any
    on_stack: bool

    @property
    def needed(self) -> Any:
        """The bytes that the caller provides: 0 if the buffer is on the stack."""
        return 0 if self.on_stack else self.size


def plan_arena(
    steps: Sequence[Iterable[Buffer]],
    outside: set[Buffer],
    replaceable: Mapping[Buffer, Sequence[Buffer]] = MappingProxyType({}),
) -> Arena:
    """Offsets for what the steps use besides `outside`: the first gap that fits.

    A buffer lies where one of those does that it may replace, if that is there until
    the step in which it is written.
    """
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for at, used in enumerate(steps):
        for buffer in used:
            if buffer not in outside:
                first.setdefault(buffer, at)
                last[buffer] = at
    block: dict[Buffer, Buffer] = {}  # buffer -> the first buffer in the same memory
    ends: dict[Buffer, int] = {}  # those -> the last step that uses the memory
    taken: set[Buffer] = set()
    for b in first:
        block[b] = b
        for old in replaceable.get(b, ()):
            there = old in block and first[old] < first[b] == last[old]
            if there and old not in taken:
                taken.add(old)
                block[b] = block[old]
                break
        ends[block[b]] = last[b]
    wanted = [(first[b], end, aligned_size(b)) for b, end in ends.items()]
    numbers = {b: i for i, b in enumerate(ends)}
    if not any(is_symbolic_dim(size) for *_, size in wanted):
        starts, end = _first_fit(wanted)
        on_stack = end <= config.tuning.stack_arena
        return Arena({b: starts[numbers[block[b]]] for b in first}, end, on_stack)
    fitted = PerSizes(
        lambda s: _first_fit([(a, z, number(x, s)) for a, z, x in wanted])
    )
    offsets = {b: Computed(_offset(fitted, numbers[block[b]])) for b in first}
    return Arena(offsets, Computed(lambda sizes: fitted(sizes)[1]), False)


def _offset(fitted: PerSizes, i: int) -> Callable[[Sizes], int]:
    return lambda sizes: fitted(sizes)[0][i]


def _first_fit(wanted: Sequence[tuple[int, int, int]]) -> tuple[list[int], int]:
    """Offsets of blocks, from first and last steps and bytes, and the end."""
    offsets: list[int] = []
    gaps = _Gaps()
    dying: list[tuple[int, int, int]] = []  # last step, offset and bytes of live blocks
    for begins, last, size in wanted:
        while dying and dying[0][0] < begins:
            gaps.free(*heapq.heappop(dying)[1:])
        offsets.append(gaps.take(size))
        heapq.heappush(dying, (last, offsets[-1], size))
    return offsets, gaps.end


class _Gaps:
    """The unused gaps of a block of memory, which has no end."""

    def __init__(self) -> None:
        self.end = 0  # the first byte that was never used
        self.starts: list[int] = []  # of gaps before `end`, sorted
        self.sizes: dict[int, int] = {}

    def take(self, size: int) -> int:
        """Use the first gap of some size; where it begins."""
        for i, start in enumerate(self.starts):
            left = self.sizes[start] - size
            if left < 0:
                continue
            del self.sizes[start], self.starts[i]
            if left:
                self.starts.insert(i, start + size)
                self.sizes[start + size] = left
            return start
        start = self.end
        if self.starts and self.starts[-1] + self.sizes[self.starts[-1]] == start:
            start = self.starts.pop()
            del self.sizes[start]
        self.end = start + size
        return start

    def free(self, start: int, size: int) -> None:
        """Free a range of the arena, merged with free ranges beside it."""
        i = bisect_left(self.starts, start)
        if i < len(self.starts) and self.starts[i] == start + size:
            size += self.sizes.pop(self.starts.pop(i))
        if i and self.starts[i - 1] + self.sizes[self.starts[i - 1]] == start:
            self.sizes[self.starts[i - 1]] += size
            return
        self.starts.insert(i, start)
        self.sizes[start] = size


def aligned_size(buffer: Buffer) -> int:
    """The bytes of a buffer, rounded up to whole cache lines."""
    return -(-max_dim(buffer.nbytes, 1) // ALIGNMENT) * ALIGNMENT
