"""Incomplete gamma and beta functions of NumPy arrays.

Power series and continued fractions, in float64; the fractions are run backwards
from a depth that suffices for the largest parameter. Of large parameters a and
arguments x near a, Temme's uniform expansion (NIST DLMF 8.12) takes their place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curta.primitives.elementwise.special_values import (
    digamma,
    erfc,
    in_float64,
    lgamma,
    log_gamma_above_one,
)
from curta.primitives.elementwise.temme_values import LEAST, TEMME, WIDTH

_MOST_STEPS = 20_000
_SERIES = 200  # terms of the series of gamma functions, away from Temme's region
_LARGEST_FRACTION = 1000.0  # beyond, no more steps are needed
_LARGE = 10.0  # parameters of which Stirling's series tells all digits
_STIRLING = (
    *(1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156),
    -3617 / 122400,
)


@in_float64
def igamma(a: Any, x: Any) -> Any:
    """The regularised lower incomplete gamma function P(a, x)."""
    a, x = np.broadcast_arrays(a, x)
    return _lower_and_upper(a, x)[0]


@in_float64
def igammac(a: Any, x: Any) -> Any:
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    a, x = np.broadcast_arrays(a, x)
    return _lower_and_upper(a, x)[1]


@in_float64
def igamma_grad_a(a: Any, x: Any) -> Any:
    """The derivative of P(a, x) with respect to a."""
    shape, bound, legal = _legal(a, x)
    weight = _weight(shape, bound)
    return _where_legal(weight * _slope(shape, bound), a, x, legal)


@in_float64
def random_gamma_grad(a: Any, x: Any) -> Any:
    """The derivative of a sample x of Gamma(a, 1) with respect to a.

    It is -(dP/da) / (dP/dx): the sample keeps its quantile in the distribution.
    """
    shape, bound, legal = _legal(a, x)
    return _where_legal(-bound * _slope(shape, bound), a, x, legal)


@in_float64
def gamma_density(a: Any, x: Any) -> Any:
    """The derivative of P(a, x) with respect to x, x**(a - 1) exp(-x) / gamma(a)."""
    shape, bound, legal = _legal(a, x)
    value = _weight(shape, bound, 1)
    known = ((a > 0) & (x == 0)) | ((a >= 0) & (x == np.inf)) | ((a == 0) & (x > 0))
    edge = np.where(x == 0, _power_of_zero(a, 1.0), 0.0)
    return np.where(legal, value, np.where(known, edge, np.nan))


def _power_of_zero(a: Any, one: Any) -> Any:
    """The limit of x**(a - 1) for x = 0, and `one` for a = 1."""
    return np.where(a < 1, np.inf, np.where(a == 1, one, 0.0))


def _legal(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """The operands in one shape, with 1 where they are not positive and finite."""
    a, x = np.broadcast_arrays(a, x)
    legal = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    return np.where(legal, a, 1.0), np.where(legal, x, 1.0), legal


def _where_legal(slope: Any, a: Any, x: Any, legal: Any) -> Any:
    """The slope inside the domain, 0 where x is 0, NaN elsewhere."""
    return np.where(legal, slope, np.where((a > 0) & (x == 0), 0.0, np.nan))


def _lower_and_upper(a: Any, x: Any) -> tuple[Any, Any]:
    safe_a, safe_x, legal = _legal(a, x)
    weight = _weight(safe_a, safe_x)
    lower = weight * _series(safe_a, safe_x)[0] / safe_a
    upper = weight * _fraction(safe_a, safe_x)[0]
    by_series = _by_series(safe_a, safe_x)
    p = np.where(by_series, lower, 1 - upper)
    q = np.where(by_series, 1 - lower, upper)
    small = (safe_a <= 1) & (safe_x <= 1)
    by_parts = _by_parts(safe_a, safe_x)
    p, q = (np.where(small, v, w) for v, w in zip(by_parts, (p, q), strict=True))
    uniform, middle = _uniform(safe_a, safe_x), _Uniform(safe_a, safe_x)
    p = np.where(uniform, middle.lower(), p)
    q = np.where(uniform, middle.upper(), q)
    one = ((a == 0) & (x > 0)) | ((x == np.inf) & (a < np.inf))
    zero = ((x == 0) & (a > 0)) | ((a == np.inf) & (x < np.inf))
    bad = (a < 0) | (x < 0) | np.isnan(a) | np.isnan(x) | ~(legal | one | zero)
    edge_p = np.where(one, 1.0, np.where(zero, 0.0, p))
    edge_q = np.where(one, 0.0, np.where(zero, 1.0, q))
    return np.where(bad, np.nan, edge_p), np.where(bad, np.nan, edge_q)


def _uniform(a: Any, x: Any) -> Any:
    """Where Temme's expansion has all digits."""
    return (a >= LEAST) & (np.absolute(x - a) <= WIDTH * a)


