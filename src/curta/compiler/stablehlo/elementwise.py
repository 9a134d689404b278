"""Elementwise ops.

Those that StableHLO has are one operation, as in JAX. All others are lowered by the
scalar code of their elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.compiler.stablehlo.attributes import RawAttribute
from curta.compiler.stablehlo.constants import float_text
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, rule
from curta.compiler.stablehlo.regions import op_region
from curta.compiler.stablehlo.scalars import compare_type as compare_type, elementwise
from curta.compiler.stablehlo.shape import full
from curta.compiler.stablehlo.shardings import constrained_by_type
from curta.compiler.stablehlo.types import (
    element_type,
    physical,
    tensor,
    tensor_type,
    with_element,
)
from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.dtypes import KeyDType, issubdtype, itemsize_bits
from curta.primitives.base import Elementwise
from curta.primitives.elementwise import (
    arithmetic,
    bitwise,
    comparison,
    complex as complexes,
    exponential,
    magnitude,
    powers,
    rounding,
    trigonometric,
)
from curta.primitives.elementwise.select import Clamp, SelectN
from curta.primitives.structure import AddAny

# Ops that are one operation of StableHLO on operands of the shape of the result.
_NAMES: dict[type[Op], str] = {
    AddAny: "add",
    arithmetic.Neg: "negate",
    arithmetic.Add: "add",
    arithmetic.Sub: "subtract",
    arithmetic.Div: "divide",
    bitwise.Not: "not",
    bitwise.And: "and",
    bitwise.Or: "or",
    bitwise.Xor: "xor",
    bitwise.ShiftLeft: "shift_left",
    bitwise.ShiftRightLogical: "shift_right_logical",
    bitwise.ShiftRightArithmetic: "shift_right_arithmetic",
    bitwise.Clz: "count_leading_zeros",
    complexes.Real: "real",
    complexes.Imag: "imag",
    complexes.Complex: "complex",
    exponential.Exp: "exponential",
    exponential.Expm1: "exponential_minus_one",
    exponential.Log: "log",
    exponential.Log1p: "log_plus_one",
    exponential.Tanh: "tanh",
    magnitude.Abs: "abs",
    powers.Sqrt: "sqrt",
    powers.Rsqrt: "rsqrt",
    powers.Cbrt: "cbrt",
    rounding.Floor: "floor",
    rounding.Ceil: "ceil",
    rounding.IsFinite: "is_finite",
    rounding.Rem: "remainder",
    trigonometric.Tan: "tan",
    trigonometric.Atan2: "atan2",
}
# Those of real numbers only.
_REAL_NAMES: dict[type[Op], str] = {
    magnitude.Max: "maximum",
    magnitude.Min: "minimum",
    trigonometric.Sin: "sine",
    trigonometric.Cos: "cosine",
}


def broadcast(
    b: BlockBuilder, x: HloValue, aval: ShapedArray, shape: Sequence[int]
) -> HloValue:
    """An operand of an elementwise op in the shape of the result.

    It has that rank, with 1 where it is repeated, or none.
    """
    if tuple(aval.shape) == tuple(shape):
        return x
    dims = tuple(range(len(shape))) if aval.shape else ()
    type_ = tensor(tuple(shape), element_type(aval.dtype))
    return b.op("broadcast_in_dim", [x], type_, broadcast_dimensions=dims)


def broadcast_all(b: BlockBuilder, xs: Sequence[HloValue]) -> list[HloValue]:
    """The operands of the eqn in the shape of its result."""
    out = b.outs[0]
    return [
        x
        if a.shape == out.shape
        else constrained_by_type(b, broadcast(b, x, a, out.shape), out)
        for x, a in zip(xs, b.ins, strict=True)
    ]


@rule(Elementwise)
def _by_scalar_code(b: BlockBuilder, op: Any, *xs: HloValue) -> HloValue:
    shape = b.outs[0].shape
    given = [a.dtype for a in b.ins]
    wide = [_computed(d) for d in given]
    operands = [
        x if d == w else b.op("convert", [x], with_element(x.type, element_type(w)))
        for x, d, w in zip(broadcast_all(b, xs), given, wide, strict=True)
    ]
    (result,) = elementwise(b, shape, op.scalar, operands, wide)
    type_ = tensor_type(b.outs[0])
    return result if result.type == type_ else b.op("convert", [result], type_)


def _computed(dtype: Any) -> Any:
    """Where scalar code computes elements of a dtype, if not there."""
    if element_type(dtype).startswith(("f8", "f4")):
        return np.dtype(np.float32)
    if issubdtype(dtype, np.integer) and itemsize_bits(dtype) < 8:
        return np.dtype(np.uint8 if dtype.name.startswith("u") else np.int8)
    return dtype


@rule(*_NAMES)
def _one_operation(b: BlockBuilder, op: Op, *xs: HloValue) -> HloValue:
    name, type_ = _NAMES[type(op)], tensor_type(b.outs[0])
    return b.op(name, broadcast_all(b, xs), type_, **accuracy(op))


@rule(*_REAL_NAMES)
def _one_operation_if_real(b: BlockBuilder, op: Op, *xs: HloValue) -> HloValue:
    if b.ins[0].dtype.kind == "c":
        return _by_scalar_code(b, op, *xs)
    name, type_ = _REAL_NAMES[type(op)], tensor_type(b.outs[0])
    return b.op(name, broadcast_all(b, xs), type_, **accuracy(op))


def accuracy(op: Op) -> dict[str, RawAttribute]:
    """The attribute for the accuracy that was asked for, if any was."""
    wanted = getattr(op, "accuracy", None)
    if wanted is None or wanted is exponential.AccuracyMode.DEFAULT:
        return {}
    mode, limits = "HIGHEST", ""
    if isinstance(wanted, exponential.Tolerance):
        mode = "TOLERANCE"
        result = [
            f"{name} = {float_text(np.float64(value))}, "
            for name, value in [("atol", wanted.atol), ("rtol", wanted.rtol)]
            if value
        ]
        limits = "".join(result) + f"ulps = {wanted.ulps}, " * (wanted.ulps != 0)
    text = f"{limits}mode = #stablehlo.result_accuracy_mode<{mode}>"
    return {"result_accuracy": RawAttribute(f"#stablehlo.result_accuracy<{text}>")}


# ----------------------------------------------------------- of other operations


@rule(arithmetic.Mul)
def _multiply(b: BlockBuilder, op: arithmetic.Mul, *xs: HloValue) -> HloValue:
    element = element_type(b.outs[0].dtype)
    operands = broadcast_all(b, xs)
    if op.out_type is not None:
        kinds = [with_element(x.type, element) for x in operands]
        pairs = zip(operands, kinds, strict=True)
        operands = [x if x.type == k else b.op("convert", [x], k) for x, k in pairs]
    return b.op("multiply", operands, tensor_type(b.outs[0]))


@rule(arithmetic.Square)
def _square(b: BlockBuilder, op: arithmetic.Square, x: HloValue) -> HloValue:
    if b.ins[0].dtype.kind == "c":
        return _by_scalar_code(b, op, x)
    return b.op("multiply", [x, x], x.type)


@rule(arithmetic.IntegerPow)
def _integer_pow(b: BlockBuilder, op: arithmetic.IntegerPow, x: HloValue) -> HloValue:
    def product(x: HloValue, y: HloValue) -> HloValue:
        return b.op("multiply", [x, y], x.type)

    if op.y == 0:
        return full(b, b.outs[0], 1)
    if op.y == 3:
        return product(product(x, x), x)
    power, left = None, abs(op.y)
    while left:
        if left & 1:
            power = x if power is None else product(power, x)
        left >>= 1
        if left:
            x = product(x, x)
    assert power is not None
    if op.y > 0:
        return power
    return b.op("divide", [full(b, b.outs[0], 1), power], power.type)


@rule(arithmetic.Mulhi)
def _mulhi(b: BlockBuilder, op: arithmetic.Mulhi, *xs: HloValue) -> HloValue:
    dtype = b.outs[0].dtype
    bits, prefix = itemsize_bits(dtype), "u" * dtype.name.startswith("u")
    if bits == 64:
        return _by_scalar_code(b, op, *xs)
    aval = b.outs[0].update(dtype=np.dtype(f"{prefix}int{max(16, 2 * bits)}"))
    wide = tensor_type(aval)
    x, y = (b.op("convert", [x], wide) for x in broadcast_all(b, xs))
    product = b.op("multiply", [x, y], wide)
    shift = "shift_right_logical" if prefix else "shift_right_arithmetic"
    high = b.op(shift, [product, full(b, aval, bits)], wide)
    return b.op("convert", [high], tensor_type(b.outs[0]))


@rule(bitwise.PopulationCount)
def _population_count(
    b: BlockBuilder, op: bitwise.PopulationCount, x: HloValue
) -> HloValue:
    (aval,) = b.ins
    bits, unsigned = itemsize_bits(aval.dtype), f"uint{itemsize_bits(aval.dtype)}"
    if bits >= 8 or aval.dtype.name == unsigned:
        return b.op("popcnt", [x], x.type)
    # XLA widens them by their sign before it counts.
    bytes_ = with_element(x.type, "ui8")
    x = b.op("bitcast_convert", [x], with_element(x.type, f"ui{bits}"))
    count = b.op("popcnt", [b.op("convert", [x], bytes_)], bytes_)
    return b.op("convert", [count], tensor_type(b.outs[0]))


@rule(exponential.Logistic)
def _logistic(b: BlockBuilder, op: exponential.Logistic, x: HloValue) -> HloValue:
    below = b.op("exponential", [b.op("negate", [x], x.type)], x.type)
    total = b.op("add", [full(b, b.outs[0], 1), below], x.type)
    return b.op("divide", [full(b, b.outs[0], 1), total], x.type)


@rule(exponential.Exp2)
def _exp2(b: BlockBuilder, op: exponential.Exp2, x: HloValue) -> HloValue:
    scaled = b.op("multiply", [full(b, b.outs[0], np.log(2)), x], x.type)
    return b.op("exponential", [scaled], x.type, **accuracy(op))


@rule(magnitude.Sign)
def _sign(b: BlockBuilder, op: magnitude.Sign, x: HloValue) -> HloValue:
    aval = b.outs[0]
    if not element_type(aval.dtype).startswith("u"):
        return b.op("sign", [x], x.type)
    none = compare(b, "EQ", x, full(b, aval, 0), kind="UNSIGNED")
    return b.op("select", [none, full(b, aval, 0), full(b, aval, 1)], x.type)


@rule(complexes.Conj)
def _conj(b: BlockBuilder, op: complexes.Conj, x: HloValue) -> HloValue:
    type_ = tensor_type(b.outs[0])
    if b.ins[0].dtype.kind != "c":
        return b.op("complex", [x, full(b, b.ins[0], 0)], type_)
    part = with_element(type_, element_type(complexes.part_dtype(b.ins[0].dtype)))
    re, im = b.op("real", [x], part), b.op("imag", [x], part)
    return b.op("complex", [re, b.op("negate", [im], part)], type_)


@rule(powers.Pow)
def _power(b: BlockBuilder, op: powers.Pow, *xs: HloValue) -> HloValue:
    x, y = broadcast_all(b, xs)
    if y.type != x.type:
        y = b.op("convert", [y], x.type)
    return b.op("power", [x, y], x.type)


@rule(rounding.Round)
def _round(b: BlockBuilder, op: rounding.Round, x: HloValue) -> HloValue:
    even = op.rounding_method == rounding.RoundingMethod.TO_NEAREST_EVEN
    return b.op("round_nearest_even" if even else "round_nearest_afz", [x], x.type)


@rule(rounding.ReducePrecision)
def _reduce_precision(
    b: BlockBuilder, op: rounding.ReducePrecision, x: HloValue
) -> HloValue:
    return b.op(
        "reduce_precision",
        [x],
        x.type,
        exponent_bits=op.exponent_bits,
        mantissa_bits=op.mantissa_bits,
    )


# -------------------------------------------------------------- choice, comparison


@rule(SelectN)
def _select_n(
    b: BlockBuilder, op: SelectN, which: HloValue, *cases: HloValue
) -> HloValue:
    if len(cases) == 1:
        return cases[0]
    if b.ins[0].dtype.kind == "b":
        return b.op("select", [which, cases[1], cases[0]], cases[0].type)
    return _selected(b, which, cases, 0)


def _selected(
    b: BlockBuilder, which: HloValue, cases: Sequence[HloValue], first: int
) -> HloValue:
    """The case that is chosen, by halves."""
    if len(cases) == 1:
        return cases[0]
    aval, half = b.ins[0], len(cases) // 2
    limit = full(b, aval, first + half)
    below = compare(b, "LT", which, limit, kind=compare_type(aval))
    low = _selected(b, which, cases[:half], first)
    high = _selected(b, which, cases[half:], first + half)
    return b.op("select", [below, low, high], cases[0].type)


@rule(Clamp)
def _clamp(b: BlockBuilder, op: Clamp, *xs: HloValue) -> HloValue:
    if b.outs[0].dtype.kind in "bc":
        return _by_scalar_code(b, op, *xs)
    return b.op("clamp", broadcast_all(b, xs), tensor_type(b.outs[0]))


_DIRECTIONS: dict[type[Op], str] = {
    comparison.Eq: "EQ",
    comparison.Ne: "NE",
    comparison.Ge: "GE",
    comparison.Gt: "GT",
    comparison.Le: "LE",
    comparison.Lt: "LT",
    comparison.EqTo: "EQ",
    comparison.LeTo: "LE",
    comparison.LtTo: "LT",
}


@rule(*_DIRECTIONS, keys=True)
def _compare(b: BlockBuilder, op: comparison.Comparison, *xs: HloValue) -> HloValue:
    if isinstance(b.ins[0].dtype, KeyDType):
        return _compare_keys(b, op, *xs)
    kind = compare_type(b.ins[0])
    if isinstance(op, comparison.TotalOrder) and kind == "FLOAT":
        kind = "TOTALORDER"
    return compare(b, _DIRECTIONS[type(op)], *broadcast_all(b, xs), kind=kind)


def _compare_keys(b: BlockBuilder, op: Op, *xs: HloValue) -> HloValue:
    """Whether all words are equal, or one is not."""
    equal = isinstance(op, comparison.Eq)
    shape = b.outs[0].shape
    words = [physical(a) for a in b.ins]
    whole = ShapedArray((*shape, words[0].shape[-1]), words[0].dtype)
    spread = []
    for x, aval in zip(xs, words, strict=True):
        if aval.shape != whole.shape:
            dims = [*range(aval.ndim - 1), len(shape)]
            type_ = tensor_type(whole)
            x = b.op("broadcast_in_dim", [x], type_, broadcast_dimensions=dims)
        spread.append(x)
    each = compare(b, "EQ" if equal else "NE", *spread, kind="UNSIGNED")
    block = op_region(b, bitwise.and_ if equal else bitwise.or_, np.dtype(bool))
    start = b.constant(np.bool_(equal))
    (result,) = b.emit(
        "stablehlo.reduce",
        [each, start],
        [b.out_type],
        [block],
        dimensions=(len(shape),),
    )
    return result


def compare(
    b: BlockBuilder, direction: str, x: HloValue, y: HloValue, *, kind: str
) -> HloValue:
    """`x direction y`, elementwise."""
    return b.op(
        "compare",
        [x, y],
        with_element(x.type, "i1"),
        comparison_direction=direction,
        compare_type=kind,
    )
