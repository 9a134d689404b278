"""Slices inserted into arrays and deleted from them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.core.array import Array, ArrayLike
from curta.lax.index_types import fitting_indices
from curta.numpy.arguments import (
    canonical_axis,
    concrete,
    ensure_arraylike,
    ensure_arraylikes,
    index_dtype,
)
from curta.numpy.conditional import where
from curta.numpy.constructors import array, asarray
from curta.numpy.extrema import clip
from curta.numpy.index_update import IndexedUpdate
from curta.numpy.indexing import wrap_negative
from curta.numpy.promotion import broadcast_to_shape, cast, const
from curta.numpy.reductions import sum
from curta.numpy.selection import select_where
from curta.numpy.shapes import (
    moveaxis,
    ravel,
    reshape,
)
from curta.numpy.sorting import argsort
from curta.numpy.taking import take


def insert(
    arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None
) -> Array:
    """`arr` with `values` put before the indices `obj`; flattened without an axis.

    Args:
      arr: an array of any shape and dtype.
      obj: an int, a slice, or a vector of integers.
      values: what to insert, of a shape that broadcasts to the slices; cast to the
        dtype of `arr`.
      axis: int, along which to insert. None (default) flattens `arr` first.

    Returns:
      An array of the dtype of `arr`, longer along `axis`.

    Raises:
      TypeError: `arr` or `values` is a list, a string or None; `axis` is not an
          integer.
      ValueError: `obj` is not of integers, `values` does not broadcast, or `axis` is
        out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.insert(jnp.arange(3), 1, 9)
    Array([0, 9, 1, 2], dtype=int32)
    """
    given = 0 if isinstance(obj, slice) else obj
    a, _, values = ensure_arraylikes("insert", arr, given, values)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(concrete(axis, "axis argument of jnp.insert()"), a.ndim)
    size = a.shape[axis]
    indices = _insertion_indices(obj, size)
    values = array(values, dtype=a.dtype, copy=False, ndmin=a.ndim)
    if indices.size == 1:
        if indices.ndim == 0:
            values = moveaxis(values, 0, axis)
        indices = lax.broadcast(reshape(indices, ()), (values.shape[axis],))
    (count,) = lax.broadcast_shapes(indices.shape, (values.shape[axis],))
    indices = broadcast_to_shape(indices, (count,))
    # Each new row moves those behind it by one.
    order = argsort(indices)
    steps = lax.iota(indices.dtype, count)
    new = IndexedUpdate(indices, order).add(steps)
    total = size + count
    kept = IndexedUpdate(lax.full((total,), True, np.bool_), new).set(False)
    (old,) = where(kept, size=size)
    before = (slice(None),) * axis
    out = lax.full_like(a, 0, shape=(*a.shape[:axis], total, *a.shape[axis + 1 :]))
    out = IndexedUpdate(out, (*before, new)).set(values)
    return IndexedUpdate(out, (*before, old)).set(a)


def _insertion_indices(obj: Any, size: int) -> Any:
    """Indices from 0 to `size`."""
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(size))
    indices = asarray(obj)
    if indices.ndim > 1:
        raise ValueError(
            "jnp.insert(): obj must be a slice, a one-dimensional array, or a scalar;"
            f" got {obj}"
        )
    if not dtypes.issubdtype(indices.dtype, np.integer):
        if indices.size:
            raise ValueError(
                f"jnp.insert(): index array must be integer typed; got {obj}"
            )
        indices = cast(indices, dtypes.default_int_dtype())
    indices = fitting_indices(indices, size)
    from_end = lax.add(indices, const(indices, size))
    indices = select_where(lax.lt(indices, const(indices, 0)), from_end, indices)
    return clip(indices, 0, size)


def delete(
    arr: ArrayLike,
    obj: Any,
    axis: int | None = None,
    *,
    assume_unique_indices: bool = False,
) -> Array:
    """`arr` without the slices at the indices `obj`.

    Args:
      arr: an array of any shape and dtype.
      obj: an int, a slice, an array of integers, or one of booleans.
      axis: int, along which to delete. None (default) flattens `arr` first.
      assume_unique_indices: the integers `obj` are distinct and within bounds, which
        lets them be traced. Default False: they must be known.

    Returns:
      An array of the dtype of `arr`, shorter along `axis`.

    Raises:
      TypeError: `arr` is a list, a string or None; `axis` is not an integer.
      ValueError: `obj` is not of integers or booleans, an integer `obj` is out of
        bounds, or `axis` is.
      IndexError: an index of an array `obj` is out of bounds, without
        `assume_unique_indices`.
      ConcretizationTypeError: `obj` is traced without `assume_unique_indices`, or of
        booleans.

    >>> from curta import numpy as jnp
    >>> jnp.delete(jnp.arange(4), jnp.array([0, 2]))
    Array([1, 3], dtype=int32)
    """
    a = ensure_arraylike("delete", arr)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, a.ndim)
    size = a.shape[axis]
    if assume_unique_indices and not isinstance(obj, (slice, int)):
        obj = ensure_arraylike("delete", obj)
        if dtypes.issubdtype(obj.dtype, np.integer):
            return _without_distinct(a, obj, axis)
    kept = np.ones(size, dtype=bool)
    if isinstance(obj, slice):
        kept[obj] = False
    else:
        kept[_deletion_indices(obj, size)] = False
    runs = np.flatnonzero(np.diff(np.concatenate(([False], kept, [False]))))
    parts = [
        lax.slice_in_dim(a, int(i), int(j), axis=axis)
        for i, j in zip(runs[::2], runs[1::2])
    ]
    return lax.concatenate(parts or [lax.slice_in_dim(a, 0, 0, axis=axis)], axis)


def _deletion_indices(obj: Any, size: int) -> Any:
    try:
        return canonical_axis(operator.index(obj), size)
    except TypeError:
        obj = ensure_arraylike("delete", obj)
    indices = concrete(obj, "'obj' array argument of jnp.delete()", np.asarray)
    if indices.dtype == np.bool_ and indices.shape != (size,):
        raise ValueError(
            "np.delete(arr, obj): for boolean indices, obj must be one-dimensional with"
            " length matching specified axis."
        )
    if indices.dtype != np.bool_ and not dtypes.issubdtype(indices.dtype, np.integer):
        raise ValueError(
            f"np.delete(arr, obj): got obj.dtype={indices.dtype}; must be integer or"
            " bool."
        )
    return indices


def _without_distinct(a: Any, obj: Any, axis: int) -> Any:
    """`a` without the slices at distinct indices, which may be traced."""
    size = a.shape[axis]
    dtype = index_dtype(size)
    indices = wrap_negative(cast(ravel(obj), dtype), size)
    indices = lax.sort(lax.clamp(const(indices, 0), indices, const(indices, size)))
    # The i-th slice that stays lies behind a deleted one whose index, counted without
    # the deleted ones in front of that, is at most i.
    rank = lax.sub(indices, lax.iota(dtype, indices.size))
    kept = lax.iota(dtype, size - indices.size)
    shape = (indices.size, kept.size)
    rank = lax.broadcast_in_dim(rank, shape, (0,))
    before = lax.le(rank, lax.broadcast_in_dim(kept, shape, (1,)))
    return take(a, lax.add(kept, sum(before, axis=0, dtype=dtype)), axis=axis)
