"""The smallest and largest elements, one or several of them (JAX 0.12)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from curta import dtypes, lax
from curta.core.array import Array, ArrayLike
from curta.core.shapes import canonicalize_axis
from curta.numpy.arguments import Axis, ensure_arraylike
from curta.numpy.reductions import max as largest, min as smallest


def minmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    where: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """The smallest and the largest element over axes, in one pass where compiled.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int or distinct ints, the axes to reduce; None (default) is all axes.
      out: must be None (default), as arrays do not change.
      keepdims: keep the reduced axes, with size 1. Default False.
      initial: a scalar that takes part too, or a pair of them, for the smallest and
        for the largest. None (default) for none.
      where: booleans that broadcast with `a`, the elements that take part. None
        (default) for all.

    Returns:
      The smallest and the largest elements, as of `min` and `max`.

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers.
      ValueError: an axis is out of bounds or occurs twice; `initial` is not a scalar;
        there are no elements, or `where` is given, and `initial` is not.
      NotImplementedError: `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.minmax(jnp.array([[1, 4], [3, 2]]), axis=1)
    (Array([1, 2], dtype=int32), Array([4, 3], dtype=int32))
    """
    low, high = initial if isinstance(initial, tuple) else (initial, initial)
    return (
        smallest(a, axis, out, keepdims, low, where),
        largest(a, axis, out, keepdims, high, where),
    )


def top_k(
    a: ArrayLike,
    k: int,
    /,
    *,
    axis: int = -1,
    mode: str = "largest",
    sorted: bool = True,
) -> Sequence[Array]:
    """The `k` largest elements along an axis, or the smallest, and their indices.

    Args:
      a: an array of real numbers.
      k: a known integer.
      axis: the axis. Default -1, the last.
      mode: "largest" (default) or "smallest".
      sorted: the elements are in order whatever it says. Default True.

    Returns:
      The elements, of `a`'s dtype, those that come first in `mode` first, and their
      indices along the axis, int32.

    Raises:
      TypeError: `a` is a list, a string or None; `k` is not an integer.
      ValueError: `a` is complex; `mode` is unknown; the axis is out of bounds; there
        are fewer than `k` elements, or `k` is negative.

    >>> from curta import numpy as jnp
    >>> jnp.top_k(jnp.array([3, 1, 2]), 2, mode="smallest")
    (Array([1, 2], dtype=int32), Array([1, 2], dtype=int32))
    """
    x = ensure_arraylike("top_k", a)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise ValueError("top_k is not compatible with complex inputs.")
    if mode not in ("largest", "smallest"):
        raise ValueError(f"mode must be 'largest' or 'smallest', got {mode!r}")
    axis = canonicalize_axis(axis, x.ndim)
    if mode == "largest":
        return lax.top_k(x, k, axis=axis)
    values, indices = lax.top_k(_order_reversed(x), k, axis=axis)
    return _order_reversed(values), indices


def _order_reversed(x: Array) -> Array:
    """An elementwise map that reverses the order of numbers; its own inverse."""
    if dtypes.issubdtype(x.dtype, np.floating):
        return lax.neg(x)
    return lax.bitwise_not(x)
