"""The von Mises distribution on the circle.

Its density is exp(κ cos(x)) / (2π I_0(κ)).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.stats.law import Law

__dir__: Listing = own(__name__)

_LAW = Law("vonmises", lambda kappa: kappa >= 0, wide=True)


def _log_density(x: Any, kappa: Any) -> Any:
    # cos(x) - 1 without cancellation.
    half = jnp.sin(x / 2)
    log_norm = jnp.log(2 * np.pi * lax.bessel_i0e(kappa))
    return -2 * kappa * half * half - log_norm


def _density(x: Any, kappa: Any) -> Any:
    half = jnp.sin(x / 2)
    return jnp.exp(-2 * kappa * half * half) / (2 * np.pi * lax.bessel_i0e(kappa))


def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.vonmises.logpdf(0.0, 1.0).round(4)
    Array(-1.0738, dtype=float32, weak_type=True)
    """
    return _LAW.of_arguments("logpdf", _log_density, x, kappa)


def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.vonmises.pdf(0.5, 2.0).round(4)
    Array(0.4039, dtype=float32, weak_type=True)
    """
    return _LAW.of_arguments("pdf", _density, x, kappa)
