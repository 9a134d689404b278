"""The exponential distribution.

Its density in z = (x - loc) / scale >= 0 is exp(-z) / scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.special.cancellation import log1m_exp
from curta.scipy.stats.arguments import documented, no_less
from curta.scipy.stats.law import Law

__dir__: Listing = own(__name__)

_LAW = Law("expon")


def _log_density(z: Any) -> Any:
    return jnp.where(z < 0, -np.inf, -z)


def _density(z: Any) -> Any:
    return jnp.where(z < 0, 0, lax.exp(-no_less(z, 0)))


def _cdf(z: Any) -> Any:
    return -lax.expm1(-no_less(z, 0))


def _log_cdf(z: Any) -> Any:
    outside = z <= 0
    return jnp.where(outside, -np.inf, log1m_exp(jnp.where(outside, 1, z)))


def _sf(z: Any) -> Any:
    return lax.exp(-no_less(z, 0))


def _log_sf(z: Any) -> Any:
    return -no_less(z, 0)


def _ppf(q: Any) -> Any:
    return -lax.log1p(-q)


_of_x = documented("x", "loc, scale")


@_of_x
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.expon.logpdf(1.0).round(4)
    Array(-1., dtype=float32, weak_type=True)
    """
    return _LAW.log_density("logpdf", _log_density, x, loc, scale)


@_of_x
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.expon.pdf(1.0).round(4)
    Array(0.3679, dtype=float32, weak_type=True)
    """
    return _LAW.density("pdf", _density, x, loc, scale)


@_of_x
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.expon.cdf(1.0).round(4)
    Array(0.6321, dtype=float32, weak_type=True)
    """
    return _LAW.probability("cdf", _cdf, x, loc, scale)


@_of_x
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.expon.logcdf(1.0).round(4)
    Array(-0.4587, dtype=float32, weak_type=True)
    """
    return _LAW.probability("logcdf", _log_cdf, x, loc, scale)


@_of_x
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.expon.sf(1.0).round(4)
    Array(0.3679, dtype=float32, weak_type=True)
    """
    return _LAW.probability("sf", _sf, x, loc, scale)


@_of_x
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.expon.logsf(1.0).round(4)
    Array(-1., dtype=float32, weak_type=True)
    """
    return _LAW.probability("logsf", _log_sf, x, loc, scale)


@documented("q", "loc, scale", takes_complex=True)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.expon.ppf(0.5).round(4)
    Array(0.6931, dtype=float32, weak_type=True)
    """
    return _LAW.quantile("ppf", _ppf, q, loc, scale)
