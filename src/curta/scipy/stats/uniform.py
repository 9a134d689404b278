"""The uniform distribution.

Its density is 1 / scale between loc and loc + scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.stats.arguments import documented, no_less, no_more
from curta.scipy.stats.law import Law, no_order

__dir__: Listing = own(__name__)

_LAW = Law("uniform", refuses=no_order(lax.gt))


def _log_density(z: Any) -> Any:
    return jnp.where((z < 0) | (z > 1), -np.inf, 0 * z)


def _density(z: Any) -> Any:
    return jnp.where((z < 0) | (z > 1), 0, 1 + 0 * z)


def _cdf(z: Any) -> Any:
    return no_more(no_less(z, 0), 1).astype(z.dtype)


def _ppf(q: Any) -> Any:
    return q


_of_x = documented("x", "loc, scale")


@_of_x
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.uniform.logpdf(0.5, 0.0, 2.0).round(4)
    Array(-0.6931, dtype=float32, weak_type=True)
    """
    return _LAW.log_density("logpdf", _log_density, x, loc, scale)


@_of_x
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.uniform.pdf(0.25).round(4)
    Array(1., dtype=float32, weak_type=True)
    """
    return _LAW.density("pdf", _density, x, loc, scale)


@_of_x
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.uniform.cdf(0.25).round(4)
    Array(0.25, dtype=float32)
    """
    return _LAW.probability("cdf", _cdf, x, loc, scale)


@documented("q", "loc, scale", takes_complex=True)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.uniform.ppf(0.25).round(4)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return _LAW.quantile("ppf", _ppf, q, loc, scale)
