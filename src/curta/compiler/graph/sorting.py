"""Sorts and selections as ops of the library: orders of keys, and what they move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final, cast

import numpy as np

from curta import dtypes
from curta.compiler.graph.rewriting import Context, Results, Rewriting, rewrites
from curta.compiler.graph.routines import LibraryOp
from curta.compiler.library.select import FirstIndices
from curta.compiler.library.sort import LARGEST, RowSort
from curta.compiler.library.sort_keys import kind_of
from curta.compiler.llvm import target
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, Eqn, Literal
from curta.core.op import Op
from curta.lazy_dataclass import dataclass
from curta.primitives.elementwise.complex import Imag, Real
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.factors import factors, kept
from curta.primitives.indexing.gather import Gather
from curta.primitives.indexing.numbers import GatherDimensionNumbers
from curta.primitives.relation import Avals, Factors
from curta.primitives.shape import Iota
from curta.primitives.slicing import Slice
from curta.primitives.sorting import Sort, TopK
from curta.primitives.structure import Reshape, Transpose

_INT32 = np.dtype("int32")


@dataclass(frozen=True)
class SortedRows(LibraryOp):
    """The rows along the last dim, each sorted."""

    name: ClassVar[str] = "sorted_rows"

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return avals[0]

    def eval(self, *args: Any) -> Any:
        return Sort(args[0].ndim - 1).eval(*args)[0]

    def routine(self, *avals: ShapedArray) -> RowSort:
        return _row_sort(avals, gives_order=False)


@dataclass(frozen=True)
class OrderOfRows(LibraryOp):
    """The indices, along the last dim, of the elements in order; of the least first.

    Later operands decide where earlier ones are equal. `descending` is the order of
    `top_k`, from the greatest down.
    """

    name: ClassVar[str] = "order_of_rows"
    descending: bool = False

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return ShapedArray(avals[0].shape, _INT32)

    def eval(self, *args: Any) -> Any:
        axis = args[0].ndim - 1
        if self.descending:
            return TopK(args[0].shape[axis], axis).eval(*args)[1]
        indices = np.broadcast_to(
            np.arange(args[0].shape[axis], dtype=_INT32), args[0].shape
        )
        return Sort(axis, num_keys=len(args)).eval(*args, indices)[-1]

    def routine(self, *avals: ShapedArray) -> RowSort:
        return _row_sort(avals, descending=self.descending)


@dataclass(frozen=True)
class GreatestOfRows(LibraryOp):
    """The indices, along the last dim, of the `count` greatest elements, as `top_k`."""

    name: ClassVar[str] = "greatest_of_rows"
    count: int

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return ShapedArray((*avals[0].shape[:-1], self.count), _INT32)

    def eval(self, *args: Any) -> Any:
        return TopK(self.count, args[0].ndim - 1).eval(*args)[1]

    def routine(self, *avals: ShapedArray) -> FirstIndices:
        return FirstIndices(*_rows(avals[0]), self.count, *_kinds(*avals))


@factors.register(SortedRows)
@factors.register(OrderOfRows)
@factors.register(GreatestOfRows)
def _rows_apart(op: Op, avals: Avals, outs: Avals) -> Factors:
    return kept(avals, outs, [avals[0].ndim - 1])


@rewrites(Sort)
def sort_by_library(eqn: Eqn, context: Context) -> Results | None:
    """sort x y -> x and y taken in the order of x."""
    op = cast(Sort, eqn.op)
    if not _fits(eqn.invars[0].aval, op.dimension):
        return None
    if any(isinstance(v, Literal) for v in eqn.invars):
        return None
    transposed = [_transposed(v, op.dimension, context) for v in eqn.invars]
    keys = [part for v in transposed[: op.num_keys] for part in _keys(v, context)]
    if any(kind_of(k.aval.dtype) is None for k in keys):
        return None
    if len(transposed) == 1 and keys == transposed:
        return [
            _transposed_back(context.apply(SortedRows(), *keys), op.dimension, context)
        ]
    order = context.apply(OrderOfRows(), *keys)
    return [
        _transposed_back(_taken(v, order, context), op.dimension, context)
        for v in transposed
    ]


def _fits(aval: ShapedArray, dimension: int) -> bool:
    return 1 < aval.shape[dimension] <= LARGEST and aval.size > 0


def _rows(aval: ShapedArray) -> tuple[int, int]:
    return math.prod(aval.shape[:-1]), aval.shape[-1]


def _row_sort(avals: Sequence[ShapedArray], **how: bool) -> RowSort:
    wide = target.host().vector_bytes == 64
    return RowSort(*_rows(avals[0]), _kinds(*avals), wide_vectors=wide, **how)


def _kinds(*avals: ShapedArray) -> tuple[str, ...]:
    return tuple(str(kind_of(a.dtype)) for a in avals)


def _keys(x: Atom, context: Context) -> list[Atom]:
    """Arrays of which there are keys, that together order as `x` does."""
    dtype = x.aval.dtype
    if dtypes.issubdtype(dtype, np.complexfloating):
        return [context.apply(Real(), x), context.apply(Imag(), x)]
    return [x]


def _transposed(x: Atom, dimension: int, context: Context) -> Atom:
    """`x` with a dim last."""
    rank = x.aval.ndim
    if dimension == rank - 1:
        return x
    order = (*(d for d in range(rank) if d != dimension), dimension)
    return context.apply(Transpose(order), x)


def _transposed_back(x: Atom, dimension: int, context: Context) -> Atom:
    rank = x.aval.ndim
    if dimension == rank - 1:
        return x
    order = [*range(rank - 1)]
    order.insert(dimension, rank - 1)
    return context.apply(Transpose(tuple(order)), x)


def _taken(x: Atom, indices: Atom, context: Context) -> Atom:
    """The elements of the rows of `x` at indices of them."""
    source = context.made_by(x, Iota)
    if source is not None and source.op.dimension == x.aval.ndim - 1:
        return _converted(indices, x.aval.dtype, context)
    rank = x.aval.ndim
    outer = tuple(range(rank - 1))
    numbers = GatherDimensionNumbers((), (rank - 1,), (rank - 1,), outer, outer)
    index = context.apply(Reshape((*indices.aval.shape, 1)), indices)
    return context.apply(Gather(numbers, (1,) * rank), x, index)


def _converted(x: Atom, dtype: Any, context: Context) -> Atom:
    return x if x.aval.dtype == dtype else context.apply(ConvertElementType(dtype), x)


@rewrites(TopK)
def top_k_by_library(eqn: Eqn, context: Context) -> Results | None:
    """top_k x -> x taken at the indices of the greatest."""
    op, (x,) = cast(TopK, eqn.op), eqn.invars
    if not op.k or not _fits(x.aval, op.axis):
        return None
    transposed = _transposed(x, op.axis, context)
    (key,) = _keys(transposed, context)
    if kind_of(key.aval.dtype) is None:
        return None
    if x.aval.shape[op.axis] <= max(config.tuning.sorted_by_insertion, 2 * op.k):
        order = context.apply(OrderOfRows(descending=True), key)
        shape = (*transposed.aval.shape[:-1], op.k)
        indices = context.apply(Slice((0,) * len(shape), shape, None), order)
    else:
        indices = context.apply(GreatestOfRows(op.k), key)
    return [
        _transposed_back(part, op.axis, context)
        for part in (_taken(transposed, indices, context), indices)
    ]


by_library: Final = Rewriting(sort_by_library, top_k_by_library)
