"""Incomplete gamma and beta functions.

Series and continued fractions go on until the terms do not show any more, in each lane
for itself. Fractions are evaluated forwards (Lentz, 1976); slopes in a parameter are
those of every step.
"""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.llvm.builder import Values
from curta.compiler.llvm.types import I64, Value
from curta.compiler.llvm.vector_math import coefficients
from curta.compiler.llvm.vector_math.apart import apart
from curta.compiler.llvm.vector_math.common import INF, NAN, polynomial
from curta.compiler.llvm.vector_math.exponential import exp
from curta.compiler.llvm.vector_math.gamma import digamma, lgamma
from curta.compiler.llvm.vector_math.interface import MathBuilder
from curta.compiler.llvm.vector_math.logarithm import log, log1p

_EPSILON = 2.0**-52
_NOISE = 2.0**-49  # of a slope, whose steps cancel
_TINY = 1e-300
_MOST_STEPS = 20_000
_LARGE = 10.0  # parameters of which Stirling's series tells all digits
_INVERSE_TWO_PI = 0.15915494309189533577


@apart
def igamma(b: MathBuilder, a: Value, x: Value) -> Value:
    """The regularised lower incomplete gamma function P(a, x)."""
    return _of_gamma(b, a, x, 1.0, 0.0)


@apart
def igammac(b: MathBuilder, a: Value, x: Value) -> Value:
    """The regularised upper incomplete gamma function Q(a, x)."""
    return _of_gamma(b, a, x, 0.0, 1.0)


@apart
def igamma_grad_a(b: MathBuilder, a: Value, x: Value) -> Value:
    """The derivative of P(a, x) with respect to a."""
    shape, bound, legal = _legal(b, a, x)
    slope = _weight(b, shape, bound) * _slope(b, shape, bound)
    return _where_legal(b, slope, a, x, legal)


@apart
def random_gamma_grad(b: MathBuilder, a: Value, x: Value) -> Value:
    """The derivative of a sample x of Gamma(a, 1) with respect to a."""
    shape, bound, legal = _legal(b, a, x)
    return _where_legal(b, b.neg(bound) * _slope(b, shape, bound), a, x, legal)


def _of_gamma(
    b: MathBuilder, a: Value, x: Value, at_end: float, at_zero: float
) -> Value:
    """P or Q: which has the value `at_end` for infinite x, and `at_zero` for 0."""
    shape, bound, legal = _legal(b, a, x)
    by_series, weight = _by_series(b, shape, bound), _weight(b, shape, bound)
    lower = weight * _series(b, shape, bound, False)[0] / shape
    upper = weight * _fraction(b, shape, bound, False)[0]
    value = b.select(by_series, lower, upper)
    result = b.select(by_series if at_end else b.not_(by_series), value, 1.0 - value)
    one = (b.eq(a, 0.0) & (x > 0.0)) | (b.eq(x, INF) & (a < INF))
    zero = (b.eq(x, 0.0) & (a > 0.0)) | (b.eq(a, INF) & (x < INF))
    result = b.select(zero, at_zero, result)
    result = b.select(one, at_end, result)
    known = (legal | one | zero) & (a >= 0.0) & (x >= 0.0)
    return b.select(known, result, NAN)


def _legal(b: MathBuilder, a: Value, x: Value) -> tuple[Value, Value, Value]:
    """The operands, with 1 where they are not positive and finite."""
    legal = (a > 0.0) & (x > 0.0) & (a < INF) & (x < INF)
    return b.select(legal, a, 1.0), b.select(legal, x, 1.0), legal


def _where_legal(
    b: MathBuilder, slope: Value, a: Value, x: Value, legal: Value
) -> Value:
    """The slope inside the domain, 0 where x is 0, NaN elsewhere."""
    at_zero = (a > 0.0) & b.eq(x, 0.0)
    outside = b.select(at_zero, b.const(x.type, 0), b.const(x.type, NAN))
    return b.select(legal, slope, outside)


