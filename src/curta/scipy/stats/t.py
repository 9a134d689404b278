"""Student's t distribution.

Its density with z = (x - loc) / scale is
Γ((df + 1)/2) / (√(π df) Γ(df/2) scale) (1 + z²/df)^(-(df + 1)/2).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.special.deviance import log_half_step
from curta.scipy.stats.arguments import documented
from curta.scipy.stats.law import Law, is_positive

__dir__: Listing = own(__name__)

_LAW = Law("t", is_positive, wide=True)


def _log_density(z: Any, df: Any) -> Any:
    # The logarithm of 1 + z²/df, of large z by their own.
    far = lax.abs(z) > 1e150
    size = 2 * lax.log(jnp.where(far, lax.abs(z), 1)) - lax.log(df)
    near = jnp.where(far, 0, z)
    ratio = near * near / df
    log = jnp.where(far, size, lax.log1p(ratio))
    normal = df == np.inf
    power = jnp.where(normal, -0.5 * z * z, -(jnp.where(normal, 1, df) + 1) / 2 * log)
    return power + (log_half_step(df / 2) - 0.5 * math.log(2 * np.pi))


def _density(z: Any, df: Any) -> Any:
    return lax.exp(_log_density(z, df))


_of_x = documented("x", "df: the degrees of freedom, positive.", "loc, scale")


@_of_x
def logpdf(
    x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.t.logpdf(0.0, 1.0).round(4)
    Array(-1.1447, dtype=float32, weak_type=True)
    """
    return _LAW.log_density("logpdf", _log_density, x, df, loc, scale)


@_of_x
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.t.pdf(1.0, 4.0).round(4)
    Array(0.2147, dtype=float32, weak_type=True)
    """
    return _LAW.density("pdf", _density, x, df, loc, scale)
