"""Gamma and Poisson draws without loops, for `method="approximate"`.

A draw is an approximate quantile of a normal one, so that all draws take the same few
operations; the distributions are off by less than what is said at each function. The
steps are those of JAX 0.12, so that the same key gives the same draws but for rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.random.keys import split_key
from curta.random.samplers import normal
from curta.random.transformed import exponential

# Row k: the coefficients of 1, 1/n and 1/n**2 in that of (x / sqrt(n))**k, for n
# degrees of freedom. The first is 1.0000886 in the source, which is off as n grows.
_QUANTILE_OF_CHI_SQUARE = (
    (1.0, -0.2237368, -0.01513904),
    (0.4713941, 0.02607083, -0.008986007),
    (0.0001348028, 0.01128186, 0.02277679),
    (-0.008553069, -0.01153761, -0.01323293),
    (0.00312558, 0.005169654, -0.006950356),
    (-0.0008426812, 0.00253001, 0.001060438),
    (0.00009780499, -0.001450117, 0.001565326),
)
_BOOSTS = 4  # of the shape parameter: the series is accurate from 4 on
_FEW = 7.0  # rates below it: the probabilities are summed up
_MOST_OF_FEW = 19  # greater counts have less than the error's probability


def check_method(name: str, method: str) -> None:
    """Raise ValueError unless `method` is one there is."""
    if method not in ("exact", "approximate"):
        raise ValueError(
            f"method argument to `{name}` must be one of {{'exact', 'approximate'}},"
            f" got {method!r}"
        )


@inner_jit(static_argnames=("shape", "dtype", "log_space"))
def gamma_approximate(
    key: Any, a: Any, shape: tuple[int, ...], dtype: Any, log_space: bool
) -> Any:
    """Draws of Gamma(a, 1), or their logarithms, about 0.05 % off in the quantiles.

    A draw of Gamma(a + n, 1) times the product of U_k**(1 / (a + k)) for k < n is one
    of Gamma(a, 1). Sources: A. Stuart, Biometrika 49 (1962) 564-565; R. B. Goldstein,
    Algorithm 451, Communications of the ACM 16 (1973) 483-485.
    """
    computed = np.dtype("float32") if dtypes.finfo(dtype).bits < 32 else dtype
    a = jnp.broadcast_to(lax.convert_element_type(a, computed), shape)
    key_base, key_boost = split_key(key)
    base = _log_gamma_by_quantile(key_base, a + _BOOSTS)
    k = jnp.arange(_BOOSTS, dtype=computed).reshape(_BOOSTS, *[1] * len(shape))
    minus_logs = exponential(key_boost, (_BOOSTS, *shape), computed)
    out = base - (minus_logs / (a[None, ...] + k)).sum(0)
    return lax.convert_element_type(out if log_space else lax.exp(out), dtype)


def _log_gamma_by_quantile(key: Any, a: Any) -> Any:
    """log of draws of Gamma(a, 1), half of a chi-square draw, for a >= 4."""
    degrees = 2 * a
    t = normal(key, a.shape, a.dtype) * lax.rsqrt(degrees)
    rows = [lax.polynomial(1 / degrees, row) for row in _QUANTILE_OF_CHI_SQUARE]
    root = jnp.maximum(lax.polynomial(t, rows), dtypes.finfo(a.dtype).tiny)
    return jnp.log(a) + 3 * jnp.log(root)


@inner_jit(static_argnames=("shape", "dtype"))
def poisson_approximate(key: Any, lam: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Counts at rate `lam`, within 1e-4 of the distribution in total variation."""
    wide = dtypes.finfo(dtypes.to_inexact_dtype(lam.dtype)).bits > 32
    wide = wide or np.dtype(dtype).itemsize > 4
    lam = lax.convert_element_type(lam, np.float64 if wide else np.float32)
    lam = lax.expand_dims(lam, range(len(shape) - lam.ndim))
    z = normal(key, shape, lam.dtype)
    few = _count_by_sums(_normal_cdf(z), lam)
    counts = jnp.where(lam < _FEW, few, _count_by_quantile(z, lam))
    return lax.convert_element_type(counts, dtype)


def _normal_cdf(z: Any) -> Any:
    return lax.erfc(z * -np.sqrt(0.5)) / 2


def _count_by_sums(u: Any, lam: Any) -> Any:
    """How many of the distribution function's first values are below u."""
    probability = lax.exp(-lam)
    total = probability
    count = (total < u).astype(u.dtype)
    for k in range(1, _MOST_OF_FEW):
        probability = probability * (lam / k)
        total = total + probability
        count = count + (total < u).astype(u.dtype)
    return count


def _count_by_quantile(z: Any, lam: Any) -> Any:
    """The least count whose normal score is z or more.

    The score is within 1 of a Cornish-Fisher expansion, so three counts are tried.
    Source: D. B. Peizer and J. W. Pratt, Journal of the American Statistical
    Association 63 (1968) 1416-1456.
    """
    s = jnp.sqrt(lam)
    root = lam + s * z - 2 / 3 + jnp.square(z) / 6 + z * (1 - jnp.square(z)) / (72 * s)
    count = jnp.ceil(root + 0.6)

    def reached(count: Any) -> Any:
        score = jnp.where(count < 0, -np.inf, _score(jnp.maximum(count, 0.0), lam))
        return (score >= z).astype(z.dtype)

    return jnp.maximum(count + 1 - reached(count) - reached(count - 1), 0.0)


def _score(count: Any, lam: Any) -> Any:
    """The z of which ndtr(z) is about the probability of `count` events or fewer."""
    correction = count - lam + 2 / 3 + 0.02 / (count + 1)
    return correction * jnp.sqrt((1 + _skewness((count + 0.5) / lam)) / lam)


def _skewness(y: Any) -> Any:
    """(1 - y**2 + 2 y log y) / (1 - y)**2, by its series at 1 where y is near it."""
    d = y - 1
    near = jnp.abs(d) < 0.25
    series = jnp.zeros_like(d)
    for k in range(9, 0, -1):
        series = d * (2 * (-1) ** k / ((k + 1) * (k + 2)) + series)
    away = jnp.where(near, 2.0, y)
    direct = (1 - jnp.square(away) + 2 * away * jnp.log(away)) / jnp.square(away - 1)
    return jnp.where(near, series, direct)
