"""Reductions over windows that slide, cumulative reductions, choices of windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.compiler.stablehlo.attributes import RawAttribute
from curta.compiler.stablehlo.constants import dense
from curta.compiler.stablehlo.elementwise import compare
from curta.compiler.stablehlo.ir import HloBlock, HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, lower_closed, rule
from curta.compiler.stablehlo.reductions import in_working_dtype
from curta.compiler.stablehlo.regions import jaxpr_region, op_region, region, scalars
from curta.compiler.stablehlo.scalars import compare_type
from curta.compiler.stablehlo.shape import slice_of
from curta.compiler.stablehlo.types import tensor_type
from curta.control.reduction import ReduceWindow, SelectAndScatter
from curta.control.scan import Scan
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import stage
from curta.primitives.cumulative import CumLogSumExp, CumProd, CumSum, Cumulative
from curta.primitives.elementwise.arithmetic import add
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.monoids import SUM
from curta.primitives.reduction import ELEMENT_OPS
from curta.primitives.structure import full, move_dim, reshape
from curta.primitives.windowed.reductions import WindowReduction
from curta.primitives.windowed.selection import SelectAndGatherAdd, SelectAndScatterAdd
from curta.primitives.windowed.sliding import Sliding


def _padding(pairs: Sequence[tuple[int, int]]) -> RawAttribute:
    return dense(np.array(pairs, np.int64).reshape(-1, 2))


def reduce_window(
    b: BlockBuilder,
    xs: Sequence[HloValue],
    inits: Sequence[HloValue],
    window: Sliding,
    types: Sequence[str],
    combine: HloBlock,
) -> list[HloValue]:
    """Every window of the values, reduced by a region."""
    return b.emit(
        "stablehlo.reduce_window",
        [*xs, *inits],
        types,
        [combine],
        window_dimensions=window.dimensions,
        window_strides=window.strides,
        base_dilations=window.base_dilation,
        window_dilations=window.window_dilation,
        padding=_padding(window.padding),
    )


@rule(WindowReduction)
def _window_reduction(b: BlockBuilder, op: WindowReduction, x: HloValue) -> HloValue:
    (out,) = b.outs

    def fold(x: HloValue, dtype: Any) -> HloValue:
        init = b.constant(op.identity(dtype))
        body = op_region(b, ELEMENT_OPS[op.monoid], dtype)
        type_ = tensor_type(ShapedArray(out.shape, dtype))
        return reduce_window(b, [x], [init], op.window, [type_], body)[0]

    if op.monoid is SUM:
        return in_working_dtype(b, x, b.ins[0], fold)
    return fold(x, b.ins[0].dtype)


@rule(ReduceWindow)
def _reduce_window(
    b: BlockBuilder, op: ReduceWindow, *args: HloValue
) -> Sequence[HloValue]:
    count, body = len(args) // 2, jaxpr_region(b, op.function)
    inits = args[count:]
    return reduce_window(b, args[:count], inits, op.window, b.out_types, body)


# ---------------------------------------------------------------------- cumulative


@rule(Cumulative)
def _cumulative(b: BlockBuilder, op: Any, x: HloValue) -> Sequence[HloValue]:
    # XLA makes of windows as long as the dim what a scan by halves would be.
    return b.outlined(op, lambda inner, x: [_prefixes(inner, op, x)], [x])


def _prefixes(b: BlockBuilder, op: Any, x: HloValue) -> HloValue:
    """Windows that end, or begin, at each element and contain all before, or after."""
    (aval,) = b.ins
    size = aval.shape[op.axis]
    if is_symbolic_dim(size):
        return lower_closed(b, _steps(op, aval), [x])[0]
    if 0 in aval.shape:
        return x
    ones = (1,) * aval.ndim
    lengths, padding = [1] * aval.ndim, [(0, 0)] * aval.ndim
    lengths[op.axis] = size
    padding[op.axis] = (0, size - 1) if op.reverse else (size - 1, 0)
    window = Sliding(tuple(lengths), ones, tuple(padding), ones, ones)

    def fold(x: HloValue, dtype: Any) -> HloValue:
        body = jaxpr_region(b, _joining(op, dtype))
        init = b.constant(_identity(op, dtype))
        return reduce_window(b, [x], [init], window, [x.type], body)[0]

    if isinstance(op, (CumSum, CumProd, CumLogSumExp)):
        return in_working_dtype(b, x, aval, fold)
    return fold(x, aval.dtype)


def _steps(op: Any, aval: ShapedArray) -> ClosedJaxpr:
    """A loop, for a dim whose size is a number of the program."""
    dtype, size = dtypes.working_dtype(aval.dtype), aval.shape[op.axis]
    shape = tuple(d for i, d in enumerate(aval.shape) if i != op.axis)
    row = ShapedArray(shape, dtype)

    def step(before: Any, x: Any) -> Sequence[Any]:
        result = op.joined(before, x)
        return [result, result]

    loop = Scan(stage(step, [row, row]), size, op.reverse, 0, 1)

    def run(x: Any) -> Sequence[Any]:
        rows = move_dim(convert_element_type(x, dtype), op.axis, 0)
        _, result = loop(full(row, _identity(op, dtype)), rows)
        return [convert_element_type(move_dim(result, 0, op.axis), aval.dtype)]

    return stage(run, [ShapedArray(aval.shape, aval.dtype)])


def _identity(op: Any, dtype: Any) -> Any:
    if isinstance(op, CumLogSumExp):
        return dtype.type(-np.inf)
    return op.identity(dtype)


def _joining(op: Cumulative, dtype: Any) -> ClosedJaxpr:
    """The combination of two numbers."""
    return stage(lambda x, y: [op.joined(x, y)], scalars(dtype, dtype))


# ------------------------------------------------------------- choices of windows


@rule(SelectAndScatterAdd)
def _select_and_scatter_add(
    b: BlockBuilder, op: SelectAndScatterAdd, source: HloValue, operand: HloValue
) -> HloValue:
    """Padding may be chosen, so that it is the worst of all, and cut off again."""
    if _lacks_plain_dims(b, op):
        (result,) = lower_closed(b, _with_plain_dims(op, b.ins), [source, operand])
        return result
    aval = b.ins[1]
    worst = b.constant(op.worst(aval.dtype))
    low, high = ([pair[i] for pair in op.padding] for i in range(2))
    shape = tuple(d + lo + hi for d, lo, hi in zip(aval.shape, low, high, strict=True))
    wide = ShapedArray(shape, aval.dtype)
    padded = b.op(
        "pad",
        [operand, worst],
        tensor_type(wide),
        edge_padding_low=low,
        edge_padding_high=high,
        interior_padding=[0] * aval.ndim,
    )

    result = _select_and_scatter(
        b,
        op,
        [padded, source, b.constant(aval.dtype.type(0))],
        ((0, 0),) * aval.ndim,
        tensor_type(wide),
        [_comparison(b, op.select, aval.dtype), op_region(b, add, aval.dtype)],
    )
    bounds = [(lo, lo + d) for lo, d in zip(low, aval.shape, strict=True)]
    return slice_of(b, result, wide, bounds)


@rule(SelectAndScatter)
def _general_select_and_scatter(
    b: BlockBuilder,
    op: SelectAndScatter,
    operand: HloValue,
    source: HloValue,
    init: HloValue,
) -> HloValue:
    if _lacks_plain_dims(b, op):
        args = [operand, source, init]
        (result,) = lower_closed(b, _with_plain_dims(op, b.ins), args)
        return result
    select = ClosedJaxpr(op.select_jaxpr, op.select_consts)
    add_up = ClosedJaxpr(op.scatter_jaxpr, op.scatter_consts)
    regions = [jaxpr_region(b, select), jaxpr_region(b, add_up)]
    args = [operand, source, init]
    return _select_and_scatter(b, op, args, op.padding, b.out_type, regions)


def _select_and_scatter(
    b: BlockBuilder,
    op: Any,
    args: Sequence[HloValue],
    padding: Sequence[tuple[int, int]],
    type_: str,
    regions: Sequence[HloBlock],
) -> HloValue:
    (result,) = b.emit(
        "stablehlo.select_and_scatter",
        args,
        [type_],
        regions,
        window_dimensions=op.window_dimensions,
        window_strides=op.window_strides,
        padding=_padding(padding),
    )
    return result


def _lacks_plain_dims(b: BlockBuilder, op: Any) -> bool:
    """Whether it is for TPUs, which want two dims without windows, to be innermost."""
    if b.program.platforms != ("tpu",):
        return False
    windows = [*zip(op.window_dimensions, op.window_strides, strict=True)]
    return windows.count((1, 1)) < 2


def _with_plain_dims(op: Any, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The op on arrays with two dims of size 1 more."""
    wide = dataclasses.replace(
        op,
        window_dimensions=(*op.window_dimensions, 1, 1),
        window_strides=(*op.window_strides, 1, 1),
        padding=(*op.padding, (0, 0), (0, 0)),
    )

    def run(*args: Any) -> list[Any]:
        arrays = [reshape(x, (*x.shape, 1, 1)) if x.ndim else x for x in args]
        out = wide(*arrays)
        return [reshape(out, out.shape[:-2])]

    return stage(run, avals)


