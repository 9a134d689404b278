"""The larger and the smaller of two numbers; numbers within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inlined_jit, inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    check_arraylike,
    ensure_arraylike,
)
from curta.numpy.logic import greater, isnan, less
from curta.numpy.promotion import (
    promote_args,
)
from curta.numpy.selection import select_where


@inlined_jit
def maximum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The larger of x and y; NaN if either is.

    Complex numbers are ordered by real, then by imaginary part.

    Args:
      x, y: arrays or scalars that broadcast.

    Returns:
      The larger elements, of the broadcast shape and the promoted dtype.

    Raises:
      TypeError: an operand is a list, a string or None; shapes of one rank do not
        broadcast.
      ValueError: shapes of different ranks do not broadcast.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> jnp.maximum(jnp.arange(3), 1)
    Array([1, 1, 2], dtype=int32)
    """
    return lax.max(*promote_args("maximum", x, y))


@inlined_jit
def minimum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The smaller of x and y; NaN if either is.

    Complex numbers are ordered by real, then by imaginary part.

    Args:
      x, y: arrays or scalars that broadcast.

    Returns:
      The smaller elements, of the broadcast shape and the promoted dtype.

    Raises:
      TypeError: an operand is a list, a string or None; shapes of one rank do not
        broadcast.
      ValueError: shapes of different ranks do not broadcast.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> jnp.minimum(jnp.arange(3), 1)
    Array([0, 1, 1], dtype=int32)
    """
    return lax.min(*promote_args("minimum", x, y))


@inner_jit
def fmin(x1: Any, x2: Any) -> Array:
    """The smaller of x1 and x2; the other one where one is NaN.

    >>> from curta import numpy as jnp
    >>> jnp.fmin(jnp.array([1.0, jnp.nan]), 0.5)
    Array([0.5, 0.5], dtype=float32)
    """
    return select_where(_or_nan(less(x1, x2), x2), x1, x2)


@inner_jit
def fmax(x1: Any, x2: Any) -> Array:
    """The larger of x1 and x2; the other one where one is NaN.

    >>> from curta import numpy as jnp
    >>> jnp.fmax(jnp.array([1.0, jnp.nan]), 0.5)
    Array([1. , 0.5], dtype=float32)
    """
    return select_where(_or_nan(greater(x1, x2), x2), x1, x2)


def _or_nan(mask: Any, x: Any) -> Any:
    return lax.bitwise_or(*promote_args("bitwise_or", mask, isnan(x)))


def clipped(x: Any, low: Any, high: Any) -> Any:
    """`x` no smaller than `low` and no larger than `high`, either of them None."""
    if low is not None:
        x = maximum(low, x)
    return x if high is None else minimum(high, x)


@inner_jit
def clip(
    arr: Any = None, /, min: ArrayLike | None = None, max: ArrayLike | None = None
) -> Array:
    """`arr` with values below `min` and above `max` replaced by these bounds.

    Args:
      arr: an array or scalar of real numbers, of any shape.
      min: a lower bound, which broadcasts with `arr`. None (default) is none.
      max: an upper bound, which broadcasts with `arr`. None (default) is none.

    Returns:
      An array of the broadcast shape and the promoted dtype.

    Raises:
      TypeError: an argument is a list or a string; shapes of one rank do not broadcast.
      ValueError: shapes of different ranks do not broadcast; `arr` is None, or an
        argument is complex.

    >>> from curta import numpy as jnp
    >>> jnp.clip(jnp.arange(5), 1, 3)
    Array([1, 1, 2, 3, 3], dtype=int32)
    """
    if arr is None:
        raise ValueError("No input was provided to the clip function.")
    given = [x for x in (arr, min, max) if x is not None]
    check_arraylike("clip", *given)
    if any(dtypes.issubdtype(dtypes.dtype(x), np.complexfloating) for x in given):
        raise ValueError(
            "Clip received a complex value either through the input or the min/max"
            " keywords. Complex values have no ordering and cannot be clipped. Please"
            " convert to a real value or array by taking the real or imaginary"
            " components via jax.numpy.real/imag respectively."
        )
    return ensure_arraylike("clip", clipped(arr, min, max))
