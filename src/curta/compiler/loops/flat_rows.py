"""Rows of few columns that follow each other in memory, as one long row.

An element of a column is computed from elements at the same offset, or from values that
are the same for all rows. Those are *shared*, and repeated as often as there are rows
in a long one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Expr, LoopNest, operands
from curta.compiler.loops.rewriter import are_one, indices_of
from curta.compiler.loops.summation import SumOrder
from curta.compiler.loops.walks import dependences
from curta.compiler.targets import Tuning
from curta.core.dim import is_symbolic_dim


def shared_values(
    nest: LoopNest, column: LoopVar, along: Sequence[LoopVar]
) -> set[Expr]:
    """The values that vary with the columns, and are the same for all rows."""
    reads, rows = dependences(nest.body), {*along}
    return {e for e, dims in reads.items() if column in dims - rows == dims}


def repeated_values(nest: LoopNest, shared: set[Expr]) -> list[Expr]:
    """The shared values that other values read."""
    used = [x for e in nest.body if e not in shared for x in operands(e)]
    used += [x for f in nest.folds for x in f.inputs]
    used += [x for s in nest.stores for x in s.operands()]
    return [e for e in dict.fromkeys(used) if e in shared]


def follow_each_other(
    nest: LoopNest, column: LoopVar, row: LoopVar, shared: set[Expr]
) -> bool:
    """Whether all but shared values of a nest treat rows of columns as one row."""
    indices = [*indices_of(e for e in nest.body if e not in shared)]
    indices += [s.offset for s in nest.stores]
    return are_kept(shared) and are_one(row, column, indices)


def are_kept(shared: Iterable[Expr]) -> bool:
    """Whether values are in memory what they are in registers: no halves of singles."""
    return all(e.dtype.itemsize >= 4 or e.dtype.kind != "f" for e in shared)


def adds_up_flat(
    nest: LoopNest, column: LoopVar, order: SumOrder, tuning: Tuning
) -> bool:
    """Whether sums of columns can go along rows of all accumulators of a block.

    The accumulators of a block, `order.lanes` for each column, are then one row.
    """
    dims = nest.dims[nest.kept :]
    if len(dims) != 1 or nest.stores or nest.ordered or nest.selective:
        return False
    if any(is_symbolic_dim(v.extent) for v in (*dims, column)):
        return False
    if column.extent >= tuning.narrow_row or order.lanes == 1:
        return False
    if any(f.order != "blocks" for f in nest.folds):
        return False
    shared = shared_values(nest, column, dims)
    kept = [*repeated_values(nest, shared), *(c for f in nest.folds for c in f.initial)]
    size = order.lanes * column.extent * sum(e.dtype.itemsize for e in kept)
    return size <= tuning.rows_bytes and follow_each_other(
        nest, column, dims[0], shared
    )
