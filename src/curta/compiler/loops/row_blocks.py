"""Blocks of rows: short folds of as many rows as a register has lanes end together.

Vectors go along a row, and a fold ends with a vector of what its lanes have
accumulated, which is halved until one is left: four shuffles for sixteen lanes, each of
which waits for the one before, and four combinations that leave most lanes idle. Of a
block of rows, two share a vector after the first step, four after the second, and in
the end each lane has the result of a row. What is computed once a row after that, the
logarithm of `log_softmax` say, is in lanes, too.
"""

from __future__ import annotations

import math
from dataclasses import replace

from curta.compiler.loops.costs import kernel_cost
from curta.compiler.loops.nodes import Kernel, LoopNest
from curta.compiler.loops.schedule import Schedule, Vectors, in_blocks, is_running
from curta.compiler.loops.summation import sum_order
from curta.config import config
from curta.core.dim import is_multiple, is_symbolic_dim, typical


def in_blocks_of_rows(
    kernel: Kernel, plan: Schedule, vector_bytes: int, often: bool
) -> Schedule:
    """The schedule with blocks of rows, if there are many short ones."""
    tuning = config.tuning
    if plan.column or plan.block > 1 or plan.split or not plan.outer:
        return plan
    sizes = [c.dtype.itemsize for s in kernel.nests for f in s.folds for c in f.initial]
    nests = [*zip(kernel.nests, plan.vectors, strict=True)]
    if not sizes or not all(_is_short(*nest) for nest in nests):
        return plan
    if typical(kernel_cost(kernel)) < tuning.little_cost and not often:
        return plan
    extent, rows = plan.outer[-1].extent, vector_bytes // max(sizes)
    if typical(extent) < tuning.row_blocks * rows:
        return plan
    if any(map(in_blocks, kernel.nests)):
        rows = sum_order(vector_bytes).register
    elif not is_multiple(extent, rows) and is_multiple(extent, rows // 2):
        rows //= 2  # than to have a block with less
    return replace(plan, block=rows, together=True, grain=-(-plan.grain // rows))


def _is_short(nest: LoopNest, vectors: Vectors) -> bool:
    """Whether a nest is a short loop with one result of each fold."""
    if nest.ordered or nest.kept or is_running(nest):
        return False
    if nest.folds and nest.dims and (vectors.lanes == 1 or vectors.staged):
        return False
    if any(is_symbolic_dim(v.extent) for v in nest.dims):
        return False
    return math.prod(v.extent for v in nest.dims) <= config.tuning.short_row


def may_overlap(kernel: Kernel, plan: Schedule) -> bool:
    """Whether the last block may have rows of the one before, to have all of its own.

    What is computed twice must read nothing that may be replaced: see `may_repeat` of
    schedule.py.
    """
    extent = plan.outer[-1].extent
    if is_symbolic_dim(extent) or extent < plan.block:
        return False
    offsets = {s.offset for nest in kernel.nests for s in nest.written()}
    inside = {*kernel.stored()}
    return all(x.buffer in inside or x.offset not in offsets for x in kernel.loads())
