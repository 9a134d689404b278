"""The chi-square distribution.

Its density in z = (x - loc) / scale >= 0 is
z^(df/2 - 1) exp(-z/2) / (2^(df/2) Γ(df/2)).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.special import gammainc, gammaincc
from curta.scipy.stats.arguments import documented, no_less
from curta.scipy.stats.densities import (
    gamma_density,
    gamma_log_density,
    log_gamma_tail,
    log_of_part,
)
from curta.scipy.stats.law import Law, is_positive
from curta.scipy.stats.slopes import log_below, log_beyond

__dir__: Listing = own(__name__)

# It is the gamma distribution of df / 2, with the double scale.
_LAW = Law("chi2", is_positive, wide=True)


def _log_density(z: Any, df: Any) -> Any:
    return gamma_log_density(z / 2, df / 2) - math.log(2)


def _density(z: Any, df: Any) -> Any:
    return 0.5 * gamma_density(z / 2, df / 2)


def _cdf(z: Any, df: Any) -> Any:
    return gammainc(df / 2, no_less(z, 0) / 2)


def _sf(z: Any, df: Any) -> Any:
    return gammaincc(df / 2, no_less(z, 0) / 2)


def _below(z: Any, df: Any) -> Any:
    return log_of_part(_cdf(z, df), _sf(z, df), log_gamma_tail(z / 2, df / 2))


def _beyond(z: Any, df: Any) -> Any:
    return log_of_part(_sf(z, df), _cdf(z, df), log_gamma_tail(z / 2, df / 2))


_log_cdf = log_below(_below, _log_density, lambda z, df: z < 0)
_log_sf = log_beyond(_beyond, _log_density, lambda z, df: z == np.inf)

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
    return _LAW.log_density("logpdf", _log_density, x, df, loc, scale)


@_of_x
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.chi2.pdf(2.0, 3.0).round(4)
    Array(0.2076, dtype=float32, weak_type=True)
    """
    return _LAW.density("pdf", _density, x, df, loc, scale)


@_of_x
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.chi2.cdf(2.0, 3.0).round(4)
    Array(0.4276, dtype=float32, weak_type=True)
    """
    return _LAW.probability("cdf", _cdf, x, df, loc, scale)


@_of_x
def logcdf(
    x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.chi2.logcdf(2.0, 3.0).round(4)
    Array(-0.8496, dtype=float32, weak_type=True)
    """
    return _LAW.probability("logcdf", _log_cdf, x, df, loc, scale)


@_of_x
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.chi2.sf(2.0, 3.0).round(4)
    Array(0.5724, dtype=float32, weak_type=True)
    """
    return _LAW.probability("sf", _sf, x, df, loc, scale)


@_of_x
def logsf(
    x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.chi2.logsf(2.0, 3.0).round(4)
    Array(-0.5579, dtype=float32, weak_type=True)
    """
    return _LAW.probability("logsf", _log_sf, x, df, loc, scale)
