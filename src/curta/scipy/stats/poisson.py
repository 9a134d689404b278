"""The Poisson distribution.

The probability of k is μ^k exp(-μ) / k!.
"""

from __future__ import annotations

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.special import gammaincc, gammaln, xlogy
from curta.scipy.stats.arguments import documented

__dir__: Listing = own(__name__)

_density = documented("k", "mu: the mean, not negative.", "loc")


@_density
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k.

    >>> from curta.scipy import stats
    >>> stats.poisson.logpmf(1, 1.0).round(4)
    Array(-1., dtype=float32, weak_type=True)
    """
    k, mu, loc = inexact_operands("poisson.logpmf", k, mu, loc)
    x = k - loc
    value = xlogy(x, mu) - gammaln(x + 1) - mu
    return jnp.where((x < 0) | (jnp.round(k) != k), -np.inf, value)


@_density
def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k.

    >>> from curta.scipy import stats
    >>> stats.poisson.pmf(2, 1.5).round(4)
    Array(0.251, dtype=float32, weak_type=True)
    """
    return lax.exp(logpmf(k, mu, loc))


@documented("k: real numbers.", "mu: the mean, not negative.", "loc")
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of a value of at most k.

    >>> from curta.scipy import stats
    >>> stats.poisson.cdf(2, 1.5).round(4)
    Array(0.8088, dtype=float32, weak_type=True)
    """
    k, mu, loc = inexact_operands("poisson.cdf", k, mu, loc)
    x = k - loc
    return jnp.where(x < 0, 0, gammaincc(jnp.floor(1 + jnp.maximum(x, 0)), mu))


@inner_jit
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy in nats; `loc` only broadcasts.

    The sum over the probable k up to μ = 100, beyond by log(2πeμ)/2 - 1/(12μ) -
    1/(24μ²).

    >>> from curta.scipy import stats
    >>> stats.poisson.entropy(1.0).round(3)
    Array(1.305, dtype=float32)
    """
    mu, loc = inexact_operands("poisson.entropy", mu, loc)
    mu = jnp.broadcast_to(mu, jnp.broadcast_shapes(mu.shape, loc.shape))
    small = jnp.minimum(jnp.where(mu == 0, 1, mu), 100)
    k = jnp.arange(250, dtype=mu.dtype)
    log_terms = logpmf(k, small[..., None])
    exact = -jnp.sum(jnp.exp(log_terms) * log_terms, axis=-1)
    large = jnp.maximum(mu, 100)
    series = -1 / (12 * large) - 1 / (24 * large * large)
    value = jnp.where(mu < 100, exact, 0.5 * jnp.log(2 * np.pi * np.e * large) + series)
    return jnp.where(mu == 0, 0, value)
