"""The Dirichlet distribution on the simplex.

Its density is Γ(Σα) / ΠΓ(α) Π x^(α - 1), over axis 0 of x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import promote_dtypes_inexact
from curta.scipy.special import gammaln, xlogy
from curta.scipy.special.arguments import in_double
from curta.scipy.special.deviance import LARGE as _LARGE, log_poisson
from curta.scipy.stats.law import defined

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
    return in_double(_log_density)(x, alpha)


def _log_density(x: Any, alpha: Any) -> Any:
    """For large parameters, by a multinomial probability of the counts alpha."""
    alpha = alpha.reshape(alpha.shape + (1,) * (x.ndim - 1))
    total = jnp.sum(alpha)
    # The last entry may lie a rounding outside.
    inside = jnp.all(x > 0, axis=0) & jnp.isclose(jnp.sum(x, axis=0), 1, atol=1e-6)
    safe = jnp.where(x > 0, x, 1)
    norm = jnp.sum(gammaln(alpha)) - gammaln(total)
    direct = jnp.sum(xlogy(alpha - 1, safe), axis=0) - norm
    counts = log_poisson(alpha, total * safe) + jnp.log(alpha / safe)
    excess = total * (jnp.sum(safe, axis=0) - 1)
    saddle = jnp.sum(counts, axis=0) + excess - jnp.log(total)
    value = jnp.where(total > _LARGE, saddle - log_poisson(total, total), direct)
    value = jnp.where(inside | jnp.any(jnp.isnan(x), axis=0), value, -np.inf)
    return defined(value, jnp.all(alpha > 0))


def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> from curta import numpy as jnp
    >>> stats.dirichlet.pdf(jnp.array([0.2, 0.8]), jnp.array([2.0, 3.0])).round(4)
    Array(1.536, dtype=float32)
    """
    return lax.exp(logpdf(x, alpha))
