"""Scatters that are something else: one addition to each row is a map.

Many additions to few elements go in pieces that threads share out.
The updates are cut into pieces by their number alone. Each piece adds to zeros of its
own, and these sums are added up in order. Their zeros are -0.0, which changes nothing
that it is added to. Where an element has many terms on average, they are added up in
float64. Both follow from shapes and dtype alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from curta import dtypes
from curta.compiler.rewrite.inline import Function
from curta.compiler.rewrite.rewriting import Context, Results, rewrites
from curta.compiler.targets import Target, Tuning
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import Eqn
from curta.core.trace import typeof
from curta.primitives.elementwise.arithmetic import add
from curta.primitives.elementwise.comparison import eq
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.elementwise.select import SelectN
from curta.primitives.indexing.gather import ScatterAdd
from curta.primitives.indexing.numbers import (
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from curta.primitives.shape import Iota
from curta.primitives.slicing import Slice
from curta.primitives.structure import BroadcastInDim, Reshape, exact_scalar


def many_to_few(
    op: ScatterAdd, avals: Sequence[ShapedArray], target: Target
) -> Function | None:
    """scatter-add x i u -> x + the sums of pieces of u, if many are added to few.

    Sums of many terms are wide.
    """
    (x, _, given), tuning = avals, target.tuning
    if any(map(is_symbolic_dim, (*x.shape, *given.shape))) or not x.size:
        return None
    wide = dtypes.summing_dtype(x.dtype) if isinstance(x.dtype, np.dtype) else x.dtype
    many = 4 * tuning.scatter_per_element
    if given.size < many * x.size or wide == x.dtype:
        return _in_pieces(op, avals, tuning)

    def run(x: Any, indices: Any, updates: Any) -> list[Any]:
        narrow = ConvertElementType(avals[0].dtype)
        x, updates = (ConvertElementType(wide)(v) for v in (x, updates))
        types = [typeof(v) for v in (x, indices, updates)]
        total = (_in_pieces(op, types, tuning) or _at_once(op))(x, indices, updates)[0]
        return [narrow(total)]

    return run


def _at_once(op: ScatterAdd) -> Function:
    return lambda *args: [op(*args)]


def _in_pieces(
    op: ScatterAdd, avals: Sequence[ShapedArray], tuning: Tuning
) -> Function | None:
    """The sums of pieces, each in the order of its terms, added up in order."""
    x, _, given = avals
    if not _adds_rows(op, *avals) or is_symbolic_dim(given.shape[0]):
        return None  # pieces have a static number of updates
    count, row, rows = given.shape[0], given.shape[1:], x.shape[0]
    pieces = tuning.scatter_pieces
    while pieces > 1 and count < tuning.scatter_per_element * pieces * rows:
        pieces //= 2
    if pieces == 1 or given.size < tuning.scatter_pieces_work:
        return None
    each = count // pieces
    whole = pieces * each

    def run(total: Any, indices: Any, updates: Any) -> list[Any]:
        sums = _of_pieces(op, len(row))(
            _zeros((pieces, *x.shape), x.dtype),
            Reshape((pieces, each, 1))(_cut(indices, 0, whole)),
            Reshape((pieces, each, *row))(_cut(updates, 0, whole)),
        )
        for i in range(pieces):
            total = add(total, Reshape(x.shape)(_cut(sums, i, i + 1)))
        if whole < count:
            total = op(total, *(_cut(v, whole, count) for v in (indices, updates)))
        return [total]

    return run


def _adds_rows(
    op: ScatterAdd, x: ShapedArray, indices: ShapedArray, updates: ShapedArray
) -> bool:
    """Whether each index says to which row (or element) one of the updates goes."""
    numbers = op.dimension_numbers
    return (
        indices.ndim == 2
        and isinstance(x.dtype, np.dtype)
        and x.size > 0
        and updates.ndim == x.ndim
        and updates.shape[1:] == x.shape[1:]
        and numbers.update_window_dims == tuple(range(1, x.ndim))
        and numbers.inserted_window_dims == (0,)
        and numbers.scatter_dims_to_operand_dims == (0,)
    )


def _of_pieces(op: ScatterAdd, row_rank: int) -> ScatterAdd:
    """The same op with a leading dim of pieces everywhere."""
    numbers = ScatterDimensionNumbers(
        update_window_dims=tuple(range(2, 2 + row_rank)),
        inserted_window_dims=(1,),
        scatter_dims_to_operand_dims=(1,),
        operand_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
    )
    return dataclasses.replace(op, dimension_numbers=numbers)


def _zeros(shape: tuple[int, ...], dtype: np.dtype) -> Any:
    inexact = dtypes.issubdtype(dtype, np.inexact)
    return BroadcastInDim(shape, ())(exact_scalar(-0.0 if inexact else 0, dtype))


def _cut(x: Any, start: int, stop: int) -> Any:
    """The slices of `x` from `start` to `stop` along dim 0."""
    shape = typeof(x).shape
    if (start, stop) == (0, shape[0]):
        return x
    zeros = (0,) * (len(shape) - 1)
    return Slice((start, *zeros), (stop, *shape[1:]), None)(x)


@rewrites(ScatterAdd)
def add_one_to_each_row(eqn: Eqn, context: Context) -> Results | None:
    """scatter-add x i u -> where(iota == i, x + u, x), for rows of one number.

    All of these must be written anyway, and whatever reads them finds them so: the
    gradient of the logarithm of a probability, say, which labels choose.
    """
    x, indices, updates = eqn.invars
    splat = context.made_by(x, BroadcastInDim)
    if splat is None or splat.invars[0].aval.shape or not _is_one_a_row(eqn):
        return None
    shape, last = x.aval.shape, x.aval.ndim - 1
    index = context.apply(Reshape(shape[:-1]), indices)
    if index.aval.dtype.itemsize < 4:
        index = context.apply(ConvertElementType(np.dtype(np.int32)), index)
    column = context.apply(Iota(index.aval.dtype, shape, last))
    spread = BroadcastInDim(shape, tuple(range(last)))
    here = context.apply(eq, column, context.apply(spread, index))
    update = context.apply(spread, context.apply(Reshape(shape[:-1]), updates))
    return [context.apply(SelectN(), here, x, context.apply(add, x, update))]


def _is_one_a_row(eqn: Eqn) -> bool:
    """Whether each row of the last dim has an update of one element, or none."""
    op, (x, _, updates) = cast(ScatterAdd, eqn.op), (v.aval for v in eqn.invars)
    numbers, last = op.dimension_numbers, x.ndim - 1
    rows = tuple(range(last))
    if any(map(is_symbolic_dim, x.shape)) or x.placement is not None:
        return False
    return (
        op.mode is not GatherScatterMode.CLIP  # others drop what is out of bounds
        and x.size > 0
        and updates.size * x.shape[-1] == x.size
        and numbers.update_window_dims == ()
        and numbers.inserted_window_dims == (last,)
        and numbers.scatter_dims_to_operand_dims == (last,)
        and numbers.operand_batching_dims == rows
        and numbers.scatter_indices_batching_dims == rows
        and isinstance(x.dtype, np.dtype)
    )
