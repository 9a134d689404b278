"""The loops of a nest: their order, vectors, tails and stores."""

from __future__ import annotations

from dataclasses import replace

from curta.compiler.loops.costs import weight
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Kernel, LoopNest, Store
from curta.compiler.loops.schedule import Loop, NestSchedule, Schedule, Tail
from curta.compiler.loops.walks import (
    has_few_rows,
    in_blocks,
    is_light,
    is_running,
    order_of,
    varies,
)
from curta.compiler.schedule.vectors import Vectors
from curta.compiler.targets import CACHE_LINE, Target, Tuning
from curta.core.dim import is_multiple, is_symbolic_dim, typical

_FEWEST = 4  # lanes: fewer take as long


def row_nest(
    kernel: Kernel, nest: LoopNest, vectors: Vectors, plan: Schedule, target: Target
) -> NestSchedule:
    """Return the schedule of a nest whose vectors go along its last dim."""
    dims, lanes = nest.dims[nest.kept :], vectors.lanes
    if vectors.staged:
        # A block may begin and end anywhere in a row.
        tail: Tail = "masked" if lanes > 1 else "none"
        last = Loop(dims[-1], "vector", lanes, tail, lanes if lanes > 1 else 0)
        loops = *map(Loop, dims[:-1]), last
        return NestSchedule(loops, lanes, "staged")
    block = plan.block
    if block is not None and block.how == "tile" and block.tail == "overlap":
        lane = Loop(dims[-1], "vector", block.factor, "overlap", block.factor)
        return NestSchedule((lane,), block.factor)
    loops = _row_loops(nest, dims, vectors, plan, target)
    streamed = _streamed(kernel, nest, loops, plan, target)
    return NestSchedule(loops, lanes, streamed=streamed)


