"""Functions that rearrange, cut and join arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.api.out_sharding import takes_out_sharding
from curta.api.placing import reshard
from curta.core.array import Array, ArrayLike, Shape
from curta.core.shapes import (
    broadcast_shapes as broadcast_shapes,
    canonicalize_axes,
    canonicalize_axis,
    canonicalize_shape,
    dim_of,
    integer,
    integers,
    operand_shape,
    sequence,
    static_axes,
)
from curta.core.trace import typeof
from curta.lax.scalars import scalar_array
from curta.primitives.joining import Concatenate, Split, Stack, Unstack
from curta.primitives.shape import Rev, Squeeze, Tile, check_repetitions
from curta.primitives.slicing import Pad, Slice, padding_entries
from curta.primitives.structure import BroadcastInDim, Reshape, Transpose
from curta.runtime.transfer import to_array

_slice = slice  # Python's own; `slice` below is an array function


@takes_out_sharding
def reshape(
    operand: ArrayLike,
    new_sizes: Shape,
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """The elements of `operand`, in row-major order, in shape `new_sizes`.

    Args:
      operand: an array.
      new_sizes: the shape, of as many elements; no size is -1.
      dimensions: the order in which the operand's dims are read; theirs by default.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of shape `new_sizes` and the dtype of `operand`.

    Raises:
      TypeError: if the number of elements differs, for sizes that are not integers or
        negative, and dimensions that are not a permutation.

    >>> import curta
    >>> curta.lax.reshape(curta.numpy.arange(6), (2, 3))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    shape = canonicalize_shape(new_sizes)
    if dimensions is not None:
        dims, result = static_axes(dimensions), operand_shape("reshape", operand)
        if set(dims) != {*range(len(result))} or len(dims) != len(result):
            raise TypeError(
                "reshape dimensions must be a permutation of operand dimensions, got"
                f" dimensions {dims} for shape {result}."
            )
        operand = transpose(operand, dims)
    if shape and isinstance(operand, Array) and operand.shape == shape:
        return operand
    return Reshape(shape)(operand)


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """`operand` with output dim i being its dim `permutation[i]`.

    >>> import curta
    >>> curta.lax.transpose(curta.numpy.ones((2, 3)), (1, 0)).shape
    (3, 2)
    """
    order = tuple(map(operator.index, permutation))
    if isinstance(operand, Array) and order == tuple(range(len(operand.shape))):
        return operand
    return Transpose(order)(operand)


@takes_out_sharding
def broadcast(
    operand: ArrayLike, sizes: Sequence[int], *, out_sharding: Any = None
) -> Array:
    """`operand` repeated along new leading dims of `sizes`.

    Args:
      operand: an array.
      sizes: a sequence of integers.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of shape `(*sizes, *operand.shape)` and the dtype of `operand`.

    Raises:
      TypeError: if sizes are negative or not integers.

    >>> import curta
    >>> curta.lax.broadcast(curta.numpy.ones(3), (2,)).shape
    (2, 3)
    """
    sizes, shape = (
        sequence("broadcast sizes", sizes),
        typeof(operand).shape,
    )
    if not sizes and isinstance(operand, Array):
        return operand
    if not sizes and not shape:
        return scalar_array(operand)
    kept = tuple(range(len(sizes), len(sizes) + len(shape)))
    return broadcast_in_dim(operand, (*sizes, *shape), kept)


