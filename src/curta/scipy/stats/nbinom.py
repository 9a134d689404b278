"""The negative binomial distribution.

The number of failures before the n-th success of probability p.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.special.deviance import log_binomial
from curta.scipy.stats.arguments import documented
from curta.scipy.stats.law import Law

__dir__: Listing = own(__name__)

_LAW = Law("nbinom", lambda n, p: (n > 0) & (p > 0) & (p <= 1), wide=True)


def _log_probability(k: Any, n: Any, p: Any) -> Any:
    """n / (n + k) times a binomial probability of n successes and k failures."""
    inside = (k >= 0) & (k < np.inf) | jnp.isnan(k)
    none = inside & (k == 0)
    y = jnp.where(inside & ~none, k, 1)
    value = lax.log(n / (n + y)) + log_binomial(n, y, p, 1 - p)
    value = jnp.where(none, n * lax.log(p), value)
    return jnp.where(inside, value, -np.inf)


def _probability(*args: Any) -> Any:
    return lax.exp(_log_probability(*args))


_of_k = documented(
    "k", "n: the number of successes.", "p: the probability of success.", "loc"
)


@_of_k
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k.

    >>> from curta.scipy import stats
    >>> stats.nbinom.logpmf(1, 1, 0.5).round(4)
    Array(-1.3863, dtype=float32, weak_type=True)
    """
    return _LAW.of_count("logpmf", _log_probability, -np.inf, k, n, p, loc)


@_of_k
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> from curta.scipy import stats
    >>> stats.nbinom.pmf(2, 3, 0.5).round(4)
    Array(0.1875, dtype=float32, weak_type=True)
    """
    return _LAW.of_count("pmf", _probability, 0, k, n, p, loc)
