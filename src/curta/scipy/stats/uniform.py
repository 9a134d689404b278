"""The uniform distribution.

Its density is 1 / scale between loc and loc + scale.
"""

from __future__ import annotations

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.stats.arguments import documented, refuse_complex, standardise

__dir__: Listing = own(__name__)

_of_x = documented("x", "loc, scale")


@_of_x
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.uniform.logpdf(0.5, 0.0, 2.0).round(4)
    Array(-0.6931, dtype=float32, weak_type=True)
    """
    z, scale = standardise("uniform.logpdf", x, loc=loc, scale=scale)
    refuse_complex(lax.gt, z)
    return jnp.where((z < 0) | (z > 1), -np.inf, -lax.log(scale))


@_of_x
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.uniform.pdf(0.25).round(4)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, loc, scale))


@_of_x
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.uniform.cdf(0.25).round(4)
    Array(0.25, dtype=float32)
    """
    z, _ = standardise("uniform.cdf", x, loc=loc, scale=scale)
    refuse_complex(lax.gt, z)
    return jnp.clip(z, 0, 1).astype(z.dtype)


@documented("q", "loc, scale", takes_complex=True)
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The quantile: the inverse of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.uniform.ppf(0.25).round(4)
    Array(0.25, dtype=float32, weak_type=True)
    """
    q, loc, scale = inexact_operands("uniform.ppf", q, loc, scale)
    return jnp.where((q >= 0) & (q <= 1), loc + scale * q, np.nan)
