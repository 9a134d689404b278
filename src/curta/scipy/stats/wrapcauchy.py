"""The Cauchy distribution wrapped around the circle.

Its density in [0, 2π] is (1 - c²) / (2π (1 + c² - 2c cos(x))), for 0 < c < 1.
"""

from __future__ import annotations

import math

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.stats.arguments import refuse_complex

__dir__: Listing = own(__name__)


def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.wrapcauchy.logpdf(0.0, 0.5).round(4)
    Array(-0.7393, dtype=float32, weak_type=True)
    """
    x, c = inexact_operands("wrapcauchy.logpdf", x, c)
    refuse_complex(lax.gt, x)
    value = jnp.log1p(-c * c) - jnp.log(1 + c * c - 2 * c * jnp.cos(x))
    inside = (x >= 0) & (x <= 2 * np.pi)
    value = jnp.where(inside, value - math.log(2 * np.pi), -np.inf)
    return jnp.where((c > 0) & (c < 1), value, np.nan)


def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.wrapcauchy.pdf(0.5, 0.3).round(4)
    Array(0.257, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, c))
