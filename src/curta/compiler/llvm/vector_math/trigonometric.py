"""sin, cos, tan.

x = n*pi/2 + r by subtracting n times pi/2 in three parts (Cody and Waite; with fused
multiply-add the first step is exact). Arguments so large that this loses digits go to
the C library, lane by lane.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math import coefficients
from curta.compiler.llvm.vector_math.common import (
    HALF_PI,
    exact,
    nearest_multiple,
    polynomial,
    replaced_lanes,
)

_TWO_OVER_PI = 0.63661977236758134308
_LARGE = {"f32": 2.0**17, "f64": 2.0**30}


def _reduced(b: Builder, x: Value) -> tuple[Value, Value]:
    """r and the integer n with x = n*pi/2 + r."""
    n, integer = nearest_multiple(b, x, _TWO_OVER_PI)
    r = x
    for part in HALF_PI[x.type.kind]:
        r = b.fma(n, -part, r)
    # -0.0 must not lose its sign.
    return b.select(b.eq(integer, 0), x, r), integer


def sin_cos_reduced(b: Builder, r: Value) -> tuple[Value, Value]:
    """sin(r) and cos(r) for |r| up to pi/4 and a little more."""
    z = r * r
    sine = b.fma(r * z, polynomial(b, z, coefficients.SIN), r)
    sine = b.copysign(sine, r)  # for -0.0
    cosine = b.fma(z * z, polynomial(b, z, coefficients.COS), b.fma(z, -0.5, 1.0))
    return sine, cosine


def _turned(b: Builder, x: Value, quarter_turns: int) -> Value:
    """sin(x + quarter_turns * pi/2)."""
    r, n = _reduced(b, x)
    n = n + quarter_turns if quarter_turns else n
    sine, cosine = sin_cos_reduced(b, r)
    magnitude = b.select(b.ne(n & 1, 0), cosine, sine)
    sign = (n & 2) << (x.type.bits - 2)
    return b.bitcast(b.bits(magnitude) ^ sign, x.type)


def _is_large(b: Builder, x: Value) -> Value:
    return b.abs(x) > _LARGE[x.type.kind]


@exact
def sin(b: Builder, x: Value) -> Value:
    return replaced_lanes(b, _turned(b, x, 0), _is_large(b, x), "sin", x)


@exact
def cos(b: Builder, x: Value) -> Value:
    return replaced_lanes(b, _turned(b, x, 1), _is_large(b, x), "cos", x)


@exact
def tan(b: Builder, x: Value) -> Value:
    r, n = _reduced(b, x)
    sine, cosine = sin_cos_reduced(b, r)
    odd = b.ne(n & 1, 0)
    result = b.select(odd, -cosine, sine) / b.select(odd, sine, cosine)
    return replaced_lanes(b, result, _is_large(b, x), "tan", x)


@exact
def sin_pi(b: Builder, x: Value) -> Value:
    """|sin(pi*x)|, for the reflection formulas; x is finite."""
    r = b.abs(x - b.round_even(x))
    near = r > 0.25
    r = b.select(near, 0.5 - r, r) * HALF_PI[x.type.kind][0] * 2.0
    sine, cosine = sin_cos_reduced(b, r)
    return b.select(near, cosine, sine)
