"""The normal distribution cut off outside [a, b].

The limits a and b count in standard deviations `scale` from the mean `loc`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.special import log_ndtr, ndtr
from curta.scipy.stats import norm
from curta.scipy.stats.arguments import documented, standardise

__dir__: Listing = own(__name__)

_ARGUMENTS = ("x", "a, b: the limits, in standard deviations.", "loc, scale")
_density = documented(*_ARGUMENTS)
_cumulative = documented(
    *_ARGUMENTS,
    raises="TypeError: for complex numbers, and what is no array.\n"
    "  ValueError: for shapes that do not broadcast.",
)


def _log_mass(a: Any, b: Any) -> Any:
    """The log of the standard normal probability of [a, b], from the nearer tail."""
    a, b = jnp.broadcast_arrays(a, b)
    right, straddles = a > 0, (a <= 0) & (b > 0)
    # Of the two forms, the one that is not wanted is that of an interval without
    # infinities: zero times an infinite derivative would be NaN.
    low = jnp.where(straddles, -2, jnp.where(right, -b, a))
    high = jnp.where(straddles, -1, jnp.where(right, -a, b))
    tail = log_ndtr(high) + jnp.log(-jnp.expm1(log_ndtr(low) - log_ndtr(high)))
    below, beyond = jnp.where(straddles, a, -1), jnp.where(straddles, -b, -1)
    return jnp.where(straddles, jnp.log1p(-ndtr(below) - ndtr(beyond)), tail)


def _between(a: Any, b: Any) -> Any:
    """A finite number between two bounds, which may be infinite."""
    low, high = jnp.isfinite(a), jnp.isfinite(b)
    one_sided = jnp.where(low, a + 1, jnp.where(high, b - 1, 0))
    return jnp.where(low & high, a / 2 + b / 2, one_sided)


@_density
@inner_jit
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.truncnorm.logpdf(0.0, -1.0, 1.0).round(4)
    Array(-0.5372, dtype=float32)
    """
    z, a, b, scale = standardise("truncnorm.logpdf", x, a, b, loc=loc, scale=scale)
    value = norm.logpdf(z) - lax.log(scale) - _log_mass(a, b)
    value = jnp.where((z < a) | (z > b), -np.inf, value)
    return jnp.where(a >= b, np.nan, value)


@_density
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.truncnorm.pdf(0.5, -1.0, 2.0).round(4)
    Array(0.4301, dtype=float32)
    """
    return lax.exp(logpdf(x, a, b, loc, scale))


@_cumulative
@inner_jit
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.truncnorm.cdf(0.5, -1.0, 2.0).round(4)
    Array(0.6509, dtype=float32)
    """
    return lax.exp(logcdf(x, a, b, loc, scale))


@_cumulative
@inner_jit
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.truncnorm.logcdf(0.5, -1.0, 2.0).round(4)
    Array(-0.4294, dtype=float32)
    """
    z, a, b, _ = standardise("truncnorm.logcdf", x, a, b, loc=loc, scale=scale)
    z, a, b = jnp.broadcast_arrays(z, a, b)
    # Where the probability is 0 or 1, the derivative is that of a constant.
    inside = jnp.where((z > a) & (z < b), z, _between(a, b))
    below = _log_mass(a, inside) - _log_mass(a, b)
    beyond = _log_mass(inside, b) - _log_mass(a, b)
    # Near 1 the probability is known better by what is missing.
    high = below > -0.1
    from_above = jnp.log1p(-jnp.exp(jnp.where(high, beyond, -1)))
    value = jnp.where(high, from_above, below)
    value = jnp.where(z <= a, -np.inf, jnp.where(z >= b, 0, value))
    return jnp.where(a >= b, np.nan, value)


@_cumulative
@inner_jit
def sf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.truncnorm.sf(0.5, -1.0, 2.0).round(4)
    Array(0.3491, dtype=float32)
    """
    return lax.exp(logsf(x, a, b, loc, scale))


@_cumulative
@inner_jit
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.truncnorm.logsf(0.5, -1.0, 2.0).round(4)
    Array(-1.0523, dtype=float32)
    """
    x, a, b, loc, scale = inexact_operands("truncnorm.logsf", x, a, b, loc, scale)
    return logcdf(-x, -b, -a, -loc, scale)