def column_nest(
    nest: LoopNest, vectors: Vectors, plan: Schedule, target: Target, flat: bool
) -> NestSchedule:
    """Return the schedule of a nest whose vectors go along the last parallel dim.

    Or along rows of it, as one, if it adds up `flat`.
    """
    column, dims, lanes = plan.column, nest.dims[nest.kept :], vectors.lanes
    assert column is not None
    across, most = _with_tail(column, lanes), target.tuning.rows_at_once
    if not dims:
        joined = replace(across, joined=across.tail != "none")
        return NestSchedule((joined,), lanes, "row")
    if not in_blocks(nest):
        # Several rows of a heavy body would spill.
        rows = max(1, most // (1 if is_light(nest, target.tuning) else 2))
        if across.tail != "none":
            # Row by row is short code, if the tail is not much of the columns.
            few = plan.split != column and column.extent < 4 * lanes
            across = across if few else replace(across, tail="by row")
        *around, last = dims
        down = Loop(last, "unrolled", rows, "scalar", 1)
        return NestSchedule((*map(Loop, around), down, across), lanes, "row", rows)
    if has_few_rows(nest, target.tuning):
        rows_of = [Loop(v, "unrolled", v.extent) for v in dims]
        return NestSchedule((across, *rows_of), lanes, "registers")
    rows = order_of(nest, target).steps if is_light(nest, target.tuning) else 1
    return NestSchedule(
        (*map(Loop, dims), across), lanes, "flat" if flat else "tile", rows
    )


def _row_loops(
    nest: LoopNest,
    dims: tuple[LoopVar, ...],
    vectors: Vectors,
    plan: Schedule,
    target: Target,
) -> tuple[Loop, ...]:
    if not dims:
        return ()
    tuning, (first, *rest) = target.tuning, dims
    if nest.selective and _decides(nest, dims):
        stores = tuple(replace(s, where=None) for s in nest.stores)
        nest = replace(nest, stores=stores, selective=False)
        loop = Loop(first, "selected", tuning.indices_at_once)
    elif rest:
        loop = Loop(first)
    elif _gains_by_unrolling(nest, first, vectors.lanes, target):
        loop = Loop(first, "unrolled", tuning.updates_at_once, "scalar", 1)
    else:
        loop = _vector_loop(nest, first, vectors, plan, target)
    return loop, *_row_loops(nest, (*rest,), vectors, plan, target)


def _decides(nest: LoopNest, dims: tuple[LoopVar, ...]) -> bool:
    """Whether the guard of a nest varies with the first of the dims, not with others.

    An owner of a part of the operand skips the updates of the other parts. To jump over
    them one by one would be to guess wrong time and again.
    """
    result = varies(nest.guard())
    return dims[0] in result and not result & {*dims[1:]}


def _gains_by_unrolling(
    nest: LoopNest, lane: LoopVar, lanes: int, target: Target
) -> bool:
    """Whether many small updates run one by one."""
    tuning = target.tuning
    if not nest.ordered or lanes > 1 or lane.extent < tuning.many_updates:
        return False
    return sum(weight(e) for e in nest.body) <= tuning.light_update


# ------------------------------------------------------------------------- tails


def _with_tail(lane: LoopVar, lanes: int) -> Loop:
    """A vector loop whose tail has code of its own, under a mask."""
    tail: Tail = "none" if is_multiple(lane.extent, lanes) else "masked"
    return Loop(lane, "vector", lanes, tail, lanes if tail != "none" else 0)


def _vector_loop(
    nest: LoopNest, lane: LoopVar, vectors: Vectors, plan: Schedule, target: Target
) -> Loop:
    """Whole vectors, and what is left in one more, or one by one."""
    lanes = vectors.lanes
    if in_blocks(nest):
        order = order_of(nest, target)
        if not order.is_one_group(lane.extent):
            return _with_tail(lane, lanes)
    more: Tail = "overlap" if vectors.repeats else "masked"
    loop = Loop(lane, "vector", lanes, more, lanes)
    if head := unaligned_head(nest, lane, target):
        return replace(loop, head=head)
    step = plan.piece if lane == plan.split else lane.extent
    if is_multiple(lane.extent, lanes) and is_multiple(step, lanes):
        return Loop(lane, "vector", lanes)
    few = _lanes_of_tail(nest, lane, vectors, plan, target.tuning)
    if vectors.short and few is None:
        return replace(loop, joined=True)
    if not vectors.repeats and _is_apart(nest, lane):
        return replace(loop, tail="scalar", tail_factor=1)
    return replace(loop, tail_factor=few or lanes)


def _lanes_of_tail(
    nest: LoopNest, lane: LoopVar, vectors: Vectors, plan: Schedule, tuning: Tuning
) -> int | None:
    """The lanes of the last vector of a short row, which has as few as suffice."""
    short = not is_symbolic_dim(lane.extent) and lane.extent < 4 * vectors.lanes
    if not short or lane == plan.split:
        return None
    few: int = 1 << (lane.extent % vectors.lanes - 1).bit_length()
    if nest.folds and not is_running(nest):
        few = max(few, _FEWEST)
        return few if few < vectors.lanes and not vectors.short else None
    return few if vectors.repeats and is_light(nest, tuning) else None


def _is_apart(nest: LoopNest, lane: LoopVar) -> bool:
    """Whether a map's neighbors lie apart: masks would take them one by one."""
    offsets = [*(x.offset for x in nest.loads), *(s.offset for s in nest.stores)]
    apart = any(typical(abs(o.coefficient(lane))) > 2 for o in offsets)
    return apart and not nest.folds


# ------------------------------------------------------------------------ stores


def unaligned_head(nest: LoopNest, lane: LoopVar, target: Target) -> int:
    """The number of elements before the first store at the start of a cache line.

    Vectors that each cross into the next line are stored at half the speed. 0 if the
    stores are aligned, if they differ, or if there is little to store.
    """
    short = typical(lane.extent) < target.tuning.aligned_row
    if nest.folds or nest.ordered or short:
        return 0
    heads = set()
    for store in nest.stores:
        offset = store.offset
        aligned = target.vector_bytes // max(1, store.buffer.dtype.itemsize)
        others = (k for atom, k in offset.terms.items() if atom != lane)
        if offset.coefficient(lane) != 1 or not all(
            is_multiple(k, aligned) for k in others
        ):
            return 0
        heads.add(-offset.const % aligned)
    return heads.pop() if len(heads) == 1 else 0


def _streamed(
    kernel: Kernel,
    nest: LoopNest,
    loops: tuple[Loop, ...],
    plan: Schedule,
    target: Target,
) -> tuple[int, ...]:
    """The stores of whole vectors that bypass the caches, by their positions.

    Each writes a whole cache line that need not be read first, which takes a third off
    the traffic of a copy. The addresses are aligned if their buffer is.
    """
    least = target.tuning.streamed_bytes
    large = [typical(s.buffer.nbytes) >= least for s in nest.stores]
    if not loops or nest.folds or nest.ordered or not any(large):
        return ()
    if loops[-1].joined:
        return ()
    lane, head = loops[-1].var, loops[-1].head
    read = {load.buffer for load in kernel.loads()}
    step = plan.piece if lane == plan.split else 0
    return tuple(
        i
        for i, (store, is_large) in enumerate(zip(nest.stores, large, strict=True))
        if is_large
        and store.buffer not in read
        and _fills_lines(store, lane, step, head)
    )


def _fills_lines(store: Store, lane: LoopVar, step: int, head: int) -> bool:
    """Whether vectors after the head write whole cache lines of an aligned buffer."""
    offset, aligned = store.offset, CACHE_LINE // max(1, store.buffer.dtype.itemsize)
    steps = [k for atom, k in offset.terms.items() if atom != lane]
    steps += [step, offset.const + head]
    contiguous = offset.coefficient(lane) == 1 and store.where is None
    return contiguous and all(is_multiple(k, aligned) for k in steps)