def _by_series(a: Any, x: Any) -> Any:
    """Where the series converges, and faster than the fraction."""
    return ~_uniform(a, x) & ((x <= 1) | (x <= a))


def _by_fraction(a: Any, x: Any) -> Any:
    return ~_uniform(a, x) & ~((x <= 1) | (x <= a))


def _weight(a: Any, x: Any, less: int = 0) -> Any:
    """x**(a - less) exp(-x) / gamma(a), of large a by the deviance of x (Loader)."""
    large = a > _LARGE
    b = np.where(large, a, _LARGE)
    saddle = -b * _less_log1p(x, b) - _beyond_stirling(b)
    saddle = np.sqrt(b / (2 * np.pi)) * np.exp(saddle) / x**less
    log = np.log(x)
    middle = np.where(large, 1.0, a)
    middle = np.exp((middle - less) * log - x - lgamma(middle))
    small = np.minimum(a, 1.0)  # where 1 / gamma(a) = a / gamma(a + 1) keeps digits
    norm = log_gamma_above_one(small)
    small = small * np.exp((small - less) * log - x - norm)
    return np.where(large, saddle, np.where(a <= 1, small, middle))


def _less_log1p(x: Any, a: Any) -> Any:
    """mu - log(1 + mu) for mu = (x - a) / a, near 0 by the series of 2 atanh(r)."""
    mu = (x - a) / a
    near = np.absolute(mu) < 0.4
    r = np.where(near, mu / (2 + mu), 0.0)
    series = np.polynomial.polynomial.polyval(r * r, _ATANH)
    return np.where(near, r * (mu - 2 * r * r * series), mu - np.log(x) + np.log(a))


# (atanh(r) - r) / r**3 in powers of r**2, for |r| <= 1/4
_ATANH = tuple(1 / (2 * k + 3) for k in range(14))


def _by_parts(a: Any, x: Any) -> tuple[Any, Any]:
    """P and Q for a, x <= 1, the second without cancellation where it is small.

    P is u (1 + s) with u = x**a / gamma(a + 1) and the series s of DLMF 8.7.1.
    """
    a, x = np.minimum(a, 1.0), np.minimum(x, 1.0)
    log = a * np.log(x) - log_gamma_above_one(a)
    total, term = np.zeros_like(a), a
    for n in range(1, 20):
        term = term * (-x / n)
        total = total + term / (a + n)
    power = np.exp(log)
    return power + power * total, -np.expm1(log) - power * total + 0.0


class _Uniform:
    """Temme's expansion: P = erfc(-u) / 2 - e S, Q = erfc(u) / 2 + e S, u = eta √(a/2).

    mu is x / a - 1, eta²/2 = mu - log(1 + mu), and e = exp(-u²) / √(2πa).
    """

    def __init__(self, a: Any, x: Any):
        inside = _uniform(a, x)
        self.a = np.where(inside, a, LEAST)
        x = np.where(inside, x, LEAST)
        self.mu = (x - self.a) / self.a
        self.half = _less_log1p(x, self.a)
        self.eta = np.copysign(np.sqrt(2 * self.half), self.mu)
        self.u = self.eta * np.sqrt(self.a / 2)
        self.e = np.exp(-self.a * self.half) / np.sqrt(2 * np.pi * self.a)

    def lower(self) -> Any:
        return 0.5 * erfc(-self.u) - self.e * self.sums()[0]

    def upper(self) -> Any:
        return 0.5 * erfc(self.u) + self.e * self.sums()[0]

    def sums(self) -> tuple[Any, Any, Any]:
        """S = sum of c_k(eta) / a**k, and its derivatives by a and eta."""
        polynomial, r = np.polynomial.polynomial, 1 / self.a
        total = by_r = by_eta = np.zeros_like(self.a)
        for k, row in reversed([*enumerate(TEMME)]):
            value = polynomial.polyval(self.eta, row)
            total = total * r + value
            by_r = by_r * r + k * value
            slope = [n * c for n, c in enumerate(row)][1:] or [0.0]
            by_eta = by_eta * r + polynomial.polyval(self.eta, slope)
        return total, -by_r * r, by_eta

    def slope(self) -> Any:
        """dP/da over x**a exp(-x) / gamma(a) = a e exp(-_beyond_stirling(a))."""
        total, by_a, by_eta = self.sums()
        none = self.eta == 0
        ratio = np.where(none, 1.0, self.mu / np.where(none, 1.0, self.eta))
        change = total * (self.mu - self.half - 0.5 / self.a) + by_a
        change = self.eta / 2 - ratio - change + by_eta * ratio / self.a
        return change / self.a * np.exp(_beyond_stirling(self.a))


