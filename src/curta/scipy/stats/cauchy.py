"""The Cauchy distribution.

Its density is 1 / (π scale (1 + z²)) with z = (x - loc) / scale.
"""

from __future__ import annotations

import math

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.stats.arguments import documented, standardise

__dir__: Listing = own(__name__)

_of_x = documented("x", "loc, scale", takes_complex=True)
_of_q = documented("q", "loc, scale", takes_complex=True)


@_of_x
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.cauchy.logpdf(0.0).round(4)
    Array(-1.1447, dtype=float32, weak_type=True)
    """
    z, scale = standardise("cauchy.logpdf", x, loc=loc, scale=scale)
    return -math.log(np.pi) - lax.log(scale) - lax.log1p(z * z)


@_of_x
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.cauchy.pdf(1.0).round(4)
    Array(0.1592, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@_of_x
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.cauchy.cdf(1.0).round(4)
    Array(0.75, dtype=float32, weak_type=True)
    """
    z, _ = standardise("cauchy.cdf", x, loc=loc, scale=scale)
    return jnp.arctan2(1, -z) / np.pi


@_of_x
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.cauchy.logcdf(1.0).round(4)
    Array(-0.2877, dtype=float32, weak_type=True)
    """
    return lax.log(cdf(x, loc, scale))


@_of_x
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.cauchy.sf(1.0).round(4)
    Array(0.25, dtype=float32, weak_type=True)
    """
    z, _ = standardise("cauchy.sf", x, loc=loc, scale=scale)
    return jnp.arctan2(1, z) / np.pi


@_of_x
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.cauchy.logsf(1.0).round(4)
    Array(-1.3863, dtype=float32, weak_type=True)
    """
    return lax.log(sf(x, loc, scale))


@_of_q
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.cauchy.ppf(0.75).round(4)
    Array(1., dtype=float32, weak_type=True)
    """
    q, loc, scale = inexact_operands("cauchy.ppf", q, loc, scale)
    return lax.tan(np.pi * q - np.pi / 2) * scale + loc


@_of_q
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of the survival function.

    >>> from curta.scipy import stats
    >>> stats.cauchy.isf(0.75).round(4)
    Array(-1., dtype=float32, weak_type=True)
    """
    q, loc, scale = inexact_operands("cauchy.isf", q, loc, scale)
    return lax.tan(np.pi / 2 - np.pi * q) * scale + loc
