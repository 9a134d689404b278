"""The multinomial distribution: counts of n trials among the categories of axis -1."""

from __future__ import annotations

from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import check_arraylike
from curta.numpy.promotion import inexact_operands, promote_dtypes_numeric
from curta.scipy.special.arguments import in_double
from curta.scipy.special.deviance import log_poisson
from curta.scipy.stats.law import defined, is_probability

__dir__: Listing = own(__name__)


def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of the counts x.

    Args:
      x: counts, integers (..., categories); a scalar stands for all categories.
      n: the number of trials, an integer or an array of them that broadcasts.
      p: the categories' probabilities (..., categories), real.

    Returns:
      The logarithm, of the operands' shape without the last dim, in the float dtype
      of `p`; -inf where the counts do not sum to n.

    Raises:
      TypeError: if an operand is not an array, `p` is complex, or shapes do not
        broadcast.
      ValueError: if `x` or `n` is not of integers, or an operand is a scalar.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import stats
    >>> stats.multinomial.logpmf(jnp.array([1, 1]), 2, jnp.array([0.5, 0.5])).round(4)
    Array(-0.6931, dtype=float32)
    """
    (p,) = inexact_operands("multinomial.logpmf", p)
    check_arraylike("multinomial.logpmf", x, n)
    x, n = promote_dtypes_numeric(x, n)
    if not dtypes.issubdtype(x.dtype, np.integer):
        raise ValueError(
            f"x and n must be of integer type; got x.dtype={x.dtype}, n.dtype={n.dtype}"
        )
    x = x if x.ndim else jnp.broadcast_to(x, p.shape)
    possible = ((x == 0) | (p > 0)) & (x >= 0)
    possible = jnp.all(possible, axis=-1) & (jnp.sum(x, -1) == n)
    x, n = jnp.asarray(jnp.maximum(x, 0), p.dtype), jnp.asarray(n, p.dtype)
    value = jnp.where(possible, in_double(_log_probability)(p, x, n), -np.inf)
    return defined(value, jnp.all(is_probability(p), axis=-1) & (n >= 0))


def _log_probability(p: Any, x: Any, n: Any) -> Any:
    """Poisson probabilities of the counts over that of their sum."""
    mean = n[..., None] * p
    excess = jnp.sum(mean, axis=-1) - n
    return jnp.sum(log_poisson(x, mean), axis=-1) + excess - log_poisson(n, n)


def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of the counts x.

    Args:
      x: counts, integers (..., categories); a scalar stands for all categories.
      n: the number of trials, an integer or an array of them that broadcasts.
      p: the categories' probabilities (..., categories), real.

    Returns:
      The probability, of the operands' shape without the last dim, in the float dtype
      of `p`; 0 where the counts do not sum to n.

    Raises:
      TypeError: if an operand is not an array, `p` is complex, or shapes do not
        broadcast.
      ValueError: if `x` or `n` is not of integers, or an operand is a scalar.

    >>> from curta.scipy import stats
    >>> from curta import numpy as jnp
    >>> stats.multinomial.pmf(jnp.array([1, 2]), 3, jnp.array([0.5, 0.5])).round(4)
    Array(0.375, dtype=float32)
    """
    return lax.exp(logpmf(x, n, p))
