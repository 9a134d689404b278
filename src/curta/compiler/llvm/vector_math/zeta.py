"""Hurwitz's zeta function, and the derivatives of digamma that follow from it."""

from __future__ import annotations

from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math.apart import apart
from curta.compiler.llvm.vector_math.common import INF, NAN
from curta.compiler.llvm.vector_math.exponential import exp
from curta.compiler.llvm.vector_math.gamma import digamma
from curta.compiler.llvm.vector_math.interface import MathBuilder
from curta.compiler.llvm.vector_math.logarithm import log1p
from curta.compiler.llvm.vector_math.power import power
from curta.primitives.elementwise.special_values import BERNOULLI, FACTORIALS

_TERMS = 10  # of the direct sum, and -q more if q is negative
_MOST_MORE = 1000
_INFINITE_FACTORIAL = 171.0
_TINY = 2.0**-1022


@apart
def zeta(b: MathBuilder, s: Value, q: Value) -> Value:
    """The sum of (q + k)**-s over k >= 0."""
    return _zeta(b, s, q)


def _zeta(b: MathBuilder, s: Value, q: Value) -> Value:
    """The first terms one by one, the rest by Euler and Maclaurin (DLMF 25.11.5).

    Terms are taken as shares of the first positive one, which spares them the errors
    of large powers. That comes first, as it may cancel with a negative one.
    """
    minus = b.neg(s)
    near = q >= -float(_MOST_MORE)

    def is_negative(values: list[Value]) -> Value:
        return near & (values[1] < 0.0)

    def added(values: list[Value]) -> list[Value]:
        total, a = values
        more = is_negative(values)
        term = total + power(b, a, minus)
        return [b.select(more, term, total), b.select(more, a + 1.0, a)]

    initial = [b.const(q.type, 0), q]
    total, first = b.while_loop(initial, lambda v: b.any_lane(is_negative(v)), added)
    with b.loop(1, _TERMS, carried=[b.const(q.type, 0)]) as loop:
        number = b.splat(b.convert(loop.index, "f64"), q.lanes)
        share = exp(b, minus * log1p(b, number / first))
        loop.next(loop.carried[0] + share)
    (shares,) = loop.results
    a = first + float(_TERMS)
    tail = exp(b, minus * log1p(b, float(_TERMS) / first))
    shares = b.fma(tail, a / (s - 1.0) + 0.5, shares)
    factor, inverse = tail * (s / a), 1.0 / a
    for k, bernoulli in enumerate(BERNOULLI, 1):
        shares = b.fma(factor, bernoulli / FACTORIALS[k], shares)
        step = (s + float(2 * k - 1)) * inverse
        factor = factor * step * ((s + float(2 * k)) * inverse)
    largest = power(b, first, minus)  # which may be infinite, and the shares 0
    shares = b.select(shares < _TINY, _TINY, shares)
    total = (total + largest) + largest * shares
    undefined = ~near | (s < 1.0) | ((q < 0.0) & b.ne(b.floor(s), s))
    total = b.select(b.eq(q, INF) & (s > 1.0), 0.0, total)
    total = b.select(undefined, NAN, total)
    pole = (q <= 0.0) & b.eq(b.floor(q), q)
    at_pole = b.select(_is_even(b, s), b.const(s.type, INF), b.const(s.type, NAN))
    return b.select(b.eq(s, 1.0), INF, b.select(pole, at_pole, total))


@apart
def polygamma(b: MathBuilder, m: Value, x: Value) -> Value:
    """(-1)**(m + 1) m! zeta(m + 1, x) for whole m > 0 (NIST DLMF 25.11.12)."""
    whole = (m >= 0.0) & b.eq(b.floor(m), m)
    s = b.select(whole & (m > 0.0), m + 1.0, 2.0)
    size = _factorial(b, m) * _zeta(b, s, x)
    result = b.select(_is_even(b, m), b.neg(size), size)
    none = b.eq(m, 0.0)
    (result,) = b.if_(
        b.any_lane(none),
        lambda: [b.select(none, digamma(b, x), result)],
        lambda: [result],
    )
    return b.select(whole, result, NAN)


def _factorial(b: MathBuilder, m: Value) -> Value:
    """m! of whole numbers, infinite where that overflows."""
    last = b.select(m > _INFINITE_FACTORIAL, _INFINITE_FACTORIAL, m)

    def multiplied(values: list[Value]) -> list[Value]:
        product, k = values
        return [b.select(k <= last, product * k, product), k + 1.0]

    initial = [b.const(m.type, 1), b.const(m.type, 2)]
    return b.while_loop(initial, lambda v: b.any_lane(v[1] <= last), multiplied)[0]


def _is_even(b: MathBuilder, x: Value) -> Value:
    half = x * 0.5
    return b.eq(b.floor(half), half) & (b.abs(x) < INF)
