"""The chi-square distribution.

Its density in z = (x - loc) / scale >= 0 is
z^(df/2 - 1) exp(-z/2) / (2^(df/2) Γ(df/2)).
"""

from __future__ import annotations

import math

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.on_demand import Listing, own
from curta.scipy.special import gammainc, gammaincc
from curta.scipy.stats.arguments import documented, no_less, standardise

__dir__: Listing = own(__name__)

_of_x = documented("x", "df: the degrees of freedom, positive.", "loc, scale")


@_of_x
def logpdf(
    x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.chi2.logpdf(1.0, 2).round(4)
    Array(-1.1931, dtype=float32, weak_type=True)
    """
    z, df, scale = standardise("chi2.logpdf", x, df, loc=loc, scale=scale)
    half = df / 2
    norm = lax.lgamma(half) + math.log(2) * half + lax.log(scale)
    return jnp.where(z < 0, -np.inf, (half - 1) * lax.log(z) - z / 2 - norm)


@_of_x
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.chi2.pdf(2.0, 3.0).round(4)
    Array(0.2076, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, df, loc, scale))


@_of_x
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.chi2.cdf(2.0, 3.0).round(4)
    Array(0.4276, dtype=float32, weak_type=True)
    """
    z, df, _ = standardise("chi2.cdf", x, df, loc=loc, scale=scale)
    return gammainc(df / 2, no_less(z, 0) / 2)


@_of_x
def logcdf(
    x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.chi2.logcdf(2.0, 3.0).round(4)
    Array(-0.8496, dtype=float32, weak_type=True)
    """
    return lax.log(cdf(x, df, loc, scale))


@_of_x
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.chi2.sf(2.0, 3.0).round(4)
    Array(0.5724, dtype=float32, weak_type=True)
    """
    z, df, _ = standardise("chi2.sf", x, df, loc=loc, scale=scale)
    return gammaincc(df / 2, no_less(z, 0) / 2)


@_of_x
def logsf(
    x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.chi2.logsf(2.0, 3.0).round(4)
    Array(-0.5579, dtype=float32, weak_type=True)
    """
    return lax.log(sf(x, df, loc, scale))
