"""The Bernoulli distribution.

1 with probability p, else 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import const
from curta.scipy.stats.arguments import documented
from curta.scipy.stats.law import Law, defined, is_probability

__dir__: Listing = own(__name__)

_LAW = Law("bernoulli", is_probability)


def _probability(k: Any, p: Any) -> Any:
    return jnp.where(k == 0, 1 - p, jnp.where(k == 1, p, 0 * k * p))


def _log_probability(k: Any, p: Any) -> Any:
    value = jnp.where(k == 0, lax.log1p(-p), lax.log(p))
    outside = (k != 0) & (k != 1) & ~jnp.isnan(k)
    return jnp.where(outside, -np.inf, value + 0 * jnp.where(outside, 0, k))


def _cdf(k: Any, p: Any) -> Any:
    value = jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1))
    return jnp.where(jnp.isnan(k), np.nan, value)


def _ppf(q: Any, p: Any) -> Any:
    value = jnp.where(q > 1 - p, const(q, 1), const(q, 0))
    return defined(value, is_probability(q))


_of_k = documented("k", "p: the probability of 1.", "loc")


@_of_k
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k.

    >>> from curta.scipy import stats
    >>> stats.bernoulli.logpmf(1, 0.5).round(4)
    Array(-0.6931, dtype=float32, weak_type=True)
    """
    return _LAW.of_count("logpmf", _log_probability, -np.inf, k, p, loc)


@_of_k
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> from curta.scipy import stats
    >>> stats.bernoulli.pmf(1, 0.3).round(4)
    Array(0.3, dtype=float32, weak_type=True)
    """
    return _LAW.of_count("pmf", _probability, 0, k, p, loc)


def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """The probability of a value of at most k.

    >>> from curta.scipy import stats
    >>> stats.bernoulli.cdf(1, 0.3).round(4)
    Array(1., dtype=float32, weak_type=True)
    """
    return _LAW.of_arguments("cdf", _cdf, k, p)


def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.bernoulli.ppf(0.6, 0.3).round(4)
    Array(0., dtype=float32, weak_type=True)
    """
    return _LAW.of_arguments("ppf", _ppf, q, p)
