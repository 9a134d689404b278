"""Norms of vectors and matrices, and products of chains of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    canonical_axes,
    ensure_arraylike,
    ensure_arraylikes,
    is_arraylike,
    is_complex,
    static_axes,
)
from curta.numpy.arithmetic import absolute, power
from curta.numpy.einstein_summation import einsum
from curta.numpy.linalg.decompositions import svdvals
from curta.numpy.promotion import const, promote_dtypes_inexact
from curta.numpy.reductions import max, min, sum
from curta.numpy.shapes import expand_dims, moveaxis


@inner_jit(static_argnames=("ord", "axis", "keepdims"))
def norm(
    x: ArrayLike,
    ord: int | float | str | None = None,
    axis: tuple[int, ...] | int | None = None,
    keepdims: bool = False,
) -> Array:
    """The norm of a vector (over one axis) or of a matrix (over two).

    By default the root of the sum of squares, over all axes. Of vectors otherwise
    (sum |x|**ord)**(1/ord), the count of elements that are not 0 for the order 0, and
    the greatest and least |x| for the infinities. Of matrices: "fro" is the default,
    1 and an infinity are the greatest sums of |x| over columns and rows (with a minus
    sign the least), 2 and -2 the greatest and least singular value, "nuc" their sum.

    Args:
      x: an array of any shape; integers become floats.
      ord: the order: a number, an infinity, "fro" or "nuc". None (default) for the root
        of the sum of squares.
      axis: int for vectors, two ints for matrices. None (default) is all axes.
      keepdims: keep the reduced axes, with size 1. Default False.

    Returns:
      The norms, real: `x`'s shape without the axes (or with size 1 there).

    Raises:
      TypeError: `x` is a list or a string; `axis` is not of integers.
      ValueError: an axis is out of bounds or occurs twice; `ord` is unknown, or there
        are three axes or more.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.norm(jnp.array([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    (x,) = promote_dtypes_inexact(ensure_arraylike("jnp.linalg.norm", x))
    if axis is None and ord is None:
        return lax.sqrt(sum(_squares(x), keepdims=keepdims))
    axes = canonical_axes(axis, x.ndim)
    if len(axes) == 1:
        order = 2 if ord is None else ord
        return vector_norm(x, ord=order, axis=axes[0], keepdims=keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ValueError(
        f"Improper number of axes for norm: axis={axes}. Pass one axis to compute a"
        " vector-norm, or two axes to compute a matrix-norm."
    )


def _squares(x: Any) -> Any:
    if is_complex(x):
        return lax.real(lax.mul(x, lax.conj(x)))
    return lax.mul(x, x)


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    row, column = axes
    if ord is None or ord in ("f", "fro"):
        return lax.sqrt(sum(_squares(x), axis=axes, keepdims=keepdims))
    if ord in ("nuc", 2, -2):
        return _norm_of_singular_values(x, ord, axes, keepdims)
    if ord not in (1, -1, np.inf, -np.inf):
        raise ValueError(f"Invalid order '{ord}' for matrix norm.")
    inner, outer = (row, column) if ord in (1, -1) else (column, row)
    totals = sum(absolute(x), axis=inner, keepdims=keepdims)
    if not keepdims and outer > inner:
        outer -= 1
    if ord < 0:
        return min(totals, axis=outer, keepdims=keepdims)
    return max(totals, axis=outer, keepdims=keepdims, initial=0)


def _norm_of_singular_values(
    x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool
) -> Any:
    s = svdvals(moveaxis(x, axes, (-2, -1)))
    if ord == 2:
        out = max(s, axis=-1, initial=0)
    else:
        out = min(s, axis=-1) if ord == -2 else sum(s, axis=-1)
    return expand_dims(out, axes) if keepdims else out


def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ord: int | float | str = 2,
) -> Array:
    """The norm of vectors along axes, by default all: (sum |x|**ord)**(1/ord).

    The order 0 counts the elements that differ from 0, an infinity takes an extremum.

    Args:
      x: an array of any shape; integers become floats.
      axis: int or ints, the axes of the vectors. None (default) is all axes.
      keepdims: keep the reduced axes, with size 1. Default False.
      ord: the order, a number or an infinity. Default 2.

    Returns:
      The norms, real: `x`'s shape without the axes (or with size 1 there).

    Raises:
      TypeError: `x` is a list or a string; `axis` is not of integers.
      ValueError: an axis is out of bounds or occurs twice; `ord` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.vector_norm(jnp.array([3.0, -4.0]), ord=1)
    Array(7., dtype=float32)
    """
    (x,) = promote_dtypes_inexact(ensure_arraylike("jnp.linalg.vector_norm", x))
    axis = static_axes(axis)
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm.")
    if ord is None or ord == 2:
        return lax.sqrt(sum(_squares(x), axis=axis, keepdims=keepdims))
    if ord == np.inf:
        return max(absolute(x), initial=0, axis=axis, keepdims=keepdims)
    if ord == -np.inf:
        return min(absolute(x), axis=axis, keepdims=keepdims)
    if ord == 0:
        dtype = dtypes.finfo(x.dtype).dtype
        return sum(lax.ne(x, const(x, 0)), dtype=dtype, axis=axis, keepdims=keepdims)
    if ord == 1:
        return sum(absolute(x), axis=axis, keepdims=keepdims)
    if not is_arraylike(ord) or np.iscomplexobj(ord):
        raise TypeError(f"The order of a vector norm is a real number, not {ord!r}.")
    total = sum(power(absolute(x), ord), axis=axis, keepdims=keepdims)
    return power(total, 1.0 / ord)


def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: str | int = "fro"
) -> Array:
    """The norm of the matrices in the last two dims.

    Args:
      x: matrices (..., m, n); integers become floats.
      keepdims: keep the last two dims, with size 1. Default False.
      ord: "fro" (default), 1, -1, 2, -2, an infinity or "nuc"; see `norm`.

    Returns:
      The norms, real, (...).

    Raises:
      TypeError: `x` is a list or a string.
      ValueError: `x` has less than two dims, or `ord` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.matrix_norm(jnp.eye(4))
    Array(2., dtype=float32)
    """
    x = ensure_arraylike("jnp.linalg.matrix_norm", x)
    return norm(x, ord=ord, axis=(-2, -1), keepdims=keepdims)


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Array:
    """The product of a chain of matrices, in the cheapest order.

    The first and last may be vectors.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.multi_dot([jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones(4)])
    Array([12., 12.], dtype=float32)
    """
    parts = ensure_arraylikes("jnp.linalg.multi_dot", *arrays)
    shapes = [x.shape for x in parts]
    if len(parts) < 2:
        raise ValueError(
            f"multi_dot requires at least two arrays; got len(arrays)={len(parts)}"
        )
    ends_fit = parts[0].ndim in (1, 2) and parts[-1].ndim in (1, 2)
    if not ends_fit or any(x.ndim != 2 for x in parts[1:-1]):
        raise ValueError(
            "multi_dot: input arrays must all be two-dimensional, except for the first"
            " and last array which may be 1 or 2 dimensional. Got array shapes"
            f" {shapes}"
        )
    if any(a[-1] != b[0] for a, b in zip(shapes, shapes[1:])):
        raise ValueError(
            "multi_dot: last dimension of each array must match first dimension of"
            f" following array. Got array shapes {shapes}"
        )
    operands: list[Any] = []
    for i, x in enumerate(parts):
        axes = (i, i + 1)
        if x.ndim == 1:
            axes = axes[1:] if i == 0 else axes[:1]  # type: ignore[assignment]
        operands += [x, axes]
    return einsum(*operands, optimize="auto", precision=precision)
