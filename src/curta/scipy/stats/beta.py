"""The beta distribution.

Its density in z = (x - loc) / scale, between 0 and 1, is
z^(a - 1) (1 - z)^(b - 1) / (scale B(a, b)).
"""

from __future__ import annotations

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.on_demand import Listing, own
from curta.scipy.special import betainc, betaln, xlog1py, xlogy
from curta.scipy.special.arguments import real
from curta.scipy.stats.arguments import documented, no_less, no_more, standardise

__dir__: Listing = own(__name__)

_ARGUMENTS = ("x", "a, b: the shape parameters, positive.", "loc, scale")
_density = documented(*_ARGUMENTS)
_cumulative = documented(
    *_ARGUMENTS,
    raises="TypeError: for what is no array, and shapes that do not broadcast.\n"
    "  ValueError: for complex numbers.",
)


@_density
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.beta.logpdf(0.5, 2.0, 3.0).round(4)
    Array(0.4055, dtype=float32, weak_type=True)
    """
    z, a, b, scale = standardise("beta.logpdf", x, a, b, loc=loc, scale=scale)
    value = xlogy(a - 1, z) + xlog1py(b - 1, -z) - betaln(a, b) - lax.log(scale)
    value = jnp.where((z < 0) | (z > 1), -np.inf, value)
    return jnp.where((a <= 0) | (b <= 0) | (scale <= 0), np.nan, value)


@_density
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.beta.pdf(0.5, 2.0, 3.0).round(4)
    Array(1.5, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, a, b, loc, scale))


@_cumulative
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.beta.cdf(0.5, 2.0, 3.0).round(4)
    Array(0.6875, dtype=float32, weak_type=True)
    """
    z, a, b, _ = standardise("beta.cdf", x, a, b, loc=loc, scale=scale)
    (z,) = real("beta.cdf", z)
    return betainc(a, b, no_more(no_less(z, 0), 1))


@_cumulative
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.beta.logcdf(0.5, 2.0, 3.0).round(4)
    Array(-0.3747, dtype=float32, weak_type=True)
    """
    return lax.log(cdf(x, a, b, loc, scale))


@_cumulative
def sf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.beta.sf(0.5, 2.0, 3.0).round(4)
    Array(0.3125, dtype=float32, weak_type=True)
    """
    z, a, b, _ = standardise("beta.sf", x, a, b, loc=loc, scale=scale)
    (z,) = real("beta.sf", z)
    return betainc(b, a, 1 - no_more(no_less(z, 0), 1))


@_cumulative
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.beta.logsf(0.5, 2.0, 3.0).round(4)
    Array(-1.1632, dtype=float32, weak_type=True)
    """
    return lax.log(sf(x, a, b, loc, scale))
