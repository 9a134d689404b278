"""The normal distribution.

Its density is exp(-z²/2) / (scale √(2π)) with z = (x - loc) / scale.
"""

from __future__ import annotations

import math

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import check_arraylike
from curta.on_demand import Listing, own
from curta.scipy.special import log_ndtr, ndtr, ndtri
from curta.scipy.stats.arguments import documented, standardise

__dir__: Listing = own(__name__)

_density = documented("x", "loc, scale", takes_complex=True)
_cumulative = documented("x", "loc, scale")
_of_q = documented(
    "q",
    "loc, scale",
    raises="TypeError: unless q is float32 or float64, and for shapes that do not"
    " broadcast.",
)


@_density
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.norm.logpdf(0.0).round(4)
    Array(-0.9189, dtype=float32, weak_type=True)
    """
    z, scale = standardise("norm.logpdf", x, loc=loc, scale=scale)
    return -0.5 * (z * z + math.log(2 * np.pi)) - lax.log(scale)


@_density
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.norm.pdf(1.0).round(4)
    Array(0.242, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@_cumulative
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.norm.cdf(1.0).round(4)
    Array(0.8413, dtype=float32)
    """
    z, _ = standardise("norm.cdf", x, loc=loc, scale=scale)
    return ndtr(z)


@_cumulative
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.norm.logcdf(1.0).round(4)
    Array(-0.1728, dtype=float32)
    """
    z, _ = standardise("norm.logcdf", x, loc=loc, scale=scale)
    return log_ndtr(z)


@_cumulative
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.norm.sf(1.0).round(4)
    Array(0.1587, dtype=float32)
    """
    z, _ = standardise("norm.sf", x, loc=loc, scale=scale)
    return ndtr(-z)


@_cumulative
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.norm.logsf(1.0).round(4)
    Array(-1.841, dtype=float32)
    """
    z, _ = standardise("norm.logsf", x, loc=loc, scale=scale)
    return log_ndtr(-z)


@_of_q
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.norm.ppf(0.9).round(4)
    Array(1.2816, dtype=float32)
    """
    check_arraylike("norm.ppf", q, loc, scale)
    return ndtri(q) * scale + loc


@_of_q
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of the survival function.

    >>> from curta.scipy import stats
    >>> stats.norm.isf(0.9).round(4)
    Array(-1.2816, dtype=float32)
    """
    check_arraylike("norm.isf", q, loc, scale)
    return jnp.subtract(loc, ndtri(q) * scale)
