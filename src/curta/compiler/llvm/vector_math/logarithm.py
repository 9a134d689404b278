"""log, log2 and log1p.

x = 2**k * (1 + f) with 1 + f near 1, and log(x) = k*ln2 + log1p(f). In f32 log1p(f)
is a polynomial; in f64 it is a series in s = f/(2 + f), as 2*atanh(s) (Tang 1990,
Table-driven implementation of the logarithm function).
"""

from __future__ import annotations

from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math import avx512, coefficients
from curta.compiler.llvm.vector_math.common import (
    INF,
    MANTISSA,
    NAN,
    SMALLEST_NORMAL,
    exact,
    polynomial,
)
from curta.compiler.llvm.vector_math.interface import MathBuilder

# The bits of the smallest 1 + f: 3/4 in f32, the root of 1/2 in f64.
_LEAST = {"f32": 0x3F400000, "f64": 0x3FE6A09E667F3BCD}
_ONE_BITS = {"f32": 0x3F800000, "f64": 0x3FF0000000000000}
# ln2 as two positive numbers: of an infinite exponent, sums of multiples are infinite.
# In f64 the first has zeros at its end, so that its product with an exponent is exact.
_LN2 = {"f32": 0.693147122859954833984, "f64": 6.93147180369123816490e-01}
_LN2_REST = {"f32": 5.76999904754e-8, "f64": 1.90821492927058770002e-10}
_LOG2_E = 1.4426950408889634


def exponent_bits(b: MathBuilder, x: Value) -> Value:
    """k * 2**(bits of the mantissa), where x = 2**k * (1 + f)."""
    kind = x.type.kind
    return (b.bits(x) - _LEAST[kind]) & -(1 << MANTISSA[kind])


def log_reduced(b: MathBuilder, f: Value, k: Value) -> Value:
    """k*ln2 + log1p(f)."""
    ln2, rest = _LN2[f.type.kind], _LN2_REST[f.type.kind]
    if f.type.kind == "f32":
        q = b.fma(polynomial(b, f, coefficients.LOG), f, -0.5)
        return b.fma(k, ln2, b.fma(k, rest, b.fma(q, f * f, f)))
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    series = z * polynomial(b, z, coefficients.LOG)
    low = b.fma(s, half_square + series, k * rest)
    return b.fma(k, ln2, f - (half_square - low))


def split(b: MathBuilder, x: Value) -> tuple[Value, Value]:
    """f and k (a float) with x = 2**k * (1 + f), for positive finite x."""
    kind = x.type.kind
    if _has_instructions(b, x):
        m = avx512.mantissa(b, x)
        return m - 1.0, avx512.exponent(b, x) - avx512.exponent(b, m)
    bits = MANTISSA[kind]
    tiny = x < SMALLEST_NORMAL[kind]
    x = b.select(tiny, x * 2.0**bits, x)
    shift = b.select(tiny, b.const(x.type, -bits), 0.0)
    e = exponent_bits(b, x)
    f = b.bitcast(b.bits(x) - e, x.type) - 1.0
    k = b.fma(b.to_float(e), 2.0**-bits, shift)
    return f, k


def _has_instructions(b: MathBuilder, x: Value) -> bool:
    """Whether 1 + f is a mantissa, and k infinite or one of them NaN at the poles."""
    return x.type.kind == "f32" and avx512.available(b)


@exact
def log(b: MathBuilder, x: Value) -> Value:
    f, k = split(b, x)
    result = log_reduced(b, f, k)
    return result if _has_instructions(b, x) else with_poles(b, x, x, result)


@exact
def log2(b: MathBuilder, x: Value) -> Value:
    """k + log1p(f)/ln2, which is exact where x is a power of two."""
    f, k = split(b, x)
    # Without k: at the poles it is infinite, and its product with 0 is NaN.
    result = b.fma(log_reduced(b, f, b.const(x.type, 0.0)), _LOG2_E, k)
    return result if _has_instructions(b, x) else with_poles(b, x, x, result)


@exact
def log1p(b: MathBuilder, x: Value, low: Value | None = None) -> Value:
    """With 1 + x = 2**k * (1 + f), f = 2**-k * x + (2**-k - 1) is almost exact.

    Of the pair x + low, if `low` is given, which is at most an ulp of x.
    """
    kind = x.type.kind
    total = x + 1.0
    e = exponent_bits(b, total)
    # 2**-k, which may stop shrinking when it no longer matters beside 1.
    power = b.bitcast(_ONE_BITS[kind] - b.min(e, 64 << MANTISSA[kind]), x.type)
    f = b.bitcast(b.bits(x) - e, x.type) + (power - 1.0)
    # When 1 + x rounds to near 1, k is 0: f is x itself, however small.
    f = b.select(b.eq(e, 0), x, f)
    if low is not None:
        f = b.fma(low, power, f)
    k = b.to_float(e) * 2.0 ** -MANTISSA[kind]
    return b.copysign(with_poles(b, x, total, log_reduced(b, f, k)), x)


def with_poles(b: MathBuilder, x: Value, total: Value, result: Value) -> Value:
    """-inf where the total is 0, NaN below; infinity and NaN as they are."""
    if avx512.available(b):
        return avx512.fixed(b, result, total, avx512.POLES_OF_LOG)
    special = b.select(total < 0, NAN, x + x)
    special = b.select(b.eq(total, 0), -INF, special)
    return b.select((total > 0) & (total < INF), result, special)
