"""Diagonals of matrices, their sums, and matrices made from them."""

from __future__ import annotations

import operator
from typing import Any

from curta import lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.dim import max_dim, min_dim
from curta.numpy.arguments import (
    canonical_axis,
    concrete_index,
    ensure_arraylike,
    refuse_out,
    user_dtype,
)
from curta.numpy.indexing import getitem
from curta.numpy.matrices import eye
from curta.numpy.promotion import cast
from curta.numpy.ranges import arange
from curta.numpy.reductions import sum
from curta.numpy.selection import select_where
from curta.numpy.shapes import expand_dims, moveaxis, ravel


@inner_jit(static_argnames=("offset", "axis1", "axis2"))
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonals of the matrices in two dims, `offset` above the main one.

    Args:
      a: an array of two dims or more.
      offset: the diagonal above the main one, a static int. Default 0.
      axis1, axis2: int, the axes of the rows and columns. Default 0 and 1.

    Returns:
      The other dims of `a`, then the elements of the diagonal.

    Raises:
      TypeError: `a` is a list, a string or None; `offset` or an axis is not an integer;
        `axis1` is `axis2`.
      ValueError: `a` has less than two dims, or an axis is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.diagonal(jnp.arange(9).reshape(3, 3), offset=1)
    Array([1, 5], dtype=int32)
    """
    a = ensure_arraylike("diagonal", a)
    if a.ndim < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    offset = concrete_index(offset, "'offset' argument of jnp.diagonal()")
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = a.shape[-2:]
    low, high = min(offset, 0), max(offset, 0)
    count = max_dim(0, min_dim(rows + low, columns - high))
    i, j = arange(count), arange(abs(offset), abs(offset) + count)
    return getitem(a, (..., i, j) if offset >= 0 else (..., j, i))


def diag(v: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or the matrix with a vector on it.

    >>> from curta import numpy as jnp
    >>> jnp.diag(jnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    return _diag(ensure_arraylike("diag", v), operator.index(k))


@inner_jit(static_argnames=("k",))
def _diag(v: Any, k: int) -> Any:
    if v.ndim == 2:
        return diagonal(v, offset=k)
    if v.ndim != 1:
        raise ValueError("diag input must be 1d or 2d")
    zero = lax.full_like(v, 0, shape=())
    n = v.shape[0] + abs(k)
    v = lax.pad(v, zero, ((max(0, -k), max(0, k), 0),))
    return select_where(eye(n, k=k, dtype=bool), expand_dims(v, 1), zero)


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix with the flattened `v` on its k-th diagonal.

    >>> from curta import numpy as jnp
    >>> jnp.diagflat(jnp.array([[1], [2]]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    v = ravel(ensure_arraylike("diagflat", v))
    return _diag(cast(v, v.dtype), operator.index(k))


@inner_jit(static_argnames=("axis1", "axis2", "dtype"))
def trace(
    a: ArrayLike,
    offset: int | float | ArrayLike = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The sum of a diagonal.

    Args:
      a: an array of two dims or more.
      offset: the diagonal above the main one. Default 0.
      axis1, axis2: int, the axes of the rows and columns. Default 0 and 1.
      dtype: dtype of the sums. None (default) uses the dtype of `a`, at least the
        default integer dtype for integers and booleans.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.

    Returns:
      The sums: the shape of `a` without the two axes.

    Raises:
      TypeError: `a` is a list, a string or None; `dtype` is unknown; an axis is not an
        integer.
      ValueError: `a` has less than two dims, an axis is out of bounds, or `axis1` is
        `axis2`; `offset` is not an integer.
      NotImplementedError: `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.trace(jnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    a = ensure_arraylike("trace", a)
    refuse_out("trace", out)
    if canonical_axis(axis1, a.ndim) == canonical_axis(axis2, a.ndim):
        raise ValueError(
            f"axis1 and axis2 can not be same. axis1={axis1} and axis2={axis2}"
        )
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = a.shape[-2:]
    mask = eye(rows, columns, k=offset, dtype=bool)
    masked = select_where(mask, a, lax.full_like(a, 0))
    return sum(masked, axis=(-2, -1), dtype=user_dtype(dtype, "trace"))
