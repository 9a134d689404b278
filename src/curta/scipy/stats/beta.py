"""The beta distribution.

Its density in z = (x - loc) / scale, between 0 and 1, is
z^(a - 1) (1 - z)^(b - 1) / (scale B(a, b)).
"""

from __future__ import annotations

from typing import Any

from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.primitives import elementwise as ops
from curta.scipy.special import betainc
from curta.scipy.special.arguments import real
from curta.scipy.stats.arguments import documented, no_less, no_more
from curta.scipy.stats.densities import (
    beta_density,
    beta_log_density,
    log_beta_tail,
    log_of_part,
)
from curta.scipy.stats.law import Law
from curta.scipy.stats.slopes import log_below, log_beyond

__dir__: Listing = own(__name__)

_LAW = Law("beta", lambda a, b: (a > 0) & (b > 0), wide=True, refuses=real)


def _density(z: Any, a: Any, b: Any) -> Any:
    return beta_density(z, a, b)


def _cdf(z: Any, a: Any, b: Any) -> Any:
    return betainc(a, b, no_more(no_less(z, 0), 1))


def _sf(z: Any, a: Any, b: Any) -> Any:
    operands = inexact_operands("betaincc", a, b, no_more(no_less(z, 0), 1))
    return ops.betaincc(*operands)


def _below(z: Any, a: Any, b: Any) -> Any:
    return log_of_part(_cdf(z, a, b), _sf(z, a, b), log_beta_tail(z, a, b))


def _beyond(z: Any, a: Any, b: Any) -> Any:
    return log_of_part(_sf(z, a, b), _cdf(z, a, b), log_beta_tail(z, a, b))


_log_cdf = log_below(_below, beta_log_density, lambda z, a, b: z < 0)
_log_sf = log_beyond(_beyond, beta_log_density, lambda z, a, b: z > 1)

_ARGUMENTS = ("x", "a, b: the shape parameters, positive.", "loc, scale")
_of_density = documented(*_ARGUMENTS)
_of_cumulative = documented(
    *_ARGUMENTS,
    raises="TypeError: for what is no array, and shapes that do not broadcast.\n"
    "  ValueError: for complex numbers.",
)


@_of_density
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.beta.logpdf(0.5, 2.0, 3.0).round(4)
    Array(0.4055, dtype=float32, weak_type=True)
    """
    return _LAW.log_density("logpdf", beta_log_density, x, a, b, loc, scale)


@_of_density
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.beta.pdf(0.5, 2.0, 3.0).round(4)
    Array(1.5, dtype=float32, weak_type=True)
    """
    return _LAW.density("pdf", _density, x, a, b, loc, scale)


@_of_cumulative
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.beta.cdf(0.5, 2.0, 3.0).round(4)
    Array(0.6875, dtype=float32, weak_type=True)
    """
    return _LAW.probability("cdf", _cdf, x, a, b, loc, scale)


@_of_cumulative
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.beta.logcdf(0.5, 2.0, 3.0).round(4)
    Array(-0.3747, dtype=float32, weak_type=True)
    """
    return _LAW.probability("logcdf", _log_cdf, x, a, b, loc, scale)


@_of_cumulative
def sf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.beta.sf(0.5, 2.0, 3.0).round(4)
    Array(0.3125, dtype=float32, weak_type=True)
    """
    return _LAW.probability("sf", _sf, x, a, b, loc, scale)


@_of_cumulative
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.beta.logsf(0.5, 2.0, 3.0).round(4)
    Array(-1.1632, dtype=float32, weak_type=True)
    """
    return _LAW.probability("logsf", _log_sf, x, a, b, loc, scale)
