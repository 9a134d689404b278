"""exp, exp2, expm1, logistic.

x = n*ln2 + r with |r| <= ln2/2, and e**x = 2**n * e**r; e**r by a polynomial (the
usual reduction: Muller, Elementary Functions, 2016, chapter 11).
"""

from __future__ import annotations

from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math import avx512, coefficients
from curta.compiler.llvm.vector_math.common import (
    LN2_HIGH,
    LN2_LOW,
    clamp,
    exact,
    nearest_multiple,
    polynomial,
    power_of_two,
)
from curta.compiler.llvm.vector_math.interface import MathBuilder

_LOG2_E = 1.44269504088896340736
# Below and above, e**x is 0 and infinite, also when it is halved.
_RANGE = {"f32": (-105.0, 90.0), "f64": (-746.0, 711.0)}
_RANGE2 = {"f32": (-151.0, 129.0), "f64": (-1076.0, 1025.0)}
_RANGE_M1 = {"f32": (-18.0, 89.0), "f64": (-38.0, 710.0)}


def _reduced(b: MathBuilder, x: Value) -> tuple[Value, Value, Value]:
    """r and n, as a float and as an integer, with x = n*ln2 + r."""
    kind = x.type.kind
    n, integer = nearest_multiple(b, x, _LOG2_E)
    r = b.fma(n, -LN2_HIGH[kind], x)
    return b.fma(n, -LN2_LOW[kind], r), n, integer


def _scaled(b: MathBuilder, x: Value, n: Value, integer: Value) -> Value:
    """x * 2**n rounded once, for n as a float and as an integer of its width."""
    if avx512.available(b):
        return avx512.scaled(b, x, n)
    half = integer >> 1
    kind = x.type.kind
    return x * power_of_two(b, half, kind) * power_of_two(b, integer - half, kind)


@exact
def scaled_exp(b: MathBuilder, x: Value, power: int = 0) -> Value:
    """2**power * e**x, rounded at the end."""
    x = clamp(b, x, *_RANGE[x.type.kind])
    r, n, integer = _reduced(b, x)
    q = polynomial(b, r, coefficients.EXP)
    p = b.fma(r * r, q, r) + 1.0
    if power:
        n, integer = n + power, integer + power
    return _scaled(b, p, n, integer)


@exact
def exp_of_pair(b: MathBuilder, x: Value, low: Value) -> Value:
    """e**(x + low), nearly rounded once; `low` is at most an ulp of x."""
    kind = x.type.kind
    x = clamp(b, x, *_RANGE[kind])
    n, integer = nearest_multiple(b, x, _LOG2_E)
    high = b.fma(n, -LN2_HIGH[kind], x)
    low = b.fma(n, -LN2_LOW[kind], low)
    r = high + low
    low = low - (r - high)
    total = r + 1.0
    low = low + (r - (total - 1.0))
    q = polynomial(b, r, coefficients.EXP)
    return _scaled(b, total + b.fma(r * r, q, low), n, integer)


@exact
def exp(b: MathBuilder, x: Value) -> Value:
    return scaled_exp(b, x)


@exact
def exp2(b: MathBuilder, x: Value) -> Value:
    x = clamp(b, x, *_RANGE2[x.type.kind])
    n, integer = nearest_multiple(b, x, 1.0)
    r = x - n
    p = b.fma(polynomial(b, r, coefficients.EXP2), r, 1.0)
    return _scaled(b, p, n, integer)


@exact
def expm1(b: MathBuilder, x: Value) -> Value:
    """2**n * (e**r - 1) + (2**n - 1), with 2**(n-1) in both so that none overflows."""
    y = clamp(b, x, *_RANGE_M1[x.type.kind])
    r, _, n = _reduced(b, y)
    p = b.fma(r * r, polynomial(b, r, coefficients.EXPM1), r)
    half = power_of_two(b, n - 1, x.type.kind)
    result = b.fma(half, p, half - 0.5)
    result = result + result
    # For n = 0 the polynomial alone, which keeps tiny results.
    return b.copysign(b.select(b.eq(n, 0), p, result), x)


@exact
def logistic(b: MathBuilder, x: Value) -> Value:
    """1/(1 + e**-x), through e**-|x| so that nothing overflows."""
    e = exp(b, -b.abs(x))
    return b.select(x >= 0, 1.0, e) / (e + 1.0)