def _by_series(b: MathBuilder, a: Value, x: Value) -> Value:
    """Where the series converges faster than the fraction."""
    return (x <= 1.0) | (x <= a)


def _weight(b: MathBuilder, a: Value, x: Value) -> Value:
    """x**a exp(-x) / gamma(a)."""
    return exp(b, a * log(b, x) - x - lgamma(b, a))


def _slope(b: MathBuilder, a: Value, x: Value) -> Value:
    """dP/da over the weight."""
    logarithm = log(b, x)
    total, change = _series(b, a, x, True)
    series = b.fma(total, logarithm - digamma(b, a + 1.0), change) / a
    value, change = _fraction(b, a, x, True)
    fraction = b.neg(b.fma(value, logarithm - digamma(b, a), change))
    return b.select(_by_series(b, a, x), series, fraction)


def _until_all(
    b: MathBuilder,
    active: Value,
    initial: Values,
    step: Callable[[Value, Values], tuple[Value, Values]],
) -> Values:
    """Repeat a step, given its number, in every lane for as long as it is active.

    A step says which lanes go on, and the next values.
    """

    def goes_on(carried: Values) -> Value:
        return b.any_lane(carried[1]) & (carried[0] < _MOST_STEPS)

    def iteration(carried: Values) -> Values:
        number, on, *values = carried
        number = number + 1
        index = b.splat(b.convert(number, "f64"), on.lanes)
        more, stepped = step(index, values)
        kept = [b.select(on, x, y) for x, y in zip(stepped, values, strict=True)]
        return [number, on & more, *kept]

    return b.while_loop([b.const(I64, 0), active, *initial], goes_on, iteration)[2:]


def _series(b: MathBuilder, a: Value, x: Value, with_slope: bool) -> Values:
    """The sum of x**k / ((a + 1) ... (a + k)) over k >= 0, and its slope in a.

    NIST DLMF 8.7.1.
    """

    def step(k: Value, values: Values) -> tuple[Value, Values]:
        term, total, *slopes = values
        order = a + k
        term = term * (x / order)
        total = total + term
        more = term > total * _EPSILON
        if not with_slope:
            return more, [term, total]
        slope, sum_ = slopes
        slope = slope - 1.0 / order
        change = term * slope
        sum_ = sum_ + change
        more = more | (b.abs(change) > b.abs(sum_) * _EPSILON)
        return more, [term, total, slope, sum_]

    one, zero = b.const(a.type, 1), b.const(a.type, 0)
    initial = [one, one, zero, zero] if with_slope else [one, one]
    return _until_all(b, _by_series(b, a, x), initial, step)[1::2]


def _fraction(b: MathBuilder, a: Value, x: Value, with_slope: bool) -> Values:
    """1/(x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))), and its slope in a.

    NIST DLMF 8.9.2, in the form whose parts are even.
    """
    active = b.not_(_by_series(b, a, x))
    a, x = b.select(active, a, 1.0), b.select(active, x, 2.0)
    first = x + 1.0 - a

    def step(k: Value, values: Values) -> tuple[Value, Values]:
        c, d, h, *slopes = values
        part, added = k * (a - k), b.fma(k, 2.0, first)
        inverse = 1.0 / _away_from_zero(b, b.fma(part, d, added))
        ratio = part / c
        after = _away_from_zero(b, added + ratio)
        delta = inverse * after
        more = b.abs(delta - 1.0) > _EPSILON
        if not with_slope:
            return more, [after, inverse, h * delta]
        c_slope, d_slope, h_slope = slopes
        d_next = inverse * inverse * b.neg(b.fma(part, d_slope, k * d) - 1.0)
        c_next = (k - ratio * c_slope) / c - 1.0
        change = h * b.fma(d_next, after, inverse * c_next)
        h_next = b.fma(h_slope, delta, change)
        more = more | (b.abs(change) > b.abs(h_next) * _NOISE)
        return more, [after, inverse, h * delta, c_next, d_next, h_next]

    d, zero = 1.0 / first, b.const(a.type, 0)
    initial = [b.const(a.type, 1 / _TINY), d, d]
    if with_slope:
        initial += [zero, d * d, d * d]
    return _until_all(b, active, initial, step)[2::3]


