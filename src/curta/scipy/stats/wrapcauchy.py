"""The Cauchy distribution wrapped around the circle.

Its density in [0, 2π] is (1 - c²) / (2π (1 + c² - 2c cos(x))), for 0 < c < 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.stats.law import Law, no_order

__dir__: Listing = own(__name__)

_LAW = Law(
    "wrapcauchy",
    lambda c: (c > 0) & (c < 1),
    wide=True,
    refuses=no_order(lax.gt),
)


def _density(x: Any, c: Any) -> Any:
    # 1 + c² - 2c cos(x) without cancellation.
    half = jnp.sin(x / 2)
    value = (1 - c) * (1 + c) / ((1 - c) ** 2 + 4 * c * half * half)
    outside = (x < 0) | (x > 2 * np.pi)
    return jnp.where(outside, 0, value / (2 * np.pi))


def _log_density(x: Any, c: Any) -> Any:
    return jnp.log(_density(x, c))


def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.wrapcauchy.logpdf(0.0, 0.5).round(4)
    Array(-0.7393, dtype=float32, weak_type=True)
    """
    return _LAW.of_arguments("logpdf", _log_density, x, c)


def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.wrapcauchy.pdf(0.5, 0.3).round(4)
    Array(0.257, dtype=float32, weak_type=True)
    """
    return _LAW.of_arguments("pdf", _density, x, c)
