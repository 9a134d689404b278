"""Products, diagonals and traces as the array API has them: of the last two dims."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy import linear_algebra, shapes
from curta.numpy.arguments import ensure_arraylike, ensure_arraylikes


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sums of the diagonals of the matrices in the last two dims.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.trace(jnp.ones((3, 2, 2)))
    Array([2., 2., 2.], dtype=float32)
    """
    x = ensure_arraylike("jnp.linalg.trace", x)
    return linear_algebra.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of the matrices in the last two dims.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.diagonal(jnp.arange(8).reshape(2, 2, 2))
    Array([[0, 3],
           [4, 7]], dtype=int32)
    """
    x = ensure_arraylike("jnp.linalg.diagonal", x)
    return linear_algebra.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The cross products of vectors of three components along an axis.

    Raises ValueError for vectors of another size.

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
    return linear_algebra.cross(x1, x2, axis=axis)


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
    return linear_algebra.outer(x1, x2)


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
    """The products of the matrices in the last two dims; see `numpy.matmul`.

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
    """The dot products of the vectors along an axis; see `numpy.vecdot`.

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
    """The sums of products over pairs of dims; see `numpy.tensordot`.

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
