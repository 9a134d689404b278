"""Incomplete gamma and beta functions.

Series and continued fractions go on until the terms do not show any more, in each lane
for itself. Fractions are evaluated forwards (Lentz, 1976); slopes in a parameter are
those of every step. Of large parameters a and arguments x near a, Temme's uniform
expansion (NIST DLMF 8.12) takes their place.
"""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.llvm.builder import Values
from curta.compiler.llvm.types import I64, Value
from curta.compiler.llvm.vector_math import coefficients
from curta.compiler.llvm.vector_math.apart import apart
from curta.compiler.llvm.vector_math.common import INF, NAN, polynomial
from curta.compiler.llvm.vector_math.error_function import erfc
from curta.compiler.llvm.vector_math.exponential import exp, expm1
from curta.compiler.llvm.vector_math.gamma import (
    digamma,
    lgamma,
    log_gamma_above_one,
)
from curta.compiler.llvm.vector_math.interface import MathBuilder
from curta.compiler.llvm.vector_math.logarithm import log, log1p
from curta.primitives.elementwise.temme_values import LEAST, TEMME, WIDTH

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


@apart
def gamma_density(b: MathBuilder, a: Value, x: Value) -> Value:
    """The derivative of P(a, x) with respect to x, x**(a - 1) exp(-x) / gamma(a)."""
    shape, bound, legal = _legal(b, a, x)
    zero = b.const(x.type, 0)
    edge = b.select(b.eq(x, 0.0), _power_of_zero(b, a, b.const(a.type, 1)), zero)
    known = (a > 0.0) & b.eq(x, 0.0) | (a >= 0.0) & b.eq(x, INF)
    known = known | b.eq(a, 0.0) & (x > 0.0)
    edge = b.select(known, edge, b.const(x.type, NAN))
    return b.select(legal, _weight(b, shape, bound, 1.0), edge)


def _power_of_zero(b: MathBuilder, a: Value, one: Value) -> Value:
    """The limit of x**(a - 1) for x = 0, and `one` for a = 1."""
    above = b.select(b.eq(a, 1.0), one, b.const(a.type, 0))
    return b.select(a < 1.0, b.const(a.type, INF), above)


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
    small = (shape <= 1.0) & (bound <= 1.0)
    result = b.select(small, _by_parts(b, shape, bound, bool(at_end)), result)
    uniform = _uniform(b, shape, bound)
    (result,) = b.if_(
        b.any_lane(uniform),
        lambda: [
            b.select(uniform, _of_gamma_uniform(b, shape, bound, bool(at_end)), result)
        ],
        lambda: [result],
    )
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


def _uniform(b: MathBuilder, a: Value, x: Value) -> Value:
    """Where Temme's expansion has all digits."""
    return (a >= LEAST) & (b.abs(x - a) <= a * WIDTH)


def _by_series(b: MathBuilder, a: Value, x: Value) -> Value:
    """Where the series converges, and faster than the fraction."""
    return ((x <= 1.0) | (x <= a)) & b.not_(_uniform(b, a, x))


def _by_fraction(b: MathBuilder, a: Value, x: Value) -> Value:
    return b.not_((x <= 1.0) | (x <= a) | _uniform(b, a, x))


def _weight(b: MathBuilder, a: Value, x: Value, less: float = 0.0) -> Value:
    """x**(a - less) exp(-x) / gamma(a), of large a by the deviance of x (Loader).

    For small a, 1 / gamma(a) is a / gamma(a + 1), which keeps digits.
    """
    large, small = a > _LARGE, a <= 1.0
    c = b.select(large, a, _LARGE)
    saddle = b.neg(c * _less_log1p(b, x, c)) - _beyond_stirling(b, c)
    factor = b.sqrt(c * _INVERSE_TWO_PI)
    if less:
        factor = factor / x
    middle = b.select(large, 1.0, a)
    norm = b.select(small, log_gamma_above_one(b, b.min(a, 1.0)), lgamma(b, middle))
    other = (middle - less) * log(b, x) - x - norm
    factor = b.select(large, factor, b.select(small, a, 1.0))
    return factor * exp(b, b.select(large, saddle, other))


