"""Windows of arrays at starts that are data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike, Shape
from curta.core.avals import is_python_scalar
from curta.core.dim import as_dim
from curta.core.shapes import canonicalize_shape, dim_of, operand_shape
from curta.core.trace import operand_type, typeof
from curta.lax.bounds import check_windows
from curta.lax.index_types import fitting_dtype
from curta.lax.shape import expand_dims, squeeze
from curta.primitives.dims import dim_value
from curta.primitives.elementwise import add, convert_element_type, lt, select_n
from curta.primitives.indexing import (
    DynamicSlice,
    dynamic_update_slice as _dynamic_update_slice,
)


def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Shape,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """The window of `slice_sizes` at `start_indices`, which may be traced.

    A window not inside the operand is moved inside.

    Args:
      operand: an array.
      start_indices: an integer scalar for each dim, or a vector of them.
      slice_sizes: the shape of the window.
      allow_negative_indices: whether negative indices count from the end; True by
        default, or one answer for each dim.

    Returns:
      An array of shape `slice_sizes` and the dtype of `operand`.

    Raises:
      TypeError: for sizes greater than the operand's, negative or traced, and indices
        that are not integer scalars.
      ValueError: for another number of indices than of dims, and a known negative index
        where none is allowed.

    >>> import curta
    >>> curta.lax.dynamic_slice(curta.numpy.arange(5), (3,), (3,))
    Array([2, 3, 4], dtype=int32)
    """
    starts = _start_indices(
        "dynamic_slice", operand, start_indices, allow_negative_indices
    )
    sizes = canonicalize_shape(slice_sizes)
    check_windows(operand, start_indices, allow_negative_indices, sizes)
    return DynamicSlice(sizes)(operand, *starts)


def dynamic_update_slice(
    operand: Any,
    update: ArrayLike,
    start_indices: Array | Sequence[ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """`operand` with the window at `start_indices` replaced by `update`.

    A window not inside the operand is moved inside.

    Args:
      operand: an array.
      update: an array of the same rank and dtype, which is not greater.
      start_indices, allow_negative_indices: as for `dynamic_slice`.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: for an update greater than the operand, or of another rank or dtype.
      ValueError: where `dynamic_slice` does.

    >>> import curta
    >>> x = curta.numpy.zeros(4)
    >>> curta.lax.dynamic_update_slice(x, curta.numpy.ones(2), (1,))
    Array([0., 1., 1., 0.], dtype=float32)
    """
    starts = _start_indices(
        "dynamic_update_slice", operand, start_indices, allow_negative_indices
    )
    sizes = operand_type(_dynamic_update_slice.name, 1, update).shape
    check_windows(operand, start_indices, allow_negative_indices, sizes)
    return _dynamic_update_slice(operand, update, *starts)


def _start_indices(name: str, operand: Any, starts: Any, allow: Any) -> list[Any]:
    """A scalar for each dim of `operand`, negative ones counted from the end."""
    shape = operand_shape(name, operand)
    if len(starts) != len(shape):
        raise ValueError(
            "Length of slice indices must match number of operand dimensions"
            f" ({len(starts)} vs {shape})"
        )
    if not isinstance(starts, (tuple, list)):
        if len(typeof(starts).shape) != 1:
            raise ValueError(
                f"Slice indices must be a 1D sequence, got {typeof(starts).shape}"
            )
        starts = list(starts)
    allowed = [allow] * len(shape) if isinstance(allow, bool) else list(allow)
    if len(allowed) != len(shape):
        raise ValueError(
            f"allow_negative_indices must have an entry for each of {len(shape)} dims,"
            f" got {allow}"
        )
    if any(map(_too_narrow, starts, shape)):
        starts = [convert_element_type(i, np.int32) for i in starts]
    return [
        _start_index(i, size, negative)
        for i, size, negative in zip(starts, shape, allowed, strict=True)
    ]


def _too_narrow(i: Any, size: Any) -> bool:
    """Whether an index, counted from the end, cannot be told in its own dtype."""
    dtype = dtypes.dtype(i)
    signed = dtypes.issubdtype(dtype, np.signedinteger)
    return signed and fitting_dtype(dtype, size) != dtype


def _start_index(i: Any, size: int, allow_negative: bool) -> Any:
    dtype = dtypes.dtype(i)
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return i
    if isinstance(i, (int, np.integer)):
        if type(i) is int and i.bit_length() > 31:
            info = dtypes.iinfo(dtype)  # beyond all dims, whatever the number
            i = min(max(i, int(info.min)), int(info.max))
        if i < 0 and not allow_negative:
            raise ValueError(
                f"Index {i} is out of bounds for dimension {size} if"
                " allow_negative_indices=False"
            )
        return dim_value(i + size, dtype) if i < 0 else np.asarray(i, dtype)[()]
    if not allow_negative or not dtypes.issubdtype(dtype, np.integer):
        return i
    zero = np.asarray(0, dtype)[()]
    bound = dim_value(size, dtype)
    # A weakly typed index and a strongly typed bound: the sum is to be strong.
    return select_n(lt(i, zero), i, add(convert_element_type(i, dtype), bound))


def dynamic_slice_in_dim(
    operand: Any,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_slice` along one axis.

    Args:
      operand: an array.
      start_index: an integer scalar, which may be traced.
      slice_size: the size along the axis, a known integer.
      axis: the axis; 0 by default.
      allow_negative_indices: whether a negative index counts from the end.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      TypeError: for a size greater than the operand's, and an index that is not an
        integer scalar.
      IndexError: if an axis is out of range.

    >>> import curta
    >>> curta.lax.dynamic_slice_in_dim(curta.numpy.arange(5), 1, 2)
    Array([1, 2], dtype=int32)
    """
    shape = operand_shape("dynamic_slice_in_dim", operand)
    sizes = list(shape)
    axis = dim_of("dynamic_slice_in_dim axis", int(axis), shape)
    sizes[axis] = as_dim(slice_size)
    return dynamic_slice(
        operand,
        _starts_in_dim(start_index, len(shape), axis),
        sizes,
        allow_negative_indices=allow_negative_indices,
    )


