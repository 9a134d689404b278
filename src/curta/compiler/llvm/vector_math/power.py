"""pow, cbrt, rsqrt, sqrt."""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math import coefficients
from curta.compiler.llvm.vector_math.common import (
    INF,
    NAN,
    SMALLEST_NORMAL,
    exact,
    polynomial,
    sign_bits,
)
from curta.compiler.llvm.vector_math.exponential import scaled_exp
from curta.compiler.llvm.vector_math.logarithm import log, split

# A third of the bits of a float plus this are the bits of about its cube root.
_CBRT_START = {"f32": 0x2A512CE3, "f64": 0x2A9F7893782DA1CE}
# ln2 with zeros at its end, so that its product with an exponent is exact.
_LN2_SHORT = 6.93147180369123816490e-01
_LN2_REST = 1.90821492927058770002e-10


@exact
def sqrt(b: Builder, x: Value) -> Value:
    return b.sqrt(x)


@exact
def rsqrt(b: Builder, x: Value) -> Value:
    return 1.0 / b.sqrt(x)


@exact
def cbrt(b: Builder, x: Value) -> Value:
    """A guess from the bits, Halley's iteration, and a correction to the last bit."""
    kind = x.type.kind
    a = b.abs(x)
    tiny = a < SMALLEST_NORMAL[kind]
    a = b.select(tiny, a * 2.0**54, a)
    third = b.to_int(b.to_float(b.bits(a)) * (1.0 / 3.0))
    y = b.bitcast(third + _CBRT_START[kind], x.type)
    for _ in range(2 if kind == "f32" else 3):
        quarter = y * y * (y * 0.25)  # of the cube, lest the sums overflow
        y = y * ((quarter + 0.5 * a) / (2.0 * quarter + 0.25 * a))
    square = y * y
    residue = b.fma(square, y, -a) + y * b.fma(y, y, -square)
    y = y - residue / (3.0 * square)
    y = b.select(tiny, y * 2.0**-18, y)
    y = b.select(b.eq(a, 0) | ~(a < INF), a, y)
    return b.copysign(y, x)


@exact
def power(b: Builder, x: Value, y: Value) -> Value:
    """x**y, for zeros, infinities, NaN and negative x as C's pow."""
    magnitude = _magnitude(b, b.abs(x), y)
    whole = b.eq(b.trunc(y), y)
    half = y * 0.5
    odd = whole & b.ne(b.trunc(half), half)
    signed = b.bits(magnitude) | b.select(odd, sign_bits(b, x), 0)
    result = b.bitcast(signed, x.type)
    invalid = (x < 0) & (x > -INF) & ~whole
    result = b.select(invalid, NAN, result)
    one = b.eq(y, 0) | b.eq(x, 1.0) | (b.eq(x, -1.0) & b.eq(b.abs(y), INF))
    return b.select(one, 1.0, result)


def _magnitude(b: Builder, a: Value, y: Value) -> Value:
    """e**(y*log(a)) for a >= 0; f32 through f64, f64 through pairs of f64."""
    if a.type.kind == "f32":
        wide = b.convert(y, "f64") * log(b, b.convert(a, "f64"))
        return b.convert(scaled_exp(b, wide), "f32")
    high, low = _log_pair(b, a)
    product = y * high
    rest = b.fma(y, high, -product) + y * low
    rest = b.select(b.abs(product) < 1e4, rest, 0.0)
    return scaled_exp(b, product, 0, rest)


def _log_pair(b: Builder, a: Value) -> tuple[Value, Value]:
    """log(a) as a sum of two f64, with some 64 bits in all."""
    f, k = split(b, a)
    below = f + 2.0
    s = f / below
    # What the quotient lost: (f - s*(2 + f))/(2 + f), the sum below being inexact.
    lost = b.fma(-s, below, f) - s * (f - (below - 2.0))
    z = s * s
    series = s * z * polynomial(b, z, coefficients.LOG)
    low = 2.0 * (lost / below) + series
    main_part = k * _LN2_SHORT
    high = main_part + 2.0 * s
    # The larger of the two terms comes first (k = 0 leaves only the second).
    error = b.select(b.eq(k, 0), 0.0, 2.0 * s - (high - main_part))
    low = low + (error + k * _LN2_REST)
    total = high + low
    low = low - (total - high)
    usual = (a > 0) & (a < INF)
    special = b.select(b.eq(a, 0), -INF, a + a)
    return b.select(usual, total, special), b.select(usual, low, 0.0)
