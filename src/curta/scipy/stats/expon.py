"""The exponential distribution.

Its density in z = (x - loc) / scale >= 0 is exp(-z) / scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.stats.arguments import documented, no_less, refuse_complex, standardise

__dir__: Listing = own(__name__)

_of_x = documented("x", "loc, scale")


@_of_x
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.expon.logpdf(1.0).round(4)
    Array(-1., dtype=float32, weak_type=True)
    """
    z, scale = standardise("expon.logpdf", x, loc=loc, scale=scale)
    refuse_complex(lax.lt, z)
    return jnp.where(z < 0, -np.inf, -z - lax.log(scale))


@_of_x
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.expon.pdf(1.0).round(4)
    Array(0.3679, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@_of_x
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.expon.cdf(1.0).round(4)
    Array(0.6321, dtype=float32, weak_type=True)
    """
    z, _ = standardise("expon.cdf", x, loc=loc, scale=scale)
    refuse_complex(lax.lt, z)
    return -lax.expm1(-no_less(z, 0))


@_of_x
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.expon.logcdf(1.0).round(4)
    Array(-0.4587, dtype=float32, weak_type=True)
    """
    return lax.log1p(-sf(x, loc, scale))


@_of_x
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.expon.sf(1.0).round(4)
    Array(0.3679, dtype=float32, weak_type=True)
    """
    return lax.exp(_log_tail("expon.sf", x, loc, scale))


@_of_x
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.expon.logsf(1.0).round(4)
    Array(-1., dtype=float32, weak_type=True)
    """
    return _log_tail("expon.logsf", x, loc, scale)


def _log_tail(name: str, x: Any, loc: Any, scale: Any) -> Any:
    z, _ = standardise(name, x, loc=loc, scale=scale)
    refuse_complex(lax.lt, z)
    return -no_less(z, 0)


@documented("q", "loc, scale", takes_complex=True)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.expon.ppf(0.5).round(4)
    Array(0.6931, dtype=float32, weak_type=True)
    """
    q, loc, scale = inexact_operands("expon.ppf", q, loc, scale)
    return jnp.where((q >= 0) & (q <= 1), loc - scale * lax.log1p(-q), np.nan)
