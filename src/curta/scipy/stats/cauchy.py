"""The Cauchy distribution.

Its density is 1 / (π scale (1 + z²)) with z = (x - loc) / scale.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.stats.arguments import documented
from curta.scipy.stats.law import Law

__dir__: Listing = own(__name__)

_LAW = Law("cauchy", refuses=None)
_LOG_PI = math.log(np.pi)


def _log_density(z: Any) -> Any:
    if z.dtype.kind == "c":
        return -_LOG_PI - lax.log1p(z * z)
    # Beyond 1 by the inverse, whose square does not overflow.
    far = lax.abs(z) > 1
    w = jnp.where(far, 1 / jnp.where(far, z, 1), z)
    return -_LOG_PI - lax.log1p(w * w) + 2 * lax.log(jnp.where(far, lax.abs(w), 1))


def _density(z: Any) -> Any:
    far = lax.abs(z) > 1 if z.dtype.kind != "c" else jnp.zeros_like(z, bool)
    w = jnp.where(far, 1 / jnp.where(far, z, 1), z)
    return (1 / np.pi) * jnp.where(far, w * w, 1) / (1 + w * w)


def _cdf(z: Any) -> Any:
    return jnp.arctan2(1, -z) / np.pi


def _sf(z: Any) -> Any:
    return jnp.arctan2(1, z) / np.pi


def _log_cdf(z: Any) -> Any:
    # Where it is near 1 it is known by what is missing.
    right = z > 0
    near_one = lax.log1p(-_sf(jnp.where(right, z, 1)))
    return jnp.where(right, near_one, lax.log(_cdf(jnp.where(right, -1, z))))


def _log_sf(z: Any) -> Any:
    return _log_cdf(-z)


def _ppf(q: Any) -> Any:
    """tan(π (q - 1/2)), in the tails by the cotangent of what is left."""
    low, high = q < 0.25, q > 0.75
    tail = jnp.where(low, q, jnp.where(high, 1 - q, 0.25))
    outside = 1 / lax.tan(np.pi * tail)
    middle = lax.tan(np.pi * (jnp.where(low | high, 0.5, q) - 0.5))
    return jnp.where(low, -outside, jnp.where(high, outside, middle))


def _isf(q: Any) -> Any:
    return -_ppf(q)


_of_x = documented("x", "loc, scale", takes_complex=True)
_of_q = documented("q", "loc, scale", takes_complex=True)


@_of_x
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.cauchy.logpdf(0.0).round(4)
    Array(-1.1447, dtype=float32, weak_type=True)
    """
    return _LAW.log_density("logpdf", _log_density, x, loc, scale)


@_of_x
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.cauchy.pdf(1.0).round(4)
    Array(0.1592, dtype=float32, weak_type=True)
    """
    return _LAW.density("pdf", _density, x, loc, scale)


@_of_x
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.cauchy.cdf(1.0).round(4)
    Array(0.75, dtype=float32, weak_type=True)
    """
    return _LAW.probability("cdf", _cdf, x, loc, scale)


@_of_x
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.cauchy.logcdf(1.0).round(4)
    Array(-0.2877, dtype=float32, weak_type=True)
    """
    return _LAW.probability("logcdf", _log_cdf, x, loc, scale)


@_of_x
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.cauchy.sf(1.0).round(4)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return _LAW.probability("sf", _sf, x, loc, scale)


@_of_x
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.cauchy.logsf(1.0).round(4)
    Array(-1.3863, dtype=float32, weak_type=True)
    """
    return _LAW.probability("logsf", _log_sf, x, loc, scale)


@_of_q
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.cauchy.ppf(0.75).round(4)
    Array(1., dtype=float32, weak_type=True)
    """
    return _LAW.quantile("ppf", _ppf, q, loc, scale)


@_of_q
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The inverse of the survival function.

    >>> from curta.scipy import stats
    >>> stats.cauchy.isf(0.75).round(4)
    Array(-1., dtype=float32, weak_type=True)
    """
    return _LAW.quantile("isf", _isf, q, loc, scale)
