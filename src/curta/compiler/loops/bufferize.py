"""Where buffers live: arguments, registers, a row on the stack, or the arena.

A value that only its own kernel reads need not be memory. If every load of it reads
what the same iteration of the loops has just stored, it is a register. If it is read at
other inner indices but the same outer ones, one row of it will do. Everything else
that is not an argument or a result of the program is in the arena (memory/arena.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from curta._base.lazy_dataclass import dataclass
from curta.compiler.loops.index import Affine, LoopVar
from curta.compiler.loops.nodes import Buffer, Kernel, LoopNest, Store, memory_of
from curta.compiler.loops.schedule import Schedule
from curta.compiler.targets import Tuning
from curta.core.dim import is_symbolic_dim

ALIGNMENT = 64  # bytes, of temporaries


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
    kernel: Kernel, plan: Schedule, outside: Iterable[Buffer], tuning: Tuning
) -> BufferPlacement:
    """The placement for a kernel; `outside` are the buffers others see."""
    seen = set(outside)
    stored = {s.buffer: (nest, s) for nest in kernel.nests for s in nest.written()}
    registers: set[Buffer] = set()
    scratch: dict[Buffer, tuple[int, frozenset[LoopVar]]] = {}
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


def received(kernel: Kernel) -> set[Buffer]:
    """Return the buffers in memory with elements that others may have stored.

    The others are buffers whose loads all follow a store by the same iteration to the
    same offset.
    """
    stored: dict[Buffer, set[Affine]] = {}
    result: set[Buffer] = set()
    for nest in kernel.nests:
        for store in nest.written():
            if store.where is None and not nest.ordered:
                stored.setdefault(store.buffer, set()).add(store.offset)
        result.update(
            memory_of(load.buffer)
            for load in nest.loads
            if load.offset not in stored.get(load.buffer, ())
        )
    return result


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