@takes_out_sharding
def broadcast_in_dim(
    operand: ArrayLike,
    shape: Shape,
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: Any = None,
) -> Array:
    """`operand` repeated to `shape`, its dim i becoming `broadcast_dimensions[i]`.

    Args:
      operand: an array.
      shape: the shape of the result.
      broadcast_dimensions: the dim of the result for each dim of `operand`, whose size
        is 1 or equal to it.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and the dtype of `operand`.

    Raises:
      TypeError: if shapes and dims do not fit.

    >>> import curta
    >>> curta.lax.broadcast_in_dim(curta.numpy.arange(2), (2, 3), (0,))
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    shape = integers("broadcast_in_dim shape", shape)
    dims = integers("broadcast_in_dim broadcast_dimensions", broadcast_dimensions)
    if isinstance(operand, Array) and dims == tuple(range(len(shape))):
        if operand.shape == shape:
            return operand
    if list(dims) != sorted(dims) and len(dims) == typeof(operand).ndim:
        order = sorted(range(len(dims)), key=dims.__getitem__)
        operand, dims = transpose(operand, order), tuple(dims[i] for i in order)
    return BroadcastInDim(shape, dims)(operand)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """`x` with dims of size 1 in front, up to `rank`.

    >>> import curta
    >>> curta.lax.broadcast_to_rank(curta.numpy.ones(3), 2).shape
    (1, 3)
    """
    missing = rank - typeof(x).ndim
    return broadcast(x, (1,) * missing) if missing else _as_array(x)


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """`arr` repeated to the shape of another array, as NumPy broadcasts.

    Raises ValueError for shapes that do not broadcast.

    >>> import curta
    >>> curta.lax.broadcast_like(curta.numpy.arange(2), curta.numpy.ones((2, 2)))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    like = _as_array(like_arr)
    own, shape = typeof(arr).shape, typeof(like).shape
    lead = len(shape) - len(own)
    if lead < 0:
        raise ValueError(
            "Cannot broadcast to shape with fewer dimensions: arr_shape="
            f"{own} shape={shape}"
        )
    if any(d not in (1, e) for d, e in zip(own, shape[lead:], strict=True)):
        raise ValueError(
            f"Incompatible types for broadcasting: input shape {own} and requested"
            f" shape {shape}"
        )
    arr = _as_array(arr)
    have, want = (typeof(x).sharding.spec.for_rank(typeof(x).ndim) for x in (arr, like))
    if any(e not in (None, to) for e, to in zip(have, want.partitions[lead:])):
        raise ValueError(
            f"Incompatible types for broadcasting: input type={typeof(arr).str_short()}"
            f" and requested type={typeof(like).str_short()}"
        )
    if own != shape:
        arr = broadcast_in_dim(arr, shape, tuple(range(lead, len(shape))))
    moves = have is not want and any(want.partitions)
    result: Any = reshard(arr, want) if moves else arr
    return result


def shape_as_value(shape: Sequence[int]) -> Any:
    """A shape as an array of integers.

    >>> from curta import lax
    >>> lax.shape_as_value((2, 3))
    array([2, 3], dtype=int32)
    """
    sizes = [integer("shape_as_value shape", d) for d in shape]
    dtype = np.int64 if max(sizes, default=0) >> 31 else np.int32
    return np.asarray(sizes, dtypes.canonicalize_dtype(dtype))


def _as_array(x: Any) -> Any:
    return x if isinstance(x, Array) else to_array(x)


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """`array` without some of its dims of size 1.

    Raises ValueError for a dim that does not exist or has another size.

    >>> import curta
    >>> curta.lax.squeeze(curta.numpy.ones((1, 3)), (0,)).shape
    (3,)
    """
    rank = len(operand_shape("squeeze", array))
    dims = tuple(sorted(canonicalize_axes(dimensions, rank)))
    if not dims and isinstance(array, Array):
        return array
    return Squeeze(dims)(array)


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """`array` with dims of size 1 at the positions `dimensions` of the result.

    >>> import curta
    >>> curta.lax.expand_dims(curta.numpy.ones(3), (0, 2)).shape
    (1, 3, 1)
    """
    shape, positions = (
        typeof(array).shape,
        sequence("expand_dims dimensions", dimensions),
    )
    rank = len(shape) + len(positions)
    dims = set(canonicalize_axes(positions, rank))
    if len(dims) != len(positions):
        raise ValueError(f"repeated axis in lax.expand_dims: {positions}")
    kept = tuple(i for i in range(rank) if i not in dims)
    sizes = iter(shape)
    new_shape = tuple(1 if i in dims else next(sizes) for i in range(rank))
    return broadcast_in_dim(array, new_shape, kept)


