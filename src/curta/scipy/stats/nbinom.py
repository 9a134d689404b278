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

__dir__: Listing = own(__name__)


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k.

    Args:
      k: whole numbers.
      n: the number of successes.
      p: the probability of success.
      loc: what is added to the number; 0 by default.

    Returns:
      Floats, of the shape to which the arguments broadcast.

    Raises:
      TypeError: for complex numbers, what is no array, and shapes that do not
        broadcast.

    >>> from curta.scipy import stats
    >>> stats.nbinom.logpmf(1, 1, 0.5).round(4)
    Array(-1.3863, dtype=float32, weak_type=True)
    """
    k, n, p, loc = inexact_operands("nbinom.logpmf", k, n, p, loc)
    y = k - loc
    ways = gammaln(y + n) - gammaln(n) - gammaln(y + 1)
    value = ways + (xlogy(n, p) + xlogy(y, 1 - p))
    return jnp.where(y < 0, -np.inf, value)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    Args:
      k: whole numbers.
      n: the number of successes.
      p: the probability of success.
      loc: what is added to the number; 0 by default.

    Returns:
      Floats, of the shape to which the arguments broadcast.

    Raises:
      TypeError: for complex numbers, what is no array, and shapes that do not
        broadcast.

    >>> from curta.scipy import stats
    >>> stats.nbinom.pmf(2, 3, 0.5).round(4)
    Array(0.1875, dtype=float32, weak_type=True)
    """
    return lax.exp(logpmf(k, n, p, loc))