def _beyond_stirling(b: MathBuilder, x: Value) -> Value:
    """What log(gamma(x)) is more than the first terms of the series."""
    r = 1.0 / x
    return r * polynomial(b, r * r, coefficients.STIRLING)


def _less_log1p(b: MathBuilder, x: Value, a: Value) -> Value:
    """mu - log(1 + mu) for mu = (x - a) / a, near 0 by the series of 2 atanh(r)."""
    mu = (x - a) / a
    near = b.abs(mu) < 0.4
    r = b.select(near, mu / (mu + 2.0), 0.0)
    series = b.horner(r * r, _ATANH)
    far = mu - log(b, x) + log(b, a)
    return b.select(near, r * (mu - 2.0 * r * r * series), far)


# (atanh(r) - r) / r**3 in powers of r**2, highest first, for |r| <= 1/4
_ATANH = tuple(1 / (2 * k + 3) for k in reversed(range(14)))


def _by_parts(b: MathBuilder, a: Value, x: Value, is_lower: bool) -> Value:
    """P or Q for a, x <= 1, the second without cancellation where it is small.

    P is u (1 + s) with u = x**a / gamma(a + 1) and the series s of DLMF 8.7.1.
    """
    a, x = b.min(a, 1.0), b.min(x, 1.0)
    log_power = a * log(b, x) - log_gamma_above_one(b, a)
    total, term = b.const(a.type, 0), a
    for n in range(1, 20):
        term = term * (x * (-1.0 / n))
        total = total + term / (a + float(n))
    power = exp(b, log_power)
    if is_lower:
        return power + power * total
    return b.neg(expm1(b, log_power)) - power * total + 0.0


def _expansion(b: MathBuilder, a: Value, x: Value) -> tuple[Value, ...]:
    """a, mu = x / a - 1, eta and eta²/2 of Temme's expansion, where it holds."""
    inside = _uniform(b, a, x)
    a, x = b.select(inside, a, LEAST), b.select(inside, x, LEAST)
    mu, half = (x - a) / a, _less_log1p(b, x, a)
    return a, mu, b.copysign(b.sqrt(2.0 * half), mu), half


def _of_gamma_uniform(b: MathBuilder, a: Value, x: Value, is_lower: bool) -> Value:
    """P = erfc(-u) / 2 - e S, Q = erfc(u) / 2 + e S, with u = eta √(a/2).

    e is exp(-u²) / √(2πa), and S the sum of c_k(eta) / a**k.
    """
    a, _, eta, half = _expansion(b, a, x)
    u = eta * b.sqrt(a * 0.5)
    e = exp(b, b.neg(a * half)) / b.sqrt(a * (1 / _INVERSE_TWO_PI))
    r, total = 1.0 / a, b.const(a.type, 0)
    for row in reversed(TEMME):
        total = b.fma(total, r, b.horner(eta, row[::-1]))
    if is_lower:
        return 0.5 * erfc(b, b.neg(u)) - e * total
    return 0.5 * erfc(b, u) + e * total


def _slope_uniform(b: MathBuilder, a: Value, x: Value) -> Value:
    """dP/da over the weight, which is a e exp(-_beyond_stirling(a))."""
    a, mu, eta, half = _expansion(b, a, x)
    r = 1.0 / a
    total = by_r = by_eta = b.const(a.type, 0)
    for k, row in reversed([*enumerate(TEMME)]):
        value = b.horner(eta, row[::-1])
        total, by_r = b.fma(total, r, value), b.fma(by_r, r, value * float(k))
        slope = [n * c for n, c in enumerate(row)][:0:-1] or [0.0]
        if len(slope) > 1:
            by_eta = b.fma(by_eta, r, b.horner(eta, slope))
        else:
            by_eta = by_eta * r + slope[0]
    none = b.eq(eta, 0.0)
    ratio = b.select(none, 1.0, mu / b.select(none, 1.0, eta))
    change = total * (mu - half - 0.5 * r) - by_r * r
    change = eta * 0.5 - ratio - change + by_eta * ratio * r
    return change * r * exp(b, _beyond_stirling(b, a))


