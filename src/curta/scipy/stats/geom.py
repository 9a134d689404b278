"""The geometric distribution.

The number of trials up to the first success of probability p.
"""

from __future__ import annotations

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.special import xlog1py
from curta.scipy.stats.arguments import documented, refuse_complex

__dir__: Listing = own(__name__)

_of_k = documented("k", "p: the probability of success.", "loc")


@_of_k
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k.

    >>> from curta.scipy import stats
    >>> stats.geom.logpmf(1, 0.5).round(4)
    Array(-0.6931, dtype=float32, weak_type=True)
    """
    k, p, loc = inexact_operands("geom.logpmf", k, p, loc)
    refuse_complex(lax.le, k)
    x = k - loc
    value = xlog1py(x - 1, -p) + lax.log(p)
    return jnp.where(x <= 0, -np.inf, value)


@_of_k
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> from curta.scipy import stats
    >>> stats.geom.pmf(2, 0.5).round(4)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return lax.exp(logpmf(k, p, loc))
