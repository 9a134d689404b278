"""Running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta import lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import (
    canonical_axis,
    ensure_arraylike,
    user_dtype,
)
from curta.numpy.folds import widened_integer
from curta.numpy.promotion import (
    cast,
    cast_as_asked,
    const,
)
from curta.numpy.selection import select_where


def _running(
    name: str,
    op: Callable[[Any, int], Any],
    a: Any,
    axis: int | None,
    dtype: Any,
    out: None = None,
    *,
    nan_as: int | None = None,
    promote_integers: bool = False,
) -> Any:
    a = ensure_arraylike(name, a)
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to jnp.{name} is not supported")
    if axis is None or (a.ndim == 0 and a.weak_type):  # of an array, or a number
        a, axis = lax.reshape(a, (a.size,)), axis or 0
    axis = canonical_axis(axis, a.ndim)
    if nan_as is not None:
        a = select_where(lax.ne(a, a), const(a, nan_as), a)
    if dtype is None:
        widen = promote_integers or a.dtype == np.bool_
        result = computed = widened_integer(a.dtype) if widen else a.dtype
    else:
        result = computed = user_dtype(dtype, name)
    if result == np.bool_:
        a = a if a.dtype == result else lax.ne(a, const(a, 0))
        computed = widened_integer(result)
    return cast(op(cast_as_asked(a, computed), axis), result)


@inner_jit(static_argnames=("axis", "dtype"))
def cumsum(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The sums of all elements up to each position; of the flattened array by default.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int, along which to go. None (default) flattens `a` first.
      dtype: dtype of the computation and the result. None (default) uses the dtype of
        `a`, and the default integer dtype for booleans.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.

    Returns:
      The sums, of the shape of `a`, or (a.size,) without an axis.

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not an integer; `dtype` is
        unknown.
      ValueError: `axis` is out of bounds.
      NotImplementedError: `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.cumsum(jnp.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    return _running("cumsum", lax.cumsum, a, axis, dtype, out)


@inner_jit(static_argnames=("axis", "dtype"))
def cumprod(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The products of elements up to each position; of the flattened array by default.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int, along which to go. None (default) flattens `a` first.
      dtype: dtype of the computation and the result. None (default) uses the dtype of
        `a`, and the default integer dtype for booleans.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.

    Returns:
      The products, of the shape of `a`, or (a.size,) without an axis.

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not an integer; `dtype` is
        unknown.
      ValueError: `axis` is out of bounds.
      NotImplementedError: `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.cumprod(jnp.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    return _running("cumprod", lax.cumprod, a, axis, dtype, out)


@inner_jit(static_argnames=("axis", "dtype"))
def nancumsum(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Like `cumsum`, with NaN as 0.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int, along which to go. None (default) flattens `a` first.
      dtype: dtype of the computation and the result. None (default) uses the dtype of
        `a`, and the default integer dtype for booleans.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.

    Returns:
      The sums, of the shape of `a`, or (a.size,) without an axis.

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not an integer; `dtype` is
        unknown.
      ValueError: `axis` is out of bounds.
      NotImplementedError: `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.nancumsum(jnp.array([1, jnp.nan, 3]))
    Array([1., 1., 4.], dtype=float32)
    """
    return _running("nancumsum", lax.cumsum, a, axis, dtype, out, nan_as=0)


@inner_jit(static_argnames=("axis", "dtype"))
def nancumprod(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Like `cumprod`, with NaN as 1.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int, along which to go. None (default) flattens `a` first.
      dtype: dtype of the computation and the result. None (default) uses the dtype of
        `a`, and the default integer dtype for booleans.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.

    Returns:
      The products, of the shape of `a`, or (a.size,) without an axis.

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not an integer; `dtype` is
        unknown.
      ValueError: `axis` is out of bounds.
      NotImplementedError: `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.nancumprod(jnp.array([2, jnp.nan, 3]))
    Array([2., 2., 6.], dtype=float32)
    """
    return _running("nancumprod", lax.cumprod, a, axis, dtype, out, nan_as=1)


@inner_jit(static_argnames=("axis", "dtype"))
def _cumsum_with_promotion(a: Any, axis: int, dtype: Any) -> Any:
    name = "cumulative_sum"
    return _running(name, lax.cumsum, a, axis, dtype, promote_integers=True)


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Running sums along an axis, which only arrays of rank 1 may leave out.

    Args:
      x: an array of one dim or more, of any dtype.
      axis: int, along which to go. None (default) flattens `a` first.
      dtype: dtype of the computation and the result. None (default) uses the dtype of
        `a`, and the default integer dtype for booleans.
      include_initial: put a 0 in front, so that the axis is longer by one. Default
        False.

    Returns:
      The sums, of the shape of `x`, or longer by one along the axis.

    Raises:
      TypeError: `x` is a list, a string or None; `axis` is not an integer; `dtype` is
        unknown.
      ValueError: `axis` is out of bounds; `x` is a scalar, or has two dims or more and
        no `axis` is given.

    >>> from curta import numpy as jnp
    >>> jnp.cumulative_sum(jnp.array([1, 2]), include_initial=True)
    Array([0, 1, 3], dtype=int32)
    """
    x, axis = _along("cumulative_sum", "a cumulative sum", x, axis)
    out = _cumsum_with_promotion(
        x, axis=axis, dtype=user_dtype(dtype, "cumulative_sum")
    )
    return _with_initial(out, axis, 0) if include_initial else out


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Running products along an axis, which only arrays of rank 1 may leave out.

    Args:
      x: an array of one dim or more, of any dtype.
      axis: int, along which to go. None (default) flattens `a` first.
      dtype: dtype of the computation and the result. None (default) uses the dtype of
        `a`, and the default integer dtype for booleans.
      include_initial: put a 1 in front, so that the axis is longer by one. Default
        False.

    Returns:
      The products, of the shape of `x`, or longer by one along the axis.

    Raises:
      TypeError: `x` is a list, a string or None; `axis` is not an integer; `dtype` is
        unknown.
      ValueError: `axis` is out of bounds; `x` is a scalar, or has two dims or more and
        no `axis` is given.

    >>> from curta import numpy as jnp
    >>> jnp.cumulative_prod(jnp.array([2, 3]), include_initial=True)
    Array([1, 2, 6], dtype=int32)
    """
    x, axis = _along("cumulative_prod", "a cumulative product", x, axis)
    dtype = user_dtype(dtype, "cumulative_prod")
    out = _running("cumulative_prod", lax.cumprod, x, axis, dtype)
    return _with_initial(out, axis, 1) if include_initial else out


def _along(name: str, what: str, x: Any, axis: int | None) -> tuple[Any, int]:
    x = ensure_arraylike(name, x)
    if x.ndim == 0:
        raise ValueError(
            f"The input must be non-scalar to take {what}, however a scalar value or"
            " scalar array was given."
        )
    if axis is None and x.ndim > 1:
        raise ValueError(
            f"The input array has rank {x.ndim}, however axis was not set to an"
            " explicit value. The axis argument is only optional for one-dimensional"
            " arrays."
        )
    return x, canonical_axis(0 if axis is None else axis, x.ndim)


def _with_initial(x: Any, axis: int, value: int) -> Any:
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return lax.concatenate([lax.full(shape, value, x.dtype), x], axis)
