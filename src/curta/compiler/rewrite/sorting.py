"""Sorts and selections as ops of the library: orders of keys, and what they move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.compiler.library.select import FirstIndices
from curta.compiler.library.sort import LARGEST, RowSort
from curta.compiler.library.sort_keys import kind_of
from curta.compiler.rewrite.inline import Function
from curta.compiler.rewrite.library_op import LibraryOp
from curta.compiler.targets import Target
from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.core.trace import typeof
from curta.primitives.elementwise.complex import imag, real
from curta.primitives.factors import factors, kept
from curta.primitives.indexing.gather import Gather
from curta.primitives.indexing.numbers import GatherDimensionNumbers
from curta.primitives.linalg.matrices import columns
from curta.primitives.relation import Avals, Factors
from curta.primitives.sorting import Sort, TopK
from curta.primitives.structure import Reshape, move_dim

_INT32 = np.dtype("int32")


@dataclass(frozen=True)
class SortedRows(LibraryOp):
    """The rows along the last dim, each sorted."""

    name: ClassVar[str] = "sorted_rows"

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return avals[0]

    def eval(self, *args: Any) -> Any:
        return Sort(args[0].ndim - 1).eval(*args)[0]

    def routine(self, target: Target, *avals: ShapedArray) -> RowSort:
        return _row_sort(target, avals, gives_order=False)


@dataclass(frozen=True)
class OrderOfRows(LibraryOp):
    """The indices, along the last dim, of the elements in order; of the least first.

    Later operands decide where earlier ones are equal. `descending` is the order of
    `top_k`, from the greatest down.
    """

    name: ClassVar[str] = "order_of_rows"
    orders_rows: ClassVar[bool] = True
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

    def routine(self, target: Target, *avals: ShapedArray) -> RowSort:
        return _row_sort(target, avals, descending=self.descending)


@dataclass(frozen=True)
class GreatestOfRows(LibraryOp):
    """The indices, along the last dim, of the `count` greatest elements, as `top_k`."""

    name: ClassVar[str] = "greatest_of_rows"
    orders_rows: ClassVar[bool] = True
    count: int

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return ShapedArray((*avals[0].shape[:-1], self.count), _INT32)

    def eval(self, *args: Any) -> Any:
        return TopK(self.count, args[0].ndim - 1).eval(*args)[1]

    def routine(self, target: Target, *avals: ShapedArray) -> FirstIndices:
        return FirstIndices(
            *_rows(avals[0]), self.count, *_kinds(*avals), tuning=target.tuning
        )


@factors.register(SortedRows)
@factors.register(OrderOfRows)
@factors.register(GreatestOfRows)
def _rows_apart(op: Op, avals: Avals, outs: Avals) -> Factors:
    return kept(avals, outs, [avals[0].ndim - 1])


def sorted_by_library(op: Sort, avals: Sequence[ShapedArray]) -> Function | None:
    """sort x y -> x and y taken in the order of x."""
    dim, last = op.dimension, avals[0].ndim - 1
    if not _fits(avals[0], dim) or not all(map(_has_keys, avals[: op.num_keys])):
        return None

    def run(*xs: Any) -> list[Any]:
        rows = [move_dim(x, dim, last) for x in xs]
        keys = [part for x in rows[: op.num_keys] for part in _keys(x)]
        if len(rows) == len(keys) == 1:
            return [move_dim(SortedRows()(*keys), last, dim)]
        order = OrderOfRows()(*keys)
        return [move_dim(_taken(x, order), last, dim) for x in rows]

    return run


def top_k_by_library(
    op: TopK, avals: Sequence[ShapedArray], target: Target
) -> Function | None:
    """top_k x -> x taken at the indices of the greatest."""
    (aval,) = avals
    last, size = aval.ndim - 1, aval.shape[op.axis]
    if not op.k or not _fits(aval, op.axis) or kind_of(aval.dtype) is None:
        return None

    def run(x: Any) -> list[Any]:
        rows = move_dim(x, op.axis, last)
        if size <= max(target.tuning.sorted_by_insertion, 2 * op.k):
            indices = columns(OrderOfRows(descending=True)(rows), 0, op.k)
        else:
            indices = GreatestOfRows(op.k)(rows)
        return [move_dim(y, last, op.axis) for y in (_taken(rows, indices), indices)]

    return run


def _fits(aval: ShapedArray, dimension: int) -> bool:
    return 1 < aval.shape[dimension] <= LARGEST and aval.size > 0


def _has_keys(aval: ShapedArray) -> bool:
    """Whether there are keys that order as the elements do."""
    is_complex = dtypes.issubdtype(aval.dtype, np.complexfloating)
    return is_complex or kind_of(aval.dtype) is not None


def _keys(x: Any) -> list[Any]:
    """Arrays of which there are keys, that together order as `x` does."""
    is_complex = dtypes.issubdtype(typeof(x).dtype, np.complexfloating)
    return [real(x), imag(x)] if is_complex else [x]


def _rows(aval: ShapedArray) -> tuple[int, int]:
    return math.prod(aval.shape[:-1]), aval.shape[-1]


def _row_sort(target: Target, avals: Sequence[ShapedArray], **how: bool) -> RowSort:
    wide = target.vector_bytes == 64
    return RowSort(
        *_rows(avals[0]), _kinds(*avals), wide_vectors=wide, tuning=target.tuning, **how
    )


def _kinds(*avals: ShapedArray) -> tuple[str, ...]:
    return tuple(str(kind_of(a.dtype)) for a in avals)


def _taken(x: Any, indices: Any) -> Any:
    """The elements of the rows of `x` at indices of them (`order_of_iota`)."""
    rank = typeof(x).ndim
    outer = tuple(range(rank - 1))
    numbers = GatherDimensionNumbers((), (rank - 1,), (rank - 1,), outer, outer)
    index = Reshape((*typeof(indices).shape, 1))(indices)
    return Gather(numbers, (1,) * rank)(x, index)
