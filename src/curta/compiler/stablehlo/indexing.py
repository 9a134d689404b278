"""Reading and writing windows of arrays at starts that are data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.compiler.stablehlo.attributes import RawAttribute, commas
from curta.compiler.stablehlo.dims import number_constant, vector
from curta.compiler.stablehlo.elementwise import compare
from curta.compiler.stablehlo.ir import HloBlock, HloValue
from curta.compiler.stablehlo.lowering import (
    BlockBuilder,
    lower_closed,
    number_type,
    rule,
)
from curta.compiler.stablehlo.reductions import reduce
from curta.compiler.stablehlo.regions import op_region, region, scalars
from curta.compiler.stablehlo.scalars import compare_type
from curta.compiler.stablehlo.shape import broadcast_in_dim, converted, full, reshape
from curta.compiler.stablehlo.types import element_type, tensor_type, with_element
from curta.control.scatter_apply import ScatterApply
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.primitives.elementwise.bitwise import and_
from curta.primitives.indexing.dynamic import DynamicSlice, DynamicUpdateSlice
from curta.primitives.indexing.gather import Gather, ScatterAdd, Scattering
from curta.primitives.indexing.numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    window_sizes,
)
from curta.primitives.indexing.scatter import ScatterSub

FILL_OR_DROP, CLIP = GatherScatterMode.FILL_OR_DROP, GatherScatterMode.CLIP

# --------------------------------------------------------------------- one window


@rule(DynamicSlice)
def _dynamic_slice(
    b: BlockBuilder, op: DynamicSlice, x: HloValue, *starts: HloValue
) -> HloValue:
    sizes = op.slice_sizes
    if any(map(is_symbolic_dim, sizes)):
        return _sized_slice(b, x, starts, sizes)
    return b.op("dynamic_slice", [x, *starts], b.out_type, slice_sizes=sizes)


def _sized_slice(
    b: BlockBuilder, x: HloValue, starts: Sequence[HloValue], sizes: Sequence[Any]
) -> HloValue:
    """A slice of a size that is a number of the program."""
    aval, (first, *_) = b.ins[0], b.ins[1:]
    index = ShapedArray((len(starts),), first.dtype)
    one = ShapedArray((1,), first.dtype)
    parts = [reshape(b, start, one) for start in starts]
    start = b.op("concatenate", parts, tensor_type(index), dimension=0)
    last = _limits(b, _last_starts(aval.shape, sizes), first.dtype)
    start = b.op("clamp", [full(b, index, 0), start, last], start.type)
    length = _limits(b, sizes, first.dtype)
    limit = b.op("add", [start, length], start.type)
    operands = [x, start, limit, b.constant(np.ones(len(starts), first.dtype))]
    return b.emit("stablehlo.real_dynamic_slice", operands, [b.out_type])[0]


@rule(DynamicUpdateSlice)
def _dynamic_update_slice(
    b: BlockBuilder,
    op: DynamicUpdateSlice,
    x: HloValue,
    update: HloValue,
    *starts: HloValue,
) -> HloValue:
    return b.op("dynamic_update_slice", [x, update, *starts], b.out_type)


# -------------------------------------------------------------------------- gather


def _numbers_attribute(kind: str, entries: Sequence[tuple[str, Any]]) -> RawAttribute:
    """`#stablehlo.gather<...>`: what is empty or zero is left out, as MLIR does."""
    shown = [
        f"{name} = {value if isinstance(value, int) else f'[{commas(value)}]'}"
        for name, value in entries
        if value
    ]
    return RawAttribute(f"#stablehlo.{kind}<{', '.join(shown)}>")


@rule(Gather)
def _gather(b: BlockBuilder, op: Gather, x: HloValue, indices: HloValue) -> HloValue:
    numbers, (aval, starts) = op.dimension_numbers, b.ins
    inside = None
    if op.mode is FILL_OR_DROP:
        dims = numbers.start_index_map
        last = _last_starts(aval.shape, op.slice_sizes)
        inside = _are_inside(b, indices, starts, [last[d] for d in dims])
    result = b.op(
        "gather",
        [x, indices],
        b.out_type,
        dimension_numbers=_numbers_attribute(
            "gather",
            [
                ("offset_dims", numbers.offset_dims),
                ("collapsed_slice_dims", numbers.collapsed_slice_dims),
                ("operand_batching_dims", numbers.operand_batching_dims),
                ("start_indices_batching_dims", numbers.start_indices_batching_dims),
                ("start_index_map", numbers.start_index_map),
                ("index_vector_dim", starts.ndim - 1),
            ],
        ),
        slice_sizes=op.slice_sizes,
        indices_are_sorted=op.indices_are_sorted,
    )
    if inside is None:
        return result
    (out,) = b.outs
    mask = ShapedArray(out.shape, np.dtype(bool))
    batch = [d for d in range(out.ndim) if d not in numbers.offset_dims]
    inside = broadcast_in_dim(b, inside, mask, batch)
    fill = full(b, out, op.fill_value)
    return b.op("select", [inside, result, fill], b.out_type)


def _last_starts(shape: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
    """The last starts along each dim where windows of `sizes` may start."""
    return [d - size for d, size in zip(shape, sizes, strict=True)]


def _limits(b: BlockBuilder, dims: Sequence[Any], dtype: Any) -> HloValue:
    """Sizes or starts as a tensor of rank 1.

    Where one is more than the dtype of indices holds, all indices are less.
    """
    least, most = int(dtypes.iinfo(dtype).min), int(dtypes.iinfo(dtype).max)
    if not any(map(is_symbolic_dim, dims)):
        return b.constant(np.array([min(max(d, least), most) for d in dims], dtype))
    result = vector(b, dims)
    if dtypes.itemsize_bits(dtype) < 32:
        limit = number_constant(b, most, number_type())
        whole = b.op("broadcast_in_dim", [limit], result.type, broadcast_dimensions=())
        result = b.op("minimum", [result, whole], result.type)
    return converted(b, result, dtype)


def _are_inside(
    b: BlockBuilder, indices: HloValue, starts: ShapedArray, last: Sequence[Any]
) -> HloValue:
    """Whether the windows are within the operand, for each index vector."""
    kind, deep = compare_type(starts), starts.ndim - 1
    limits = _limits(b, last, starts.dtype)
    low = full(b, starts, 0)
    after = compare(b, "GE", indices, low, kind=kind)
    limits = broadcast_in_dim(b, limits, starts, (deep,))
    before = compare(b, "LE", indices, limits, kind=kind)
    each = b.op("and", [after, before], after.type)
    type_ = tensor_type(ShapedArray(starts.shape[:-1], np.dtype(bool)))
    every = op_region(b, and_, np.dtype(bool))
    return reduce(b, [each], [b.constant(np.True_)], [deep], [type_], every)[0]


# ------------------------------------------------------------------------- scatter


@rule(Scattering)
def _scatter(
    b: BlockBuilder, op: Any, x: HloValue, indices: HloValue, updates: HloValue
) -> HloValue:
    dtype = b.ins[0].dtype
    sums = isinstance(op, (ScatterAdd, ScatterSub))
    if sums and dtype == np.complex128 and {*b.program.platforms} & {"cuda", "rocm"}:
        return _scatter_parts(b, op, x, indices, updates)
    return scatter(b, op, x, indices, updates, _combining(b, op, dtype))


def _combining(b: BlockBuilder, op: Any, dtype: Any) -> HloBlock:
    if op.element_op is None:  # the update replaces what was there
        return region(b, scalars(dtype, dtype), lambda inner, old, new: new)
    return op_region(b, op.element_op, dtype)


def _scatter_parts(
    b: BlockBuilder, op: Any, x: HloValue, indices: HloValue, updates: HloValue
) -> HloValue:
    """Sums of complex numbers part by part: GPUs add no 16 bytes at once."""
    ins, outs, part = b.ins, b.outs, np.dtype(np.float64)
    element = element_type(part)
    result = []
    for name in "real", "imag":
        given = [b.op(name, [v], with_element(v.type, element)) for v in (x, updates)]
        operand, starts, values = ins
        operand, values = (ShapedArray(a.shape, part) for a in (operand, values))
        b.ins, b.outs = (operand, starts, values), (operand,)
        combine = _combining(b, op, part)
        result.append(scatter(b, op, given[0], indices, given[1], combine))
    b.ins, b.outs = ins, outs
    return b.op("complex", result, b.out_type)


@rule(ScatterApply)
def _scatter_apply(
    b: BlockBuilder, op: ScatterApply, x: HloValue, indices: HloValue, updates: HloValue
) -> HloValue:
    def write(inner: BlockBuilder, old: HloValue, new: HloValue) -> Sequence[HloValue]:
        return lower_closed(inner, op.function, [old, new])

    combine = region(b, op.function.in_avals, write)
    return scatter(b, op, x, indices, updates, combine)


def scatter(
    b: BlockBuilder,
    op: Any,
    x: HloValue,
    indices: HloValue,
    updates: HloValue,
    combine: HloBlock,
) -> HloValue:
    """`x` with the updates combined into it by a region."""
    numbers: ScatterDimensionNumbers = op.dimension_numbers
    aval, starts, given = b.ins
    if op.mode is CLIP:
        gathered = GatherDimensionNumbers(*numbers)
        sizes = window_sizes(gathered, given.shape, aval.ndim)
        dims = numbers.scatter_dims_to_operand_dims
        last = _last_starts(aval.shape, sizes)
        indices = _clipped(b, indices, starts, [last[d] for d in dims])
    (result,) = b.emit(
        "stablehlo.scatter",
        [x, indices, updates],
        [b.out_type],
        [combine],
        scatter_dimension_numbers=_numbers_attribute(
            "scatter",
            [
                ("update_window_dims", numbers.update_window_dims),
                ("inserted_window_dims", numbers.inserted_window_dims),
                ("input_batching_dims", numbers.operand_batching_dims),
                (
                    "scatter_indices_batching_dims",
                    numbers.scatter_indices_batching_dims,
                ),
                (
                    "scatter_dims_to_operand_dims",
                    numbers.scatter_dims_to_operand_dims,
                ),
                ("index_vector_dim", starts.ndim - 1),
            ],
        ),
        indices_are_sorted=op.indices_are_sorted,
        unique_indices=op.unique_indices,
    )
    return result


def _clipped(
    b: BlockBuilder, indices: HloValue, starts: ShapedArray, last: Sequence[Any]
) -> HloValue:
    limits = _limits(b, last, starts.dtype)
    limits = broadcast_in_dim(b, limits, starts, (starts.ndim - 1,))
    return b.op("clamp", [full(b, starts, 0), indices, limits], indices.type)
