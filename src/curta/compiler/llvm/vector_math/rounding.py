"""floor, ceil, round, remainder, nextafter: exact functions."""

from __future__ import annotations

from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math.common import (
    exact,
    is_negative,
    replaced_lanes,
    sign_bits,
)
from curta.compiler.llvm.vector_math.interface import MathBuilder


@exact
def floor(b: MathBuilder, x: Value) -> Value:
    return b.floor(x)


@exact
def ceil(b: MathBuilder, x: Value) -> Value:
    return b.ceil(x)


@exact
def round_to_even(b: MathBuilder, x: Value) -> Value:
    return b.round_even(x)


@exact
def round_away(b: MathBuilder, x: Value) -> Value:
    """To the nearest integer, halves away from zero."""
    whole = b.trunc(x)
    step = b.select(b.abs(x - whole) >= 0.5, b.const(x.type, 1), 0.0)
    return b.copysign(whole + b.copysign(step, x), x)


@exact
def remainder(b: MathBuilder, x: Value, y: Value) -> Value:
    """x - y*trunc(x/y) exactly, with the sign of x (C's fmod).

    The quotient of an fma is exact while it fits the mantissa, and at most one too
    large; what does not fit, and what is not finite, goes to the C library.
    """
    a, c = b.abs(x), b.abs(y)
    quotient = b.trunc(a / c)
    rest = b.fma(-quotient, c, a)
    rest = b.select(rest < 0, rest + c, rest)
    rest = b.select(a < c, a, rest)
    result = b.copysign(rest, x)
    fits = quotient < (2.0**22 if x.type.kind == "f32" else 2.0**51)
    return replaced_lanes(b, result, ~fits, "fmod", x, y)


@exact
def nextafter(b: MathBuilder, x: Value, y: Value) -> Value:
    """The float next to x towards y."""
    bits = b.bits(x)
    # The next float away from zero has the next larger bit pattern.
    towards_zero = is_negative(b, x) ^ (x > y)
    stepped = b.select(towards_zero, bits - 1, bits + 1)
    # From zero, the smallest subnormal of y's sign.
    stepped = b.select(b.eq(x, 0), sign_bits(b, y) | 1, stepped)
    result = b.select(b.eq(x, y), y, b.bitcast(stepped, x.type))
    return b.select(b.is_nan(x) | b.is_nan(y), x + y, result)