def _slope(a: Any, x: Any) -> Any:
    """dP/da over x**a exp(-x) / gamma(a)."""
    total, total_slope = _series(a, x)
    log = np.log(x)
    series = (total_slope + total * (log - digamma(a + 1))) / a
    value, value_slope = _fraction(a, x)
    fraction = -(value_slope + value * (log - digamma(a)))
    slope = np.where(_by_series(a, x), series, fraction)
    return np.where(_uniform(a, x), _Uniform(a, x).slope(), slope)


def _steps(largest: Any) -> int:
    """How many terms suffice where x is about a, which is the worst case."""
    bound = np.max(largest, initial=1.0)
    return int(min(100 + 9 * np.sqrt(bound), _MOST_STEPS))


def _series(a: Any, x: Any) -> tuple[Any, Any]:
    """The sum of x**k / ((a + 1) ... (a + k)) over k >= 0, and its slope in a.

    NIST DLMF 8.7.1.
    """
    active = _by_series(a, x)
    a, x = np.where(active, a, 1.0), np.where(active, x, 1.0)
    term, slope = np.ones_like(a), np.zeros_like(a)
    total, total_slope = term, slope
    for k in range(1, _SERIES):
        slope = slope - 1 / (a + k)
        term = term * (x / (a + k))
        total = total + term
        total_slope = total_slope + term * slope
    return total, total_slope


def _fraction(a: Any, x: Any) -> tuple[Any, Any]:
    """1/(x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))), and its slope in a.

    NIST DLMF 8.9.2, in the form whose parts are even.
    """
    active = _by_fraction(a, x)
    a, x = np.where(active, a, 1.0), np.where(active, x, 2.0)
    depth = 2 * _steps(np.minimum(a, _LARGEST_FRACTION))
    f, slope = x + 2 * depth + 1 - a, -np.ones_like(a)
    for k in range(depth, 0, -1):
        part = k * (k - a) / f
        slope = -1 + k / f + part * slope / f
        f = x + 2 * k - 1 - a - part
    return 1 / f, -slope / (f * f)


