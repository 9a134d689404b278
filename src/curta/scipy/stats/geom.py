"""The geometric distribution.

The number of trials up to the first success of probability p.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.special import xlog1py
from curta.scipy.stats.arguments import documented
from curta.scipy.stats.law import Law, no_order

__dir__: Listing = own(__name__)

_LAW = Law("geom", lambda p: (p > 0) & (p <= 1), refuses=no_order(lax.le))


def _log_probability(k: Any, p: Any) -> Any:
    outside = (k < 1) | (k == np.inf)
    value = xlog1py(jnp.where(outside, 0, k - 1), -p) + lax.log(p)
    return jnp.where(outside, -np.inf, value)


def _probability(k: Any, p: Any) -> Any:
    outside = (k < 1) | (k == np.inf)
    value = p * lax.exp(xlog1py(jnp.where(outside, 0, k - 1), -p))
    return jnp.where(outside, 0, value)


_of_k = documented("k", "p: the probability of success.", "loc")


@_of_k
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k.

    >>> from curta.scipy import stats
    >>> stats.geom.logpmf(1, 0.5).round(4)
    Array(-0.6931, dtype=float32, weak_type=True)
    """
    return _LAW.of_count("logpmf", _log_probability, -np.inf, k, p, loc)


@_of_k
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> from curta.scipy import stats
    >>> stats.geom.pmf(2, 0.5).round(4)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return _LAW.of_count("pmf", _probability, 0, k, p, loc)
