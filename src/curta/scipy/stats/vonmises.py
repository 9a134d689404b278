"""The von Mises distribution on the circle.

Its density is exp(κ cos(x)) / (2π I_0(κ)).
"""

from __future__ import annotations

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own

__dir__: Listing = own(__name__)


def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.vonmises.logpdf(0.0, 1.0).round(4)
    Array(-1.0738, dtype=float32, weak_type=True)
    """
    x, kappa = inexact_operands("vonmises.logpdf", x, kappa)
    return jnp.where(
        kappa > 0,
        kappa * (jnp.cos(x) - 1) - jnp.log(2 * np.pi * lax.bessel_i0e(kappa)),
        np.nan,
    )


def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.vonmises.pdf(0.5, 2.0).round(4)
    Array(0.4039, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, kappa))
