"""sinh, cosh, tanh, asinh, acosh, atanh."""

from __future__ import annotations

from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math import coefficients
from curta.compiler.llvm.vector_math.common import NAN, exact, nearest_power, polynomial
from curta.compiler.llvm.vector_math.exponential import scaled_exp
from curta.compiler.llvm.vector_math.interface import MathBuilder
from curta.compiler.llvm.vector_math.logarithm import log, log1p

_LN2 = 0.69314718055994530942
# tanh is 1 beyond the first; x*x + 1 is x*x beyond the second.
_TANH_END = {"f32": 10.0, "f64": 20.0}
_HUGE = {"f32": 2.0**14, "f64": 2.0**28}


def _odd_series(b: MathBuilder, x: Value, table: coefficients.Table) -> Value:
    """x + x**3 * p(x*x)"""
    z = x * x
    return b.fma(x * z, polynomial(b, z, table), x)


@exact
def sinh(b: MathBuilder, x: Value) -> Value:
    a = b.abs(x)
    half = scaled_exp(b, a, -1)  # e**a/2, which overflows no sooner than sinh
    large = half - 0.25 / half
    small = _odd_series(b, a, coefficients.SINH)
    return b.copysign(b.select(a < 1.0, small, large), x)


@exact
def cosh(b: MathBuilder, x: Value) -> Value:
    half = scaled_exp(b, b.abs(x), -1)
    return half + 0.25 / half


@exact
def tanh(b: MathBuilder, x: Value) -> Value:
    """u/(u + 1) for u = (e**2a - 1)/2 and a = |x|.

    u is 2**n * p + (2**n - 1)/2, where p = (e**2r - 1)/2 and a = n*ln2/2 + r. Near 0
    it is p alone, so that one path serves for all of x.
    """
    a = b.abs(x)
    end = _TANH_END[x.type.kind]
    a = b.select(a > end, end, a)
    n, power = nearest_power(b, a, 2 / _LN2)
    r = b.fma(n, -_LN2 / 2, a)
    p = b.fma(r * r, polynomial(b, r, coefficients.EXPM1_HALF), r)
    u = b.fma(power, p, b.fma(power, 0.5, -0.5))
    return b.copysign(u / (u + 1.0), x)


@exact
def asinh(b: MathBuilder, x: Value) -> Value:
    """log(a + sqrt(a*a + 1)) without cancellation, a = |x|."""
    a = b.abs(x)
    huge = a > _HUGE[x.type.kind]
    c = b.select(huge, 1.0, a)
    square = c * c
    result = log1p(b, c + square / (b.sqrt(square + 1.0) + 1.0))
    return b.copysign(b.select(huge, log(b, a) + _LN2, result), x)


@exact
def acosh(b: MathBuilder, x: Value) -> Value:
    """log(x + sqrt(x*x - 1)), from t = x - 1."""
    huge = x > _HUGE[x.type.kind]
    t = b.select(huge, 1.0, x - 1.0)
    result = log1p(b, t + b.sqrt(t * (t + 2.0)))
    result = b.select(huge, log(b, x) + _LN2, result)
    return b.select(x < 1.0, NAN, result)


@exact
def atanh(b: MathBuilder, x: Value) -> Value:
    """log1p(2a/(1 - a))/2, a = |x|."""
    a = b.abs(x)
    return b.copysign(0.5 * log1p(b, 2.0 * a / (1.0 - a)), x)
