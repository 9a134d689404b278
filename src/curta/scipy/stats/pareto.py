"""The Pareto distribution.

Its density in z = (x - loc) / scale >= 1 is b / (scale z^(b + 1)).
"""

from __future__ import annotations

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.stats.arguments import documented, no_less, refuse_complex, standardise

__dir__: Listing = own(__name__)

_of_x = documented("x", "b: the shape parameter, positive.", "loc, scale")


@_of_x
def logpdf(
    x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.pareto.logpdf(2.0, 1.0).round(4)
    Array(-1.3863, dtype=float32, weak_type=True)
    """
    z, b, scale = standardise("pareto.logpdf", x, b, loc=loc, scale=scale)
    refuse_complex(lax.lt, z)
    value = lax.log(b / scale) - (b + 1) * lax.log(z)
    return jnp.where(z < 1, -np.inf, value)


@_of_x
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.pareto.pdf(2.0, 3.0).round(4)
    Array(0.1875, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, b, loc, scale))


@_of_x
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.pareto.cdf(2.0, 3.0).round(4)
    Array(0.875, dtype=float32, weak_type=True)
    """
    z, b, _ = standardise("pareto.cdf", x, b, loc=loc, scale=scale)
    refuse_complex(lax.lt, z)
    return 1 - no_less(z, 1) ** -b


@_of_x
def logcdf(
    x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.pareto.logcdf(2.0, 3.0).round(4)
    Array(-0.1335, dtype=float32, weak_type=True)
    """
    z, b, _ = standardise("pareto.logcdf", x, b, loc=loc, scale=scale)
    refuse_complex(lax.lt, z)
    # Where there is no probability, the derivative is that of a constant.
    inside = jnp.where(z <= 1, 2, z)
    return jnp.where(z <= 1, -np.inf, lax.log1p(-(inside**-b)))


@_of_x
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.pareto.sf(2.0, 3.0).round(4)
    Array(0.125, dtype=float32, weak_type=True)
    """
    return lax.exp(logsf(x, b, loc, scale))


@_of_x
def logsf(
    x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.pareto.logsf(2.0, 3.0).round(4)
    Array(-2.0794, dtype=float32, weak_type=True)
    """
    z, b, _ = standardise("pareto.logsf", x, b, loc=loc, scale=scale)
    refuse_complex(lax.lt, z)
    return -b * lax.log(no_less(z, 1))


@documented("q", "b: the shape parameter, positive.", "loc, scale", takes_complex=True)
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.pareto.ppf(0.5, 3.0).round(4)
    Array(1.2599, dtype=float32, weak_type=True)
    """
    q, b, loc, scale = inexact_operands("pareto.ppf", q, b, loc, scale)
    value = loc + scale * (1 - q) ** (-1 / b)
    return jnp.where((q >= 0) & (q <= 1), value, np.nan)
