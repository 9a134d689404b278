"""asin, acos, atan, atan2."""

from __future__ import annotations

from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math import coefficients
from curta.compiler.llvm.vector_math.common import (
    HALF_PI,
    INF,
    exact,
    is_negative,
    polynomial,
)
from curta.compiler.llvm.vector_math.interface import MathBuilder

_TAN_EIGHTH_TURN = 0.41421356237309504880  # tan(pi/8)


def _asin_reduced(b: MathBuilder, x: Value) -> tuple[Value, Value, Value]:
    """|x| > 1/2, and asin(y) - y and y, where y is |x| or sqrt((1 - |x|)/2).

    Beyond 1/2, asin(x) = pi/2 - 2*asin(sqrt((1 - x)/2)).
    """
    a = b.abs(x)
    large = a > 0.5
    z = b.select(large, b.fma(a, -0.5, 0.5), a * a)
    y = b.select(large, b.sqrt(z), a)
    return large, y * z * polynomial(b, z, coefficients.ASIN), y


@exact
def asin(b: MathBuilder, x: Value) -> Value:
    large, rest, y = _asin_reduced(b, x)
    high, low, _ = HALF_PI[x.type.kind]
    beyond = high - (2.0 * (y + rest) - low)
    return b.copysign(b.select(large, beyond, y + rest), x)


@exact
def acos(b: MathBuilder, x: Value) -> Value:
    large, rest, y = _asin_reduced(b, x)
    high, low, _ = HALF_PI[x.type.kind]
    negative = x < 0
    twice = 2.0 * (y + rest)
    beyond = b.select(negative, 2.0 * high - (twice - 2.0 * low), twice)
    signed = b.select(negative, y + rest, -(y + rest))
    return b.select(large, beyond, high + (signed + low))


def _atan_of_quotient(b: MathBuilder, y: Value, x: Value) -> Value:
    """atan(y/x) for y, x >= 0, not both 0 or infinite."""
    steep = y > x * (1.0 / _TAN_EIGHTH_TURN)
    middle = (y > x * _TAN_EIGHTH_TURN) & ~steep
    above = b.select(steep, -x, b.select(middle, y - x, y))
    below = b.select(steep, y, b.select(middle, y + x, x))
    t = above / below
    z = t * t
    rest = t * z * polynomial(b, z, coefficients.ATAN)
    high, low, _ = HALF_PI[y.type.kind]
    zero = b.const(y.type, 0)
    offset = b.select(steep, high, b.select(middle, b.const(y.type, high / 2), zero))
    offset_low = b.select(steep, low, b.select(middle, b.const(y.type, low / 2), zero))
    return offset + (t + (rest + offset_low))


@exact
def atan(b: MathBuilder, x: Value) -> Value:
    a = b.abs(x)
    return b.copysign(_atan_of_quotient(b, a, b.const(x.type, 1)), x)


@exact
def atan2(b: MathBuilder, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), for zeros and infinities as C's atan2."""
    down, across = b.abs(y), b.abs(x)
    # Scaled so that no sum or product of the two overflows or loses digits; where
    # both are 0 or both infinite the quotient is 0/1 or 1/1.
    tiny = (down < 2.0**-60) & (across < 2.0**-60)
    huge = (down > 2.0**60) | (across > 2.0**60)
    scale = b.select(huge, b.const(x.type, 2.0**-2), 1.0)
    scale = b.select(tiny, 2.0**60, scale)
    both_infinite = b.eq(down, INF) & b.eq(across, INF)
    both_zero = b.eq(down, 0) & b.eq(across, 0)
    down = b.select(both_infinite, 1.0, down * scale)
    across = b.select(both_infinite | both_zero, 1.0, across * scale)
    angle = _atan_of_quotient(b, down, across)
    high, low, _ = HALF_PI[x.type.kind]
    back = 2.0 * high - (angle - 2.0 * low)
    angle = b.select(is_negative(b, x), back, angle)
    angle = b.select(b.is_nan(x) | b.is_nan(y), x + y, angle)
    return b.copysign(angle, y)
