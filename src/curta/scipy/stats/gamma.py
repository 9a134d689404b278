"""The gamma distribution.

Its density in z = (x - loc) / scale >= 0 is z^(a - 1) exp(-z) / (scale Γ(a)).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.scipy.special import gammainc, gammaincc
from curta.scipy.stats.arguments import documented, no_less
from curta.scipy.stats.densities import (
    gamma_density,
    gamma_log_density,
    log_gamma_tail,
    log_of_part,
)
from curta.scipy.stats.law import Law, is_positive
from curta.scipy.stats.slopes import log_below, log_beyond

__dir__: Listing = own(__name__)

_LAW = Law("gamma", is_positive, wide=True)


def _density(z: Any, a: Any) -> Any:
    return gamma_density(z, a)


def _cdf(z: Any, a: Any) -> Any:
    return gammainc(a, no_less(z, 0))


def _sf(z: Any, a: Any) -> Any:
    return gammaincc(a, no_less(z, 0))


def _below(z: Any, a: Any) -> Any:
    return log_of_part(_cdf(z, a), _sf(z, a), log_gamma_tail(z, a))


def _beyond(z: Any, a: Any) -> Any:
    return log_of_part(_sf(z, a), _cdf(z, a), log_gamma_tail(z, a))


_log_cdf = log_below(_below, gamma_log_density, lambda z, a: z < 0)
_log_sf = log_beyond(_beyond, gamma_log_density, lambda z, a: z == np.inf)

_of_x = documented("x", "a: the shape parameter, positive.", "loc, scale")


@_of_x
def logpdf(
    x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.gamma.logpdf(1.0, 2.0).round(4)
    Array(-1., dtype=float32, weak_type=True)
    """
    return _LAW.log_density("logpdf", gamma_log_density, x, a, loc, scale)


@_of_x
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density.

    >>> from curta.scipy import stats
    >>> stats.gamma.pdf(1.0, 2.0).round(4)
    Array(0.3679, dtype=float32, weak_type=True)
    """
    return _LAW.density("pdf", _density, x, a, loc, scale)


@_of_x
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    >>> from curta.scipy import stats
    >>> stats.gamma.cdf(1.0, 2.0).round(4)
    Array(0.2642, dtype=float32, weak_type=True)
    """
    return _LAW.probability("cdf", _cdf, x, a, loc, scale)


@_of_x
def logcdf(
    x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the cumulative distribution function.

    >>> from curta.scipy import stats
    >>> stats.gamma.logcdf(1.0, 2.0).round(4)
    Array(-1.3309, dtype=float32, weak_type=True)
    """
    return _LAW.probability("logcdf", _log_cdf, x, a, loc, scale)


@_of_x
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value beyond x.

    >>> from curta.scipy import stats
    >>> stats.gamma.sf(1.0, 2.0).round(4)
    Array(0.7358, dtype=float32, weak_type=True)
    """
    return _LAW.probability("sf", _sf, x, a, loc, scale)


@_of_x
def logsf(
    x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the survival function.

    >>> from curta.scipy import stats
    >>> stats.gamma.logsf(1.0, 2.0).round(4)
    Array(-0.3069, dtype=float32, weak_type=True)
    """
    return _LAW.probability("logsf", _log_sf, x, a, loc, scale)