def dynamic_update_slice_in_dim(
    operand: Any,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_update_slice` along one axis.

    Args:
      operand: an array.
      update: an array of the same rank and dtype, which is not greater.
      start_index: an integer scalar, which may be traced.
      axis: the axis.
      allow_negative_indices: whether a negative index counts from the end.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: for an update greater than the operand, or of another rank or dtype.
      IndexError: if an axis is out of range.

    >>> import curta
    >>> x = curta.numpy.zeros(4)
    >>> curta.lax.dynamic_update_slice_in_dim(x, curta.numpy.ones(2), 1, 0)
    Array([0., 1., 1., 0.], dtype=float32)
    """
    shape = operand_shape("dynamic_update_slice_in_dim", operand)
    axis = dim_of("dynamic_update_slice_in_dim axis", int(axis), shape)
    return dynamic_update_slice(
        operand,
        update,
        _starts_in_dim(start_index, len(shape), axis),
        allow_negative_indices=allow_negative_indices,
    )


def _starts_in_dim(start: Any, rank: int, axis: int) -> list[Any]:
    zero = 0 if is_python_scalar(start) else np.zeros((), dtypes.dtype(start))[()]
    starts = [zero] * rank
    starts[axis] = start
    return starts


@inner_jit(static_argnames=("axis", "keepdims", "allow_negative_indices"))
def dynamic_index_in_dim(
    operand: Any,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The slice of size 1 at an index that may be traced.

    Args:
      operand: an array.
      index: an integer scalar. An index outside is moved inside.
      axis: the axis; 0 by default.
      keepdims: whether the result keeps the dim.
      allow_negative_indices: whether a negative index counts from the end.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      TypeError: if an index is not an integer scalar.
      IndexError: if an axis is out of range.

    >>> import curta
    >>> curta.lax.dynamic_index_in_dim(curta.numpy.arange(5), 3, keepdims=False)
    Array(3, dtype=int32)
    """
    result = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    return result if keepdims else squeeze(result, (axis,))


@inner_jit(static_argnames=("axis", "allow_negative_indices"))
def dynamic_update_index_in_dim(
    operand: Any,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`operand` with the slice of size 1 at an index that may be traced replaced.

    Args:
      operand: an array.
      update: the slice, of the same dtype, with the dim or without it.
      index: an integer scalar. An index outside is moved inside.
      axis: the axis.
      allow_negative_indices: whether a negative index counts from the end.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: for an update of another dtype, and an index that is not an integer
          scalar.
      ValueError, IndexError: if an axis is out of range.

    >>> import curta
    >>> curta.lax.dynamic_update_index_in_dim(curta.numpy.zeros(3), 1., 1, 0)
    Array([0., 1., 0.], dtype=float32)
    """
    if typeof(update).ndim == typeof(operand).ndim - 1:
        update = expand_dims(update, (int(axis),))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )
