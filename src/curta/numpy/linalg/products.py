"""Products, diagonals and traces as the array API has them: of the last two dims."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy import diagonals, linear_algebra, outer_products, shapes
from curta.numpy.arguments import ensure_arraylike, ensure_arraylikes


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sums of the diagonals of the matrices in the last two dims.

    Args:
      x: matrices (..., m, n).
      offset: the diagonal above the main one. Default 0.
      dtype: dtype of the sums. None (default) uses the dtype of `x`, at least the
        default integer dtype for integers and booleans.

    Returns:
      The sums, (...).

    Raises:
      TypeError: `x` is a list or a string; `dtype` is unknown.
      ValueError: `x` has less than two dims, or `offset` is not an integer.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.trace(jnp.ones((3, 2, 2)))
    Array([2., 2., 2.], dtype=float32)
    """
    x = ensure_arraylike("jnp.linalg.trace", x)
    return diagonals.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of the matrices in the last two dims.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.diagonal(jnp.arange(8).reshape(2, 2, 2))
    Array([[0, 3],
           [4, 7]], dtype=int32)
    """
    x = ensure_arraylike("jnp.linalg.diagonal", x)
    return diagonals.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The cross products of vectors of three components along an axis.

    Args:
      x1, x2: arrays that broadcast, of size 3 along `axis`.
      axis: int, the axis of the components. Default -1, the last.

    Returns:
      The cross products, of the broadcast shape and the promoted dtype.

    Raises:
      TypeError: `x1` or `x2` is a list, a string or None; `axis` is not an integer, or
        shapes do not broadcast.
      ValueError: the size along `axis` is not 3.
      IndexError: `axis` is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    x1, x2 = ensure_arraylikes("jnp.linalg.cross", x1, x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they have"
            f" {x1.shape[axis]=} and {x2.shape[axis]=}"
        )
    return outer_products.cross(x1, x2, axis=axis)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """All products of an element of one vector with one of another, as a matrix.

    Raises ValueError for arrays of another rank.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    x1, x2 = ensure_arraylikes("jnp.linalg.outer", x1, x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(
            "Input arrays must be one-dimensional, but they are"
            f" x1.ndim={x1.ndim} x2.ndim={x2.ndim}"
        )
    return outer_products.outer(x1, x2)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The matrices in the last two dims transposed; ValueError for rank 0 and 1.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.matrix_transpose(jnp.zeros((5, 2, 3))).shape
    (5, 3, 2)
    """
    x = ensure_arraylike("jnp.linalg.matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(
            f"matrix_transpose requires at least 2 dimensions; got ndim={x.ndim}"
        )
    return shapes.matrix_transpose(x)


def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The products of the matrices in the last two dims.

    Args:
      x1: matrices (..., m, k), or a vector (k,).
      x2: matrices (..., k, n), or a vector (k,).
      precision: how exactly products of floats are formed: None (default), "default",
        "high", "highest" or a `lax.Precision`.
      preferred_element_type: dtype of the sums and of the result. None (default) is the
        promoted dtype.

    Returns:
      The products (..., m, n), without the dims of vectors.

    Raises:
      TypeError: `x1` or `x2` is a list, a string or None; the sizes to sum over differ;
        `preferred_element_type` is unknown.
      ValueError: `x1` or `x2` is a scalar, or batches do not broadcast; `precision` is
        unknown.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.matmul(jnp.array([[1, 2]]), jnp.array([3, 4]))
    Array([11], dtype=int32)
    """
    x1, x2 = ensure_arraylikes("jnp.linalg.matmul", x1, x2)
    return linear_algebra.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The dot products of the vectors along an axis, `x1` conjugated.

    Args:
      x1, x2: arrays that broadcast but along `axis`, where sizes are equal.
      axis: int, the axis of the vectors. Default -1, the last.
      precision: how exactly products of floats are formed: None (default), "default",
        "high", "highest" or a `lax.Precision`.
      preferred_element_type: dtype of the sums and of the result. None (default) is the
        promoted dtype.

    Returns:
      The products, of the broadcast shape without `axis`.

    Raises:
      TypeError: `x1` or `x2` is a list, a string or None; `axis` is not an integer;
        `preferred_element_type` is unknown.
      ValueError: the sizes along `axis` differ, or batches do not broadcast;
        `precision` is unknown.
      IndexError: `axis` is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.vecdot(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    x1, x2 = ensure_arraylikes("jnp.linalg.vecdot", x1, x2)
    return linear_algebra.vecdot(
        x1,
        x2,
        axis=operator.index(axis),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def tensordot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axes: int | float | tuple[Sequence[int], Sequence[int]] = 2,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The sums of products over pairs of dims.

    Args:
      x1, x2: arrays or scalars.
      axes: a number (that many last axes of `x1` with the first of `x2`), or a pair of
        sequences of axes of `x1` and `x2`. Default 2.
      precision: how exactly products of floats are formed: None (default), "default",
        "high", "highest" or a `lax.Precision`.
      preferred_element_type: dtype of the sums and of the result. None (default) is the
        promoted dtype.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from the operands.

    Returns:
      The sums: the other dims of `x1`, then those of `x2`.

    Raises:
      TypeError: `x1` or `x2` is a list, a string or None; `axes` is neither a number
        nor a pair, or more than there are; the sizes to sum over differ;
        `preferred_element_type` is unknown; `out_sharding` is not a sharding.
      ValueError: an axis is out of bounds; `precision` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.tensordot(jnp.ones((2, 3)), jnp.ones((2, 3)))
    Array(6., dtype=float32)
    """
    x1, x2 = ensure_arraylikes("jnp.linalg.tensordot", x1, x2)
    return linear_algebra.tensordot(
        x1,
        x2,
        axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )
