"""Blocks of rows: short reductions of as many rows as a register has lanes end
together.

Vectors go along a row, and a fold ends with a vector of accumulators, which is halved
until one is left: four shuffles for sixteen lanes, each of which waits for the one
before, and four combinations that leave most lanes idle. Of a block of rows, two share
a vector after the first step, four after the second, and in the end each lane has the
result of a row. Values computed once per row after that, such as the logarithm of
`log_softmax`, are in lanes, too.
"""

from __future__ import annotations

import math
from dataclasses import replace

from curta.compiler.loops.costs import weight
from curta.compiler.loops.nodes import Kernel, LoopNest, walk
from curta.compiler.loops.schedule import Loop, NestSchedule, Schedule, Tail
from curta.compiler.loops.summation import sum_order
from curta.compiler.loops.walks import dependences, in_blocks, is_running
from curta.compiler.targets import Target
from curta.core.dim import is_multiple, is_symbolic_dim, typical


def with_rows_together(kernel: Kernel, plan: Schedule, target: Target) -> Schedule:
    """Return the schedule with blocks of rows, if there are many short ones."""
    tuning = target.tuning
    if plan.column or plan.block or plan.split or not plan.outer:
        return plan
    sizes = [c.dtype.itemsize for s in kernel.nests for f in s.folds for c in f.initial]
    nests = [*zip(kernel.nests, plan.nests, strict=True)]
    if not sizes or not all(_is_short(*nest, target) for nest in nests):
        return plan
    row, rows = plan.outer[-1], target.vector_bytes // max(sizes)
    if typical(row.extent) < tuning.row_blocks * rows:
        return plan
    if any(map(in_blocks, kernel.nests)):
        rows = sum_order(target).register
    elif not is_multiple(row.extent, rows) and is_multiple(row.extent, rows // 2):
        rows //= 2  # than to have a block with less
    tail: Tail = "none"
    if not is_multiple(row.extent, rows):
        tail = "overlap" if _may_overlap(kernel, row.extent, rows) else "masked"
    block = Loop(row, "together", rows, tail, rows if tail != "none" else 0)
    return replace(
        plan,
        block=block,
        grain=-(-plan.grain // rows),
        nests=tuple(_in_block(*nest, block, target) for nest in nests),
    )


def _is_short(nest: LoopNest, plan: NestSchedule, target: Target) -> bool:
    """Whether a nest is a short loop with one result of each fold."""
    if nest.ordered or nest.kept or is_running(nest):
        return False
    if nest.folds and nest.dims and (plan.lanes == 1 or plan.accumulate == "staged"):
        return False
    if any(is_symbolic_dim(v.extent) for v in nest.dims):
        return False
    return math.prod(v.extent for v in nest.dims) <= target.tuning.short_row


def _may_overlap(kernel: Kernel, extent: int, rows: int) -> bool:
    """Whether the last block may have rows of the one before, to have all of its own.

    What is computed twice must read nothing that may be replaced: see `may_repeat` of
    vectors.py.
    """
    if is_symbolic_dim(extent) or extent < rows:
        return False
    offsets = {s.offset for nest in kernel.nests for s in nest.written()}
    inside = {*kernel.stored()}
    return all(x.buffer in inside or x.offset not in offsets for x in kernel.loads())


def _in_block(
    nest: LoopNest, plan: NestSchedule, block: Loop, target: Target
) -> NestSchedule:
    """The schedule of a nest in a block, with the number of rows written out."""
    if not nest.dims or block.tail == "masked":
        return plan
    lanes = min(plan.lanes, block.factor)
    return replace(plan, rows=_rows_written_out(nest, lanes, target))


def _rows_written_out(nest: LoopNest, lanes: int, target: Target) -> int:
    """The rows that are written out: all if there is little to them."""
    inner, reads = {*nest.dims}, dependences(nest.body)
    inside = [e for e in nest.body if reads[e] & inner]
    inside += walk(e for f in nest.folds for e in f.in_order)
    most = 4 * target.tuning.light_body // max(1, sum(map(weight, inside)))
    return min(lanes, 1 << max(2, most.bit_length() - 1))
