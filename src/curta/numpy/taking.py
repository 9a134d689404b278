"""Taking elements by arrays of indices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit, new_arrays
from curta.core.array import Array, ArrayLike
from curta.core.dim import min_dim
from curta.lax.bounds import check_index
from curta.lax.index_types import fitting_indices
from curta.numpy.arguments import (
    canonical_axis,
    concrete,
    ensure_arraylikes,
    ensure_operands,
    is_complex,
    refuse_out,
)
from curta.numpy.arithmetic import remainder
from curta.numpy.constructors import array
from curta.numpy.creation import indices as grid_indices
from curta.numpy.extrema import clip
from curta.numpy.indexing import getitem, wrap_negative
from curta.numpy.promotion import cast, const
from curta.numpy.reductions import any
from curta.numpy.selection import broadcast_all, select_where
from curta.numpy.shapes import expand_dims, moveaxis, ravel
from curta.numpy.sorting import argsort


@new_arrays
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: int | float | None = None,
) -> Array:
    """The slices of `a` at `indices` along an axis; of the flattened array by default.

    Args:
      a: an array of any shape and dtype.
      indices: integers of any shape; negative ones count from the end.
      axis: int, along which to take. None (default) flattens `a` first.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      mode: for indices out of bounds: "fill" (or None, the default) gives `fill_value`,
        "clip" the edge (0 for negative ones), "wrap" counts on from the other end.
      unique_indices: no index occurs twice, which spares derivatives work. Default
        False.
      indices_are_sorted: indices ascend. Default False.
      fill_value: for "fill". None (default) is NaN, the least integer or the greatest
        unsigned one.

    Returns:
      The shape of `a` with `axis` replaced by the shape of `indices`; the dtype of `a`.

    Raises:
      TypeError: `a` or `indices` is a list, a string or None; `axis` is not an integer.
      ValueError: `indices` is not of integers, `axis` is out of bounds, or `mode` is
        unknown.
      NotImplementedError: `mode` is "raise"; `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.take(jnp.array([10.0, 20.0]), jnp.array([1, -1, 5]))
    Array([20., 20., nan], dtype=float32)
    """
    refuse_out("take", out)
    axis = None if axis is None else operator.index(axis)
    return _take(
        a,
        indices,
        axis,
        mode,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        fill_value=fill_value,
    )


@inner_jit(
    static_argnames=(
        *("axis", "mode", "unique_indices"),
        *("indices_are_sorted", "fill_value"),
    )
)
def _take(
    a: Any,
    indices: Any,
    axis: int | None,
    mode: str | None,
    *,
    unique_indices: bool,
    indices_are_sorted: bool,
    fill_value: Any,
) -> Any:
    a, indices = ensure_operands("take", a, indices)
    clipped = mode == "clip"
    if indices.dtype == np.bool_ and not clipped:
        indices = lax.convert_element_type(indices, np.int32)
    if is_complex(indices) or (
        clipped and not dtypes.issubdtype(indices.dtype, np.integer)
    ):
        raise ValueError(f"indices must have an integer type, got {indices.dtype}")
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(axis, a.ndim)
    size = a.shape[axis]
    if mode is None:
        check_index(a.shape, axis, indices, True)
    indices, gather_mode = _bounded(indices, size, mode)
    rank = indices.ndim
    if size == 0:
        if indices.size:
            raise IndexError("Cannot do a non-empty jnp.take() from an empty axis.")
        return a
    if indices.size == 0:
        shape = (*a.shape[:axis], *indices.shape, *a.shape[axis + 1 :])
        return lax.full_like(a, 0, shape=shape)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(*range(axis), *range(axis + rank, a.ndim + rank - 1)),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    return lax.gather(
        a,
        expand_dims(indices, rank),
        numbers,
        (*a.shape[:axis], 1, *a.shape[axis + 1 :]),
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        mode=gather_mode,
        fill_value=fill_value,
    )


def _bounded(indices: Any, size: int, mode: str | None) -> tuple[Any, Any]:
    modes = lax.GatherScatterMode
    integers = dtypes.issubdtype(indices.dtype, np.integer)
    if integers and mode != "clip":  # they are counted from the end
        indices = fitting_indices(indices, size)
    if mode is None or mode == "fill":
        negative = lax.lt(indices, const(indices, 0))
        from_end = lax.add(indices, const(indices, size))
        return select_where(negative, from_end, indices), modes.FILL_OR_DROP
    if mode == "wrap":
        return remainder(indices, const(indices, size)), modes.PROMISE_IN_BOUNDS
    if mode == "clip":
        return indices, modes.CLIP
    if mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.take is not supported.")
    raise ValueError(f"Invalid mode '{mode}' for np.take")


@inner_jit(static_argnames=("axis", "mode", "fill_value", "wrap_negative_indices"))
def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: Any = None,
    fill_value: int | float | None = None,
    *,
    wrap_negative_indices: bool | None = True,
) -> Array:
    """For each element of `indices`, the element of `arr` there along an axis.

    Args:
      arr: an array of n dims.
      indices: integers of n dims that broadcast with `arr` but along `axis`; (k,)
        without an axis.
      axis: int, along which to take. Default -1, the last; None flattens `arr` first.
      mode: for indices out of bounds: "fill" (or None, the default), "clip",
        "promise_in_bounds" (there are none).
      fill_value: for "fill". None (default) is NaN, the least integer or the greatest
        unsigned one.
      wrap_negative_indices: count negative indices from the end. Default True; None is
        True unless "promise_in_bounds".

    Returns:
      The broadcast shape, with the size of `indices` along `axis`; the dtype of `arr`.

    Raises:
      TypeError: `arr` or `indices` is a list, a string or None; `indices` is not of
        integers, or `axis` is not an integer.
      ValueError: the ranks differ, shapes do not broadcast, `axis` is out of bounds, or
        `mode` is unknown.

    >>> from curta import numpy as jnp
    >>> x = jnp.array([[3, 1], [2, 4]])
    >>> jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    a, indices = ensure_arraylikes("take_along_axis", arr, indices)
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise TypeError(
            f"take_along_axis indices must be of integer type, got {indices.dtype}"
        )
    if axis is None:
        if indices.ndim != 1:
            raise ValueError(
                "take_along_axis indices must be 1D if axis=None, got shape"
                f" {indices.shape}"
            )
        a, axis = ravel(a), 0
    if a.ndim != indices.ndim:
        raise ValueError(
            "indices and arr must have the same number of dimensions;"
            f" {indices.ndim} vs. {a.ndim}"
        )
    axis = canonical_axis(axis, a.ndim)
    size = a.shape[axis]
    others = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    out_shape = lax.broadcast_shapes(indices.shape, others)
    if size == 0:
        return lax.full(out_shape, 0, a.dtype)
    if wrap_negative_indices is None:
        wrap_negative_indices = mode != "promise_in_bounds"
    if mode in (None, "promise_in_bounds"):
        check_index(a.shape, axis, indices, wrap_negative_indices)
    if wrap_negative_indices:
        wide = fitting_indices(indices, size)
        unsigned = dtypes.issubdtype(wide.dtype, np.unsignedinteger)
        indices = wide if unsigned else wrap_negative(wide, size)
    mode = "fill" if mode is None else mode
    return _gather_along(a, indices, axis, out_shape, mode, fill_value)


def _gather_along(
    a: Any, indices: Any, axis: int, out_shape: tuple[int, ...], mode: Any, fill: Any
) -> Any:
    own = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    kept = [i for i, d in enumerate(indices.shape) if i == axis or d != 1]
    starts = lax.reshape(indices, (*(out_shape[i] for i in kept), 1))
    sizes, offset, collapsed, batch, start_batch = [], [], [], [], []
    gone: list[int] = []
    for i in range(a.ndim):
        dim = i - len(gone)
        if i == axis:
            collapsed.append(dim)
            sizes.append(1)
        elif indices.shape[i] == 1:
            offset.append(i)
            sizes.append(own[i])
        elif own[i] == 1:
            gone.append(i)
        else:
            batch.append(dim)
            start_batch.append(kept.index(i))
            sizes.append(min_dim(own[i], 1))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(offset),
        collapsed_slice_dims=tuple(collapsed),
        start_index_map=tuple(collapsed),
        operand_batching_dims=tuple(batch),
        start_indices_batching_dims=tuple(start_batch),
    )
    a = lax.squeeze(a, tuple(gone)) if gone else a
    return lax.gather(a, starts, numbers, tuple(sizes), mode=mode, fill_value=fill)


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """For each element of `a`, the element of the array `choices[a]` at its position.

    Args:
      a: integers of any shape.
      choices: a sequence of arrays that broadcast with `a`, or one array, split along
        its first dim; they promote to one dtype.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      mode: for numbers out of range: "raise" (default; then `a` must be known), "wrap"
        or "clip".

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: `a` is a list, a string or None; `choices` is not a sequence.
      ValueError: `a` is not of integers or out of range with "raise", shapes do not
        broadcast, or `mode` is unknown.
      NotImplementedError: `out` is given.
      ConcretizationTypeError: `a` is traced with "raise".

    >>> from curta import numpy as jnp
    >>> jnp.choose(jnp.array([0, 1]), [jnp.array([1, 2]), jnp.array([3, 4])])
    Array([1, 4], dtype=int32)
    """
    refuse_out("choose", out)
    a, *arrays = ensure_arraylikes("choose", a, *choices)
    if not dtypes.issubdtype(a.dtype, np.integer):
        raise ValueError("`a` array must be integer typed")
    count = len(arrays)
    a = fitting_indices(a, count)
    if mode == "raise":
        known = concrete(
            a,
            "The error occurred because jnp.choose was jit-compiled with mode='raise'."
            " Use mode='wrap' or mode='clip' instead.",
            np.asarray,
        )
        if ((known < 0) | (known >= count)).any():
            raise ValueError("invalid entry in choice array")
    elif mode == "wrap":
        a = remainder(a, count)
    elif mode == "clip":
        a = clip(a, 0, count - 1)
    else:
        raise ValueError(
            f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'"
        )
    a, *arrays = broadcast_all(a, *arrays)
    table = array(arrays)
    return getitem(table, (a, *grid_indices(a.shape, sparse=True)))


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """The slices of `a` where `condition` holds; of the flattened array by default.

    Args:
      condition: a vector, taken for booleans; known, unless `size` is given.
      a: an array; along `axis` at least as long as the last True of `condition`.
      axis: int, along which to take. None (default) flattens `a` first.
      size: static int: the result is cut to that many, or filled up. None (default) for
        as many as there are.
      fill_value: the element beyond the last, a scalar. Default 0.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.

    Returns:
      An array of the dtype of `a`, with the count along `axis`.

    Raises:
      TypeError: `condition`, `a` or `fill_value` is a list, a string or None; `axis` or
        `size` is not an integer.
      ValueError: `condition` is not a vector or holds beyond the end of `a`; `axis` is
        out of bounds; `size` is negative or greater than the axis.
      NotImplementedError: `out` is given.
      TracerBoolConversionError: `condition` is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.compress(jnp.array([True, False, True]), jnp.arange(3))
    Array([0, 2], dtype=int32)
    """
    condition, a, fill = ensure_arraylikes("compress", condition, a, fill_value)
    refuse_out("compress", out)
    if condition.ndim != 1:
        raise ValueError("condition must be a 1D array")
    condition = cast(condition, np.dtype(np.bool_))
    if axis is None:
        a, axis = ravel(a), 0
    else:
        a = moveaxis(a, axis, 0)
    count = min_dim(condition.shape[0], a.shape[0])
    extra = lax.slice_in_dim(condition, count, None)
    condition = lax.slice_in_dim(condition, 0, count)
    a = lax.slice_in_dim(a, 0, count)
    if size is None:
        if any(extra):
            raise ValueError("condition contains entries that are out of bounds")
        return moveaxis(getitem(a, condition), 0, axis)
    if not 0 <= size <= count:
        raise ValueError(
            "size must be positive and not greater than the size of the array axis; got"
            f" size={size} for a.shape[axis]={count}"
        )
    mask = expand_dims(condition, range(1, a.ndim)) if a.ndim > 1 else condition
    a = select_where(mask, a, cast(fill, a.dtype))
    order = argsort(condition, stable=True, descending=True)
    return moveaxis(lax.slice_in_dim(getitem(a, order), 0, size), 0, axis)


def extract(
    condition: ArrayLike,
    arr: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
) -> Array:
    """The elements of `arr` where `condition` holds.

    Args:
      condition: an array, taken for booleans, flattened; known, unless `size` is given.
      arr: an array, flattened; at least as long as the last True of `condition`.
      size: static int: the result is cut to that many, or filled up. None (default) for
        as many as there are.
      fill_value: the element beyond the last, a scalar. Default 0.

    Returns:
      A vector of the dtype of `arr`.

    Raises:
      TypeError: `condition`, `arr` or `fill_value` is a list, a string or None; `size`
        is not an integer.
      ValueError: `condition` holds beyond the end of `arr`; `size` is negative or
        greater than `arr`.
      TracerBoolConversionError: `condition` is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> x = jnp.arange(4)
    >>> jnp.extract(x > 1, x)
    Array([2, 3], dtype=int32)
    """
    condition, arr, fill = ensure_arraylikes("extract", condition, arr, fill_value)
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill)
