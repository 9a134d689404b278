"""The normal distribution in several dimensions.

Its density is exp(-(x - μ)ᵀ Σ⁻¹ (x - μ) / 2) / √((2π)ⁿ det Σ).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import promote_dtypes_inexact

__dir__: Listing = own(__name__)


def logpdf(
    x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None
) -> ArrayLike:
    """The logarithm of the density.

    Args:
      x: points (..., n), real.
      mean: the mean (..., n), or a scalar where n is 1 without a dim for it.
      cov: the covariance (..., n, n), symmetric and positive definite, or a scalar for
        a multiple of the identity.
      allow_singular: None (default), the only choice.

    Returns:
      The logarithm, of the operands' shape without the last dim, in their float
      dtype; NaN where `cov` is not positive definite.

    Raises:
      NotImplementedError: if `allow_singular` is given.
      TypeError: if an operand is not an array or shapes do not broadcast.
      ValueError: if `cov` does not fit the mean.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import stats
    >>> x, mean = jnp.zeros(2), jnp.zeros(2)
    >>> stats.multivariate_normal.logpdf(x, mean, jnp.eye(2)).round(4)
    Array(-1.8379, dtype=float32)
    """
    if allow_singular is not None:
        raise NotImplementedError(
            "allow_singular argument of multivariate_normal.logpdf"
        )
    x, mean, cov = promote_dtypes_inexact(x, mean, cov)
    log_2pi = math.log(2 * np.pi)
    if not mean.shape:
        y = x - mean
        return -0.5 * (y * y / cov + log_2pi + jnp.log(cov))
    n = mean.shape[-1]
    if cov.shape and (cov.ndim < 2 or cov.shape[-2:] != (n, n)):
        raise ValueError("multivariate_normal.logpdf got incompatible shapes")
    y = x - mean
    if not cov.shape:
        return -0.5 * (jnp.sum(y * y, -1) / cov + n * (log_2pi + jnp.log(cov)))
    factor = lax.linalg.cholesky(cov)
    whiten = jnp.vectorize(_solve, signature="(n,n),(n)->(n)")
    y = whiten(factor, y)
    log_det = jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)
    return -0.5 * (jnp.sum(y * y, -1) + n * log_2pi) - log_det


def _solve(factor: Any, y: Any) -> Any:
    return lax.linalg.triangular_solve(factor, y, lower=True, transpose_a=True)


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The density.

    Args:
      x: points (..., n), real.
      mean: the mean (..., n), or a scalar where n is 1 without a dim for it.
      cov: the covariance (..., n, n), symmetric and positive definite, or a scalar for
        a multiple of the identity.

    Returns:
      The density, of the operands' shape without the last dim, in their float
      dtype; NaN where `cov` is not positive definite.

    Raises:
      TypeError: if an operand is not an array or shapes do not broadcast.
      ValueError: if `cov` does not fit the mean.

    >>> from curta.scipy import stats
    >>> from curta import numpy as jnp
    >>> stats.multivariate_normal.pdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2)).round(4)
    Array(0.1592, dtype=float32)
    """
    return lax.exp(logpdf(x, mean, cov))
