"""Outer, Kronecker and cross products."""

from __future__ import annotations

from typing import Any

from curta import lax
from curta._settings import api_version
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    check_arraylike,
    ensure_arraylikes,
    ensure_operands,
    refuse_out,
)
from curta.numpy.arithmetic import multiply
from curta.numpy.constructors import array
from curta.numpy.indexing import getitem
from curta.numpy.promotion import promote_dtypes
from curta.numpy.shapes import expand_dims, moveaxis, ravel, reshape


def outer(a: ArrayLike, b: Array, out: None = None) -> Array:
    """All products of an element of `a` with one of `b`, as a matrix.

    Args:
      a, b: arrays of any shape, which are flattened.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.

    Returns:
      A matrix (a.size, b.size), of the promoted dtype.

    Raises:
      TypeError: `a` or `b` is a list, a string or None.
      NotImplementedError: `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    refuse_out("outer", out)
    a, b = promote_dtypes(*ensure_operands("outer", a, b))
    return multiply(expand_dims(ravel(a), 1), expand_dims(ravel(b), 0))


@inner_jit
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: `b` scaled by every element of `a`.

    >>> from curta import numpy as jnp
    >>> jnp.kron(jnp.array([1, 2]), jnp.array([1, 10]))
    Array([ 1, 10,  2, 20], dtype=int32)
    """
    a, b = promote_dtypes(*ensure_arraylikes("kron", a, b))
    rank = max(a.ndim, b.ndim)
    a = expand_dims(a, range(rank - a.ndim)) if a.ndim < rank else a
    b = expand_dims(b, range(rank - b.ndim)) if b.ndim < rank else b
    shape = tuple(p * q for p, q in zip(a.shape, b.shape))
    a = expand_dims(a, range(1, 2 * rank, 2))
    b = expand_dims(b, range(0, 2 * rank, 2))
    return reshape(multiply(a, b), shape)


@inner_jit(static_argnames=("axisa", "axisb", "axisc", "axis"))
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """The cross products of vectors of 2 or 3 components; of two plane ones a scalar.

    Args:
      a, b: arrays that broadcast but along the axis of components, of size 2 or 3.
      axisa, axisb: int, the axis of components of `a` and of `b`. Default -1, the last.
      axisc: int, where they are in the result. Default -1, the last.
      axis: int, which stands for all three. None (default) for none.

    Returns:
      The cross products, of the promoted dtype: (..., 3), or (...) of two plane
      vectors.

    Raises:
      TypeError: `a` or `b` is a list, a string or None; an axis is not an integer, or
        shapes do not broadcast.
      ValueError: a size is neither 2 nor 3, or an axis is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    check_arraylike("cross", a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError("Dimension must be either 2 or 3 for cross product")
    if 2 in (a.shape[-1], b.shape[-1]):
        api_version.CROSS_OF_PLANE_VECTORS.check()
    xs, ys = _components(a), _components(b)

    def minor(i: int, j: int) -> Any:
        return lax.sub(*promote_dtypes(multiply(xs[i], ys[j]), multiply(xs[j], ys[i])))

    if len(xs) == len(ys) == 2:
        return minor(0, 1)
    xs, ys = (p if len(p) == 3 else [*p, lax.full_like(p[0], 0)] for p in (xs, ys))
    return moveaxis(array([minor(1, 2), minor(2, 0), minor(0, 1)]), 0, axisc)


def _components(x: Any) -> list[Any]:
    return [getitem(x, (..., i)) for i in range(x.shape[-1])]
