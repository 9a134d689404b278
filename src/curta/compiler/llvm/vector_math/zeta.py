"""Hurwitz's zeta function, and the derivatives of digamma that follow from it."""

from __future__ import annotations

from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math.apart import apart
from curta.compiler.llvm.vector_math.common import INF, NAN, clamp
from curta.compiler.llvm.vector_math.exponential import exp
from curta.compiler.llvm.vector_math.gamma import digamma, lgamma
from curta.compiler.llvm.vector_math.interface import MathBuilder
from curta.compiler.llvm.vector_math.power import power
from curta.primitives.elementwise.special_values import BERNOULLI, FACTORIALS

_TERMS = 10  # of the direct sum, and -q more if q is negative
_MOST_MORE = 100


@apart
def zeta(b: MathBuilder, s: Value, q: Value) -> Value:
    """The sum of (q + k)**-s over k >= 0."""
    return _zeta(b, s, q)


def _zeta(b: MathBuilder, s: Value, q: Value) -> Value:
    """The first terms one by one, the rest by Euler and Maclaurin (DLMF 25.11.5)."""
    minus = b.neg(s)
    count = b.floor(clamp(b, b.neg(q), 0.0, float(_MOST_MORE))) + float(_TERMS)
    zero = b.const(q.type, 0)
    with b.loop(0, _TERMS + _MOST_MORE, carried=[zero, q]) as loop:
        total, a = loop.carried
        number = b.splat(b.convert(loop.index, "f64"), q.lanes)
        more = number < count

        def added() -> list[Value]:
            term = total + power(b, a, minus)
            return [b.select(more, term, total), b.select(more, a + 1.0, a)]

        loop.next(*b.if_(b.any_lane(more), added, lambda: [total, a]))
    total, a = loop.results
    tail = power(b, a, minus)
    total = b.fma(tail, a / (s - 1.0) + 0.5, total)
    factor, inverse = tail * (s / a), 1.0 / (a * a)
    for k, bernoulli in enumerate(BERNOULLI, 1):
        total = b.fma(factor, bernoulli / FACTORIALS[k], total)
        factor = factor * (s + float(2 * k - 1)) * (s + float(2 * k)) * inverse
    undefined = (s < 1.0) | ((q < 0.0) & b.ne(b.floor(s), s))
    total = b.select(undefined, NAN, total)
    pole = (q <= 0.0) & b.eq(b.floor(q), q)
    at_pole = b.select(_is_even(b, s), b.const(s.type, INF), b.const(s.type, NAN))
    return b.select(b.eq(s, 1.0), INF, b.select(pole, at_pole, total))


@apart
def polygamma(b: MathBuilder, m: Value, x: Value) -> Value:
    """(-1)**(m + 1) m! zeta(m + 1, x) for whole m > 0 (NIST DLMF 25.11.12)."""
    whole = (m >= 0.0) & b.eq(b.floor(m), m)
    s = b.select(whole & (m > 0.0), m + 1.0, 2.0)
    size = exp(b, lgamma(b, s)) * _zeta(b, s, x)
    result = b.select(_is_even(b, m), b.neg(size), size)
    result = b.select(b.eq(m, 0.0), digamma(b, x), result)
    return b.select(whole, result, NAN)


def _is_even(b: MathBuilder, x: Value) -> Value:
    half = x * 0.5
    return b.eq(b.floor(half), half) & (b.abs(x) < INF)
