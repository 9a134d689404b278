"""The binomial distribution.

The number of successes among n trials, each with probability p.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.special import xlog1py, xlogy
from curta.scipy.special.deviance import log_binomial
from curta.scipy.stats.arguments import documented
from curta.scipy.stats.law import Law, is_probability

__dir__: Listing = own(__name__)

_LAW = Law(
    "binom",
    lambda n, p: (n >= 0) & (n == jnp.floor(n)) & is_probability(p),
    wide=True,
)


def _log_probability(k: Any, n: Any, p: Any) -> Any:
    inside = (k >= 0) & (k <= n) | jnp.isnan(k)
    x, y = jnp.where(inside, k, 0), jnp.where(inside, n - k, n)
    # All and none are powers, which may be near 1.
    none, all_ = x == 0, y == 0
    of_none = xlog1py(n, -jnp.where(none, p, 0))
    power = jnp.where(none, of_none, xlogy(n, jnp.where(none, 1, p)))
    some = ~(none | all_)
    share = jnp.where(some, p, 0.5)
    value = jnp.where(some, log_binomial(x, y, share, 1 - share), power)
    return jnp.where(inside, value, -np.inf)


def _probability(*args: Any) -> Any:
    return lax.exp(_log_probability(*args))


_of_k = documented(
    "k", "n: the number of trials.", "p: the probability of success.", "loc"
)


@_of_k
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k.

    >>> from curta.scipy import stats
    >>> stats.binom.logpmf(1, 2, 0.5).round(4)
    Array(-0.6931, dtype=float32, weak_type=True)
    """
    return _LAW.of_count("logpmf", _log_probability, -np.inf, k, n, p, loc)


@_of_k
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> from curta.scipy import stats
    >>> stats.binom.pmf(2, 4, 0.5).round(4)
    Array(0.375, dtype=float32, weak_type=True)
    """
    return _LAW.of_count("pmf", _probability, 0, k, n, p, loc)
