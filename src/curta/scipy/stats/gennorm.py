"""The generalized normal distribution.

Its density is β exp(-|x|^β) / (2 Γ(1/β)).
"""

from __future__ import annotations

from typing import Any

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.api.custom_derivatives import custom_jvp
from curta.api.jvp import jvp
from curta.core.array import Array, ArrayLike
from curta.scipy.special import gammaincc
from curta.scipy.stats.law import Law, is_positive

__dir__: Listing = own(__name__)

_LAW = Law("gennorm", is_positive, wide=True)


def _log_density(x: Any, beta: Any) -> Any:
    return lax.log(0.5 * beta) - lax.lgamma(1 / beta) - lax.abs(x) ** beta


def _density(x: Any, beta: Any) -> Any:
    return lax.exp(_log_density(x, beta))


@custom_jvp
def _cdf(x: Any, beta: Any) -> Any:
    below = 0.5 * gammaincc(1 / beta, lax.abs(x) ** beta)
    return jnp.where(x < 0, below, 1 - below)


@_cdf.defjvp
def _cdf_jvp(primals: Any, tangents: Any) -> Any:
    (x, beta), (dx, dbeta) = primals, tangents
    # By the chain rule the slope would be 0 times infinity where the power is 0.
    none = lax.abs(x) ** beta == 0
    size = jnp.where(none, 1, lax.abs(x))

    def of_shape(beta: Any) -> Any:
        return 0.5 * gammaincc(1 / beta, size**beta)

    _, change = jvp(of_shape, (beta,), (dbeta,))
    change = jnp.where(none, 0, jnp.where(x < 0, change, -change))
    return _cdf(x, beta), _density(x, beta) * dx + change


def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.gennorm.logpdf(0.5, 2.0).round(4)
    Array(-0.8224, dtype=float32, weak_type=True)
    """
    return _LAW.of_arguments("logpdf", _log_density, x, beta)


def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.gennorm.pdf(0.5, 2.0).round(4)
    Array(0.4394, dtype=float32, weak_type=True)
    """
    return _LAW.of_arguments("pdf", _density, x, beta)


def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.gennorm.cdf(0.5, 2.0).round(4)
    Array(0.7602, dtype=float32, weak_type=True)
    """
    return _LAW.of_arguments("cdf", _cdf, x, beta)
