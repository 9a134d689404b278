"""The normal distribution.

Its density is exp(-z²/2) / (scale √(2π)) with z = (x - loc) / scale.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.special import log_ndtr, ndtr, ndtri
from curta.scipy.special.arguments import only_f32_or_f64
from curta.scipy.stats.arguments import documented
from curta.scipy.stats.law import Law

__dir__: Listing = own(__name__)

_LAW = Law("norm", refuses=None)
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * np.pi)


def _log_density(z: Any) -> Any:
    return -0.5 * (z * z) - _HALF_LOG_TWO_PI


def _density(z: Any) -> Any:
    return lax.exp(-0.5 * (z * z)) * (1 / math.sqrt(2 * np.pi))


def _cdf(z: Any) -> Any:
    return ndtr(z)


def _log_cdf(z: Any) -> Any:
    return log_ndtr(z)


def _sf(z: Any) -> Any:
    return ndtr(-z)


def _log_sf(z: Any) -> Any:
    return log_ndtr(-z)


def _ppf(q: Any) -> Any:
    return ndtri(q)


def _isf(q: Any) -> Any:
    return -ndtri(q)


_of_density = documented("x", "loc, scale", takes_complex=True)
_of_cumulative = documented("x", "loc, scale")
_of_q = documented(
    "q",
    "loc, scale",
    raises="TypeError: unless q is float32 or float64, and for shapes that do not"
    " broadcast.",
)


@_of_density
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.norm.logpdf(0.0).round(4)
    Array(-0.9189, dtype=float32, weak_type=True)
    """
    return _LAW.log_density("logpdf", _log_density, x, loc, scale)


@_of_density
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.norm.pdf(1.0).round(4)
    Array(0.242, dtype=float32, weak_type=True)
    """
    return _LAW.density("pdf", _density, x, loc, scale)


@_of_cumulative
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.norm.cdf(1.0).round(4)
    Array(0.8413, dtype=float32)
    """
    return _LAW.probability("cdf", _cdf, x, loc, scale)


@_of_cumulative
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.norm.logcdf(1.0).round(4)
    Array(-0.1728, dtype=float32)
    """
    return _LAW.probability("logcdf", _log_cdf, x, loc, scale)


@_of_cumulative
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.norm.sf(1.0).round(4)
    Array(0.1587, dtype=float32)
    """
    return _LAW.probability("sf", _sf, x, loc, scale)


@_of_cumulative
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.norm.logsf(1.0).round(4)
    Array(-1.841, dtype=float32)
    """
    return _LAW.probability("logsf", _log_sf, x, loc, scale)


@_of_q
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.norm.ppf(0.9).round(4)
    Array(1.2816, dtype=float32)
    """
    only_f32_or_f64(q)
    return _LAW.quantile("ppf", _ppf, q, loc, scale)


@_of_q
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of the survival function.

    >>> from curta.scipy import stats
    >>> stats.norm.isf(0.9).round(4)
    Array(-1.2816, dtype=float32)
    """
    only_f32_or_f64(q)
    return _LAW.quantile("isf", _isf, q, loc, scale)
