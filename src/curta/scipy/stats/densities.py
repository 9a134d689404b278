"""Formulas that several distributions share, of numbers in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.scipy.special import betaln, gammaln, xlog1py, xlogy
from curta.scipy.special.deviance import LARGE, log_binomial, log_poisson


def gamma_log_density(z: Any, a: Any) -> Any:
    """log(z^(a - 1) exp(-z) / Γ(a)); for large a log(a / z) and a Poisson probability.

    -inf outside of [0, inf).
    """
    z, a = jnp.broadcast_arrays(z, a)
    inside = (z >= 0) & (z < np.inf) | jnp.isnan(z)
    large = inside & (a >= LARGE) & (z != 0)
    x, b = jnp.where(large, z, 1), jnp.where(large, a, LARGE)
    saddle = lax.log(b) - lax.log(x) + log_poisson(b, x)
    safe, small = jnp.where(inside & ~large, z, 1), jnp.where(large, 1, a)
    direct = xlogy(small - 1, safe) - safe - gammaln(small)
    return jnp.where(inside, jnp.where(large, saddle, direct), -np.inf)


def beta_log_density(z: Any, a: Any, b: Any) -> Any:
    """log(z^(a - 1) (1 - z)^(b - 1) / B(a, b)), -inf outside of [0, 1].

    For large parameters a b / ((a + b) z (1 - z)) times a binomial probability.
    """
    z, a, b = jnp.broadcast_arrays(z, a, b)
    inside = (z >= 0) & (z <= 1) | jnp.isnan(z)
    large = (jnp.minimum(a, b) >= LARGE) & inside & (z != 0) & (z != 1)
    x = jnp.where(large, z, 0.5)
    p, q = jnp.where(large, a, LARGE), jnp.where(large, b, LARGE)
    factor = lax.log(p / x) + lax.log(q / (p + q)) - lax.log1p(-x)
    saddle = factor + log_binomial(p, q, x, 1 - x)
    safe = jnp.where(inside & ~large, z, 0.5)
    p, q = jnp.where(large, 1, a), jnp.where(large, 1, b)
    direct = xlogy(p - 1, safe) + xlog1py(q - 1, -safe) - betaln(p, q)
    return jnp.where(inside, jnp.where(large, saddle, direct), -np.inf)


def log_of_part(part: Any, rest: Any) -> Any:
    """The logarithm of a probability, of a large one by what is missing to 1."""
    small = part < 0.5
    none = part == 0
    log = lax.log(jnp.where(small & ~none, part, 1))
    value = jnp.where(small, log, lax.log1p(-jnp.where(small, 0, rest)))
    return jnp.where(none, -np.inf, value)
