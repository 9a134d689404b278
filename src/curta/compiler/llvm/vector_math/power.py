"""pow, cbrt, rsqrt, sqrt."""

from __future__ import annotations

from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math import avx512, coefficients
from curta.compiler.llvm.vector_math.common import (
    INF,
    NAN,
    SMALLEST_NORMAL,
    clamp,
    exact,
    nearest_multiple,
    polynomial,
    power_of_two,
    sign_bits,
    square_error,
    through_doubles,
)
from curta.compiler.llvm.vector_math.exponential import exp_of_pair
from curta.compiler.llvm.vector_math.interface import MathBuilder
from curta.compiler.llvm.vector_math.logarithm import split, with_poles

# A third of the bits of a float plus this are the bits of about its cube root.
_CBRT_START = {"f32": 0x2A512CE3, "f64": 0x2A9F7893782DA1CE}
# ln2 with zeros at its end, so that its product with an exponent is exact.
_LN2_SHORT = 6.93147180369123816490e-01
_LN2_REST = 1.90821492927058770002e-10
# 2 to this power is infinite in f32, and to the other side 0.
_OVERFLOWS = 200.0
_TWO_THIRDS, _TWO_THIRDS_REST = 0.6666666666666666, 3.700743415417188e-17


@exact
def sqrt(b: MathBuilder, x: Value) -> Value:
    return b.sqrt(x)


@exact
def rsqrt(b: MathBuilder, x: Value) -> Value:
    """1/sqrt(x), or in f64 with AVX-512 a guess and two steps of Newton's method.

    The first step has a term more, so that 14 bits become 41.
    """
    if x.type.kind == "f32" or not avx512.available(b):
        return 1.0 / b.sqrt(x)
    guess = avx512.inverse_root(b, x)
    residue = b.fma(-(x * guess), guess, 1.0)
    y = b.fma(guess * residue, b.fma(residue, 0.375, 0.5), guess)
    y = b.fma(y * 0.5, b.fma(-(x * y), y, 1.0), y)
    return b.select(b.eq(x, 0) | b.eq(x, INF), guess, y)


@exact
def cbrt(b: MathBuilder, x: Value) -> Value:
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
def power(b: MathBuilder, x: Value, y: Value) -> Value:
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


def _magnitude(b: MathBuilder, a: Value, y: Value) -> Value:
    """a**y for a >= 0; f32 through f64, f64 through pairs of f64."""
    if a.type.kind == "f32":
        return _of_singles(b, a, y)
    high, low = _log_pair(b, a)
    product = y * high
    rest = b.fma(y, high, -product) + y * low
    rest = b.select(b.abs(product) < 1e4, rest, 0.0)
    return exp_of_pair(b, product, rest)


@through_doubles
def _of_singles(b: MathBuilder, a: Value, y: Value) -> Value:
    """2**(y*log2(a)) for a >= 0, in doubles with some 34 exact bits.

    log2(1 + f) is s*p(s*s), s = f/(2 + f).
    """
    f, k = split(b, a)
    k = with_poles(b, a, a, k)
    f, k, y = (b.convert(v, "f64") for v in (f, k, y))
    s = f / (f + 2.0)
    logarithm = b.fma(s, polynomial(b, s * s, coefficients.LOG2_OF_SINGLE), k)
    x = clamp(b, y * logarithm, -_OVERFLOWS, _OVERFLOWS)
    n, integer = nearest_multiple(b, x, 1.0)
    p = polynomial(b, x - n, coefficients.EXP2_OF_SINGLE)
    return b.convert(p * power_of_two(b, integer, "f64"), "f32")


def _log_pair(b: MathBuilder, a: Value) -> tuple[Value, Value]:
    """log(a) as a sum of two f64, with some 66 bits in all.

    It is k*ln2 + 2*s + 2/3*s**3 + s**5*p(s*s), s = f/(2 + f), where all but the last
    term is a pair of numbers.
    """
    f, k = split(b, a)
    below = f + 2.0
    inverse = 1.0 / below
    s = f * inverse
    # What the quotient lost, the sum below being inexact.
    s_low = (b.fma(-s, below, f) - s * (f - (below - 2.0))) * inverse
    z = s * s
    z_low = square_error(b, s, z) + 2.0 * s * s_low
    cube = s * z
    cube_low = b.fma(s, z, -cube) + b.fma(s, z_low, s_low * z)
    third = cube * _TWO_THIRDS
    third_low = b.fma(cube, _TWO_THIRDS, -third)
    third_low = third_low + b.fma(cube_low, _TWO_THIRDS, cube * _TWO_THIRDS_REST)
    series = b.fma(cube * z, polynomial(b, z, coefficients.LOG_PAIR), third_low)
    main_part = k * _LN2_SHORT
    first = main_part + 2.0 * s
    # The larger of the two terms comes first (k = 0 leaves only the second).
    error = b.select(b.eq(k, 0), 0.0, 2.0 * s - (first - main_part))
    high = first + third
    error = error + (third - (high - first))
    low = b.fma(k, _LN2_REST, error) + b.fma(s_low, 2.0, series)
    total = high + low
    low = low - (total - high)
    usual = (a > 0) & (a < INF)
    special = b.select(b.eq(a, 0), -INF, a + a)
    return b.select(usual, total, special), b.select(usual, low, 0.0)
