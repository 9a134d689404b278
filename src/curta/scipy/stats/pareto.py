"""The Pareto distribution.

Its density in z = (x - loc) / scale >= 1 is b / (scale z^(b + 1)).
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
from curta.scipy.stats.law import Law, is_positive

__dir__: Listing = own(__name__)

_LAW = Law("pareto", is_positive)


def _log_density(z: Any, b: Any) -> Any:
    inside = no_less(z, 1)
    value = lax.log(b) - (b + 1) * lax.log(inside)
    return jnp.where(z < 1, -np.inf, value)


def _density(z: Any, b: Any) -> Any:
    inside = no_less(z, 1)
    return jnp.where(z < 1, 0, b * inside**-b / inside)


def _log_sf(z: Any, b: Any) -> Any:
    return -b * lax.log(no_less(z, 1))


def _sf(z: Any, b: Any) -> Any:
    return no_less(z, 1) ** -b


def _cdf(z: Any, b: Any) -> Any:
    return -lax.expm1(_log_sf(z, b))


def _log_cdf(z: Any, b: Any) -> Any:
    # Where there is no probability, the derivative is that of a constant.
    outside = z <= 1
    inside = jnp.where(outside, 2, z)
    return jnp.where(outside, -np.inf, log1m_exp(b * lax.log(inside)))


def _ppf(q: Any, b: Any) -> Any:
    return lax.exp(-lax.log1p(-q) / b)


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
    return _LAW.log_density("logpdf", _log_density, x, b, loc, scale)


@_of_x
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.pareto.pdf(2.0, 3.0).round(4)
    Array(0.1875, dtype=float32, weak_type=True)
    """
    return _LAW.density("pdf", _density, x, b, loc, scale)


@_of_x
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.pareto.cdf(2.0, 3.0).round(4)
    Array(0.875, dtype=float32, weak_type=True)
    """
    return _LAW.probability("cdf", _cdf, x, b, loc, scale)


@_of_x
def logcdf(
    x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.pareto.logcdf(2.0, 3.0).round(4)
    Array(-0.1335, dtype=float32, weak_type=True)
    """
    return _LAW.probability("logcdf", _log_cdf, x, b, loc, scale)


@_of_x
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.pareto.sf(2.0, 3.0).round(4)
    Array(0.125, dtype=float32, weak_type=True)
    """
    return _LAW.probability("sf", _sf, x, b, loc, scale)


@_of_x
def logsf(
    x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.pareto.logsf(2.0, 3.0).round(4)
    Array(-2.0794, dtype=float32, weak_type=True)
    """
    return _LAW.probability("logsf", _log_sf, x, b, loc, scale)


@documented("q", "b: the shape parameter, positive.", "loc, scale")
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.pareto.ppf(0.5, 3.0).round(4)
    Array(1.2599, dtype=float32, weak_type=True)
    """
    return _LAW.quantile("ppf", _ppf, q, b, loc, scale)
