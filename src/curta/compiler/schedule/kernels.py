"""The schedule of a kernel, from its shapes and what its body costs."""

from __future__ import annotations

import math
from dataclasses import replace

from curta.compiler.loops.costs import kernel_cost
from curta.compiler.loops.flat_rows import adds_up_flat
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Kernel, LoopNest
from curta.compiler.loops.schedule import Loop, NestSchedule, Schedule
from curta.compiler.loops.summation import count_of
from curta.compiler.loops.walks import (
    columns_at_once,
    has_few_rows,
    in_blocks,
    order_of,
    prefers_columns,
)
from curta.compiler.schedule.nests import column_nest, row_nest
from curta.compiler.schedule.row_blocks import with_rows_together
from curta.compiler.schedule.vectors import may_repeat, vectors_of
from curta.compiler.targets import Target
from curta.core.dim import is_symbolic_dim, max_dim, min_dim, typical


def kernel_schedule(kernel: Kernel, target: Target, often: bool = False) -> Schedule:
    """Return the schedule of a kernel.

    Args:
        kernel: what is computed.
        target: the machine, with its tuning.
        often: whether it runs many times, so that it pays to make it fast though small.
    """
    column = kernel.dims[-1] if prefers_columns(kernel) else None
    outer = kernel.dims[:-1] if column else kernel.dims
    split, piece = _split(kernel, column, target)
    plan = Schedule(outer, split, piece, column)
    neighbors = _neighbors(kernel, target)
    if neighbors is not None:
        plan = _in_tiles(kernel, plan, neighbors, target)
    total, tuning = kernel_cost(kernel), target.tuning
    plan = replace(plan, grain=_grain(plan.iterations, total, target, often))
    little = typical(total) < tuning.little_cost and not often
    quick = typical(total) < tuning.optimised_map and not often
    nests = [_nest(kernel, s, plan, target, little, quick) for s in kernel.nests]
    plan = replace(plan, nests=(*nests,))
    return plan if little else with_rows_together(kernel, plan, target)


def _nest(
    kernel: Kernel,
    nest: LoopNest,
    plan: Schedule,
    target: Target,
    little: bool,
    quick: bool,
) -> NestSchedule:
    repeats = plan.column is None and _may_repeat(kernel, nest, plan)
    extent, flat = _lane_extent(nest, plan), _is_flat(nest, plan, target)
    if flat:
        extent *= order_of(nest, target).lanes
    vectors = vectors_of(nest, extent, target, little, quick, plan.column, repeats)
    if plan.column is not None:
        own = column_nest(nest, vectors, plan, target, flat)
    else:
        own = row_nest(kernel, nest, vectors, plan, target)
    order = order_of(nest, target) if in_blocks(nest) else None
    return replace(own, order=order)


def _is_flat(nest: LoopNest, plan: Schedule, target: Target) -> bool:
    """Whether sums of few columns go along rows as one."""
    column = plan.column
    if column is None or plan.split == column or not in_blocks(nest):
        return False
    if has_few_rows(nest, target.tuning):
        return False
    return adds_up_flat(nest, column, order_of(nest, target), target.tuning)


def _may_repeat(kernel: Kernel, nest: LoopNest, plan: Schedule) -> bool:
    """Whether vectors or tiles may overlap the ones before them."""
    along = [*nest.dims[-1:], *([plan.block.var] if plan.block else [])]
    known = not any(is_symbolic_dim(v.extent) for v in along)
    return known and may_repeat(nest, kernel)


def _grain(iterations: int, cost: int, target: Target, often: bool) -> int:
    """The iterations of a chunk: enough to do, and not too many chunks."""
    tuning = target.tuning
    least = tuning.chunk_cost_in_loop if often else tuning.chunk_cost
    grain: int = -(-least * iterations // max_dim(1, cost))
    grain = max_dim(grain, -(-iterations // tuning.most_chunks))
    return max_dim(1, min_dim(iterations, grain))


# ------------------------------------------------------------------------- tiles


def _neighbors(kernel: Kernel, target: Target) -> LoopVar | None:
    """The outer dim along which a map reads neighbors, where the last dim jumps.

    If that dim has fewer than a tile takes, there must be much to read: otherwise the
    caches still have it for the next one. Picking elements of one or two bytes out of
    vectors takes longer than reading them again.
    """
    nest = kernel.nests[0]
    if len(kernel.nests) > 1 or nest.folds or nest.ordered or len(nest.dims) != 1:
        return None
    tuning, (last,) = target.tuning, nest.dims
    is_long = typical(last.extent) >= 2 * tuning.piece_of_map
    for load in kernel.loads():
        jump = abs(load.offset.coefficient(last))
        for variable in kernel.dims:
            if load.offset.coefficient(variable) != 1:
                continue
            extent = typical(variable.extent)
            tiles = min(extent, typical(last.extent)) >= tuning.tile
            if typical(jump) > tuning.far_apart and tiles:
                return variable
            wide = load.buffer.dtype.itemsize >= 4
            if jump > 1 < extent < tuning.tile and is_long and wide:
                return variable
    return None


def _in_tiles(kernel: Kernel, plan: Schedule, row: LoopVar, target: Target) -> Schedule:
    """The schedule with tiles of a transpose, or a few rows over pieces of columns."""
    (nest,), tuning = kernel.nests, target.tuning
    lane, size = nest.dims[-1], min(tuning.tile, typical(row.extent))
    outer = (*(v for v in plan.outer if v != row), row)
    block = Loop(row, "serial", size)
    plan = replace(plan, outer=outer, split=lane, piece=tuning.piece_of_neighbours)
    if size == tuning.tile:
        block = Loop(row, "tile", size, "by row", 1)
        plan = replace(plan, block=block, piece=size)
        if _may_repeat(kernel, nest, plan):
            block = Loop(row, "tile", size, "overlap", size)
    return replace(plan, block=block if size > 1 else None)


# ------------------------------------------------------------------------ pieces


def _split(
    kernel: Kernel, column: LoopVar | None, target: Target
) -> tuple[LoopVar | None, int]:
    """The long dim that iterations take a piece of, and the piece."""
    if kernel.piece:
        (nest,) = kernel.nests
        if not in_blocks(nest):
            return nest.dims[0], kernel.piece
        # Pieces of all elements, counted along all dims.
        return LoopVar(
            "elements", count_of([v.extent for v in nest.dims])
        ), kernel.piece
    tuning = target.tuning
    if column is not None:
        most = columns_at_once(kernel, target)
        few = not is_symbolic_dim(column.extent) and column.extent <= most
        return (None, 1) if few else (column, most)
    (nest, *others) = kernel.nests
    if others or nest.folds or not nest.dims or nest.ordered:
        return None, 1
    first, *rest = nest.dims
    around = typical(math.prod(v.extent for v in rest))
    piece = max(1, tuning.piece_of_map // max(1, around))
    return (first, piece) if typical(first.extent) >= 2 * piece else (None, 1)


def _lane_extent(nest: LoopNest, plan: Schedule) -> int:
    """The indices that vectors go along in an iteration."""
    lane = plan.column or (nest.dims[-1] if nest.dims else None)
    if lane is None:
        return 1
    return min_dim(lane.extent, plan.piece) if lane == plan.split else lane.extent
