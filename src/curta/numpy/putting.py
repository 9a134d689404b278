"""Copies with some elements replaced."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.lax.index_types import fitting_indices
from curta.numpy.arguments import (
    canonical_axis,
    ensure_arraylikes,
)
from curta.numpy.arithmetic import remainder
from curta.numpy.conditional import where
from curta.numpy.creation import indices as grid_indices
from curta.numpy.extrema import clip
from curta.numpy.index_update import IndexedUpdate
from curta.numpy.promotion import broadcast_to_shape
from curta.numpy.searching import unravel_index
from curta.numpy.shapes import ravel, reshape


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
    """A copy of `arr` with `values` at `indices` along an axis.

    Args:
      arr: an array of n dims.
      indices: integers of n dims that broadcast with `arr` but along `axis`.
      values: an array that broadcasts with `indices`.
      axis: int, along which to put; None flattens `arr` first.
      inplace: must be False, as arrays do not change. Default True, as in NumPy.
      mode: for indices out of bounds: None (default) or "fill" drops them, "clip" puts
        them at the edge, "promise_in_bounds" says that there are none.

    Returns:
      An array of the shape and dtype of `arr`.

    Raises:
      TypeError: `arr`, `indices` or `values` is a list, a string or None; `indices` is
        not of integers, or `axis` no integer.
      ValueError: the ranks differ, `values` does not broadcast, `axis` is out of
        bounds, `mode` is unknown, or `inplace` is True.

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
        updates = broadcast_to_shape(values, indices.shape)
    except ValueError:
        raise ValueError(
            "put_along_axis argument 'values' must be broadcastable to 'indices'. Got"
            f" values.shape={values.shape} and indices.shape={indices.shape}."
        ) from None
    index = list(grid_indices(arr.shape, sparse=True))
    index[canonical_axis(axis, arr.ndim)] = indices
    out = IndexedUpdate(arr, tuple(index)).set(updates, mode=mode)
    return reshape(out, shape)


def _refuse_inplace(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(
            f"jax.numpy.{name} cannot modify arrays in-place, because arrays are"
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
    """A copy of `a` with the values `v` at flat indices.

    Args:
      a: an array of one dim or more, of any dtype.
      ind: integers, flattened; negative ones count from the end.
      v: values, flattened, repeated or cut to the number of indices.
      mode: for indices out of bounds: None (default) puts them at the edge, "clip" all
        negative ones at the first element, too, "wrap" counts on from the other end.
      inplace: must be False, as arrays do not change. Default True, as in NumPy.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      TypeError: `a`, `ind` or `v` is a list, a string or None; `ind` is not of
        integers.
      ValueError: `mode` is unknown, or `inplace` is True.

    >>> from curta import numpy as jnp
    >>> jnp.put(jnp.zeros(3), jnp.array([0, 2]), 1.0, inplace=False)
    Array([1., 0., 1.], dtype=float32)
    """
    _refuse_inplace("put", inplace)
    a, flat, values = ensure_arraylikes("put", a, ind, v)
    flat, values = ravel(flat), ravel(values)
    if not (a.size and flat.size and values.size):
        return a
    values = _to_length(values, flat.size)
    if dtypes.issubdtype(flat.dtype, np.integer):
        flat = fitting_indices(flat, a.size)
    if mode == "clip":
        flat = clip(flat, 0, a.size - 1)
    elif mode == "wrap":
        flat = remainder(flat, a.size)
    elif mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.put is not supported.")
    elif mode is not None:
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got mode={mode!r}")
    index = unravel_index(flat, a.shape)
    return IndexedUpdate(a, index).set(values, mode="promise_in_bounds")


def place(
    arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True
) -> Array:
    """A copy of `arr` with `vals`, repeated, where `mask` holds.

    Args:
      arr: an array of any shape and dtype.
      mask: an array of as many elements, taken for booleans.
      vals: an array of one element or more, flattened, put down in order and repeated.
      inplace: must be False, as arrays do not change. Default True, as in NumPy.

    Returns:
      An array of the shape and dtype of `arr`.

    Raises:
      TypeError: `arr`, `mask` or `vals` is a list, a string or None.
      ValueError: `mask` has another size, `vals` is empty, or `inplace` is True.

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
    positions = where(ravel(mask), size=mask.size, fill_value=mask.size)[0]
    values = _to_length(ravel(values), positions.size)
    out = IndexedUpdate(ravel(data), positions).set(values, mode="drop")
    return reshape(out, data.shape)


def _to_length(x: Any, size: int) -> Any:
    """The vector `x`, repeated or cut to `size`."""
    if x.size < size:
        x = lax.tile(x, (-(-size // x.size),))
    return lax.slice_in_dim(x, 0, size) if x.size > size else x
