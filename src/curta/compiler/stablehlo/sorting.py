"""Sorting, and the greatest elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.compiler.stablehlo.elementwise import compare
from curta.compiler.stablehlo.ir import HloBlock, HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, rule
from curta.compiler.stablehlo.regions import region, scalars
from curta.compiler.stablehlo.scalars import compare_type
from curta.compiler.stablehlo.shape import in_bytes, slice_of
from curta.compiler.stablehlo.types import tensor_type
from curta.core.avals import ShapedArray
from curta.primitives.sorting import Sort, TopK


def sort(
    b: BlockBuilder, xs: Sequence[HloValue], axis: int, stable: bool, before: HloBlock
) -> list[HloValue]:
    """The values reordered along an axis, by a region that compares."""
    types = [x.type for x in xs]
    attributes = {"dimension": axis, "is_stable": stable}
    return b.emit("stablehlo.sort", xs, types, [before], **attributes)


@rule(Sort)
@in_bytes
def _sort(b: BlockBuilder, op: Sort, *xs: HloValue) -> Sequence[HloValue]:
    ins = b.ins

    def write(inner: BlockBuilder, *args: HloValue) -> HloValue:
        sides = [
            [
                part
                for x, aval in zip(args[side::2], ins[: op.num_keys], strict=False)
                for part in _parts(inner, x, aval.dtype)
            ]
            for side in range(2)
        ]
        return _lexicographic(inner, *sides)

    before = region(b, scalars(*(a.dtype for a in ins for _ in range(2))), write)
    return sort(b, xs, op.dimension, op.is_stable, before)


def _parts(b: BlockBuilder, x: HloValue, dtype: Any) -> list[tuple[HloValue, str]]:
    """The numbers that a key is compared by, in turn, and how."""
    if dtype.kind != "c":
        return [_ordered(b, x, dtype)]
    part = dtypes.finfo(dtype).dtype
    type_ = tensor_type(ShapedArray((), part))
    return [_ordered(b, b.op(name, [x], type_), part) for name in ("real", "imag")]


def _ordered(b: BlockBuilder, x: HloValue, dtype: Any) -> tuple[HloValue, str]:
    """A number in whose total order -0 is 0, and NaN of any sign is last."""
    kind = compare_type(ShapedArray((), dtype))
    if kind != "FLOAT":
        return x, kind
    zero = b.constant(dtype.type(0))
    is_zero = compare(b, "EQ", x, zero, kind=kind)
    result = b.op("select", [is_zero, b.constant(dtype.type(0)), x], x.type)
    is_nan = compare(b, "NE", x, x, kind=kind)
    nan = b.constant(dtype.type(np.nan))
    return b.op("select", [is_nan, nan, result], x.type), "TOTALORDER"


def _lexicographic(
    b: BlockBuilder,
    xs: Sequence[tuple[HloValue, str]],
    ys: Sequence[tuple[HloValue, str]],
) -> HloValue:
    """Whether the first numbers come before the second ones."""
    result = None
    for (x, kind), (y, _) in reversed(list(zip(xs, ys, strict=True))):
        less = compare(b, "LT", x, y, kind=kind)
        if result is not None:
            same = compare(b, "EQ", x, y, kind=kind)
            tied = b.op("and", [same, result], result.type)
            less = b.op("or", [less, tied], result.type)
        result = less
    assert result is not None
    return result


@rule(TopK)
@in_bytes
def _top_k(b: BlockBuilder, op: TopK, x: HloValue) -> Sequence[HloValue]:
    """A sort of pairs of an element and its index, cut: compilers know the pattern."""
    (aval,), axis = b.ins, op.axis % b.ins[0].ndim
    index = np.dtype(np.int32)
    all_indices = ShapedArray(aval.shape, index)
    indices = b.op("iota", [], tensor_type(all_indices), iota_dimension=axis)
    kind = compare_type(aval)

    def write(
        inner: BlockBuilder, x: HloValue, y: HloValue, i: HloValue, j: HloValue
    ) -> HloValue:
        order = "TOTALORDER" if kind == "FLOAT" else kind
        return compare(inner, "GT", x, y, kind=order)

    dtype = aval.dtype
    before = region(b, scalars(dtype, dtype, index, index), write)
    sorted_ = sort(b, [x, indices], axis, True, before)
    bounds = [(0, d) for d in aval.shape]
    bounds[axis] = 0, op.k
    return [
        slice_of(b, result, a, bounds)
        for result, a in zip(sorted_, (aval, all_indices), strict=True)
    ]
