"""The beta-binomial distribution.

The number of successes among n trials whose probability is itself beta(a, b).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.scipy.special.deviance import log_binomial
from curta.scipy.stats.arguments import documented
from curta.scipy.stats.densities import beta_log_density
from curta.scipy.stats.law import Law

__dir__: Listing = own(__name__)

_LAW = Law(
    "betabinom",
    lambda n, a, b: (n >= 0) & (n == jnp.floor(n)) & (a > 0) & (b > 0),
    wide=True,
)


def _log_probability(k: Any, n: Any, a: Any, b: Any) -> Any:
    """Binomial of the mean p after k successes, times beta before over beta after."""
    inside = (k >= 0) & (k <= n) | jnp.isnan(k)
    x = jnp.where(inside, k, 0)
    y = jnp.where(inside, n - k, n)
    total = a + b + n
    p, q = (x + a) / total, (y + b) / total
    change = beta_log_density(p, a, b) - beta_log_density(p, x + a, y + b)
    return jnp.where(inside, log_binomial(x, y, p, q) + change, -np.inf)


def _probability(*args: Any) -> Any:
    return lax.exp(_log_probability(*args))


_of_k = documented(
    "k",
    "n: the number of trials.",
    "a, b: the parameters of the beta distribution, positive.",
    "loc",
)


@_of_k
@inner_jit
def logpmf(
    k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0
) -> Array:
    """The logarithm of the probability of k.

    >>> from curta.scipy import stats
    >>> stats.betabinom.logpmf(1, 2, 1.0, 1.0).round(4)
    Array(-1.0986, dtype=float32, weak_type=True)
    """
    return _LAW.of_count("logpmf", _log_probability, -np.inf, k, n, a, b, loc)


@_of_k
def pmf(
    k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0
) -> Array:
    """The probability of k.

    >>> from curta.scipy import stats
    >>> stats.betabinom.pmf(2, 4, 2.0, 3.0).round(4)
    Array(0.2571, dtype=float32, weak_type=True)
    """
    return _LAW.of_count("pmf", _probability, 0, k, n, a, b, loc)
