"""Taking and putting elements by arrays of indices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.core.dim import min_dim, surely
from curta.lax.bounds import check_index
from curta.numpy.arguments import (
    canonical_axis,
    concrete,
    ensure_arraylikes,
    ensure_operands,
    index_dtype,
    is_complex,
    refuse_out,
)
from curta.numpy.arithmetic import clip, remainder
from curta.numpy.constructors import array, asarray
from curta.numpy.creation import indices as grid_indices
from curta.numpy.index_update import IndexedUpdate
from curta.numpy.indexing import getitem, wrap_negative
from curta.numpy.promotion import broadcast_to_shape, cast, const
from curta.numpy.reductions import any
from curta.numpy.searching import unravel_index, where
from curta.numpy.selection import broadcast_all, select_where
from curta.numpy.shapes import expand_dims, moveaxis, ravel, reshape
from curta.numpy.sorting import argsort


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

    `mode` is for indices out of bounds: "fill" (the default) gives `fill_value`, by
    default NaN or an extreme integer; "clip" and "wrap" as in NumPy.

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
    integers = dtypes.issubdtype(indices.dtype, np.integer) and isinstance(size, int)
    narrow = integers and size > dtypes.iinfo(indices.dtype).max
    if narrow and mode != "clip":  # they are counted from the end
        wide = np.int32 if size < 1 << 31 else np.int64
        indices = lax.convert_element_type(indices, wide)
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
    wrap_negative_indices: bool | None = None,
) -> Array:
    """For each place of `indices`, the element of `arr` there along an axis.

    The two have one rank and broadcast except along the axis. Raises TypeError for
    indices that are not integers.

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
        indices = cast(indices, _fitting_dtype(indices.dtype, size))
        if not dtypes.issubdtype(indices.dtype, np.unsignedinteger):
            indices = wrap_negative(indices, size)
    mode = "fill" if mode is None else mode
    return _gather_along(a, indices, axis, out_shape, mode, fill_value)


def _fitting_dtype(dtype: Any, size: int) -> Any:
    """The integer dtype of indices, or a wider one if it cannot hold `size`."""
    fits = surely(lambda: dtypes.iinfo(dtype).max >= size)
    return dtype if fits else index_dtype(size)


def _gather_along(
    a: Any, indices: Any, axis: int, out_shape: tuple[int, ...], mode: Any, fill: Any
) -> Any:
    own = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    kept = [i for i, d in enumerate(indices.shape) if i == axis or d != 1]
    starts = lax.reshape(indices, (*(out_shape[i] for i in kept), 1))
    sizes, offset, collapsed, batch, start_batch, gone = [], [], [], [], [], []
    for i in range(a.ndim):
        place = i - len(gone)
        if i == axis:
            collapsed.append(place)
            sizes.append(1)
        elif indices.shape[i] == 1:
            offset.append(i)
            sizes.append(own[i])
        elif own[i] == 1:
            gone.append(i)
        else:
            batch.append(place)
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


@inner_jit(static_argnames=("axis", "inplace", "mode"))
def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """A copy of `arr` with `values` at `indices` along an axis; `inplace` is False.

    >>> from curta import numpy as jnp
    >>> x, i = jnp.zeros((2, 2)), jnp.array([[1], [0]])
    >>> jnp.put_along_axis(x, i, 5.0, axis=1, inplace=False)
    Array([[0., 5.],
           [5., 0.]], dtype=float32)
    """
    _refuse_inplace("put_along_axis", inplace)
    arr, indices, values = ensure_arraylikes("put_along_axis", arr, indices, values)
    shape = arr.shape
    if axis is None:
        arr, axis = ravel(arr), 0
    if arr.ndim != indices.ndim:
        raise ValueError(
            "put_along_axis arguments 'arr' and 'indices' must have same ndim. Got"
            f" arr.ndim={arr.ndim} and indices.ndim={indices.ndim}."
        )
    try:
        values = broadcast_to_shape(values, indices.shape)
    except ValueError:
        raise ValueError(
            "put_along_axis argument 'values' must be broadcastable to 'indices'. Got"
            f" values.shape={values.shape} and indices.shape={indices.shape}."
        ) from None
    places = list(grid_indices(arr.shape, sparse=True))
    places[canonical_axis(axis, arr.ndim)] = indices
    out = IndexedUpdate(arr, tuple(places)).set(values, mode=mode)
    return reshape(out, shape)


