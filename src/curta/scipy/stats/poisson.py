"""The Poisson distribution.

The probability of k is μ^k exp(-μ) / k!.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.scipy.special import gammaincc
from curta.scipy.special.deviance import log_poisson
from curta.scipy.stats.arguments import documented
from curta.scipy.stats.law import Law

__dir__: Listing = own(__name__)

_LAW = Law("poisson", lambda mu: mu >= 0, wide=True)


def _log_probability(k: Any, mu: Any) -> Any:
    inside = (k >= 0) | jnp.isnan(k)
    return jnp.where(inside, log_poisson(jnp.where(inside, k, 0), mu), -np.inf)


def _probability(k: Any, mu: Any) -> Any:
    return lax.exp(_log_probability(k, mu))


def _cdf(k: Any, mu: Any) -> Any:
    inside = (k >= 0) | jnp.isnan(k)
    return jnp.where(inside, gammaincc(1 + jnp.where(inside, k, 0), mu), 0)


def _entropy(mu: Any) -> Any:
    small = jnp.minimum(jnp.where(mu == 0, 1, mu), 100)
    k = jnp.arange(250, dtype=mu.dtype)
    log_terms = log_poisson(k, small[..., None])
    exact = -jnp.sum(jnp.exp(log_terms) * log_terms, axis=-1)
    large = jnp.maximum(mu, 100)
    series = -1 / (12 * large) - 1 / (24 * large**2) - 19 / (360 * large**3)
    value = jnp.where(mu < 100, exact, 0.5 * jnp.log(2 * np.pi * np.e * large) + series)
    return jnp.where(mu == 0, 0, value)


_of_density = documented("k", "mu: the mean, not negative.", "loc")


@_of_density
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k.

    >>> from curta.scipy import stats
    >>> stats.poisson.logpmf(1, 1.0).round(4)
    Array(-1., dtype=float32, weak_type=True)
    """
    return _LAW.of_count("logpmf", _log_probability, -np.inf, k, mu, loc)


@_of_density
def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> from curta.scipy import stats
    >>> stats.poisson.pmf(2, 1.5).round(4)
    Array(0.251, dtype=float32, weak_type=True)
    """
    return _LAW.of_count("pmf", _probability, 0, k, mu, loc)


@documented("k: real numbers.", "mu: the mean, not negative.", "loc")
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of a value of at most k.

    >>> from curta.scipy import stats
    >>> stats.poisson.cdf(2, 1.5).round(4)
    Array(0.8088, dtype=float32, weak_type=True)
    """
    return _LAW.of_count("cdf", _cdf, None, k, mu, loc)


@inner_jit
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy in nats; `loc` only broadcasts.

    The sum over the probable k up to μ = 100, beyond by log(2πeμ)/2 - 1/(12μ) -
    1/(24μ²) - 19/(360μ³).

    >>> from curta.scipy import stats
    >>> stats.poisson.entropy(1.0).round(3)
    Array(1.305, dtype=float32)
    """
    mu, loc = inexact_operands("entropy", mu, loc)
    mu = jnp.broadcast_to(mu, jnp.broadcast_shapes(mu.shape, loc.shape))
    return _LAW.of_parameters("entropy", _entropy, mu).astype(mu.dtype)
