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
from curta.scipy.stats.arguments import no_less, no_more, standardise

__dir__: Listing = own(__name__)


def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density.

    Args:
      x: real numbers.
      a, b: the shape parameters, positive.
      loc, scale: where the distribution lies and how wide it is; 0 and 1 by default.

    Returns:
      Floats, of the shape to which the arguments broadcast.

    Raises:
      TypeError: for complex numbers, what is no array, and shapes that do not
        broadcast.

    >>> from curta.scipy import stats
    >>> stats.beta.logpdf(0.5, 2.0, 3.0).round(4)
    Array(0.4055, dtype=float32, weak_type=True)
    """
    z, a, b, scale = standardise("beta.logpdf", x, a, b, loc=loc, scale=scale)
    value = xlogy(a - 1, z) + xlog1py(b - 1, -z) - betaln(a, b) - lax.log(scale)
    value = jnp.where((z < 0) | (z > 1), -np.inf, value)
    return jnp.where((a <= 0) | (b <= 0) | (scale <= 0), np.nan, value)


def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density.

    Args:
      x: real numbers.
      a, b: the shape parameters, positive.
      loc, scale: where the distribution lies and how wide it is; 0 and 1 by default.

    Returns:
      Floats, of the shape to which the arguments broadcast.

    Raises:
      TypeError: for complex numbers, what is no array, and shapes that do not
        broadcast.

    >>> from curta.scipy import stats
    >>> stats.beta.pdf(0.5, 2.0, 3.0).round(4)
    Array(1.5, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, a, b, loc, scale))


def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of a value of at most x.

    Args:
      x: real numbers.
      a, b: the shape parameters, positive.
      loc, scale: where the distribution lies and how wide it is; 0 and 1 by default.

    Returns:
      Floats, of the shape to which the arguments broadcast.

    Raises:
      TypeError: for what is no array, and shapes that do not broadcast.
      ValueError: for complex numbers.

    >>> from curta.scipy import stats
    >>> stats.beta.cdf(0.5, 2.0, 3.0).round(4)
    Array(0.6875, dtype=float32, weak_type=True)
    """
    z, a, b, _ = standardise("beta.cdf", x, a, b, loc=loc, scale=scale)
    (z,) = real("beta.cdf", z)
    return betainc(a, b, no_more(no_less(z, 0), 1))


def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the cumulative distribution function.

    Args:
      x: real numbers.
      a, b: the shape parameters, positive.
      loc, scale: where the distribution lies and how wide it is; 0 and 1 by default.

    Returns:
      Floats, of the shape to which the arguments broadcast.

    Raises:
      TypeError: for what is no array, and shapes that do not broadcast.
      ValueError: for complex numbers.

    >>> from curta.scipy import stats
    >>> stats.beta.logcdf(0.5, 2.0, 3.0).round(4)
    Array(-0.3747, dtype=float32, weak_type=True)
    """
    return lax.log(cdf(x, a, b, loc, scale))


def sf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of a value beyond x.

    Args:
      x: real numbers.
      a, b: the shape parameters, positive.
      loc, scale: where the distribution lies and how wide it is; 0 and 1 by default.

    Returns:
      Floats, of the shape to which the arguments broadcast.

    Raises:
      TypeError: for what is no array, and shapes that do not broadcast.
      ValueError: for complex numbers.

    >>> from curta.scipy import stats
    >>> stats.beta.sf(0.5, 2.0, 3.0).round(4)
    Array(0.3125, dtype=float32, weak_type=True)
    """
    z, a, b, _ = standardise("beta.sf", x, a, b, loc=loc, scale=scale)
    (z,) = real("beta.sf", z)
    return betainc(b, a, 1 - no_more(no_less(z, 0), 1))


def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the survival function.

    Args:
      x: real numbers.
      a, b: the shape parameters, positive.
      loc, scale: where the distribution lies and how wide it is; 0 and 1 by default.

    Returns:
      Floats, of the shape to which the arguments broadcast.

    Raises:
      TypeError: for what is no array, and shapes that do not broadcast.
      ValueError: for complex numbers.

    >>> from curta.scipy import stats
    >>> stats.beta.logsf(0.5, 2.0, 3.0).round(4)
    Array(-1.1632, dtype=float32, weak_type=True)
    """
    return lax.log(sf(x, a, b, loc, scale))
