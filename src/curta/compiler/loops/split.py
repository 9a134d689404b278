"""Folds in two levels: a kernel folds parts, and a small one what comes of these.

Halide calls it rfactor (Suriana, Adams, Kamil, "Parallel associative reductions in
Halide", 2017).

The sum of a whole array has one iteration and nothing to share out. Its inner dim is
cut into pieces by its length alone; every piece has accumulators of its own in memory,
which are folded in the order of the pieces. The result is the same for any number of
threads.
"""

from __future__ import annotations

import math
from dataclasses import replace

from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.costs import kernel_cost
from curta.compiler.loops.index import (
    Affine,
    IndexAtom,
    IndexLike,
    LoopVar,
    row_major,
)
from curta.compiler.loops.nodes import Buffer, Fold, Kernel, LoopNest, Store
from curta.compiler.loops.rewriter import Rewriter
from curta.compiler.loops.summation import BLOCKED, count_of
from curta.compiler.loops.walks import (
    columns_at_once,
    is_running,
    order_of,
    prefers_columns,
)
from curta.compiler.targets import Target
from curta.core.dim import max_dim, min_dim, typical


def piece_index(pieces: int) -> LoopVar:
    """The variable that counts the pieces, in the offsets of a split kernel."""
    return LoopVar("piece", pieces)


def split_folds(kernel: Kernel, builder: ScalarBuilder, target: Target) -> list[Kernel]:
    """The kernel itself, or one that folds pieces and one that folds their results."""
    nest = kernel.nests[0]
    if len(kernel.nests) != 1 or not nest.folds or nest.kept or is_running(nest):
        return [kernel]
    if any(f.order != "any" for f in nest.folds):
        return _in_blocks(kernel, nest, builder, target)
    first, size = nest.dims[0], _piece(kernel, nest, target)
    pieces = -(-first.extent // size)
    if typical(pieces) < 2:
        return [kernel]
    index = piece_index(pieces)
    parts = Parts(nest.folds, (index, *kernel.dims), builder)
    stored = parts.stored(nest.folds, (index, *kernel.dims))
    read = parts.read((index, *kernel.dims))
    return [
        Kernel(kernel.dims, (LoopNest(nest.dims, nest.stores, stored),), size),
        Kernel(kernel.dims, (LoopNest((index,), (), read),)),
    ]


def _in_blocks(
    kernel: Kernel, nest: LoopNest, builder: ScalarBuilder, target: Target
) -> list[Kernel]:
    """The kernel itself, or kernels of the blocks of its sums, and one that joins them.

    That is the order of sums whether there are several kernels or one.
    """
    order = order_of(nest, target)
    count = count_of([v.extent for v in nest.dims])
    separate = all(f.order in BLOCKED for f in nest.folds)
    if not separate or order.is_one_block(count):
        return [kernel]
    if _piece(kernel, nest, target) >= nest.dims[0].extent:
        return [kernel]
    blocks = LoopVar("block", -(-count // order.block))
    parts = Parts(nest.folds, (blocks, *kernel.dims), builder)
    if len(nest.dims) == 1:
        result = _kernels_of_blocks(kernel, nest, order.block, parts)
    elif prefers_columns(kernel):
        return [kernel]
    else:
        index = piece_index(blocks.extent)
        stored = parts.stored(nest.folds, (index, *kernel.dims))
        pieces = LoopNest(nest.dims, nest.stores, stored)
        result = [Kernel(kernel.dims, (pieces,), order.block)]
    read = tuple(replace(f, order="joined") for f in parts.read((blocks, *kernel.dims)))
    return [*result, Kernel(kernel.dims, (LoopNest((blocks,), (), read),))]


def _kernels_of_blocks(
    kernel: Kernel, nest: LoopNest, size: int, parts: Parts
) -> list[Kernel]:
    """Return a kernel for the full blocks of a row, and one for the rest."""
    (row,), result = nest.dims, []
    many, left = divmod(row.extent, size)
    whole = LoopVar("block", many), LoopVar(row.name, size)
    rest = LoopVar(row.name, left)
    for block, inner, first in (
        (whole[0], whole[1], Affine({whole[0]: size, whole[1]: 1}, 0)),
        (many, rest, Affine({rest: 1}, many * size)),
    ):
        if not inner.extent:
            continue
        place: dict[IndexAtom, IndexLike] = {row: first}
        stores, folds = Rewriter(parts.builder, place.get).body(nest)
        folds = parts.stored(folds, (block, *kernel.dims))
        outer = (block, *kernel.dims) if isinstance(block, LoopVar) else kernel.dims
        result.append(Kernel(outer, (LoopNest((inner,), stores, folds),)))
    return result


class Parts:
    """Memory for what folds of parts come to: accumulators, for indices of `dims`."""

    def __init__(
        self, folds: tuple[Fold, ...], dims: tuple[LoopVar, ...], builder: ScalarBuilder
    ) -> None:
        self.folds, self.builder = folds, builder
        self.shape: tuple[int, ...] = tuple(v.extent for v in dims)
        size = math.prod(self.shape)
        self.buffers: list[list[Buffer]] = [
            [Buffer(f"partial{builder.fresh()}", x.dtype, size) for x in f.left]
            for f in folds
        ]

    def stored(
        self, folds: tuple[Fold, ...], index: tuple[IndexLike, ...]
    ) -> tuple[Fold, ...]:
        """Folds of parts, whose accumulators go to an index."""
        at = row_major(index, self.shape)
        stores = [
            tuple(Store(b, at, x) for b, x in zip(buffers, f.left, strict=True))
            for f, buffers in zip(self.folds, self.buffers, strict=True)
        ]
        return tuple(
            replace(f, stores=own) for f, own in zip(folds, stores, strict=True)
        )

    def read(self, index: tuple[IndexLike, ...]) -> tuple[Fold, ...]:
        """The folds of the accumulators at an index, with the results of the whole."""
        at, load = row_major(index, self.shape), self.builder.load_where
        inputs = [
            tuple(
                load(b, at, None, x.dtype) for b, x in zip(buffers, f.left, strict=True)
            )
            for f, buffers in zip(self.folds, self.buffers, strict=True)
        ]
        return tuple(
            replace(f, inputs=own) for f, own in zip(self.folds, inputs, strict=True)
        )


def _piece(kernel: Kernel, nest: LoopNest, target: Target) -> int:
    """How much of the first inner dim is a piece; all of it if not worth a split."""
    tuning = target.tuning
    extent = nest.dims[0].extent
    width = columns_at_once(kernel, target)
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
    if len(nest.dims) == 1 and not prefers_columns(kernel):
        multiple = tuning.fold_piece_multiple
        size = -(-size // multiple) * multiple
    return size
