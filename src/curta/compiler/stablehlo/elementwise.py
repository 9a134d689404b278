"""Elementwise ops."""

from __future__ import annotations

from collections.abc import Sequence

from curta.compiler.stablehlo.ir import Value
from curta.compiler.stablehlo.lowering import Builder, rule
from curta.compiler.stablehlo.types import (
    element_type,
    tensor,
    tensor_type,
    with_element,
)
from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.primitives.elementwise import (
    arithmetic,
    bitwise,
    comparison,
    exponential,
    magnitude,
    powers,
    rounding,
    trigonometric,
)
from curta.primitives.structure import AddAny

# Ops that are one operation of StableHLO on operands of the shape of the result.
_NAMES: dict[type[Op], str] = {
    AddAny: "add",
    arithmetic.Neg: "negate",
    arithmetic.Add: "add",
    arithmetic.Sub: "subtract",
    arithmetic.Mul: "multiply",
    arithmetic.Div: "divide",
    bitwise.Not: "not",
    bitwise.And: "and",
    bitwise.Or: "or",
    bitwise.Xor: "xor",
    bitwise.ShiftLeft: "shift_left",
    bitwise.ShiftRightLogical: "shift_right_logical",
    bitwise.ShiftRightArithmetic: "shift_right_arithmetic",
    bitwise.PopulationCount: "popcnt",
    bitwise.Clz: "count_leading_zeros",
    exponential.Exp: "exponential",
    exponential.Expm1: "exponential_minus_one",
    exponential.Log: "log",
    exponential.Log1p: "log_plus_one",
    exponential.Tanh: "tanh",
    exponential.Logistic: "logistic",
    magnitude.Sign: "sign",
    magnitude.Abs: "abs",
    magnitude.Max: "maximum",
    magnitude.Min: "minimum",
    powers.Sqrt: "sqrt",
    powers.Rsqrt: "rsqrt",
    powers.Cbrt: "cbrt",
    rounding.Floor: "floor",
    rounding.Ceil: "ceil",
    rounding.IsFinite: "is_finite",
    rounding.Rem: "remainder",
    trigonometric.Sin: "sine",
    trigonometric.Cos: "cosine",
    trigonometric.Tan: "tan",
    trigonometric.Atan2: "atan2",
}


def broadcast(b: Builder, x: Value, aval: ShapedArray, shape: Sequence[int]) -> Value:
    """An operand of an elementwise op in the shape of the result.

    It has that rank, with 1 where it is repeated, or none.
    """
    if tuple(aval.shape) == tuple(shape):
        return x
    dims = tuple(range(len(shape))) if aval.shape else ()
    type_ = tensor(tuple(shape), element_type(aval.dtype))
    return b.op("broadcast_in_dim", [x], type_, broadcast_dimensions=dims)


def broadcast_all(b: Builder, xs: Sequence[Value]) -> list[Value]:
    """The operands of the eqn in the shape of its result."""
    shape = b.outs[0].shape
    return [broadcast(b, x, a, shape) for x, a in zip(xs, b.ins, strict=True)]


@rule(*_NAMES)
def _one_operation(b: Builder, op: Op, *xs: Value) -> Value:
    return b.op(_NAMES[type(op)], broadcast_all(b, xs), tensor_type(b.outs[0]))


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


@rule(*_DIRECTIONS)
def _compare(b: Builder, op: comparison.Comparison, *xs: Value) -> Value:
    kind = compare_type(b.ins[0])
    if isinstance(op, comparison.TotalOrder) and kind == "FLOAT":
        kind = "TOTALORDER"
    return compare(b, _DIRECTIONS[type(op)], *broadcast_all(b, xs), kind=kind)


def compare_type(aval: ShapedArray) -> str:
    """How elements are compared: FLOAT, SIGNED or UNSIGNED."""
    name = element_type(aval.dtype)
    if name.startswith("i") and name != "i1":
        return "SIGNED"
    return "UNSIGNED" if name.startswith(("u", "i1")) else "FLOAT"


def compare(b: Builder, direction: str, x: Value, y: Value, *, kind: str) -> Value:
    """`x direction y`, elementwise."""
    return b.op(
        "compare",
        [x, y],
        with_element(x.type, "i1"),
        comparison_direction=direction,
        compare_type=kind,
    )