def _away_from_zero(b: MathBuilder, x: Value) -> Value:
    return b.select(b.abs(x) < _TINY, _TINY, x)


@apart
def regularized_incomplete_beta(b: MathBuilder, a: Value, c: Value, x: Value) -> Value:
    """The regularised incomplete beta function I_x(a, c)."""
    legal = (a > 0.0) & (c > 0.0) & (x > 0.0) & (x < 1.0) & (a < INF) & (c < INF)
    p, q = b.select(legal, a, 1.0), b.select(legal, c, 1.0)
    y = b.select(legal, x, 0.5)
    swapped = y > (p + 1.0) / (p + q + 2.0)
    p, q = b.select(swapped, q, p), b.select(swapped, p, q)
    y = b.select(swapped, 1.0 - y, y)
    inside = _beta_weight(b, p, q, y) * _beta_fraction(b, p, q, y, legal) / p
    result = b.select(swapped, 1.0 - inside, inside)
    none = b.eq(a, 0.0) | b.eq(c, INF)
    all_ = b.eq(c, 0.0) | b.eq(a, INF)
    result = b.select((all_ & b.ne(x, 1.0)) | b.eq(x, 0.0), 0.0, result)
    result = b.select((none & b.ne(x, 0.0)) | b.eq(x, 1.0), 1.0, result)
    known = (a >= 0.0) & (c >= 0.0) & (x >= 0.0) & (x <= 1.0)
    return b.select(known & b.not_(none & all_), result, NAN)


def _beta_weight(b: MathBuilder, p: Value, q: Value, y: Value) -> Value:
    """y**p (1 - y)**q / B(p, q), in which large parameters cancel by Stirling's series.

    Near the mean, where both are large, as the exponential of the deviance (C. Loader,
    Fast and Accurate Computation of Binomial Probabilities, 2000).
    """
    both, small, big = p + q, b.min(p, q), b.max(p, q)

    def beyond(x: Value) -> Value:
        """What log(gamma(x)) is more than the first terms of the series."""
        r = 1.0 / x
        return r * polynomial(b, r * r, coefficients.STIRLING)

    gap = beyond(both) - beyond(big)
    ratio = (big - 0.5) * log1p(b, small / big) + small * (log(b, both) - 1.0) + gap
    plain = lgamma(b, both) - lgamma(b, big)
    log_beta = lgamma(b, small) - b.select(big > _LARGE, ratio, plain)
    far = p * log(b, y) + q * log1p(b, b.neg(y)) - log_beta
    u = b.fma(both, y, b.neg(p))
    deviance = p * log1p(b, u / p) + q * log1p(b, b.neg(u) / q)
    near = deviance + 0.5 * log(b, small * (big / both) * _INVERSE_TWO_PI)
    near = near + gap - beyond(small)
    return exp(b, b.select((small > _LARGE) & (b.abs(u) < 0.5 * small), near, far))


def _beta_fraction(b: MathBuilder, p: Value, q: Value, y: Value, legal: Value) -> Value:
    """The continued fraction of I_y(p, q) (NIST DLMF 8.17.22), two steps at once."""
    both = p + q

    def step(m: Value, values: Values) -> tuple[Value, Values]:
        c, d, h = values
        index = b.fma(m, 2.0, p)
        even = m * ((q - m) * y) / ((index - 1.0) * index)
        odd = b.neg(p + m) * ((both + m) * y) / (index * (index + 1.0))
        for part in (even, odd):
            d = 1.0 / _away_from_zero(b, b.fma(part, d, 1.0))
            c = _away_from_zero(b, 1.0 + part / c)
            delta = c * d
            h = h * delta
        return b.abs(delta - 1.0) > _EPSILON, [c, d, h]

    first = 1.0 / _away_from_zero(b, 1.0 - both * y / (p + 1.0))
    initial = [b.const(p.type, 1), first, first]
    return _until_all(b, legal, initial, step)[2]
