"""Facts about nests that passes on kernels and the schedule share.

A kernel is walked along *rows* (the last dim of each nest) or along *columns* (its last
outer dim), whichever has neighbors in memory.
"""

from __future__ import annotations

from collections.abc import Iterable

from curta.compiler.loops.costs import weight
from curta.compiler.loops.index import Affine, LoopVar
from curta.compiler.loops.nodes import (
    Expr,
    IndexValue,
    Kernel,
    Load,
    LoopNest,
    index_operands,
    operands,
    walk,
)
from curta.compiler.loops.summation import BLOCKED, SumOrder, count_of, sum_order
from curta.compiler.targets import Target, Tuning
from curta.core.dim import is_symbolic_dim, typical


def prefers_columns(kernel: Kernel) -> bool:
    """Whether consecutive outer indices, not inner ones, are neighbors in memory."""
    if not kernel.dims or not any(s.folds for s in kernel.nests):
        return False
    if any(map(is_running, kernel.nests)):
        return False
    last = kernel.dims[-1]
    rows = columns = 0
    for nest in kernel.nests:
        for load in nest.loads if nest.dims else ():
            rows += _load_cost(load.offset, nest.dims[-1])
            columns += _load_cost(load.offset, last)
    return rows > columns


def _load_cost(offset: Affine, lane: LoopVar) -> int:
    """What a vector costs more than one load: a shuffle, or a load for each lane."""
    apart = typical(abs(offset.coefficient(lane)))
    if apart > 2 or any(lane in varies(x) for x in index_operands(offset)):
        return 4
    return 1 if apart == 2 else 0


def is_running(nest: LoopNest) -> bool:
    """Whether a fold of the nest stores what it has so far at every index."""
    return any(f.running for f in nest.folds)


def in_blocks(nest: LoopNest) -> bool:
    """Whether a fold of the nest adds up in blocks, or in strips of blocks."""
    return any(f.order in BLOCKED for f in nest.folds)


def order_of(nest: LoopNest, target: Target) -> SumOrder:
    """The order of the sums of a nest: all of them have one."""
    strips = any(f.order == "strips" for f in nest.folds)
    return sum_order(target, "strips" if strips else "blocks")


def columns_at_once(kernel: Kernel, target: Target) -> int:
    """How many columns a piece has, whose accumulators stay in the caches."""
    sizes = [
        sum(c.dtype.itemsize for c in f.initial)
        for nest in kernel.nests
        for f in nest.folds
        if f.order == "blocks" and not has_few_rows(nest, target.tuning)
    ]
    tuning = target.tuning
    if not sizes:
        return tuning.piece_of_columns
    order = sum_order(target)
    columns = tuning.row_bytes // (order.lanes * sum(sizes))
    most = 1 << max(0, columns.bit_length() - 1)
    return max(order.register, min(most, tuning.piece_of_columns))


def has_few_rows(nest: LoopNest, tuning: Tuning) -> bool:
    """Whether the rows of columns are few enough to be added up in registers."""
    count = count_of([v.extent for v in nest.dims[nest.kept :]])
    most = tuning.rows_at_once // (1 if is_light(nest, tuning) else 2)
    return not is_symbolic_dim(count) and count <= min(most, tuning.sum_steps)


def is_light(nest: LoopNest, tuning: Tuning) -> bool:
    """Whether several rows of a nest fit in registers."""
    return sum(map(weight, nest.body)) <= tuning.light_body


def varies(expr: Expr) -> set[LoopVar]:
    """The loop variables below an expression."""
    return dependences(walk([expr]))[expr]


def dependences(body: Iterable[Expr]) -> dict[Expr, set[LoopVar]]:
    """The loop variables that each expression varies with; operands come first."""
    result: dict[Expr, set[LoopVar]] = {}
    for expr in body:
        own = result[expr] = set().union(*(result[e] for e in operands(expr)))
        if isinstance(expr, (Load, IndexValue)):
            index = expr.offset if isinstance(expr, Load) else expr.index
            own.update(a for a in index.atoms() if isinstance(a, LoopVar))
    return result