def _refuse_inplace(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(
            f"jax.numpy.{name} cannot modify arrays in-place, because JAX arrays are"
            " immutable. Pass inplace=False to instead return an updated array."
        )


def put(
    a: ArrayLike,
    ind: ArrayLike,
    v: ArrayLike,
    mode: str | None = None,
    *,
    inplace: bool = True,
) -> Array:
    """A copy of `a` with the values `v` at flat indices; `inplace` must be False.

    >>> from curta import numpy as jnp
    >>> jnp.put(jnp.zeros(3), jnp.array([0, 2]), 1.0, inplace=False)
    Array([1., 0., 1.], dtype=float32)
    """
    _refuse_inplace("put", inplace)
    a, places, values = ensure_arraylikes("put", a, ind, v)
    places, values = ravel(places), ravel(values)
    if not (a.size and places.size and values.size):
        return a
    values = _to_length(values, places.size)
    scatter_mode = "promise_in_bounds"
    if mode is None:
        scatter_mode = "drop"
    elif mode == "clip":
        places = clip(places, 0, a.size - 1)
    elif mode == "wrap":
        places = remainder(places, a.size)
    elif mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.put is not supported.")
    else:
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got mode={mode!r}")
    index = unravel_index(places, a.shape) if a.ndim != 1 else (places,)
    return IndexedUpdate(a, index).set(values, mode=scatter_mode)


def place(
    arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True
) -> Array:
    """A copy of `arr` with `vals`, repeated, where `mask` holds; `inplace` is False.

    >>> from curta import numpy as jnp
    >>> x = jnp.arange(4)
    >>> jnp.place(x, x > 1, jnp.array([7, 8]), inplace=False)
    Array([0, 1, 7, 8], dtype=int32)
    """
    data, mask, values = ensure_arraylikes("place", arr, mask, vals)
    _refuse_inplace("place", inplace)
    if data.size != mask.size:
        raise ValueError("place: arr and mask must be the same size")
    if not values.size:
        raise ValueError("Cannot place values from an empty array")
    if not data.size:
        return data
    places = where(ravel(mask), size=mask.size, fill_value=mask.size)[0]
    values = _to_length(ravel(values), places.size)
    out = IndexedUpdate(ravel(data), places).set(values, mode="drop")
    return reshape(out, data.shape)


def _to_length(x: Any, size: int) -> Any:
    """The vector `x`, repeated or cut to `size`."""
    if x.size < size:
        x = lax.tile(x, (-(-size // x.size),))
    return lax.slice_in_dim(x, 0, size) if x.size > size else x


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """For each element of `a`, the element of the array `choices[a]` at its place.

    `mode` is for numbers out of range: "raise" (then `a` must be known), "wrap",
    "clip".

    >>> from curta import numpy as jnp
    >>> jnp.choose(jnp.array([0, 1]), [jnp.array([1, 2]), jnp.array([3, 4])])
    Array([1, 4], dtype=int32)
    """
    refuse_out("choose", out)
    a, *arrays = ensure_arraylikes("choose", a, *choices)
    if not dtypes.issubdtype(a.dtype, np.integer):
        raise ValueError("`a` array must be integer typed")
    count = len(arrays)
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

    With `size`, exactly that many, filled up with `fill_value`; without it the
    condition must be known.

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

    >>> from curta import numpy as jnp
    >>> x = jnp.arange(4)
    >>> jnp.extract(x > 1, x)
    Array([2, 3], dtype=int32)
    """
    condition, arr, fill = ensure_arraylikes("extract", condition, arr, fill_value)
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill)


def insert(
    arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None
) -> Array:
    """`arr` with `values` put before the indices `obj`; flattened without an axis.

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
    places = _places_to_insert(obj, size)
    values = array(values, dtype=a.dtype, copy=False, ndmin=a.ndim)
    if places.size == 1:
        if places.ndim == 0:
            values = moveaxis(values, 0, axis)
        places = lax.broadcast(reshape(places, ()), (values.shape[axis],))
    (count,) = lax.broadcast_shapes(places.shape, (values.shape[axis],))
    places = broadcast_to_shape(places, (count,))
    # Each new row moves those behind it by one.
    order = argsort(places)
    steps = lax.iota(places.dtype, count)
    new = IndexedUpdate(places, order).add(steps)
    total = size + count
    kept = IndexedUpdate(lax.full((total,), True, np.bool_), new).set(False)
    (old,) = where(kept, size=size)
    before = (slice(None),) * axis
    out = lax.full_like(a, 0, shape=(*a.shape[:axis], total, *a.shape[axis + 1 :]))
    out = IndexedUpdate(out, (*before, new)).set(values)
    return IndexedUpdate(out, (*before, old)).set(a)


def _places_to_insert(obj: Any, size: int) -> Any:
    """Indices from 0 to `size`."""
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(size))
    places = asarray(obj)
    if places.ndim > 1:
        raise ValueError(
            "jnp.insert(): obj must be a slice, a one-dimensional array, or a scalar;"
            f" got {obj}"
        )
    if not dtypes.issubdtype(places.dtype, np.integer):
        if places.size:
            raise ValueError(
                f"jnp.insert(): index array must be integer typed; got {obj}"
            )
        places = cast(places, dtypes.default_int_dtype())
    from_end = lax.add(places, const(places, size))
    places = select_where(lax.lt(places, const(places, 0)), from_end, places)
    return clip(places, 0, size)
