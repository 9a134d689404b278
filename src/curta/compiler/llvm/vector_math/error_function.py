"""erf, erfc, erf_inv."""

from __future__ import annotations

from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math import avx512, coefficients
from curta.compiler.llvm.vector_math.coefficients import ERF_PIECES
from curta.compiler.llvm.vector_math.common import (
    INF,
    exact,
    nearest_power,
    nearest_row,
    polynomial,
    square_error,
)
from curta.compiler.llvm.vector_math.exponential import exp
from curta.compiler.llvm.vector_math.interface import MathBuilder
from curta.compiler.llvm.vector_math.logarithm import log1p
from curta.primitives.elementwise.special_values import GILES_CENTRE, GILES_TAIL

_LN2 = 0.69314718055994530942
# Where erf changes from its series in f64, and from where it is 1 in f32.
_SERIES_END = 1.0
_ERF_END = 4.0
# The pieces of erf; beyond their end, which is the last one's, it is 1 in f32.
_PIECE_WIDTH = 33 / 128
_PIECES_END = 3.99
# Beyond the end erfc is 0.
_ERFC_END = {"f32": 10.2, "f64": 27.3}


@exact
def erf(b: MathBuilder, x: Value) -> Value:
    """f32: in pieces or 1 - e**(a*p(a)), a = |x|; f64: x + x*p(x*x), or 1 - erfc."""
    a = b.abs(x)
    if x.type.kind == "f32":
        positive = _erf_in_pieces if avx512.available(b) else _erf_positive
        return b.copysign(positive(b, a), x)
    # One chain, not two: the sum of two polynomials is rounded once more.
    small = b.fma(x, b.horner(x * x, coefficients.ERF["f64"]), x)
    large = b.copysign(1.0 - _erfc_positive(b, a), x)
    return b.select(a < _SERIES_END, small, large)


def _erf_in_pieces(b: MathBuilder, a: Value) -> Value:
    """A polynomial of the distance from the nearest multiple of the width."""
    a = b.select(a > _PIECES_END, _PIECES_END, a)
    n, index = nearest_row(b, a, 1 / _PIECE_WIDTH)
    t = b.fma(n, -_PIECE_WIDTH, a)
    *slope, start = (avx512.lookup(b, row, index) for row in ERF_PIECES)
    return b.fma(t, b.horner(t, slope), start + t)


def _erf_positive(b: MathBuilder, a: Value) -> Value:
    """1 - e**y for y = a*p(a) = n*ln2 + r, as (1 - 2**n) - 2**n * (e**r - 1)."""
    a = b.select(a > _ERF_END, _ERF_END, a)
    y = a * polynomial(b, a, coefficients.LOG_ERFC)
    n, power = nearest_power(b, y, 1 / _LN2)
    r = b.fma(n, -_LN2, y)
    p = b.fma(r * r, polynomial(b, r, coefficients.EXPM1), r)
    return b.fma(-power, p, 1.0 - power)


def _erfc_positive(b: MathBuilder, a: Value) -> Value:
    """e**(-a*a) * g(a)/(1 + 2a), where g is a polynomial of (a - 4)/(a + 4)."""
    end = _ERFC_END[a.type.kind]
    a = b.select(a > end, end, a)
    g = polynomial(b, (a - 4.0) / (a + 4.0), coefficients.ERFC)
    square = a * a
    e = exp(b, -square)
    e = b.fma(-e, square_error(b, a, square), e)
    return e * (g / b.fma(a, 2.0, 1.0))


@exact
def erfc(b: MathBuilder, x: Value) -> Value:
    tail = _erfc_positive(b, b.abs(x))
    return b.select(x < 0, 2.0 - tail, tail)


@exact
def erf_inv(b: MathBuilder, x: Value) -> Value:
    """x times a polynomial of w = -log(1 - x*x), or in the tails of sqrt(w).

    Source: Giles, Approximating the erfinv function (2010). In f32 the square is
    rounded before the logarithm, as it is in JAX, so that normal random numbers agree
    with JAX's far out in the tails too.
    """
    square = x * x
    if x.type.kind == "f32":
        p = _blend(b, -log1p(b, -square), 5.0, 2.5, 3.0)
    else:
        w = -log1p(b, -square, -square_error(b, x, square))
        central = polynomial(b, w - 3.125, coefficients.ERF_INV)
        root = b.sqrt(w)
        tail = polynomial(b, root - 3.25, coefficients.ERF_INV_TAIL)
        far = polynomial(b, root - 5.0, coefficients.ERF_INV_FAR)
        p = b.select(w < 6.25, central, b.select(w < 16.0, tail, far))
    return b.select(b.eq(b.abs(x), 1.0), x * INF, p * x)


def _blend(b: MathBuilder, w: Value, limit: float, middle: float, root: float) -> Value:
    """One polynomial whose coefficients depend on the lane: half the work."""
    central = w < limit
    v = b.select(central, w - middle, b.sqrt(w) - root)
    blended = [
        b.select(central, b.const(w.type, near), b.const(w.type, far))
        for near, far in zip(GILES_CENTRE, GILES_TAIL, strict=True)
    ]
    return b.horner(v, blended)
