"""The Bernoulli distribution.

1 with probability p, else 0.
"""

from __future__ import annotations

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import const, inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.special import xlog1py, xlogy
from curta.scipy.stats.arguments import documented, refuse_complex

__dir__: Listing = own(__name__)

_of_k = documented("k", "p: the probability of 1.", "loc")


@_of_k
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k.

    >>> from curta.scipy import stats
    >>> stats.bernoulli.logpmf(1, 0.5).round(4)
    Array(-0.6931, dtype=float32, weak_type=True)
    """
    k, p, loc = inexact_operands("bernoulli.logpmf", k, p, loc)
    refuse_complex(lax.lt, k)
    x = k - loc
    value = xlogy(x, p) + xlog1py(1 - x, -p)
    return jnp.where((x < 0) | (x > 1), -np.inf, value)


@_of_k
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> from curta.scipy import stats
    >>> stats.bernoulli.pmf(1, 0.3).round(4)
    Array(0.3, dtype=float32, weak_type=True)
    """
    return lax.exp(logpmf(k, p, loc))


def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """The probability of a value of at most k.

    >>> from curta.scipy import stats
    >>> stats.bernoulli.cdf(1, 0.3).round(4)
    Array(1., dtype=float32, weak_type=True)
    """
    k, p = inexact_operands("bernoulli.cdf", k, p)
    refuse_complex(lax.lt, k)
    value = jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1))
    return jnp.where(jnp.isnan(k) | ~((p >= 0) & (p <= 1)), np.nan, value)


def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.bernoulli.ppf(0.6, 0.3).round(4)
    Array(0., dtype=float32, weak_type=True)
    """
    q, p = inexact_operands("bernoulli.ppf", q, p)
    refuse_complex(lax.le, q)
    valid = (p >= 0) & (p <= 1) & (q >= 0) & (q <= 1)
    return jnp.where(valid, jnp.where(q > 1 - p, const(q, 1), const(q, 0)), np.nan)
