"""The beta-binomial distribution.

The number of successes among n trials whose probability is itself beta(a, b).
"""

from __future__ import annotations

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.special import betaln
from curta.scipy.stats.arguments import documented

__dir__: Listing = own(__name__)

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
    k, n, a, b, loc = inexact_operands("betabinom.logpmf", k, n, a, b, loc)
    y = lax.floor(k) - loc
    ways = -lax.log1p(n) - betaln(n - y + 1, y + 1)
    value = ways + betaln(y + a, n - y + b) - betaln(a, b)
    value = jnp.where((y == 0) & (n == 0), 0.0, value)
    value = jnp.where((y < -loc) | (y > n) | (y + a <= 0), -np.inf, value)
    return jnp.where((n < 0) | (a <= 0) | (b <= 0), np.nan, value)


@_of_k
def pmf(
    k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0
) -> Array:
    """The probability of k.

    >>> from curta.scipy import stats
    >>> stats.betabinom.pmf(2, 4, 2.0, 3.0).round(4)
    Array(0.2571, dtype=float32, weak_type=True)
    """
    return lax.exp(logpmf(k, n, a, b, loc))
