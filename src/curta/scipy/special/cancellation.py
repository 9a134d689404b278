"""Functions of small differences, in which nothing cancels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import curta.numpy as jnp
from curta.api.custom_derivatives import custom_jvp

# (atanh(r) - r) / r³ in powers of r², highest first, for r² <= 1/9.
_ATANH = tuple(1 / (2 * k + 3) for k in range(16, -1, -1))


def horner(coefficients: Sequence[float], x: Any) -> Any:
    """The polynomial at x, highest power first."""
    total: Any = coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


@custom_jvp
def log1p_less_x(x: Any) -> Any:
    """log(1 + x) - x without cancellation, for x > -1.

    Near 0 as 2 atanh(r) - x with r = x / (2 + x).
    """
    near = (x >= -0.5) & (x <= 1)
    safe = jnp.where(near, x, 0)
    r = safe / (2 + safe)
    series = -safe * r + 2 * r * r * r * horner(_ATANH, r * r)
    return jnp.where(near, series, jnp.log1p(jnp.where(near, 1, x)) - x)


log1p_less_x.defjvps(lambda t, out, x: t * (-x / (1 + x)))


def log1m_exp(x: Any) -> Any:
    """log(1 - exp(-x)) for x >= 0, accurate for small and large x.

    M. Mächler, Accurately Computing log(1 - exp(-|a|)) (2012).
    """
    x = jnp.asarray(x)
    low = x < math.log(2)
    near = jnp.log(-jnp.expm1(-jnp.where(low, x, 1)))
    return jnp.where(low, near, jnp.log1p(-jnp.exp(-jnp.where(low, 1, x))))
