"""The negative binomial distribution.

The number of failures before the n-th success of probability p.
"""

from __future__ import annotations

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.special import gammaln, xlogy
from curta.scipy.stats.arguments import documented

__dir__: Listing = own(__name__)

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
    k, n, p, loc = inexact_operands("nbinom.logpmf", k, n, p, loc)
    y = k - loc
    ways = gammaln(y + n) - gammaln(n) - gammaln(y + 1)
    value = ways + (xlogy(n, p) + xlogy(y, 1 - p))
    return jnp.where(y < 0, -np.inf, value)


@_of_k
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> from curta.scipy import stats
    >>> stats.nbinom.pmf(2, 3, 0.5).round(4)
    Array(0.1875, dtype=float32, weak_type=True)
    """
    return lax.exp(logpmf(k, n, p, loc))
