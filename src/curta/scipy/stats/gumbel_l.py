"""The left-skewed Gumbel distribution, of minima.

Its density is exp(z - exp(z)) / scale with z = (x - loc) / scale.
"""

from __future__ import annotations

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.stats.arguments import documented, refuse_complex, standardise

__dir__: Listing = own(__name__)

_of_x = documented("x", "loc, scale")


@_of_x
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.logpdf(0.0).round(4)
    Array(-1., dtype=float32, weak_type=True)
    """
    z, scale = standardise("gumbel_l.logpdf", x, loc=loc, scale=scale)
    refuse_complex(lax.gt, z)
    return jnp.where(scale > 0, z - lax.exp(z) - lax.log(scale), np.nan)


@_of_x
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.pdf(0.5).round(4)
    Array(0.317, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@_of_x
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.cdf(0.5).round(4)
    Array(0.8077, dtype=float32, weak_type=True)
    """
    return lax.exp(logcdf(x, loc, scale))


@_of_x
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.logcdf(0.5).round(4)
    Array(-0.2136, dtype=float32, weak_type=True)
    """
    z, scale = standardise("gumbel_l.logcdf", x, loc=loc, scale=scale)
    refuse_complex(lax.gt, z)
    return jnp.where(scale > 0, lax.log(-lax.expm1(-lax.exp(z))), np.nan)


@_of_x
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.sf(0.5).round(4)
    Array(0.1923, dtype=float32, weak_type=True)
    """
    return lax.exp(logsf(x, loc, scale))


@_of_x
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.logsf(0.5).round(4)
    Array(-1.6487, dtype=float32, weak_type=True)
    """
    z, scale = standardise("gumbel_l.logsf", x, loc=loc, scale=scale)
    refuse_complex(lax.gt, z)
    return jnp.where(scale > 0, -lax.exp(z), np.nan)


@documented("p: probabilities in [0, 1].", "loc, scale")
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.ppf(0.5).round(4)
    Array(-0.3665, dtype=float32, weak_type=True)
    """
    p, loc, scale = inexact_operands("gumbel_l.ppf", p, loc, scale)
    refuse_complex(lax.gt, p)
    return jnp.where((p > 0) & (p < 1), loc + scale * lax.log(-lax.log1p(-p)), np.nan)
