"""The Dirichlet distribution on the simplex.

Its density is Γ(Σα) / ΠΓ(α) Π x^(α - 1), over axis 0 of x.
"""

from __future__ import annotations

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import promote_dtypes_inexact
from curta.on_demand import Listing, own
from curta.scipy.special import gammaln, xlogy

__dir__: Listing = own(__name__)


def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density.

    `alpha` has shape (n,), `x` shape (n, ...) or (n - 1, ...): the last entry is then
    what is missing to 1. ValueError for other shapes.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import stats
    >>> stats.dirichlet.logpdf(jnp.array([0.5, 0.5]), jnp.array([1.0, 1.0])).round(4)
    Array(0., dtype=float32)
    """
    x, alpha = promote_dtypes_inexact(x, alpha)
    if alpha.ndim != 1:
        raise ValueError(
            f"`alpha` must be one-dimensional; got alpha.shape={alpha.shape}"
        )
    if x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ValueError(
            "`x` must have either the same number of entries as `alpha` or one entry"
            f" fewer; got x.shape={x.shape}, alpha.shape={alpha.shape}"
        )
    if x.shape[0] != alpha.shape[0]:
        x = jnp.concatenate([x, 1 - x.sum(0, keepdims=True)], axis=0)
    norm = jnp.sum(gammaln(alpha)) - gammaln(jnp.sum(alpha))
    powers = alpha.reshape(alpha.shape + (1,) * (x.ndim - 1)) - 1
    value = jnp.sum(xlogy(powers, x), axis=0) - norm
    # The last entry may lie a rounding outside.
    sums_to_one = jnp.isclose(jnp.sum(x, axis=0), 1, atol=1e-6)
    return jnp.where(jnp.all(x > 0, axis=0) & sums_to_one, value, -np.inf)


def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> from curta import numpy as jnp
    >>> stats.dirichlet.pdf(jnp.array([0.2, 0.8]), jnp.array([2.0, 3.0])).round(4)
    Array(1.536, dtype=float32)
    """
    return lax.exp(logpdf(x, alpha))