def _slope(b: MathBuilder, a: Value, x: Value) -> Value:
    """dP/da over the weight."""
    logarithm = log(b, x)
    total, change = _series(b, a, x, True)
    series = b.fma(total, logarithm - digamma(b, a + 1.0), change) / a
    value, change = _fraction(b, a, x, True)
    fraction = b.neg(b.fma(value, logarithm - digamma(b, a), change))
    slope = b.select(_by_series(b, a, x), series, fraction)
    return b.select(_uniform(b, a, x), _slope_uniform(b, a, x), slope)


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
    active = _by_fraction(b, a, x)
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
    return _beta_part(b, a, c, x, 1.0 - x)


@apart
def regularized_incomplete_beta_complement(
    b: MathBuilder, a: Value, c: Value, x: Value
) -> Value:
    """1 - I_x(a, c), which is I_(1 - x)(c, a)."""
    return _beta_part(b, c, a, 1.0 - x, x)


def _beta_part(b: MathBuilder, a: Value, c: Value, x: Value, y: Value) -> Value:
    """I_x(a, c), given y = 1 - x as well: the smaller of x and y has all its digits."""
    legal = (a > 0.0) & (c > 0.0) & (x > 0.0) & (y > 0.0) & (a < INF) & (c < INF)
    p, q = b.select(legal, a, 1.0), b.select(legal, c, 1.0)
    z, rest = b.select(legal, x, 0.5), b.select(legal, y, 0.5)
    swapped = z > (p + 1.0) / (p + q + 2.0)
    pairs = ((q, p), (p, q), (rest, z), (z, rest))
    first, second, bound, beyond = [b.select(swapped, v, w) for v, w in pairs]
    fraction = _beta_fraction(b, first, second, bound, legal)
    inside = _beta_weight(b, first, second, bound, beyond) * fraction / first
    result = b.select(swapped, 1.0 - inside, inside)
    small = swapped & (q <= 1.0)
    (result,) = b.if_(
        b.any_lane(small),
        lambda: [b.select(small, _beta_by_parts(b, p, q, rest, small), result)],
        lambda: [result],
    )
    result = b.min(b.max(result, 0.0), 1.0)
    none = b.eq(a, 0.0) | b.eq(c, INF)
    all_ = b.eq(c, 0.0) | b.eq(a, INF)
    result = b.select((all_ & b.ne(y, 0.0)) | b.eq(x, 0.0), 0.0, result)
    result = b.select((none & b.ne(x, 0.0)) | b.eq(y, 0.0), 1.0, result)
    known = (a >= 0.0) & (c >= 0.0) & (x >= 0.0) & (y >= 0.0)
    return b.select(known & b.not_(none & all_), result, NAN)


@apart
def beta_density(b: MathBuilder, a: Value, c: Value, x: Value) -> Value:
    """The derivative of I_x(a, c), x**(a - 1) (1 - x)**(c - 1) / B(a, c)."""
    positive = (a > 0.0) & (c > 0.0) & (a < INF) & (c < INF)
    legal = positive & (x > 0.0) & (x < 1.0)
    p, q = b.select(legal, a, 1.0), b.select(legal, c, 1.0)
    z = b.select(legal, x, 0.5)
    value = _beta_weight(b, p, q, z, 1.0 - z, 1.0)
    left, right = _power_of_zero(b, a, c), _power_of_zero(b, c, a)
    known = positive & (b.eq(x, 0.0) | b.eq(x, 1.0))
    edge = b.select(known, b.select(b.eq(x, 0.0), left, right), b.const(x.type, NAN))
    value = b.select(legal, value, edge)
    # All of the mass is at 0 or 1.
    apart = b.xor(b.eq(a, 0.0), b.eq(c, 0.0)) & (a >= 0.0) & (c >= 0.0)
    return b.select(apart & (x > 0.0) & (x < 1.0), 0.0, value)


