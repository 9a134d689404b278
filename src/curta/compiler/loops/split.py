"""Long folds with few results, in two levels.

The sum of a whole array has one iteration and nothing to share out. Its inner dim is
cut into pieces by its length alone; every piece has accumulators of its own in memory,
and a second, small kernel folds those, in the order of the pieces. The result is the
same for any number of threads.
"""

from __future__ import annotations

import math

from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.index import Affine, LoopVar
from curta.compiler.loops.nodes import Buffer, Fold, Kernel, Stage, Store
from curta.compiler.loops.schedule import is_running, kernel_cost, prefers_columns
from curta.config import config
from curta.core.dim import max_dim, min_dim, typical


def piece_index(pieces: int) -> LoopVar:
    """The variable that counts the pieces, in the offsets of a split kernel."""
    return LoopVar("piece", pieces)


def split_folds(kernel: Kernel, builder: ScalarBuilder) -> list[Kernel]:
    """The kernel itself, or one that folds pieces and one that folds their results."""
    stage = kernel.stages[0]
    if len(kernel.stages) != 1 or not stage.folds or stage.kept or is_running(stage):
        return [kernel]
    first, size = stage.dims[0], _piece(kernel, stage)
    pieces = -(-first.extent // size)
    if typical(pieces) < 2:
        return [kernel]
    index = piece_index(pieces)
    partial: list[Fold] = []
    whole: list[Fold] = []
    for fold in stage.folds:
        a, b = _two_levels(fold, kernel, index, builder)
        partial.append(a)
        whole.append(b)
    return [
        Kernel(kernel.dims, (Stage(stage.dims, stage.stores, tuple(partial)),), size),
        Kernel(kernel.dims, (Stage((index,), (), tuple(whole)),)),
    ]


def _piece(kernel: Kernel, stage: Stage) -> int:
    """How much of the first inner dim is a piece; all of it if not worth a split."""
    tuning = config.tuning
    extent, width = stage.dims[0].extent, tuning.piece_of_columns
    iterations = math.prod(v.extent for v in kernel.dims)
    if prefers_columns(kernel):
        columns = kernel.dims[-1].extent
        if typical(columns) > 4 * width:
            return extent
        iterations = iterations // columns * -(-columns // width)
    least, most = tuning.fold_piece_cost, tuning.most_fold_pieces
    if typical(iterations) >= tuning.fold_few_iterations:
        return extent
    pieces = min_dim(kernel_cost(kernel) // max_dim(1, iterations * least), most)
    if typical(pieces) < 2:
        return extent
    pieces = max_dim(1, pieces)
    size = -(-extent // pieces)
    if len(stage.dims) == 1 and not prefers_columns(kernel):
        multiple = tuning.fold_piece_multiple
        size = -(-size // multiple) * multiple
    return size


def _two_levels(
    fold: Fold, kernel: Kernel, index: LoopVar, builder: ScalarBuilder
) -> tuple[Fold, Fold]:
    results = math.prod(v.extent for v in kernel.dims)
    offset, stride = Affine({index: results}, 0), 1
    for variable in reversed(kernel.dims):
        offset = offset + Affine({variable: stride}, 0)
        stride *= variable.extent
    stores, loads = [], []
    for hole in fold.left:
        size = results * index.extent
        buffer = Buffer(f"partial{builder.fresh()}", hole.dtype, size)
        stores.append(Store(buffer, offset, hole))
        loads.append(builder.load_where(buffer, offset, None, hole.dtype))
    same = fold.initial, fold.left, fold.right, fold.combined
    return (
        Fold(fold.inputs, *same, tuple(stores)),
        Fold(tuple(loads), *same, fold.stores),
    )
