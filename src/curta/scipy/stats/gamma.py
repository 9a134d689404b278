"""The gamma distribution.

Its density in z = (x - loc) / scale >= 0 is z^(a - 1) exp(-z) / (scale Γ(a)).
"""

from __future__ import annotations

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.on_demand import Listing, own
from curta.scipy.special import gammainc, gammaincc, gammaln, xlogy
from curta.scipy.stats.arguments import documented, no_less, standardise

__dir__: Listing = own(__name__)

_of_x = documented("x", "a: the shape parameter, positive.", "loc, scale")


@_of_x
def logpdf(
    x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.gamma.logpdf(1.0, 2.0).round(4)
    Array(-1., dtype=float32, weak_type=True)
    """
    z, a, scale = standardise("gamma.logpdf", x, a, loc=loc, scale=scale)
    safe = jnp.where(z < 0, 1, z)
    value = xlogy(a - 1, safe) - safe - gammaln(a) - lax.log(scale)
    return jnp.where(z < 0, -np.inf, value)


@_of_x
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.gamma.pdf(1.0, 2.0).round(4)
    Array(0.3679, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, a, loc, scale))


@_of_x
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.gamma.cdf(1.0, 2.0).round(4)
    Array(0.2642, dtype=float32, weak_type=True)
    """
    z, a, _ = standardise("gamma.cdf", x, a, loc=loc, scale=scale)
    return gammainc(a, no_less(z, 0))


@_of_x
def logcdf(
    x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.gamma.logcdf(1.0, 2.0).round(4)
    Array(-1.3309, dtype=float32, weak_type=True)
    """
    return lax.log(cdf(x, a, loc, scale))


@_of_x
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.gamma.sf(1.0, 2.0).round(4)
    Array(0.7358, dtype=float32, weak_type=True)
    """
    z, a, _ = standardise("gamma.sf", x, a, loc=loc, scale=scale)
    return gammaincc(a, no_less(z, 0))


@_of_x
def logsf(
    x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.gamma.logsf(1.0, 2.0).round(4)
    Array(-0.3069, dtype=float32, weak_type=True)
    """
    return lax.log(sf(x, a, loc, scale))
