"""Ops that move elements and compute none, and those that are nothing in a program."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from curta.compiler.stablehlo.dims import dynamic_op
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, Rule, rule
from curta.compiler.stablehlo.types import (
    element_type,
    physical,
    tensor_type,
    with_element,
)
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.op import Op
from curta.primitives.barrier import OptimizationBarrier
from curta.primitives.effects import (
    AfterAll,
    CreateToken,
    Empty,
    Empty2,
    Stage,
)
from curta.primitives.elementwise.convert import Identity
from curta.primitives.joining import Concatenate, Split, Stack, Unstack
from curta.primitives.shape import Iota, Rev, Squeeze, Tile
from curta.primitives.slicing import Pad, Slice
from curta.primitives.structure import BroadcastInDim, Reshape, Transpose

# ------------------------------------------------- for the rules of all families


def broadcast_in_dim(
    b: BlockBuilder, x: HloValue, aval: ShapedArray, dims: Sequence[int]
) -> HloValue:
    """`x` with its dims at `dims` of `aval`."""
    type_ = tensor_type(aval)
    return b.op("broadcast_in_dim", [x], type_, broadcast_dimensions=tuple(dims))


def reshape(b: BlockBuilder, x: HloValue, aval: ShapedArray) -> HloValue:
    """`x` in the shape of `aval`."""
    return b.op("reshape", [x], tensor_type(aval))


def converted(b: BlockBuilder, x: HloValue, dtype: Any) -> HloValue:
    """`x` with elements of a dtype."""
    type_ = with_element(x.type, element_type(dtype))
    return x if x.type == type_ else b.op("convert", [x], type_)


def full(b: BlockBuilder, aval: ShapedArray, value: Any) -> HloValue:
    """A tensor of `aval` with every element `value`."""
    whole = physical(aval)
    scalar = b.constant(whole.dtype.type(value))
    return broadcast_in_dim(b, scalar, whole, ()) if whole.shape else scalar


def slice_of(
    b: BlockBuilder,
    x: HloValue,
    aval: ShapedArray,
    bounds: Sequence[tuple[int, int]],
    strides: Sequence[int] | None = None,
) -> HloValue:
    """The part of `x`, of `aval`, within bounds along its first dims."""
    starts, limits = [0] * aval.ndim, list(aval.shape)
    for d, (start, limit) in enumerate(bounds):
        starts[d], limits[d] = start, limit
    steps = [1] * aval.ndim if strides is None else list(strides)
    shape = tuple(
        -((lo - hi) // step) for lo, hi, step in zip(starts, limits, steps, strict=True)
    )
    type_ = tensor_type(ShapedArray(shape, aval.dtype))
    keys = ("start_indices", "limit_indices", "strides")
    return sized_op(b, "slice", [x], type_, dict(zip(keys, (starts, limits, steps))))


def sized_op(
    b: BlockBuilder,
    name: str,
    xs: Sequence[HloValue],
    type_: str,
    sizes: dict[str, Any],
) -> HloValue:
    """An operation whose attributes may be symbolic where its shape is not."""
    if any(is_symbolic_dim(d) for dims in sizes.values() for d in dims):
        result = dynamic_op(b, name, xs, type_, sizes)
        assert result is not None
        return result
    return b.op(name, xs, type_, **sizes)


def in_bytes(lower: Rule) -> Rule:
    """A rule for integers of two bits, too: in bytes, as compilers have no code."""

    def wrapped(b: BlockBuilder, op: Op, *xs: HloValue) -> Sequence[HloValue]:
        ins, outs = b.ins, b.outs
        b.ins, b.outs = tuple(map(_of_bytes, ins)), tuple(map(_of_bytes, outs))
        xs = tuple(converted(b, x, a.dtype) for x, a in zip(xs, b.ins, strict=True))
        result = lower(b, op, *xs)
        b.ins, b.outs = ins, outs
        values = [result] if isinstance(result, HloValue) else result
        return [converted(b, x, a.dtype) for x, a in zip(values, outs, strict=True)]

    def chosen(b: BlockBuilder, op: Op, *xs: HloValue) -> HloValue | Sequence[HloValue]:
        small = any(a.dtype in _BYTES for a in (*b.ins, *b.outs))
        return (wrapped if small else lower)(b, op, *xs)

    return chosen


_BYTES = {
    np.dtype(ml_dtypes.int2): np.dtype(np.int8),
    np.dtype(ml_dtypes.uint2): np.dtype(np.uint8),
}


def _of_bytes(aval: ShapedArray) -> ShapedArray:
    return ShapedArray(aval.shape, _BYTES.get(aval.dtype, aval.dtype))


# -------------------------------------------------------------- elements as they are


@rule(BroadcastInDim)
def _broadcast_in_dim(b: BlockBuilder, op: BroadcastInDim, x: HloValue) -> HloValue:
    return broadcast_in_dim(b, x, b.outs[0], op.broadcast_dimensions)


@rule(Reshape, Squeeze)
def _reshape(b: BlockBuilder, op: Op, x: HloValue) -> HloValue:
    return reshape(b, x, b.outs[0])


@rule(Transpose)
def _transpose(b: BlockBuilder, op: Transpose, x: HloValue) -> HloValue:
    return b.op("transpose", [x], b.out_type, permutation=op.permutation)


@rule(Rev)
def _reverse(b: BlockBuilder, op: Rev, x: HloValue) -> HloValue:
    return b.op("reverse", [x], b.out_type, dimensions=op.dimensions)


@rule(Tile)
def _tile(b: BlockBuilder, op: Tile, x: HloValue) -> HloValue:
    """A dim of size 1 before each, repeated, and joined with it."""
    (aval,) = b.ins
    split = [d for size in aval.shape for d in (1, size)]
    wide = [d for size, n in zip(aval.shape, op.reps, strict=True) for d in (n, size)]
    x = reshape(b, x, ShapedArray(tuple(split), aval.dtype))
    x = broadcast_in_dim(b, x, ShapedArray(tuple(wide), aval.dtype), range(len(wide)))
    return reshape(b, x, b.outs[0])


@rule(Slice)
def _slice(b: BlockBuilder, op: Slice, x: HloValue) -> HloValue:
    bounds = list(zip(op.start_indices, op.limit_indices, strict=True))
    return slice_of(b, x, b.ins[0], bounds, op.strides)


@rule(Pad)
def _pad(b: BlockBuilder, op: Pad, x: HloValue, value: HloValue) -> HloValue:
    config = op.padding_config
    sizes = {
        "edge_padding_low": [low for low, _, _ in config],
        "edge_padding_high": [high for _, high, _ in config],
        "interior_padding": [between for _, _, between in config],
    }
    return sized_op(b, "pad", [x, value], b.out_type, sizes)


@rule(Iota)
def _iota(b: BlockBuilder, op: Iota) -> HloValue:
    return b.op("iota", [], b.out_type, iota_dimension=op.dimension)


@rule(Concatenate)
def _concatenate(b: BlockBuilder, op: Concatenate, *xs: HloValue) -> HloValue:
    return b.op("concatenate", xs, b.out_type, dimension=op.dimension)


@rule(Stack)
def _stack(b: BlockBuilder, op: Stack, *xs: HloValue) -> HloValue:
    (out,) = b.outs
    shape = list(out.shape)
    shape[op.axis] = 1
    row = ShapedArray(tuple(shape), out.dtype)
    dims = [d for d in range(out.ndim) if d != op.axis]
    rows = [broadcast_in_dim(b, x, row, dims) for x in xs]
    return b.op("concatenate", rows, b.out_type, dimension=op.axis)


@rule(Split)
def _split(b: BlockBuilder, op: Split, x: HloValue) -> Sequence[HloValue]:
    ends = itertools.accumulate(op.sizes)
    return [
        _along(b, x, b.ins[0], op.axis, end - size, end)
        for size, end in zip(op.sizes, ends, strict=True)
    ]


@rule(Unstack)
def _unstack(b: BlockBuilder, op: Unstack, x: HloValue) -> Sequence[HloValue]:
    rows = [_along(b, x, b.ins[0], op.axis, i, i + 1) for i in range(len(b.outs))]
    return [reshape(b, row, a) for row, a in zip(rows, b.outs, strict=True)]


def _along(
    b: BlockBuilder, x: HloValue, aval: ShapedArray, axis: int, start: int, limit: int
) -> HloValue:
    bounds = [(0, d) for d in aval.shape]
    bounds[axis] = start, limit
    return slice_of(b, x, aval, bounds)


# ------------------------------------------------------------- no part of a program


@rule(Identity, Stage, keys=True)
def _identity(b: BlockBuilder, op: Op, x: HloValue) -> HloValue:
    return x


@rule(OptimizationBarrier, keys=True)
def _barrier(b: BlockBuilder, op: Op, *xs: HloValue) -> Sequence[HloValue]:
    return barrier(b, xs)


def barrier(b: BlockBuilder, xs: Sequence[HloValue]) -> Sequence[HloValue]:
    """The values, past which nothing is moved."""
    if not xs:
        return []
    return b.emit("stablehlo.optimization_barrier", xs, [x.type for x in xs])


@rule(Empty, Empty2, CreateToken, AfterAll)
def _zeros(b: BlockBuilder, op: Op, *xs: HloValue) -> HloValue:
    # A token is a value that says nothing; what orders effects is the order of ops.
    return full(b, b.outs[0], 0)
