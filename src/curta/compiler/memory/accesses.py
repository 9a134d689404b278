"""Accesses: the buffers in memory that a work reads and writes.

They follow from the statements of the work alone, never from a plan of memory, so that
the check of a plan (check.py) and its analysis can rely on them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from curta._base.lazy_dataclass import dataclass
from curta.compiler.loops.nodes import (
    Buffer,
    Call,
    Carry,
    Copy,
    For,
    If,
    Kernel,
    LoopNest,
    Pack,
    Region,
    Statement,
    While,
    blocks_in,
    memory_of,
    statements_in,
)
from curta.compiler.lower.items import LibraryItem, RegionItem


@dataclass(frozen=True)
class Accesses:
    """The memory accesses of a work.

    Fields:
        reads: the buffers that it loads from.
        writes: the buffers that it stores to.
        updates: buffers in `writes` whose old contents it may load.
    """

    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    updates: tuple[Buffer, ...] = ()

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """All that it touches, each once."""
        return tuple(dict.fromkeys((*self.reads, *self.writes)))


Step = Kernel | RegionItem | Region | LibraryItem
"""A work before it is scheduled; a region by itself is a copy."""


def accesses_of(work: Step) -> Accesses:
    """Return the accesses of a work to buffers in memory, in a fixed order.

    Those of a kernel include what may become registers or rows.
    """
    if isinstance(work, LibraryItem):
        return Accesses(work.operands, (*work.results, *work.temporaries))
    if isinstance(work, RegionItem):
        arrays = *work.results, *work.operands, *work.temporaries
        return region_accesses(work.region, arrays)
    if isinstance(work, Kernel):
        return kernel_accesses(work)
    ends = ((s.to, s.source) for s in work.body if isinstance(s, Copy))
    return region_accesses(work, (b for pair in ends for b in pair))


def region_accesses(region: Region, arrays: Iterable[Buffer]) -> Accesses:
    """Return the accesses of a region to some arrays."""
    reads, writes = set[Buffer](), set[Buffer]()
    carried = carried_memory(region.body)
    for statement in statements_in(region.body):
        read, written = statement_accesses(statement)
        reads.update(m for b in read for m in carried.get(b, (b,)))
        writes.update(m for b in written for m in carried.get(b, (b,)))
    each = dict.fromkeys(arrays)
    return Accesses(
        tuple(b for b in each if b in reads), tuple(b for b in each if b in writes)
    )


def kernel_accesses(
    kernel: Kernel, memory: Container[Buffer] | None = None
) -> Accesses:
    """Return the accesses of a kernel to buffers in `memory`, or to all buffers."""
    reads: dict[Buffer, None] = {}
    stored: dict[Buffer, None] = {}
    updated: dict[Buffer, None] = {}
    for nest in kernel.nests:
        own = dict.fromkeys(memory_of(s.buffer) for s in nest.written())
        reads |= dict.fromkeys(memory_of(e.buffer) for e in nest.loads)
        updated |= dict.fromkeys(b for b in own if nest.ordered and b not in stored)
        stored |= own
    kept = (
        tuple(b for b in each if memory is None or b in memory)
        for each in (reads, stored, updated)
    )
    return Accesses(*kept)


def statement_accesses(statement: Statement) -> tuple[set[Buffer], set[Buffer]]:
    """Return the memory that a statement itself reads and writes, without its blocks.

    Registers are among it; buffers that a loop carries stand for themselves.
    """
    if isinstance(statement, LoopNest):
        loaded = (e.buffer for e in statement.loads)
        stored = (s.buffer for s in statement.written())
        return {*map(memory_of, loaded)}, {*map(memory_of, stored)}
    if isinstance(statement, Copy):
        return {memory_of(statement.source)}, {memory_of(statement.to)}
    if isinstance(statement, Pack):
        ends = [memory_of(statement.rows), memory_of(statement.columns)]
        source, to = ends[::-1] if statement.back else ends
        return {source}, {to}
    if isinstance(statement, Call):
        arena = () if statement.arena is None else (statement.arena,)
        written = (*statement.results, *arena)
        return {*map(memory_of, statement.operands)}, {*map(memory_of, written)}
    if isinstance(statement, If):
        return {memory_of(statement.index)}, set()
    if isinstance(statement, While):
        return {memory_of(statement.goes_on)}, set()
    return set(), set()


def carried_memory(block: Iterable[Statement]) -> Mapping[Buffer, set[Buffer]]:
    """Return for each buffer that a loop carries the memory in which it may lie.

    The parts of a carry hand on addresses to each other, so that names which meet in
    one of them lie in any memory of the others.
    """
    result: dict[Buffer, set[Buffer]] = {}
    for carry in _carries(block):
        if carry.now.storage != "carried":
            continue
        names = (carry.first, carry.now, carry.then, carry.last)
        known = [memory_of(b) for b in names if b.storage != "carried"]
        sets = [result[b] for b in names if b in result]
        joined = set(known).union(*sets)
        for name in [n for n, s in result.items() if any(s is x for x in sets)]:
            result[name] = joined
        result.update((b, joined) for b in names if b.storage == "carried")
    return result


def _carries(block: Iterable[Statement]) -> Iterator[Carry]:
    for statement in block:
        if isinstance(statement, (For, While)):
            yield from statement.carries
        for inner in blocks_in(statement):
            yield from _carries(inner)
