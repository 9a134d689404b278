"""Formulas that several distributions share, of numbers in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.numpy.promotion import inexact_operands
from curta.primitives import elementwise as ops
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


def gamma_density(z: Any, a: Any) -> Any:
    """z^(a - 1) exp(-z) / Γ(a), 0 outside of [0, inf), with derivatives at 0."""
    a, z = inexact_operands("gamma_density", a, z)
    outside = z < 0
    return jnp.where(outside, 0, ops.gamma_density(a, jnp.where(outside, 1, z)))


def beta_density(z: Any, a: Any, b: Any) -> Any:
    """z^(a - 1) (1 - z)^(b - 1) / B(a, b), 0 outside of [0, 1], with derivatives."""
    a, b, z = inexact_operands("beta_density", a, b, z)
    outside = (z < 0) | (z > 1)
    value = ops.beta_density(a, b, jnp.where(outside, 0.5, z))
    return jnp.where(outside, 0, value)


_DEEP = 1e-290  # probabilities below lose digits, or underflow


def log_of_part(part: Any, rest: Any, tail: Any = None) -> Any:
    """The logarithm of a probability, of a large one by what is missing to 1.

    Args:
      part, rest: the probability and its complement.
      tail: a function of a mask, which gives logarithms of probabilities below `_DEEP`
        where the mask holds; None if no probability is that small.
    """
    small = part < 0.5
    none = part == 0
    log = lax.log(jnp.where(small & ~none, part, 1))
    value = jnp.where(small, log, lax.log1p(-jnp.where(small, 0, rest)))
    value = jnp.where(none, -np.inf, value)
    if tail is None:
        return value
    deep = part < _DEEP
    return jnp.where(deep, tail(deep), value)


def log_gamma_tail(z: Any, a: Any) -> Callable[[Any], Any]:
    """The logarithm of P(a, z) or Q(a, z), whichever is in its far tail.

    They are integrals of exp(g) over v = log(z), with g(v) = a v - exp(v). At the end
    of an integral its expansion is exp(g) / |m| (1 + p₁/m² + p₂/m⁴ + ...), with the
    slope m = a - z (NIST DLMF 8.11.6). Deep in the tail z/m² is below 1/600.
    """

    def tail(deep: Any) -> Any:
        inside = deep & (z > 0) & (z < np.inf)
        x, b = jnp.where(inside, z, 1.0), jnp.where(inside, a, 100.0)
        m = b - x
        p1 = -x
        p2 = x * (m + 3 * x)
        p3 = -x * (m * m + 10 * m * x + 15 * x * x)
        p4 = x * (m**3 + 25 * m * m * x + 105 * m * x * x + 105 * x**3)
        value = gamma_log_density(x, b) + lax.log(x)
        value = value + _log_of_expansion(m, p1, p2, p3, p4)
        return jnp.where(inside, value, -np.inf)

    return tail


def log_beta_tail(z: Any, a: Any, b: Any) -> Callable[[Any], Any]:
    """The logarithm of I_z(a, b) or its complement, whichever is in its far tail.

    As `log_gamma_tail`, with g(v) = a v - (a + b) log(1 + exp(v)) of the log-odds
    v = log(z / (1 - z)).
    """

    def tail(deep: Any) -> Any:
        inside = deep & (z > 0) & (z < 1)
        x = jnp.where(inside, z, 1e-3)
        p, q = jnp.where(inside, a, 500.0), jnp.where(inside, b, 500.0)
        n, m = p + q, p - (p + q) * x
        # p_(k+1) = -x (1 - x) (m dp_k/dx + (2k + 1) n p_k), with v = x (1 - x).
        v, s = x * (1 - x), 1 - 2 * x
        r, slope = m * s + 3 * n * v, 2 * n * s - 2 * m
        change = s * r + v * slope
        c = m * change + 5 * n * v * r
        rise = 4 * n * change + m * (2 * s * slope - 2 * r - 2 * n * v)
        p1, p2, p3 = -n * v, n * v * r, -n * v * c
        p4 = n * v * (m * (s * c + v * rise) + 7 * n * v * c)
        value = beta_log_density(x, p, q) + lax.log(x) + lax.log1p(-x)
        value = value + _log_of_expansion(m, p1, p2, p3, p4)
        return jnp.where(inside, value, -np.inf)

    return tail


def _log_of_expansion(m: Any, *terms: Any) -> Any:
    """log((1 + p₁/m² + p₂/m⁴ + ...) / |m|)."""
    total, square = 0, m * m
    for p in reversed(terms):
        total = (total + p) / square
    return lax.log1p(total) - lax.log(jnp.abs(m))
