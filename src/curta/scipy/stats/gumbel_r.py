"""The right-skewed Gumbel distribution, of maxima.

Its density is exp(-z - exp(-z)) / scale with z = (x - loc) / scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.numpy.promotion import inexact_operands
from curta.scipy.stats.arguments import standardise


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density.

    >>> from curta.scipy import stats
    >>> stats.gumbel_r.logpdf(0.0).round(4)
    Array(-1., dtype=float32, weak_type=True)
    """
    z, scale = standardise("gumbel_r.logpdf", x, loc=loc, scale=scale)
    return jnp.where(scale > 0, -z - lax.exp(-z) - lax.log(scale), np.nan)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density."""
    return lax.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value of at most x."""
    return lax.exp(logcdf(x, loc, scale))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the cumulative distribution function."""
    z, scale = standardise("gumbel_r.logcdf", x, loc=loc, scale=scale)
    return jnp.where(scale > 0, -lax.exp(-z), np.nan)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of a value beyond x."""
    return lax.exp(logsf(x, loc, scale))


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the survival function."""
    z, scale = standardise("gumbel_r.logsf", x, loc=loc, scale=scale)
    return jnp.where(scale > 0, lax.log(-lax.expm1(-lax.exp(-z))), np.nan)


def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The quantile: the inverse of the cumulative distribution function."""
    p, loc, scale = inexact_operands("gumbel_r.ppf", p, loc, scale)
    return jnp.where((p > 0) & (p < 1), loc - scale * lax.log(-lax.log(p)), np.nan)