def _comparison(b: BlockBuilder, direction: str, dtype: Any) -> HloBlock:
    kind = compare_type(ShapedArray((), dtype))

    def write(inner: BlockBuilder, x: HloValue, y: HloValue) -> HloValue:
        return compare(inner, direction.upper(), x, y, kind=kind)

    return region(b, scalars(dtype, dtype), write)


@rule(SelectAndGatherAdd)
def _select_and_gather_add(
    b: BlockBuilder, op: SelectAndGatherAdd, source: HloValue, operand: HloValue
) -> HloValue:
    """Reduce pairs of an element and what belongs to it."""
    given, aval = b.ins
    (out,) = b.outs
    pair = scalars(aval.dtype, given.dtype)
    kind = compare_type(pair[0])

    def write(
        inner: BlockBuilder, x: HloValue, s: HloValue, y: HloValue, t: HloValue
    ) -> Sequence[HloValue]:
        keeps = compare(inner, op.select.upper(), x, y, kind=kind)
        element = inner.op("select", [keeps, x, y], x.type)
        return [element, inner.op("select", [keeps, s, t], s.type)]

    inits = [b.constant(op.worst(aval.dtype)), b.constant(given.dtype.type(0))]
    types = [tensor_type(ShapedArray(out.shape, a.dtype)) for a in pair]
    body = region(b, [*pair, *pair], write)
    return reduce_window(b, [operand, source], inits, op.window, types, body)[1]
