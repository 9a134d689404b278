"""Where elements are: extrema, nonzero elements, flat indices."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inlined_jit, inner_jit
from curta.core.array import Array, ArrayLike, Shape
from curta.core.trace import Tracer
from curta.errors import ConcretizationTypeError
from curta.lax.index_types import fitting_indices
from curta.numpy.arguments import (
    STATIC_SIZE,
    axis_of_shape,
    check_arraylike,
    concrete,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
    ensure_operand,
    refuse_out,
    user_dtype,
)
from curta.numpy.arithmetic import divmod, floor_divide, remainder
from curta.numpy.binning import bincount
from curta.numpy.constructors import array, asarray
from curta.numpy.creation import zeros
from curta.numpy.cumulative import cumsum
from curta.numpy.extrema import clip
from curta.numpy.indexing import getitem
from curta.numpy.joining import stack
from curta.numpy.promotion import cast, const
from curta.numpy.ranges import arange
from curta.numpy.reductions import all, sum
from curta.numpy.selection import broadcast_all, select_where
from curta.numpy.shapes import atleast_1d, ravel, reshape
from curta.primitives.dims import dim_value


@inlined_jit(static_argnames=("axis", "out", "keepdims"))
def argmax(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool | None = None,
) -> Array:
    """The index of the first largest element; of the flattened array by default.

    NaN counts as largest.

    Args:
      a: an array of real numbers, of any shape.
      axis: int, along which to look. None (default) flattens `a` first.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      keepdims: keep the reduced axes, with size 1. None (default) stands for False.

    Returns:
      Indices, of the default integer dtype: `a`'s shape without `axis` (or with size 1
      there).

    Raises:
      TypeError: `a` is a list, a string or None; `a` is complex; `axis` is not an
          integer.
      ValueError: there are no elements; `axis` is out of bounds (an IndexError too).
      NotImplementedError: `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.argmax(jnp.array([1, 5, 5]))
    Array(1, dtype=int32)
    """
    return _arg_extremum("argmax", lax.argmax, a, axis, out, keepdims)


@inlined_jit(static_argnames=("axis", "out", "keepdims"))
def argmin(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool | None = None,
) -> Array:
    """The index of the first smallest element; of the flattened array by default.

    NaN counts as smallest.

    Args:
      a: an array of real numbers, of any shape.
      axis: int, along which to look. None (default) flattens `a` first.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      keepdims: keep the reduced axes, with size 1. None (default) stands for False.

    Returns:
      Indices, of the default integer dtype: `a`'s shape without `axis` (or with size 1
      there).

    Raises:
      TypeError: `a` is a list, a string or None; `a` is complex; `axis` is not an
          integer.
      ValueError: there are no elements; `axis` is out of bounds (an IndexError too).
      NotImplementedError: `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.argmin(jnp.array([3, 1, 1]))
    Array(1, dtype=int32)
    """
    return _arg_extremum("argmin", lax.argmin, a, axis, out, keepdims)


def _arg_extremum(
    name: str, op: Callable[..., Any], a: Any, axis: Any, out: None, keepdims: Any
) -> Any:
    a = ensure_arraylike(name, a)
    refuse_out(name, out)
    if axis is None:
        dims, a, axis = range(a.ndim), ravel(a), 0
    else:
        axis = axis_of_shape(axis, a.ndim)
        dims = range(axis, axis + 1)
    if a.shape[axis] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    index = op(a, axis, dtypes.default_int_dtype())
    return lax.expand_dims(index, dims) if keepdims else index


def nanargmax(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool | None = None,
) -> Array:
    """Like `argmax`, passing over NaN; -1 where all elements are.

    Args:
      a: an array of real numbers, of any shape.
      axis: int, along which to look. None (default) flattens `a` first.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      keepdims: keep the reduced axes, with size 1. None (default) stands for False.

    Returns:
      Indices, of the default integer dtype: `a`'s shape without `axis` (or with size 1
      there).

    Raises:
      TypeError: `a` is a list, a string or None; `a` is complex; `axis` is not an
          integer.
      ValueError: there are no elements; `axis` is out of bounds (an IndexError too).
      NotImplementedError: `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.nanargmax(jnp.array([jnp.nan, 1.0]))
    Array(1, dtype=int32)
    """
    refuse_out("nanargmax", out)
    axis = None if axis is None else operator.index(axis)
    return _nanargmax(ensure_arraylike("nanargmax", a), axis, keepdims=bool(keepdims))


@inner_jit(static_argnames=("axis", "keepdims"))
def _nanargmax(a: Any, axis: int | None, keepdims: bool) -> Any:
    return _nan_arg_extremum(argmax, -np.inf, a, axis, keepdims)


def nanargmin(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool | None = None,
) -> Array:
    """Like `argmin`, passing over NaN; -1 where all elements are.

    Args:
      a: an array of real numbers, of any shape.
      axis: int, along which to look. None (default) flattens `a` first.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      keepdims: keep the reduced axes, with size 1. None (default) stands for False.

    Returns:
      Indices, of the default integer dtype: `a`'s shape without `axis` (or with size 1
      there).

    Raises:
      TypeError: `a` is a list, a string or None; `a` is complex; `axis` is not an
          integer.
      ValueError: there are no elements; `axis` is out of bounds (an IndexError too).
      NotImplementedError: `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.nanargmin(jnp.array([jnp.nan, 1.0]))
    Array(1, dtype=int32)
    """
    refuse_out("nanargmin", out)
    axis = None if axis is None else operator.index(axis)
    return _nanargmin(ensure_arraylike("nanargmin", a), axis, keepdims=bool(keepdims))


@inner_jit(static_argnames=("axis", "keepdims"))
def _nanargmin(a: Any, axis: int | None, keepdims: bool) -> Any:
    return _nan_arg_extremum(argmin, np.inf, a, axis, keepdims)


def _nan_arg_extremum(
    find: Callable[..., Any], start: float, a: Any, axis: Any, keepdims: bool
) -> Any:
    if not dtypes.issubdtype(a.dtype, np.inexact):
        return find(a, axis=axis, keepdims=keepdims)
    missing = lax.ne(a, a)
    index = find(select_where(missing, start, a), axis=axis, keepdims=keepdims)
    return select_where(all(missing, axis=axis, keepdims=keepdims), -1, index)


def nonzero(
    a: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None,
) -> tuple[Any, ...]:
    """The indices of the elements that differ from 0, an array for each dim.

    Their number is known only with the values, so that inside jit `size` has to be
    given: the result is cut to it, or filled up with `fill_value`.

    Args:
      a: an array of one dim or more, of any dtype.
      size: static int, which jit needs: the result is cut to that many indices, or
        filled up. None (default) for as many as there are.
      fill_value: the index for entries beyond the last: a scalar, or a tuple of one
        for each dim. None (default) for 0.

    Returns:
      A tuple of a.ndim vectors of indices, (count,), integers, in the order of the
      elements; `count` is `size`, if that is given.

    Raises:
      TypeError: `a` is a list, a string or None; `size` is not an integer or negative.
      ValueError: `fill_value` is a tuple of another length; `a` is a scalar.
      ConcretizationTypeError: `a` is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.nonzero(jnp.array([0, 7, 8]))
    (Array([1, 2], dtype=int32),)
    """
    a = ensure_arraylike("nonzero", a)
    if a.ndim == 0:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use"
            " jnp.atleast_1d(scalar).nonzero() instead."
        )
    mask = a if a.dtype == np.bool_ else lax.ne(a, const(a, 0))
    if size is None:
        size = _count(mask)
    size = concrete_index(
        size,
        "The size argument of jnp.nonzero must be statically specified to use"
        " jnp.nonzero within transformations.",
    )
    if a.size == 0 or size == 0:
        return tuple(zeros(size, int) for _ in a.shape)
    # The flat index of the k-th true element is how many sums of those before reach k.
    flat = cumsum(bincount(cumsum(mask), length=size))
    strides = [
        dim_value(math.prod(a.shape[i + 1 :]), flat.dtype) for i in range(a.ndim)
    ]
    indices = [remainder(floor_divide(flat, s), d) for s, d in zip(strides, a.shape)]
    return (
        tuple(indices)
        if fill_value is None
        else _filled(indices, mask, size, fill_value)
    )


def _count(mask: Any) -> Any:
    if isinstance(mask, Tracer) and mask.concrete_value() is None:
        raise ConcretizationTypeError(
            mask,
            "The size argument of jnp.nonzero must be statically specified to use"
            " jnp.nonzero within transformations.",
            STATIC_SIZE,
        )
    return int(np.count_nonzero(np.asarray(concrete(mask, ""))))


def _filled(indices: list[Any], mask: Any, size: int, fill: Any) -> tuple[Any, ...]:
    fills = fill if isinstance(fill, tuple) else (fill,) * len(indices)
    if any(np.shape(x) != () for x in fills) or len(fills) != len(indices):
        raise ValueError(
            f"fill_value must be a scalar or a tuple of length {len(indices)}; got"
            f" {fill}"
        )
    check_arraylike("nonzero, argument fill_value,", *fills)
    beyond = lax.ge(arange(size), sum(mask))
    return tuple(select_where(beyond, x, index) for x, index in zip(fills, indices))


def flatnonzero(
    a: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | tuple[ArrayLike] | None = None,
) -> Array:
    """The flat indices of the elements that differ from 0.

    Args:
      a: an array or scalar, of any shape and dtype.
      size: static int, which jit needs: the result is cut to that many indices, or
        filled up. None (default) for as many as there are.
      fill_value: the index for entries beyond the last, a scalar or a tuple of one.
        None (default) for 0.

    Returns:
      Indices into the flattened array, (count,), integers; `count` is `size`, if that
      is given.

    Raises:
      TypeError: `a` is a list, a string or None; `size` is not an integer or negative.
      ValueError: `fill_value` is a tuple of another length.
      ConcretizationTypeError: `a` is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.flatnonzero(jnp.array([[0, 7], [8, 0]]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The indices of the elements that differ from 0, one row for each.

    Args:
      a: an array or scalar, of any shape and dtype.
      size: static int, which jit needs: the result is cut to that many indices, or
        filled up. None (default) for as many as there are.
      fill_value: the index for entries beyond the last: a scalar, or a tuple of one
        for each dim. None (default) for 0.

    Returns:
      Indices, (count, a.ndim), integers, in the order of the elements; `count` is
      `size`, if that is given.

    Raises:
      TypeError: `a` is a list, a string or None; `size` is not an integer or negative.
      ValueError: `fill_value` is a tuple of another length.
      ConcretizationTypeError: `a` is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.argwhere(jnp.array([[0, 7], [8, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    a = ensure_arraylike("argwhere", a)
    indices = nonzero(atleast_1d(a), size=size, fill_value=fill_value)
    rows = stack(indices, axis=1)
    return rows if a.ndim else reshape(getitem(rows, np.s_[:0]), (rows.shape[0], 0))


def unravel_index(indices: ArrayLike, shape: Shape) -> tuple[Any, ...]:
    """Flat indices as indices into dims; those out of bounds are clamped.

    >>> from curta import numpy as jnp
    >>> jnp.unravel_index(5, (2, 3))
    (Array(1, dtype=int32, weak_type=True), Array(2, dtype=int32, weak_type=True))
    """
    flat = ensure_operand("unravel_index", indices)
    scalar = isinstance(shape, Array) and not shape.ndim
    sizes: list[Any] = (
        list(shape) if isinstance(shape, Iterable) and not scalar else [shape]
    )
    if any(np.ndim(d) for d in sizes):
        raise ValueError("unravel_index: shape should be a scalar or 1D sequence.")
    result: list[Any] = [0] * len(sizes)
    for i, d in reversed(list(enumerate(sizes))):
        flat, result[i] = divmod(flat, d)
    above = lax.gt(flat, const(flat, 0))
    if dtypes.issubdtype(flat.dtype, np.unsignedinteger):
        below = asarray(False)
    else:
        below = lax.lt(flat, const(flat, -1))
    return tuple(
        select_where(above, d - 1, select_where(below, 0, i))
        for d, i in zip(sizes, result)
    )


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Array:
    """Indices into dims as flat indices.

    Args:
      multi_index: a sequence of integer arrays that broadcast, one for each dim.
      dims: the sizes of the dims, static integers.
      mode: for indices out of bounds: "raise" (default; the indices must be known),
        "wrap" (counted from the end), "clip" (moved to the edge), or "ignore".
      order: "C" (default), where the last index runs fastest, or "F", where the first
        does.
      dtype: integer dtype of the result. None (default) is the default integer dtype.

    Returns:
      Flat indices, of the indices' broadcast shape.

    Raises:
      TypeError: `multi_index` is not a sequence, or `dtype` is unknown.
      ValueError: the number of index arrays differs from the number of dims; they or
        `dtype` are not of integers; `dtype` is too small for the indices; an index is
        out of bounds with "raise"; `mode` or `order` is unknown.
      ConcretizationTypeError: indices are traced with "raise".

    >>> from curta import numpy as jnp
    >>> jnp.ravel_multi_index((jnp.array([1]), jnp.array([2])), (2, 3))
    Array([5], dtype=int32)
    """
    if not hasattr(dims, "__len__"):
        raise TypeError(f"object of type {type(dims).__name__!r} has no len()")
    where_ = "in `dims` argument of ravel_multi_index()."
    sizes = tuple(concrete_index(d, where_) for d in dims)
    if len(multi_index) != len(sizes):
        raise ValueError(
            f"ravel_multi_index: got {len(multi_index)} index arrays for"
            f" {len(sizes)} dims"
        )
    arrays = ensure_arraylikes("ravel_multi_index", *multi_index)
    dtype = _flat_dtype(arrays, sizes, user_dtype(dtype, "ravel_multi_index"))
    arrays = tuple(
        _in_range(fitting_indices(i, d), d, mode) for i, d in zip(arrays, sizes)
    )
    if order not in ("C", "F"):
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    strides = np.cumprod((1, *(sizes[1:][::-1] if order == "C" else sizes[:-1])))
    out: Any = array(0, dtype=dtype)
    for i, s in zip(arrays, strides[::-1] if order == "C" else strides):
        out = lax.add(*broadcast_all(out, lax.mul(cast(i, dtype), const(out, int(s)))))
    return out


def _flat_dtype(arrays: Sequence[Any], sizes: Sequence[int], wanted: Any) -> Any:
    """The dtype of flat indices: `wanted`, or a promoted one that holds them all."""
    dtype = dtypes.result_type(int, *arrays) if wanted is None else wanted
    for given in (*(x.dtype for x in arrays), dtype):
        if not dtypes.issubdtype(given, np.integer):
            raise ValueError(
                f"dtype={given!r} is not an integer type. ravel_multi_index takes"
                " arrays of integers"
            )
    last = math.prod(sizes) - 1
    if wanted is None and last > dtypes.iinfo(dtype).max:
        dtype = dtypes.default_int_dtype()
    if last > dtypes.iinfo(dtype).max:
        raise ValueError(
            f"jnp.ravel_multi_index: dtype={dtype} is not large enough for a flat index"
            f" into dims={tuple(sizes)}. Use the dtype argument to give a larger one"
        )
    return dtype


def _in_range(i: Any, size: int, mode: str) -> Any:
    if mode == "raise":
        known = concrete(
            i,
            "The error occurred because ravel_multi_index was jit-compiled with"
            " mode='raise'. Use mode='wrap' or mode='clip' instead.",
            np.asarray,
        )
        if ((known < 0) | (known >= size)).any():
            raise ValueError("invalid entry in coordinates array")
        return i
    if mode == "clip":
        return clip(i, 0, size - 1)
    if mode == "wrap":
        return remainder(i, size)
    if mode == "ignore":
        return i
    raise ValueError(
        f"invalid mode={mode!r}. Expected 'raise', 'wrap', 'clip', or 'ignore'."
    )
