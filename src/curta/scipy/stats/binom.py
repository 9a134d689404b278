"""The binomial distribution.

The number of successes among n trials, each with probability p.
"""

from __future__ import annotations

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.special import gammaln, xlog1py, xlogy
from curta.scipy.stats.arguments import documented

__dir__: Listing = own(__name__)

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
    k, n, p, loc = inexact_operands("binom.logpmf", k, n, p, loc)
    y = k - loc
    ways = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
    logs = xlogy(y, p) + xlog1py(n - y, -p)
    certain = ((y == 0) & (n == 0)) | (logs == 0)
    value = jnp.where(certain, 0.0, ways + logs)
    return jnp.where((k >= loc) & (k < loc + n + 1), value, -np.inf)


@_of_k
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> from curta.scipy import stats
    >>> stats.binom.pmf(2, 4, 0.5).round(4)
    Array(0.375, dtype=float32, weak_type=True)
    """
    return lax.exp(logpmf(k, n, p, loc))