def _beta_by_parts(
    b: MathBuilder, a: Value, c: Value, y: Value, active: Value
) -> Value:
    """I_(1 - y)(a, c) for c <= 1 and small y, accurate where it is small.

    1 - I is u (1 + c s), with the series s of (1 - a)_n yⁿ / (n! (c + n)) for n > 0
    (NIST DLMF 8.17.7) and u = y^c / (c B(a, c)), a / (a + c) times a power near 1.
    """
    a, c = b.select(active, a, 1.0), b.select(active, c, 1.0)
    y = b.select(active, y, 0.5)

    def step(n: Value, values: Values) -> tuple[Value, Values]:
        factor, total = values
        factor = factor * ((n - a) / n * y)
        term = factor / (c + n)
        total = total + term
        return b.abs(factor) > _EPSILON * 0.25, [factor, total]

    initial = [b.const(a.type, 1), b.const(a.type, 0)]
    _, total = _until_all(b, active, initial, step)
    power = _log_gamma_step(b, a + 1.0, c) - _log_gamma_step(b, b.const(a.type, 1), c)
    power = power + c * log(b, y)
    rest = expm1(b, power) + exp(b, power) * (c * total)
    return (c - a * rest) / (a + c)


def _log_gamma_step(b: MathBuilder, x: Value, s: Value) -> Value:
    """log(gamma(x + s) / gamma(x)) for x >= 1 and 0 <= s <= 1, accurate for small s.

    By Stirling's series from 16 on, below that up the recurrence.
    """
    steps = s / x  # the product of 1 + s / (x + k), less 1
    for k in range(1, round(_FAR)):
        steps = b.fma(steps + 1.0, s / (x + float(k)), steps)
    near = x < _FAR
    x = b.select(near, x + _FAR, x)
    end = x + s
    r, t = 1.0 / x, 1.0 / end
    value = slope = b.const(x.type, 0)  # of the series in 1/x, its divided difference
    for coefficient in coefficients.STIRLING["f64"]:
        slope = b.fma(slope, t, value)
        value = value * r + coefficient
        slope = b.fma(slope, t, value)
        value = value * r
    main = (x - 0.5) * log1p(b, s / x) + s * (log(b, end) - 1.0)
    zero = b.const(x.type, 0)
    return main - s * r * t * slope - b.select(near, log1p(b, steps), zero)


_FAR = 16.0  # from here on Stirling's series has all digits of differences


def _beta_weight(
    b: MathBuilder, p: Value, q: Value, y: Value, z: Value, less: float = 0.0
) -> Value:
    """y**(p - less) z**(q - less) / B(p, q) with z = 1 - y.

    Large parameters cancel by Stirling's series. Near the mean, where both are large,
    as the exponential of the deviance (C. Loader, Fast and Accurate Computation of
    Binomial Probabilities, 2000).
    """
    both, small, big = p + q, b.min(p, q), b.max(p, q)
    gap = _beyond_stirling(b, both) - _beyond_stirling(b, big)
    ratio = (big - 0.5) * log1p(b, small / big) + small * (log(b, both) - 1.0) + gap
    plain = lgamma(b, both) - lgamma(b, big)
    log_beta = lgamma(b, small) - b.select(big > _LARGE, ratio, plain)
    logs = _log_of(b, y, z), _log_of(b, z, y)
    far = (p - less) * logs[0] + (q - less) * logs[1] - log_beta
    u = b.select(y < z, b.fma(both, y, b.neg(p)), q - both * z)
    deviance = p * log1p(b, u / p) + q * log1p(b, b.neg(u) / q)
    near = deviance + 0.5 * log(b, small * (big / both) * _INVERSE_TWO_PI)
    near = near + gap - _beyond_stirling(b, small)
    if less:
        near = near - (logs[0] + logs[1])
    return exp(b, b.select((small > _LARGE) & (b.abs(u) < 0.5 * small), near, far))


def _log_of(b: MathBuilder, x: Value, y: Value) -> Value:
    """log(x), given y = 1 - x."""
    near = x < y
    return b.select(near, log(b, b.select(near, x, 0.5)), log1p(b, b.neg(y)))


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
