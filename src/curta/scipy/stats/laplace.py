"""The Laplace distribution.

Its density is exp(-|z|) / (2 scale) with z = (x - loc) / scale.
"""

from __future__ import annotations

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.on_demand import Listing, own
from curta.scipy.stats.arguments import documented, refuse_complex, standardise

__dir__: Listing = own(__name__)

_of_x = documented("x", "loc, scale")


@_of_x
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.laplace.logpdf(0.0).round(4)
    Array(-0.6931, dtype=float32, weak_type=True)
    """
    z, scale = standardise("laplace.logpdf", x, loc=loc, scale=scale)
    refuse_complex(lax.le, z)
    return -lax.abs(z) - lax.log(2 * scale)


@_of_x
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.laplace.pdf(1.0).round(4)
    Array(0.1839, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@_of_x
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.laplace.cdf(1.0).round(4)
    Array(0.8161, dtype=float32, weak_type=True)
    """
    z, _ = standardise("laplace.cdf", x, loc=loc, scale=scale)
    refuse_complex(lax.le, z)
    left = z <= 0
    tail = 0.5 * lax.exp(jnp.where(left, z, -z))
    return jnp.where(left, tail, 1 - tail)
