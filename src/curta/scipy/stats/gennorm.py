"""The generalised normal distribution.

Its density is β exp(-|x|^β) / (2 Γ(1/β)).
"""

from __future__ import annotations

from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.on_demand import Listing, own
from curta.scipy.special import gammainc

__dir__: Listing = own(__name__)


def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.gennorm.logpdf(0.5, 2.0).round(4)
    Array(-0.8224, dtype=float32, weak_type=True)
    """
    x, beta = inexact_operands("gennorm.logpdf", x, beta)
    return lax.log(0.5 * beta) - lax.lgamma(1 / beta) - lax.abs(x) ** beta


def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.gennorm.pdf(0.5, 2.0).round(4)
    Array(0.4394, dtype=float32, weak_type=True)
    """
    return lax.exp(logpdf(x, beta))


def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.gennorm.cdf(0.5, 2.0).round(4)
    Array(0.7602, dtype=float32, weak_type=True)
    """
    x, beta = inexact_operands("gennorm.cdf", x, beta)
    return 0.5 * (1 + lax.sign(x) * gammainc(1 / beta, lax.abs(x) ** beta))
