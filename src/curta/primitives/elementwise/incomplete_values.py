"""Incomplete gamma and beta functions of NumPy arrays.

Power series and continued fractions, in float64; the fractions are run backwards
from a depth that suffices for the largest parameter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curta.primitives.elementwise.special_values import digamma, in_float64, lgamma

_MOST_STEPS = 20_000
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
    weight = np.exp(shape * np.log(bound) - bound - lgamma(shape))
    return _where_legal(weight * _slope(shape, bound), a, x, legal)


@in_float64
def random_gamma_grad(a: Any, x: Any) -> Any:
    """The derivative of a sample x of Gamma(a, 1) with respect to a.

    It is -(dP/da) / (dP/dx): the sample keeps its quantile in the distribution.
    """
    shape, bound, legal = _legal(a, x)
    return _where_legal(-bound * _slope(shape, bound), a, x, legal)


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
    weight = np.exp(safe_a * np.log(safe_x) - safe_x - lgamma(safe_a))
    lower = weight * _series(safe_a, safe_x)[0] / safe_a
    upper = weight * _fraction(safe_a, safe_x)[0]
    by_series = _by_series(safe_a, safe_x)
    p = np.where(by_series, lower, 1 - upper)
    q = np.where(by_series, 1 - lower, upper)
    one = ((a == 0) & (x > 0)) | ((x == np.inf) & (a < np.inf))
    zero = ((x == 0) & (a > 0)) | ((a == np.inf) & (x < np.inf))
    bad = (a < 0) | (x < 0) | np.isnan(a) | np.isnan(x) | ~(legal | one | zero)
    edge_p = np.where(one, 1.0, np.where(zero, 0.0, p))
    edge_q = np.where(one, 0.0, np.where(zero, 1.0, q))
    return np.where(bad, np.nan, edge_p), np.where(bad, np.nan, edge_q)


def _by_series(a: Any, x: Any) -> Any:
    """Whether the series converges faster than the fraction."""
    return (x <= 1) | (x <= a)


def _slope(a: Any, x: Any) -> Any:
    """dP/da over x**a exp(-x) / gamma(a)."""
    total, total_slope = _series(a, x)
    log = np.log(x)
    series = (total_slope + total * (log - digamma(a + 1))) / a
    value, value_slope = _fraction(a, x)
    fraction = -(value_slope + value * (log - digamma(a)))
    return np.where(_by_series(a, x), series, fraction)


def _steps(largest: Any) -> int:
    """How many terms suffice where x is about a, which is the worst case."""
    bound = np.max(largest, initial=1.0)
    return int(min(100 + 9 * np.sqrt(bound), _MOST_STEPS))


def _series(a: Any, x: Any) -> tuple[Any, Any]:
    """The sum of x**k / ((a + 1) ... (a + k)) over k >= 0, and its slope in a.

    NIST DLMF 8.7.1.
    """
    x = np.where(_by_series(a, x), x, 1.0)
    term, slope = np.ones_like(a), np.zeros_like(a)
    total, total_slope = term, slope
    for k in range(1, _steps(a)):
        slope = slope - 1 / (a + k)
        term = term * (x / (a + k))
        total = total + term
        total_slope = total_slope + term * slope
    return total, total_slope


def _fraction(a: Any, x: Any) -> tuple[Any, Any]:
    """1/(x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))), and its slope in a.

    NIST DLMF 8.9.2, in the form whose parts are even.
    """
    by_series = _by_series(a, x)
    a, x = np.where(by_series, 1.0, a), np.where(by_series, 2.0, x)
    depth = 2 * _steps(a)
    f, slope = x + 2 * depth + 1 - a, -np.ones_like(a)
    for k in range(depth, 0, -1):
        part = k * (k - a) / f
        slope = -1 + k / f + part * slope / f
        f = x + 2 * k - 1 - a - part
    return 1 / f, -slope / (f * f)


@in_float64
def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularised incomplete beta function I_x(a, b)."""
    a, b, x = np.broadcast_arrays(a, b, x)
    legal = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
    p, q = np.where(legal, a, 1.0), np.where(legal, b, 1.0)
    y = np.where(legal, x, 0.5)
    swapped = y > (p + 1) / (p + q + 2)
    inside = _beta_fraction(
        np.where(swapped, q, p), np.where(swapped, p, q), np.where(swapped, 1 - y, y)
    )
    out = np.where(swapped, 1 - inside, inside)
    none, all_ = (a == 0) | (b == np.inf), (b == 0) | (a == np.inf)
    out = np.where((all_ & (x != 1)) | (x == 0), 0.0, out)
    out = np.where((none & (x != 0)) | (x == 1), 1.0, out)
    bad = (a < 0) | (b < 0) | (x < 0) | (x > 1) | (none & all_)
    return np.where(bad | np.isnan(a) | np.isnan(b) | np.isnan(x), np.nan, out)


def _beta_fraction(a: Any, b: Any, x: Any) -> Any:
    """I_x(a, b) by its continued fraction (NIST DLMF 8.17.22)."""
    f = np.ones_like(a)
    for m in range(_steps(np.maximum(a, b)), -1, -1):
        odd = -(a + m) * ((a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))
        f = 1 + odd / f
        if m:
            even = m * ((b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m))
            f = 1 + even / f
    return _beta_weight(a, b, x) / (a * f)


def _beta_weight(a: Any, b: Any, x: Any) -> Any:
    """x**a (1 - x)**b / B(a, b), in which large parameters cancel by Stirling's series.

    Near the mean, where both are large, as the exponential of the deviance (C. Loader,
    Fast and Accurate Computation of Binomial Probabilities, 2000).
    """
    both, small, big = a + b, np.minimum(a, b), np.maximum(a, b)
    gap = _beyond_stirling(both) - _beyond_stirling(big)
    ratio = (big - 0.5) * np.log1p(small / big) + small * (np.log(both) - 1) + gap
    plain = lgamma(both) - lgamma(big)
    log_beta = lgamma(small) - np.where(big > _LARGE, ratio, plain)
    far = a * np.log(x) + b * np.log1p(-x) - log_beta
    u = both * x - a
    near = (small > _LARGE) & (np.abs(u) < small / 2)
    u = np.where(near, u, 0)
    deviance = a * np.log1p(u / a) + b * np.log1p(-u / b)
    middle = 0.5 * np.log(small * (big / both) / (2 * np.pi))
    middle = deviance + middle + gap - _beyond_stirling(small)
    return np.exp(np.where(near, middle, far))


def _beyond_stirling(x: Any) -> Any:
    """What log(gamma(x)) is more than the first terms of its series, for large x."""
    r = 1 / x
    return r * np.polynomial.polynomial.polyval(r * r, _STIRLING)
