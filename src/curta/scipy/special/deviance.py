"""Poisson's probability for real counts, without cancellation for large ones.

Densities of gamma, beta and binomial kind are products of it. The method is the
saddle-point expansion of C. Loader, Fast and Accurate Computation of Binomial
Probabilities (2000): Stirling's formula is taken out of the gamma function, and what
remains of power and exponential is the deviance of the count from the mean.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.api.custom_derivatives import custom_jvp
from curta.scipy.special.cancellation import horner, log1p_less_x
from curta.scipy.special.entropies import xlogy

LARGE = 16.0  # from here on the series in 1/x give all digits of float64
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * np.pi)
# log(gamma(x)) - (x - 1/2) log(x) + x - log(2π)/2 in odd powers of 1/x, highest
# first: B_2k / (2k (2k - 1)) (NIST DLMF 5.11.1).
_STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
# log(x) - 1/(2x) - digamma(x) in powers of 1/x², highest first (NIST DLMF 5.11.2).
_DIGAMMA = (-691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12, 0.0)


def stirling_error(x: Any) -> Any:
    """log(gamma(x)) less Stirling's formula, for x >= LARGE."""
    r = 1 / x
    return r * horner(_STIRLING, r * r)


def log_less_digamma(x: Any) -> Any:
    """log(x) - digamma(x), for x >= LARGE."""
    r = 1 / x
    return 0.5 * r + horner(_DIGAMMA, r * r)


def log_poisson(x: Any, mean: Any) -> Any:
    """mean**x exp(-mean) / gamma(x + 1), its logarithm, for x, mean >= 0.

    For x >= 16 it is -log(2πx)/2 - stirling_error(x) - D, with the deviance
    D = x log(x / mean) + mean - x = -x (log(1 + u) - u) for u = (mean - x) / x.
    """
    return _log_poisson(*jnp.broadcast_arrays(x, mean))


def _relative(x: Any, mean: Any) -> tuple[Any, Any, Any, Any]:
    """Whether x is large, both operands made large, and (mean - x) / x of these."""
    large = (x >= LARGE) & (x < np.inf)
    safe = jnp.where(large, x, LARGE)
    mean = jnp.where(large, mean, LARGE)
    return large, safe, mean, (mean - safe) / safe


@custom_jvp
def _log_poisson(x: Any, mean: Any) -> Any:
    large, safe, wide, u = _relative(x, mean)
    near = (u >= -0.5) & (u <= 1)
    deviance = -log1p_less_x(jnp.where(near, u, 0))
    far = u - jnp.log(wide) + jnp.log(safe)  # the quotient may underflow
    far = jnp.where(u == np.inf, np.inf, far)
    series = -0.5 * jnp.log(safe) - _HALF_LOG_TWO_PI - stirling_error(safe)
    series = series - safe * jnp.where(near, deviance, far)
    small = jnp.where(large, 0, x)
    direct = xlogy(small, mean) - mean - lax.lgamma(small + 1)
    value = jnp.where(large, series, direct)
    return jnp.where((x == np.inf) | (mean == np.inf), -np.inf, value)


def _by_count(t: Any, out: Any, x: Any, mean: Any) -> Any:
    large, safe, wide, u = _relative(x, mean)
    near = (u >= -0.5) & (u <= 1)
    far = jnp.log(wide) - jnp.log(safe)
    log = jnp.where(near, jnp.log1p(jnp.where(near, u, 0)), far)
    series = log + log_less_digamma(safe) - 1 / safe
    direct = jnp.log(mean) - lax.digamma(jnp.where(large, 0, x) + 1)
    return t * jnp.where(large, series, direct)


def _by_mean(t: Any, out: Any, x: Any, mean: Any) -> Any:
    none = x == 0
    return t * jnp.where(none, -1, (x - mean) / jnp.where(none, 1, mean))


_log_poisson.defjvps(_by_count, _by_mean)


def log_binomial(x: Any, y: Any, p: Any, q: Any) -> Any:
    """gamma(x + y + 1) / (gamma(x + 1) gamma(y + 1)) p**x q**y, its logarithm.

    For x, y >= 0 and p + q = 1: the probability of x successes and y failures.
    """
    n = x + y
    return log_poisson(x, n * p) + log_poisson(y, n * q) - log_poisson(n, n)


def log_half_step(x: Any) -> Any:
    """log(gamma(x + 1/2) / gamma(x)) - log(x)/2, for x > 0 (NIST DLMF 5.11.13)."""
    large = x >= LARGE
    r = 1 / jnp.where(large, x, LARGE)
    series = r * horner(_HALF_STEP, r * r)
    small = jnp.where(large, 1, x)
    direct = lax.lgamma(small + 0.5) - lax.lgamma(small) - 0.5 * jnp.log(small)
    return jnp.where(large, series, direct)


_HALF_STEP = (
    *(691 / 180224, -31 / 18432, 17 / 14336, -1 / 640, 1 / 192, -1 / 8),
)  # highest power of 1/x² first
