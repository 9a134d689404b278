"""The Laplace distribution.

Its density is exp(-|z|) / (2 scale) with z = (x - loc) / scale.
"""

from __future__ import annotations

import math
from typing import Any

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.stats.arguments import documented
from curta.scipy.stats.law import Law, no_order

__dir__: Listing = own(__name__)

_LAW = Law("laplace", refuses=no_order(lax.le))


def _log_density(z: Any) -> Any:
    return -lax.abs(z) - math.log(2)


def _density(z: Any) -> Any:
    return 0.5 * lax.exp(-lax.abs(z))


def _cdf(z: Any) -> Any:
    left = z <= 0
    tail = 0.5 * lax.exp(jnp.where(left, z, -z))
    return jnp.where(left, tail, 1 - tail)


_of_x = documented("x", "loc, scale")


@_of_x
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.laplace.logpdf(0.0).round(4)
    Array(-0.6931, dtype=float32, weak_type=True)
    """
    return _LAW.log_density("logpdf", _log_density, x, loc, scale)


@_of_x
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.laplace.pdf(1.0).round(4)
    Array(0.1839, dtype=float32, weak_type=True)
    """
    return _LAW.density("pdf", _density, x, loc, scale)


@_of_x
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.laplace.cdf(1.0).round(4)
    Array(0.8161, dtype=float32, weak_type=True)
    """
    return _LAW.probability("cdf", _cdf, x, loc, scale)
