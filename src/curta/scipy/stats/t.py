"""Student's t distribution.

Its density with z = (x - loc) / scale is
Γ((df + 1)/2) / (√(π df) Γ(df/2) scale) (1 + z²/df)^(-(df + 1)/2).
"""

from __future__ import annotations

import numpy as np

from curta import lax
from curta.core.array import Array, ArrayLike
from curta.on_demand import Listing, own
from curta.scipy.stats.arguments import documented, standardise

__dir__: Listing = own(__name__)

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
    z, df, scale = standardise("t.logpdf", x, df, loc=loc, scale=scale)
    power = (df + 1) / 2
    norm = lax.lgamma(df / 2) + 0.5 * lax.log(np.pi * df) - lax.lgamma(power)
    return -norm - lax.log(scale) - power * lax.log1p(z * z / df)


@_of_x
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.t.pdf(1.0, 4.0).round(4)
    Array(0.2147, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, df, loc, scale))
