"""Choosing elements, and stopping gradients."""

from __future__ import annotations

from curta.core.array import Array, ArrayLike
from curta.primitives import elementwise as ops


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """`on_true` where `pred` holds, `on_false` elsewhere.

    Args:
      pred: booleans, of the shape of the others or rank 0.
      on_true, on_false: arrays of one dtype and shape.

    Returns:
      An array of the shape and dtype of `on_true`.

    Raises:
      TypeError: if shapes or dtypes do not match.

    >>> import curta.numpy as jnp
    >>> from curta import lax
    >>> lax.select(jnp.array([True, False]), jnp.array([1, 2]), jnp.array([3, 4]))
    Array([1, 4], dtype=int32)
    """
    return ops.select_n(pred, on_false, on_true)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """The element of `cases[which]`; of the first or last case if there is none.

    The cases have the same dtype and shape, `which` is an integer (or a boolean, with
    two cases) of that shape or rank 0; TypeError otherwise.

    >>> import curta.numpy as jnp
    >>> from curta import lax
    >>> lax.select_n(jnp.array([0, 2]), *jnp.array([[1, 2], [3, 4], [5, 6]]))
    Array([1, 6], dtype=int32)
    """
    if not cases:
        raise ValueError("select_n() must have at least one case")
    return ops.select_n(which, *cases)


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """x, but `min` where it is less and `max` where it is more.

    Args:
      min, max: the bounds, of the dtype of x, and its shape or rank 0.
      x: an array.

    Returns:
      An array of the shape and dtype of x.

    Raises:
      TypeError: if shapes or dtypes do not match.

    >>> import curta.numpy as jnp
    >>> from curta import lax
    >>> lax.clamp(0.0, jnp.array([-1.0, 0.5, 2.0]), 1.0)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return ops.clamp(min, x, max)
