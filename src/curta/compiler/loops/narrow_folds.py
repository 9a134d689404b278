"""Folds of the rows of narrow arrays: rows that follow each other become one.

The sum of the rows of an array of three columns would have three lanes, and begin anew
with every row. As rows of the array seen with 64 times as many columns it fills
vectors; of the sums that come out, 64 for each column, a second kernel makes one
(rfactor, as in split.py). What an element is computed from must be elements at the same
place, or be the same for all rows: that is repeated, before, as often as there are rows
in one.
"""

from __future__ import annotations

import math

from curta.compiler.loops.assemble import Rewriter, are_one, indices_of
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.index import Affine, IndexAtom, IndexLike, LoopVar, row_major
from curta.compiler.loops.nodes import (
    Buffer,
    Expr,
    Fold,
    IndexValue,
    Kernel,
    Load,
    Stage,
    Store,
    operands,
)
from curta.compiler.loops.schedule import is_running, kernel_cost, prefers_columns
from curta.compiler.loops.split import Parts
from curta.config import config
from curta.core.dim import is_symbolic_dim

Folds = tuple[Fold, ...]


def widen_folds(kernel: Kernel, builder: ScalarBuilder) -> list[Kernel]:
    """The kernel itself, or kernels of which the narrow folds have wider rows."""
    parts = [Kernel(kernel.dims, (s,)) for s in kernel.stages]
    worth_it = [_is_narrow(k) for k in parts]
    if not any(worth_it) or not all(map(_stands_alone, kernel.stages)):
        return [kernel]
    result = []
    for part, narrow in zip(parts, worth_it, strict=True):
        if narrow:
            result += _widened(part, builder)
        elif part.stages[0].folds:
            result.append(part)
        else:
            *outer, column = part.dims
            stage = Stage((column,), part.stages[0].stores, ())
            result.append(Kernel((*outer,), (stage,)))
    return result


def _stands_alone(stage: Stage) -> bool:
    """Whether it is a fold, or a map of the results of folds."""
    if stage.kept or stage.ordered or is_running(stage):
        return False
    return not stage.stores if stage.folds else not stage.dims


def _is_narrow(kernel: Kernel) -> bool:
    """Whether wider rows of the one stage are possible, and worth it."""
    tuning, (stage,) = config.tuning, kernel.stages
    if not stage.folds or not stage.dims or not prefers_columns(kernel):
        return False
    row, column = stage.dims[-1], kernel.dims[-1]
    if is_symbolic_dim(row.extent) or is_symbolic_dim(column.extent):
        return False
    if column.extent >= tuning.narrow_row or row.extent < 2 * tuning.narrow_row:
        return False
    if column.extent > tuning.filled_row and not column.extent % tuning.filled_row:
        return False
    if kernel_cost(kernel) < tuning.narrow_fold_cost:
        return False
    same = _same_for_rows(kernel)
    others = [e for e in stage.body if e not in same]
    # Repeated halves of single precision would be rounded.
    kept = all(e.dtype.itemsize >= 4 or e.dtype.kind != "f" for e in same)
    return kept and are_one(row, column, indices_of(others))


def _same_for_rows(kernel: Kernel) -> set[Expr]:
    """What varies with the columns, and not with the folded dims."""
    (stage,), column = kernel.stages, kernel.dims[-1]
    varies: dict[Expr, set[IndexAtom]] = {}
    for expr in stage.body:
        own = varies[expr] = set().union(*(varies[e] for e in operands(expr)))
        if isinstance(expr, (Load, IndexValue)):
            index = expr.offset if isinstance(expr, Load) else expr.index
            own.update(a for a in index.atoms() if isinstance(a, LoopVar))
    folded = {*stage.dims}
    return {e for e, dims in varies.items() if column in dims and not dims & folded}


def _widened(kernel: Kernel, builder: ScalarBuilder) -> list[Kernel]:
    """One of wider rows, and one that folds what these hold.

    Rows that are left at the end make one more part.
    """
    (stage,), rows = kernel.stages, config.tuning.narrow_row
    (*outer, column), (*inner, row) = kernel.dims, stage.dims
    long, left = (LoopVar(row.name, n) for n in divmod(row.extent, rows))
    wide = LoopVar(f"{row.name}{column.name}", rows * column.extent)
    part = LoopVar(f"{row.name}_part", rows + (left.extent > 0))
    parts = Parts(stage.folds, (*outer, part, column), builder)

    def folds_at(place: dict[IndexAtom, IndexLike], given: dict[Expr, Expr]) -> Folds:
        return Rewriter(builder, place.get, given).body(stage)[1]

    repeat, repeated = _repeated(kernel, wide, builder)
    # As the columns of a row follow each other, `wide` may index them from part 0 on.
    folds = folds_at({row: Affine({long: rows}, 0), column: wide}, repeated)
    stored = parts.stored(folds, (*outer, 0, wide))
    kernels = [*repeat, Kernel((*outer, wide), (Stage((*inner, long), (), stored),))]
    if left.extent:
        folds = folds_at({row: Affine({left: 1}, row.extent - left.extent)}, {})
        stored = parts.stored(folds, (*outer, rows, column))
        kernels.append(Kernel(kernel.dims, (Stage((*inner, left), (), stored),)))
    read = parts.read((*outer, part, column))
    return [*kernels, Kernel(kernel.dims, (Stage((part,), (), read),))]


def _repeated(
    kernel: Kernel, wide: LoopVar, builder: ScalarBuilder
) -> tuple[list[Kernel], dict[Expr, Expr]]:
    """A kernel that repeats what rows share, and where a wide row reads it."""
    (stage,), (*outer, column) = kernel.stages, kernel.dims
    same = _same_for_rows(kernel)
    used = [x for e in stage.body if e not in same for x in operands(e)]
    used += [x for f in stage.folds for x in f.inputs]
    wanted = [e for e in dict.fromkeys(used) if e in same]
    if not wanted:
        return [], {}
    part = LoopVar(f"{wide.name}_part", wide.extent // column.extent)
    shape = tuple(v.extent for v in (*outer, part, column))
    stores, given = [], {}
    for expr in wanted:
        buffer = Buffer(f"repeated{builder.fresh()}", expr.dtype, math.prod(shape))
        stores.append(Store(buffer, row_major((*outer, part, column), shape), expr))
        there = row_major((*outer, 0, wide), shape)
        given[expr] = builder.load_where(buffer, there, None, expr.dtype)
    stage = Stage((column,), tuple(stores), ())
    return [Kernel((*outer, part), (stage,))], given
