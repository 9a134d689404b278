"""lgamma and digamma.

Large arguments by Stirling's series (as a fitted polynomial), small ones by the
recurrence, negative ones by reflection (NIST DLMF, chapter 5).
"""

from __future__ import annotations

from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math import coefficients
from curta.compiler.llvm.vector_math.apart import apart
from curta.compiler.llvm.vector_math.common import INF, NAN, PI, exact, polynomial
from curta.compiler.llvm.vector_math.interface import MathBuilder
from curta.compiler.llvm.vector_math.logarithm import log, log1p
from curta.compiler.llvm.vector_math.trigonometric import sin_cos_reduced, sin_pi

_HALF_LOG_TWO_PI = 0.91893853320467274178
_LOG_PI = 1.14472988584940017414
# Digamma's series holds from here on: so many steps of the recurrence reach it.
_STEPS = {"f32": 6, "f64": 10}


@exact
def lgamma(b: MathBuilder, x: Value) -> Value:
    """log|gamma(x)|; infinite at the poles and at both infinities."""
    a = b.abs(x)
    positive = _lgamma_positive(b, a)
    # |gamma(-a)| = pi/(a * |sin(pi*a)| * gamma(a))
    reflected = _LOG_PI - log(b, a * sin_pi(b, a)) - positive
    # Near 0 both sides of the pole are alike, and the product above underflows.
    result = b.select(x < -(2.0**-60), reflected, positive)
    pole = (x <= 0) & b.eq(b.floor(x), x)
    return b.select(pole | b.eq(a, INF), INF, result)


def _lgamma_positive(b: MathBuilder, x: Value) -> Value:
    """With y = x, x+1 or x+2 in [1.5, 3]: (y - 2)*q(y) less the log of the steps."""
    low, lower = x < 1.5, x < 0.5
    steps = b.select(lower, x * (x + 1.0), b.select(low, x, 1.0))
    # y - 2, which is exact where it is small.
    y = b.select(lower, x, b.select(low, x - 1.0, x - 2.0))
    q = polynomial(b, y - 0.25, coefficients.LGAMMA)
    large = x > 3.0
    logarithm = log(b, b.select(large, x, steps))
    small = b.fma(y, q, -logarithm)
    r = 1.0 / x
    series = r * polynomial(b, r * r, coefficients.STIRLING)
    main_part = b.fma(x - 0.5, logarithm - 1.0, _HALF_LOG_TWO_PI - 0.5)
    # A little under 1e306 (f64) the first factor is exact enough; infinity is apart.
    return b.select(large, main_part + series, small)


def log_gamma_above_one(b: MathBuilder, x: Value) -> Value:
    """log(gamma(1 + x)) for 0 <= x <= 1, accurate near 0: (y - 2) q(y) of y = 2 + x."""
    q = polynomial(b, x - 0.25, coefficients.LGAMMA)
    return b.fma(x, q, b.neg(log1p(b, x)))


@exact
def digamma(b: MathBuilder, x: Value) -> Value:
    """The derivative of log(gamma(x)); NaN at the poles but the zeros, -inf at +0.

    f32 goes through f64 left of 0, where two large terms may cancel.
    """
    if x.type.kind == "f64":
        return _digamma(b, x)
    reflect = x <= 0
    positive = _digamma_positive(b, b.select(reflect, 1.0, x))
    result = b.select(b.eq(x, INF), INF, positive)
    return b.if_(
        b.any_lane(reflect),
        lambda: [b.select(reflect, digamma_wide(b, x), result)],
        lambda: [result],
    )[0]


def _digamma(b: MathBuilder, x: Value) -> Value:
    reflect = x <= 0
    result = _digamma_positive(b, b.select(reflect, 1.0 - x, x))
    # psi(x) = psi(1 - x) - pi/tan(pi*x)
    f = x - b.round_even(x)
    sine, cosine = sin_cos_reduced(b, b.select(b.abs(f) > 0.25, 0.5 - b.abs(f), f) * PI)
    swap = b.abs(f) > 0.25
    cotangent = b.select(swap, b.copysign(sine, f), cosine) / b.select(
        swap, cosine, sine
    )
    result = b.select(reflect, result - PI * cotangent, result)
    pole = (x < 0) & b.eq(b.floor(x), x)
    result = b.select(pole, NAN, result)
    infinity = b.const(x.type, INF)
    result = b.select(b.eq(x, 0.0), b.copysign(infinity, b.neg(x)), result)
    return b.select(b.eq(x, INF), INF, result)


@apart
def digamma_wide(b: MathBuilder, x: Value) -> Value:
    return _digamma(b, x)


def _digamma_positive(b: MathBuilder, y: Value) -> Value:
    start = _STEPS[y.type.kind]
    total = b.const(y.type, 0)
    for _ in range(start):
        step = y < float(start)
        total = b.select(step, total - 1.0 / y, total)
        y = b.select(step, y + 1.0, y)
    r = 1.0 / y
    z = r * r
    series = b.fma(z, -polynomial(b, z, coefficients.DIGAMMA), r * -0.5)
    return (log(b, y) + series) + total
