"""The left-skewed Gumbel distribution, of minima.

Its density is exp(z - exp(z)) / scale with z = (x - loc) / scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.special.cancellation import log1m_exp
from curta.scipy.stats.arguments import documented, no_more, refuse_complex
from curta.scipy.stats.law import Law, no_order

__dir__: Listing = own(__name__)

_LAW = Law("gumbel_l", refuses=no_order(lax.gt))
_END = 80.0  # exp(-exp(80)) is 0, and exp(80) finite in single precision


def _log_density(z: Any) -> Any:
    z = z
    far = z == np.inf
    return jnp.where(far, -np.inf, z - lax.exp(jnp.where(far, 0, z)))


def _density(z: Any) -> Any:
    return lax.exp(_log_density(no_more(z, _END)))


def _sf(z: Any) -> Any:
    return lax.exp(-lax.exp(no_more(z, _END)))


def _log_sf(z: Any) -> Any:
    return -lax.exp(z)


def _cdf(z: Any) -> Any:
    return -lax.expm1(-lax.exp(no_more(z, _END)))


def _log_cdf(z: Any) -> Any:
    """log(1 - exp(-exp(x))) with x = z, which is x - exp(x)/2 for small exp(x)."""
    x = no_more(z, _END)
    low = x < -20
    far = x - 0.5 * lax.exp(x)
    return jnp.where(low, far, log1m_exp(lax.exp(jnp.where(low, 0, x))))


def _ppf(q: Any) -> Any:
    refuse_complex(lax.gt, q)
    return lax.log(-lax.log1p(-q))


_of_x = documented("x", "loc, scale")


@_of_x
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.logpdf(0.0).round(4)
    Array(-1., dtype=float32, weak_type=True)
    """
    return _LAW.log_density("logpdf", _log_density, x, loc, scale)


@_of_x
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.pdf(0.5).round(4)
    Array(0.317, dtype=float32, weak_type=True)
    """
    return _LAW.density("pdf", _density, x, loc, scale)


@_of_x
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.cdf(0.5).round(4)
    Array(0.8077, dtype=float32, weak_type=True)
    """
    return _LAW.probability("cdf", _cdf, x, loc, scale)


@_of_x
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.logcdf(0.5).round(4)
    Array(-0.2136, dtype=float32, weak_type=True)
    """
    return _LAW.probability("logcdf", _log_cdf, x, loc, scale)


@_of_x
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.sf(0.5).round(4)
    Array(0.1923, dtype=float32, weak_type=True)
    """
    return _LAW.probability("sf", _sf, x, loc, scale)


@_of_x
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.logsf(0.5).round(4)
    Array(-1.6487, dtype=float32, weak_type=True)
    """
    return _LAW.probability("logsf", _log_sf, x, loc, scale)


@documented("p: probabilities in [0, 1].", "loc, scale")
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.gumbel_l.ppf(0.5).round(4)
    Array(-0.3665, dtype=float32, weak_type=True)
    """
    return _LAW.quantile("ppf", _ppf, p, loc, scale)