def collapse(
    operand: Array, start_dimension: int, stop_dimension: int | None = None
) -> Array:
    """`operand` with dims `start_dimension` to `stop_dimension` made into one.

    Args:
      operand: an array.
      start_dimension: the first dim, counted from the end if negative.
      stop_dimension: the dim after the last one; by default all are taken.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      ValueError: if the last dim lies before the first.
      TypeError: if dims are not integers.

    >>> import curta
    >>> curta.lax.collapse(curta.numpy.ones((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = operand_shape("collapse", operand)
    given = start_dimension, stop_dimension
    ends = [d if d is None else integer("collapse dimension", d) for d in given]
    lo, hi, _ = _slice(*ends).indices(len(shape))
    if hi < lo:
        raise ValueError(
            f"Invalid dimension range passed to collapse: {shape}"
            f"[{start_dimension}:{stop_dimension}]"
        )
    return reshape(operand, (*shape[:lo], math.prod(shape[lo:hi]), *shape[hi:]))


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """The part of `operand` from `start_indices` to before `limit_indices`.

    Args:
      operand: an array.
      start_indices, limit_indices: integers, one for each dim; not negative.
      strides: how far elements lie apart; 1 by default.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      TypeError: for indices outside the operand (nothing is clamped), another number of
        them than of dims, and strides that are not positive.

    >>> import curta
    >>> curta.lax.slice(curta.numpy.arange(6), (1,), (6,), (2,))
    Array([1, 3, 5], dtype=int32)
    """
    starts = integers("slice start_indices", start_indices)
    limits = integers("slice limit_indices", limit_indices)
    steps = None if strides is None else integers("slice strides", strides)
    return Slice(starts, limits, steps)(operand)


def slice_in_dim(
    operand: Any,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """`slice` along one axis; negative indices count from the end.

    Args:
      operand: an array.
      start_index, limit_index: integers, or None for the ends.
      stride: how far elements lie apart; 1 by default.
      axis: the axis; 0 by default.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      TypeError: for indices outside the operand or no integers, and a stride that is
        not positive.
      IndexError: if an axis is out of range.

    >>> import curta
    >>> curta.lax.slice_in_dim(curta.numpy.arange(6), -3, None)
    Array([3, 4, 5], dtype=int32)
    """
    shape = operand_shape("slice_in_dim", operand)
    axis = dim_of("slice_in_dim axis", axis, shape)
    size = shape[axis]
    start = 0 if start_index is None else integer("slice_in_dim start", start_index)
    limit = size if limit_index is None else integer("slice_in_dim limit", limit_index)
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis] = start + size if start < 0 else start
    limits[axis] = limit + size if limit < 0 else limit
    strides[axis] = integer("slice_in_dim stride", stride)
    return slice(operand, starts, limits, strides)


def index_in_dim(
    operand: Any, index: int, axis: int = 0, keepdims: bool = True
) -> Array:
    """The slice of size 1 at `index` along `axis`.

    Args:
      operand: an array.
      index: an integer, counted from the end if negative.
      axis: the axis; 0 by default.
      keepdims: whether the result keeps the dim.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      IndexError: if the index is out of bounds or `axis` is out of range.
      TypeError: if the index is not an integer.

    >>> import curta
    >>> curta.lax.index_in_dim(curta.numpy.arange(6), -1, keepdims=False)
    Array(5, dtype=int32)
    """
    axis = int(axis)
    shape = operand_shape("index_in_dim", operand)
    size = shape[dim_of("index_in_dim axis", axis, shape)]
    position = integer("index_in_dim index", index)
    position = position + size if position < 0 else position
    if not 0 <= position < size:
        raise IndexError(
            f"index {index} is out of bounds for axis {axis} with size {size}"
        )
    result = slice_in_dim(operand, position, position + 1, 1, axis)
    return result if keepdims else squeeze(result, (axis,))


def pad(
    operand: ArrayLike,
    padding_value: ArrayLike,
    padding_config: Sequence[tuple[int, int, int]],
) -> Array:
    """`operand` with padding before, after and between its elements.

    Args:
      operand: an array.
      padding_value: a scalar of the operand's dtype.
      padding_config: (low, high, interior) for every dim; negative low and high cut
        elements off.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      ValueError: for a config that does not fit the rank, a negative interior, cutting
        off more than there is, and a value that is not a scalar.
      TypeError: for a value of another dtype.

    >>> import curta
    >>> curta.lax.pad(curta.numpy.arange(3.), 9., ((1, 0, 1),))
    Array([9., 0., 9., 1., 9., 2.], dtype=float32)
    """
    config = padding_entries(padding_config, operand_shape("pad", operand))
    return Pad(config)(operand, padding_value)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """`operand` with the order of elements along `dimensions` reversed.

    >>> import curta
    >>> curta.lax.rev(curta.numpy.arange(3), (0,))
    Array([2, 1, 0], dtype=int32)
    """
    return Rev(integers("rev dimensions", dimensions))(operand)


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """`operand` laid side by side, `reps[i]` times along dim i.

    >>> import curta
    >>> curta.lax.tile(curta.numpy.arange(2), (2,))
    Array([0, 1, 0, 1], dtype=int32)
    """
    reps = sequence("tile reps", reps)
    check_repetitions(reps, len(operand_shape("tile", operand)))
    return Tile(canonicalize_shape(reps))(operand)


def concatenate(operands: Sequence[Any], dimension: int) -> Array:
    """The operands, of one dtype, one after another along `dimension`.

    Raises TypeError for shapes that differ elsewhere, ValueError for no operands.

    >>> import curta
    >>> x = curta.numpy.arange(2)
    >>> curta.lax.concatenate([x, x], 0)
    Array([0, 1, 0, 1], dtype=int32)
    """
    if len(operands) == 0:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    operands = tuple(operands)
    if len(operands) == 1 and isinstance(operands[0], Array):
        return operands[0]
    return Concatenate(integer("concatenate dimension", dimension))(*operands)


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> Sequence[Any]:
    """Consecutive parts of `operand` along `axis`.

    Args:
      operand: an array.
      sizes: the sizes of the parts, which sum to the size of the axis.
      axis: the axis; 0 by default.

    Returns:
      A list of arrays of the dtype of `operand`.

    Raises:
      ValueError: if a size is negative, the sizes have another sum, or `axis` is out of
        range.
      TypeError: if sizes are not integers.

    >>> import curta
    >>> curta.lax.split(curta.numpy.arange(3), (1, 2))
    [Array([0], dtype=int32), Array([1, 2], dtype=int32)]
    """
    axis = canonicalize_axis(axis, len(operand_shape("split", operand)))
    return list(Split(integers("split sizes", sizes, None), axis)(operand))


def stack(operands: Sequence[Any], axis: int = 0) -> Array:
    """The operands, of one shape, along a new dim at position `axis`.

    >>> import curta
    >>> curta.lax.stack([curta.numpy.zeros(3)] * 2).shape
    (2, 3)
    """
    operands = tuple(operands)
    if not operands:
        raise ValueError("stack requires a non-empty sequence of arrays")
    return Stack(canonicalize_axis(axis, len(operand_shape("stack", operands[0])) + 1))(
        *operands
    )


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Any, ...]:
    """The slices of `x` along `axis`, without that dim.

    >>> import curta
    >>> curta.lax.unstack(curta.numpy.arange(2))
    (Array(0, dtype=int32), Array(1, dtype=int32))
    """
    return tuple(Unstack(canonicalize_axis(axis, len(operand_shape("unstack", x))))(x))
