"""The normal distribution cut off outside [a, b].

The limits a and b count in standard deviations `scale` from the mean `loc`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.scipy.special import log_ndtr, ndtr
from curta.scipy.special.cancellation import log1m_exp
from curta.scipy.stats.arguments import documented
from curta.scipy.stats.law import Law
from curta.scipy.stats.slopes import log_below, with_slope

__dir__: Listing = own(__name__)

_LAW = Law("truncnorm", lambda a, b: a < b, wide=True, strong=True)
_SQRT_HALF = math.sqrt(0.5)
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * np.pi)


def _log_mass(a: Any, b: Any) -> Any:
    """The log of the standard normal probability of [a, b].

    Of an interval in a tail by `log_ndtr`, of one about the middle by error functions,
    or where it holds nearly all by what is missing.
    """
    a, b = jnp.broadcast_arrays(a, b)
    right, straddles = a > 0, (a <= 0) & (b > 0)
    central = (a > -1) & (b < 1)
    # Of the forms that are not wanted, the derivatives are those of an interval
    # without infinities: zero times an infinite derivative would be NaN.
    apart = straddles | central
    low = jnp.where(apart, -2, jnp.where(right, -b, a))
    high = jnp.where(apart, -1, jnp.where(right, -a, b))
    tail = log_ndtr(high) + log1m_exp(log_ndtr(high) - log_ndtr(low))
    c, d = jnp.where(central, a, -1), jnp.where(central, b, 1)
    narrow = lax.log(0.5 * (lax.erf(_SQRT_HALF * d) - lax.erf(_SQRT_HALF * c)))
    below, beyond = jnp.where(straddles, a, -1), jnp.where(straddles, -b, -1)
    most = lax.log1p(-ndtr(below) - ndtr(beyond))
    return jnp.where(central, narrow, jnp.where(straddles, most, tail))


def _between(a: Any, b: Any) -> Any:
    """A finite number between two bounds, which may be infinite."""
    low, high = jnp.isfinite(a), jnp.isfinite(b)
    one_sided = jnp.where(low, a + 1, jnp.where(high, b - 1, 0))
    return jnp.where(low & high, a / 2 + b / 2, one_sided)


def _legal(a: Any, b: Any) -> tuple[Any, Any]:
    """The bounds, and others where they are none."""
    wrong = ~(a < b)
    return jnp.where(wrong, -1, a), jnp.where(wrong, 1, b)


def _log_density(z: Any, a: Any, b: Any) -> Any:
    a, b = _legal(a, b)
    outside = (z < a) | (z > b)
    inside = jnp.where(outside, _between(a, b), z)
    value = -0.5 * inside * inside - _HALF_LOG_TWO_PI - _log_mass(a, b)
    return jnp.where(outside, -np.inf, value)


def _density(z: Any, a: Any, b: Any) -> Any:
    return lax.exp(_log_density(z, a, b))


def _below(z: Any, a: Any, b: Any) -> Any:
    a, b = _legal(a, b)
    z, a, b = jnp.broadcast_arrays(z, a, b)
    # Where the probability is 0 or 1, the derivative is that of a constant.
    inside = jnp.where((z <= a) | (z >= b), _between(a, b), z)
    below = _log_mass(a, inside) - _log_mass(a, b)
    beyond = _log_mass(inside, b) - _log_mass(a, b)
    # Near 1 the probability is known better by what is missing.
    high = below > -0.1
    from_above = lax.log1p(-lax.exp(jnp.where(high, beyond, -1)))
    value = jnp.where(high, from_above, below)
    return jnp.where(z <= a, -np.inf, jnp.where(z >= b, 0, value))


_log_cdf = log_below(_below, _log_density, lambda z, a, b: z < a)
_cdf = with_slope(
    lambda z, a, b: lax.exp(_log_cdf(z, a, b)),
    lambda out, z, a, b: _density(z, a, b),
)


def _log_sf(z: Any, a: Any, b: Any) -> Any:
    return _log_cdf(-z, -b, -a)


def _sf(z: Any, a: Any, b: Any) -> Any:
    return _cdf(-z, -b, -a)


_ARGUMENTS = ("x", "a, b: the limits, in standard deviations.", "loc, scale")
_of_density = documented(*_ARGUMENTS)
_of_cumulative = documented(
    *_ARGUMENTS,
    raises="TypeError: for complex numbers, and what is no array.\n"
    "  ValueError: for shapes that do not broadcast.",
)


@_of_density
@inner_jit
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.truncnorm.logpdf(0.0, -1.0, 1.0).round(4)
    Array(-0.5372, dtype=float32)
    """
    return _LAW.log_density("logpdf", _log_density, x, a, b, loc, scale)


@_of_density
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.truncnorm.pdf(0.5, -1.0, 2.0).round(4)
    Array(0.4301, dtype=float32)
    """
    return _LAW.density("pdf", _density, x, a, b, loc, scale)


@_of_cumulative
@inner_jit
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.truncnorm.cdf(0.5, -1.0, 2.0).round(4)
    Array(0.6509, dtype=float32)
    """
    return _LAW.probability("cdf", _cdf, x, a, b, loc, scale)


@_of_cumulative
@inner_jit
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.truncnorm.logcdf(0.5, -1.0, 2.0).round(4)
    Array(-0.4294, dtype=float32)
    """
    return _LAW.probability("logcdf", _log_cdf, x, a, b, loc, scale)


@_of_cumulative
@inner_jit
def sf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.truncnorm.sf(0.5, -1.0, 2.0).round(4)
    Array(0.3491, dtype=float32)
    """
    return _LAW.probability("sf", _sf, x, a, b, loc, scale)


@_of_cumulative
@inner_jit
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.truncnorm.logsf(0.5, -1.0, 2.0).round(4)
    Array(-1.0523, dtype=float32)
    """
    return _LAW.probability("logsf", _log_sf, x, a, b, loc, scale)
