"""sin, cos, tan.

x = n*pi/2 + r by subtracting n times pi/2 in three parts (Cody and Waite; with fused
multiply-add the first step is exact). The rounding error of the second step is kept as
the low part of r, so results are rounded nearly once. Arguments so large that this
loses digits go to the C library, lane by lane.
"""

from __future__ import annotations

from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math import coefficients
from curta.compiler.llvm.vector_math.common import (
    HALF_PI,
    exact,
    nearest_multiple,
    polynomial,
    replaced_lanes,
    square_error,
)
from curta.compiler.llvm.vector_math.interface import MathBuilder

_TWO_OVER_PI = 0.63661977236758134308
_LARGE = {"f32": 2.0**17, "f64": 2.0**30}


def _reduced(b: MathBuilder, x: Value) -> tuple[Value, Value, Value]:
    """r, its low part, and the integer n with x = n*pi/2 + r."""
    n, integer = nearest_multiple(b, x, _TWO_OVER_PI)
    first, second, third = HALF_PI[x.type.kind]
    exact_part = b.fma(n, -first, x)
    # Where this cancels it is exact; elsewhere what it rounds away is.
    r = exact_part - n * second
    low = b.fma(n, -second, exact_part - r)
    return r, b.fma(n, -third, low), integer


def _terms(
    b: MathBuilder, r: Value, low: Value
) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """sin(r + low) and cos(r + low), each as a sum of a large and a small term.

    For |r| up to pi/4 and a little more.
    """
    z = r * r
    sine = b.fma(r * z, polynomial(b, z, coefficients.SIN), low)
    curve = b.fma(z, polynomial(b, z, coefficients.COS), -0.5)
    rest = r * -low
    if r.type.kind == "f64":  # where the errors of other steps are no larger
        rest = b.fma(square_error(b, r, z), -0.5, rest)
    return (r, sine), (b.const(r.type, 1.0), b.fma(z, curve, rest))


def sin_cos_reduced(b: MathBuilder, r: Value) -> tuple[Value, Value]:
    """sin(r) and cos(r) for |r| up to pi/4 and a little more."""
    z = r * r
    sine = b.fma(r * z, polynomial(b, z, coefficients.SIN), r)
    sine = b.copysign(sine, r)  # for -0.0
    cosine = b.fma(z * z, polynomial(b, z, coefficients.COS), b.fma(z, -0.5, 1.0))
    return sine, cosine


def turned(
    b: MathBuilder, r: Value, low: Value, n: Value, quarter_turns: int
) -> Value:
    """sin(r + low + (n + quarter_turns) * pi/2)."""
    n = n + quarter_turns if quarter_turns else n
    sine, cosine = _terms(b, r, low)
    odd = b.ne(n & 1, 0)
    large, small = (b.select(odd, c, s) for s, c in zip(sine, cosine, strict=True))
    sign = (n & 2) << (r.type.bits - 2)
    return b.bitcast(b.bits(large + small) ^ sign, r.type)


def _is_large(b: MathBuilder, x: Value) -> Value:
    return b.abs(x) > _LARGE[x.type.kind]


@exact
def sin(b: MathBuilder, x: Value) -> Value:
    result = b.select(b.eq(x, 0), x, turned(b, *_reduced(b, x), 0))  # for -0.0
    return replaced_lanes(b, result, _is_large(b, x), "sin", x)


@exact
def cos(b: MathBuilder, x: Value) -> Value:
    return replaced_lanes(b, turned(b, *_reduced(b, x), 1), _is_large(b, x), "cos", x)


@exact
def tan(b: MathBuilder, x: Value) -> Value:
    result = tangent(b, *_reduced(b, x))
    result = b.select(b.eq(x, 0), x, result)  # for -0.0
    return replaced_lanes(b, result, _is_large(b, x), "tan", x)


def tangent(b: MathBuilder, r: Value, low: Value, n: Value) -> Value:
    """tan(r + low + n * pi/2): the quotient of two sums, with a correction."""
    sine, cosine = _terms(b, r, low)
    odd = b.ne(n & 1, 0)
    above, above_rest = (
        b.select(odd, -c, s) for s, c in zip(sine, cosine, strict=True)
    )
    below, below_rest = (b.select(odd, s, c) for s, c in zip(sine, cosine, strict=True))
    divisor = below + below_rest
    below_rest = below_rest - (divisor - below)
    inverse = 1.0 / divisor
    quotient = above * inverse
    left = b.fma(-quotient, divisor, above) + b.fma(-quotient, below_rest, above_rest)
    return b.fma(left, inverse, quotient)


@exact
def sin_pi(b: MathBuilder, x: Value) -> Value:
    """|sin(pi*x)|, for the reflection formulas; x is finite."""
    r = b.abs(x - b.round_even(x))
    near = r > 0.25
    r = b.select(near, 0.5 - r, r) * HALF_PI[x.type.kind][0] * 2.0
    sine, cosine = sin_cos_reduced(b, r)
    return b.select(near, cosine, sine)
