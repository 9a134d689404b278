"""The logistic distribution.

Its density is exp(-z) / (scale (1 + exp(-z))²) with z = (x - loc) / scale.
"""

from __future__ import annotations

from typing import Any

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.special import expit, logit
from curta.scipy.stats.arguments import documented
from curta.scipy.stats.law import Law
from curta.scipy.stats.slopes import with_slope

__dir__: Listing = own(__name__)

_LAW = Law("logistic", refuses=None)


def _log_density(z: Any) -> Any:
    return -2 * jnp.logaddexp(z / 2, -z / 2)


def _density(z: Any) -> Any:
    if z.dtype.kind == "c":
        return lax.exp(_log_density(z))
    e = lax.exp(-lax.abs(z))
    return e / ((1 + e) * (1 + e))


_cdf = with_slope(expit, lambda out, z: _density(z))


def _sf(z: Any) -> Any:
    return _cdf(-z)


def _ppf(q: Any) -> Any:
    return logit(q)


def _isf(q: Any) -> Any:
    return -logit(q)


_of_x = documented("x", "loc, scale", takes_complex=True)
_quantile = documented("x: probabilities in [0, 1].", "loc, scale", takes_complex=True)


@_of_x
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.logistic.logpdf(0.0).round(4)
    Array(-1.3863, dtype=float32, weak_type=True)
    """
    return _LAW.log_density("logpdf", _log_density, x, loc, scale)


@_of_x
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.logistic.pdf(1.0).round(4)
    Array(0.1966, dtype=float32, weak_type=True)
    """
    return _LAW.density("pdf", _density, x, loc, scale)


@_of_x
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.logistic.cdf(1.0).round(4)
    Array(0.7311, dtype=float32, weak_type=True)
    """
    return _LAW.probability("cdf", _cdf, x, loc, scale)


@_of_x
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.logistic.sf(1.0).round(4)
    Array(0.2689, dtype=float32, weak_type=True)
    """
    return _LAW.probability("sf", _sf, x, loc, scale)


@_quantile
def ppf(x: Any, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.logistic.ppf(0.75).round(4)
    Array(1.0986, dtype=float32, weak_type=True)
    """
    return _LAW.quantile("ppf", _ppf, x, loc, scale)


@_quantile
def isf(x: Any, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of the survival function.

    >>> from curta.scipy import stats
    >>> stats.logistic.isf(0.75).round(4)
    Array(-1.0986, dtype=float32, weak_type=True)
    """
    return _LAW.quantile("isf", _isf, x, loc, scale)