@in_float64
def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularised incomplete beta function I_x(a, b)."""
    return _beta_part(a, b, x, 1 - x)


@in_float64
def betaincc(a: Any, b: Any, x: Any) -> Any:
    """1 - I_x(a, b), which is I_(1 - x)(b, a)."""
    return _beta_part(b, a, 1 - x, x)


def _beta_part(a: Any, b: Any, x: Any, y: Any) -> Any:
    """I_x(a, b), given y = 1 - x as well: the smaller of x and y has all its digits."""
    a, b, x, y = np.broadcast_arrays(a, b, x, y)
    legal = (a > 0) & (b > 0) & (x > 0) & (y > 0) & np.isfinite(a) & np.isfinite(b)
    p, q = np.where(legal, a, 1.0), np.where(legal, b, 1.0)
    z, rest = np.where(legal, x, 0.5), np.where(legal, y, 0.5)
    swapped = z > (p + 1) / (p + q + 2)
    inside = _beta_fraction(
        *(np.where(swapped, v, w) for v, w in ((q, p), (p, q), (rest, z), (z, rest)))
    )
    inside = np.where(swapped, 1 - inside, inside)
    small = swapped & (q <= 1)
    out = np.where(small, _beta_by_parts(p, q, rest, small), inside)
    out = np.clip(out, 0.0, 1.0)
    none, all_ = (a == 0) | (b == np.inf), (b == 0) | (a == np.inf)
    out = np.where((all_ & (y != 0)) | (x == 0), 0.0, out)
    out = np.where((none & (x != 0)) | (y == 0), 1.0, out)
    bad = (a < 0) | (b < 0) | (x < 0) | (y < 0) | (none & all_)
    return np.where(bad | np.isnan(a) | np.isnan(b) | np.isnan(x), np.nan, out)


@in_float64
def beta_density(a: Any, b: Any, x: Any) -> Any:
    """The derivative of I_x(a, b), x**(a - 1) (1 - x)**(b - 1) / B(a, b)."""
    a, b, x = np.broadcast_arrays(a, b, x)
    positive = (a > 0) & (b > 0) & np.isfinite(a) & np.isfinite(b)
    legal = positive & (x > 0) & (x < 1)
    p, q, z = np.where(legal, a, 1.0), np.where(legal, b, 1.0), np.where(legal, x, 0.5)
    value = _beta_weight(p, q, z, 1 - z, 1)
    edge = np.where(x == 0, _power_of_zero(a, b), _power_of_zero(b, a))
    known = positive & ((x == 0) | (x == 1))
    value = np.where(legal, value, np.where(known, edge, np.nan))
    # All of the mass is at 0 or 1.
    apart = (a >= 0) & (b >= 0) & ((a == 0) != (b == 0)) & (x > 0) & (x < 1)
    return np.where(apart, 0.0, value)


def _beta_by_parts(a: Any, b: Any, y: Any, active: Any) -> Any:
    """I_(1 - y)(a, b) for b <= 1 and small y, accurate where it is small.

    1 - I is u (1 + b s), with the series s of (1 - a)_n yⁿ / (n! (b + n)) for n > 0
    (NIST DLMF 8.17.7) and u = yᵇ / (b B(a, b)), a / (a + b) times a power near 1.
    """
    a, b, y = (np.where(active, v, w) for v, w in ((a, 1.0), (b, 1.0), (y, 0.0)))
    total = np.zeros_like(a)
    factor = np.ones_like(a)
    for n in range(1, _BETA_SERIES):
        factor = factor * ((n - a) / n * y)
        total = total + factor / (b + n)
    one = np.ones_like(a)
    log = _log_gamma_step(1 + a, b) - _log_gamma_step(one, b)
    log = log + b * np.log(np.where(active, y, 1.0))
    rest = np.expm1(log) + np.exp(log) * (b * total)
    return b / (a + b) - a / (a + b) * rest


def _log_gamma_step(x: Any, s: Any) -> Any:
    """log(gamma(x + s) / gamma(x)) for x >= 1 and 0 <= s <= 1, accurate for small s.

    By Stirling's series from 16 on, below that up the recurrence.
    """
    steps = np.zeros_like(x)  # the product of 1 + s / (x + k), less 1
    for k in range(_FAR):
        steps = steps + (1 + steps) * (s / (x + k))
    near = x < _FAR
    x = np.where(near, x + _FAR, x)
    end = x + s
    r, t = 1 / x, 1 / end
    value = slope = np.zeros_like(x)  # of the series in 1/x, and its divided difference
    for c in reversed(_STIRLING):
        for coefficient in (c, 0.0):
            slope = slope * t + value
            value = value * r + coefficient
    main = (x - 0.5) * np.log1p(s / x) + s * (np.log(end) - 1)
    return main - s * r * t * slope - np.where(near, np.log1p(steps), 0.0)


_FAR = 16  # from here on Stirling's series has all digits of differences
_BETA_SERIES = 100  # terms, for y <= 2/3


def _beta_fraction(a: Any, b: Any, x: Any, y: Any) -> Any:
    """I_x(a, b) by its continued fraction (NIST DLMF 8.17.22), with y = 1 - x."""
    f = np.ones_like(a)
    for m in range(_steps(np.maximum(a, b)), -1, -1):
        odd = -(a + m) * ((a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))
        f = 1 + odd / f
        if m:
            even = m * ((b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m))
            f = 1 + even / f
    return _beta_weight(a, b, x, y) / (a * f)


def _beta_weight(a: Any, b: Any, x: Any, y: Any, less: int = 0) -> Any:
    """x**(a - less) y**(b - less) / B(a, b) with y = 1 - x.

    Large parameters cancel by Stirling's series. Near the mean, where both are large,
    as the exponential of the deviance (C. Loader, Fast and Accurate Computation of
    Binomial Probabilities, 2000).
    """
    both, small, big = a + b, np.minimum(a, b), np.maximum(a, b)
    gap = _beyond_stirling(both) - _beyond_stirling(big)
    ratio = (big - 0.5) * np.log1p(small / big) + small * (np.log(both) - 1) + gap
    plain = lgamma(both) - lgamma(big)
    log_beta = lgamma(small) - np.where(big > _LARGE, ratio, plain)
    logs = _log_of(x, y), _log_of(y, x)
    far = (a - less) * logs[0] + (b - less) * logs[1] - log_beta
    u = np.where(x < y, both * x - a, b - both * y)
    near = (small > _LARGE) & (np.abs(u) < small / 2)
    u = np.where(near, u, 0)
    deviance = a * np.log1p(u / a) + b * np.log1p(-u / b)
    middle = 0.5 * np.log(small * (big / both) / (2 * np.pi))
    middle = deviance + middle + gap - _beyond_stirling(small)
    middle = middle - less * (logs[0] + logs[1])
    return np.exp(np.where(near, middle, far))


def _log_of(x: Any, y: Any) -> Any:
    """log(x), given y = 1 - x."""
    return np.where(x < y, np.log(x), np.log1p(-y))


def _beyond_stirling(x: Any) -> Any:
    """What log(gamma(x)) is more than the first terms of its series, for large x."""
    r = 1 / x
    return r * np.polynomial.polynomial.polyval(r * r, _STIRLING)
