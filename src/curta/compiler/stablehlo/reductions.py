"""Reductions over dims, and cumulative ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.compiler.stablehlo.elementwise import compare
from curta.compiler.stablehlo.ir import HloBlock, HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, rule
from curta.compiler.stablehlo.regions import jaxpr_region, op_region, region, scalars
from curta.compiler.stablehlo.scalars import compare_type
from curta.compiler.stablehlo.shape import converted, in_bytes
from curta.compiler.stablehlo.types import tensor_type
from curta.control.reduction import Reduce
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.families import Reduction
from curta.primitives.monoids import PROD, SUM
from curta.primitives.reduction import ELEMENT_OPS, ArgReduction


def reduce(
    b: BlockBuilder,
    xs: Sequence[HloValue],
    inits: Sequence[HloValue],
    dims: Sequence[int],
    types: Sequence[str],
    combine: HloBlock,
) -> list[HloValue]:
    """The values reduced over dims by a region."""
    operands = [*xs, *inits]
    return b.emit(
        "stablehlo.reduce", operands, types, [combine], dimensions=tuple(dims)
    )


def in_working_dtype(
    b: BlockBuilder,
    x: HloValue,
    aval: ShapedArray,
    fold: Callable[[HloValue, Any], HloValue],
) -> HloValue:
    """`fold(x, dtype)` in the dtype that sums of `x` are computed in.

    Floats of up to two bytes are widened, so that a sum of many is not stuck where
    the next one is less than half of its last bit.
    """
    working = dtypes.working_dtype(aval.dtype)
    if working == aval.dtype:
        return fold(x, working)
    result = fold(converted(b, x, working), working)
    wide = ShapedArray(b.outs[0].shape, working)
    return b.apply(ConvertElementType(aval.dtype, False), [wide], result)[0]


@rule(Reduction)
def _reduction(b: BlockBuilder, op: Reduction, x: HloValue) -> HloValue:
    combine = ELEMENT_OPS[op.monoid]

    def fold(x: HloValue, dtype: Any) -> HloValue:
        init = b.constant(op.identity(dtype))
        type_ = tensor_type(ShapedArray(b.outs[0].shape, dtype))
        body = b.program.kept((combine, dtype), lambda: op_region(b, combine, dtype))
        return reduce(b, [x], [init], op.axes, [type_], body)[0]

    if op.monoid in (SUM, PROD):
        return in_working_dtype(b, x, b.ins[0], fold)
    return fold(x, b.ins[0].dtype)


@rule(Reduce)
def _reduce(b: BlockBuilder, op: Reduce, *args: HloValue) -> Sequence[HloValue]:
    count = len(args) // 2
    body = jaxpr_region(b, op.function)
    return reduce(b, args[:count], args[count:], op.dimensions, b.out_types, body)


# --------------------------------------------------------------  indices of extrema


@rule(ArgReduction)
@in_bytes
def _arg_reduction(
    b: BlockBuilder, op: ArgReduction, x: HloValue
) -> Sequence[HloValue]:
    return b.outlined(op, lambda inner, x: [_index(inner, op, x)], [x])


def _index(b: BlockBuilder, op: ArgReduction, x: HloValue) -> HloValue:
    """Reduce pairs of an element and its index."""
    ((aval,), (out,), (axis,)) = b.ins, b.outs, op.axes
    dtype = _counting(out.dtype, aval.shape[axis])
    indices = b.op(
        "iota",
        [],
        tensor_type(ShapedArray(aval.shape, dtype)),
        iota_dimension=axis,
    )
    inits = [b.constant(op.identity(aval.dtype)), b.constant(dtype.type(0))]
    types = [tensor_type(ShapedArray(out.shape, d)) for d in (aval.dtype, dtype)]
    body = _better_pair(b, op, aval.dtype, dtype)
    index = reduce(b, [x, indices], inits, [axis], types, body)[1]
    return converted(b, index, out.dtype)


def _counting(dtype: Any, size: Any) -> Any:
    """The dtype in which indices below `size` are compared, to be `dtype` then.

    One that is too narrow would have the last of equal elements be the first. XLA ends
    the process in programs for GPUs where indices are smaller than a byte.
    """
    if is_symbolic_dim(size):
        return dtype
    info = dtypes.iinfo(dtype)
    if size - 1 <= info.max and info.bits >= 8:
        return dtype
    return np.dtype(np.int32 if size <= 1 << 31 else np.int64)


def _better_pair(
    b: BlockBuilder, op: ArgReduction, dtype: Any, index_dtype: Any
) -> HloBlock:
    """The pair of the better element: NaN is best, and the first of equal ones."""
    pair = scalars(dtype, index_dtype)
    kind, index_kind = [compare_type(a) for a in pair]

    def write(
        inner: BlockBuilder, x: HloValue, i: HloValue, y: HloValue, j: HloValue
    ) -> Sequence[HloValue]:
        def either(name: str, first: HloValue, second: HloValue) -> HloValue:
            return inner.op(name, [first, second], first.type)

        better = compare(inner, op.better.upper(), x, y, kind=kind)
        better = either("or", better, compare(inner, "NE", x, x, kind=kind))
        same = compare(inner, "EQ", x, y, kind=kind)
        first = either("and", same, compare(inner, "LT", i, j, kind=index_kind))
        first = either("or", better, first)
        element = inner.op("select", [better, x, y], x.type)
        return [element, inner.op("select", [first, i, j], i.type)]

    return region(b, [*pair, *pair], write)
