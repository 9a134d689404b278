"""Reading and writing parts of arrays at indices that are data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.config import config
from curta.core.array import Array, ArrayLike, Shape
from curta.core.shapes import canonicalize_shape, dim_of, operand_shape, sequence
from curta.core.trace import operand_type, typeof
from curta.lax.bounds import check_index_vectors
from curta.lax.index_types import fitting_indices
from curta.lax.shape import concatenate, expand_dims
from curta.primitives.elementwise import add, lt, rem, select_n
from curta.primitives.indexing import (
    Gather,
    GatherDimensionNumbers,
    GatherScatterMode,
    Scatter,
    ScatterAdd,
    ScatterDimensionNumbers,
    Scattering,
    ScatterMax,
    ScatterMin,
    ScatterMul,
    ScatterSub,
)
from curta.primitives.indexing.numbers import require_kind, window_sizes


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Array:
    """Windows of `operand` that start at the index vectors in `start_indices`.

    Args:
      operand: an array.
      start_indices: integers; the vectors lie along the last dim.
      dimension_numbers: a `GatherDimensionNumbers`.
      slice_sizes: the shape of the windows, an entry for each dim of `operand`.
      unique_indices, indices_are_sorted: promises about the vectors; False by default.
      mode: what becomes of windows not inside the operand: "clip" moves them inside,
        "fill" gives `fill_value`, "promise_in_bounds" (the default) says that there are
        none.
      fill_value: a scalar; by default NaN, the least integer, the greatest unsigned
        one, True.

    Returns:
      An array of the dtype of `operand`.

    Raises:
      TypeError: for dimension numbers and sizes that do not fit the operands.
      ValueError: if indices are not integers or the mode is unknown.

    >>> import curta
    >>> from curta import lax
    >>> numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    >>> x = curta.numpy.array([10, 20, 30])
    >>> lax.gather(x, curta.numpy.array([[2], [0]]), numbers, (1,))
    Array([30, 10], dtype=int32)
    """
    require_kind("gather", GatherDimensionNumbers, dimension_numbers)
    if mode is None:
        mode = GatherScatterMode.PROMISE_IN_BOUNDS
    mode = GatherScatterMode.from_any(mode)
    if mode is GatherScatterMode.PROMISE_IN_BOUNDS:
        axes = dimension_numbers.start_index_map
        check_index_vectors(operand, axes, start_indices, slice_sizes)
    if mode is not GatherScatterMode.FILL_OR_DROP:
        fill_value = None
    else:
        fill_value = _fill_value(typeof(operand).dtype, fill_value)
    op = Gather(
        dimension_numbers,
        canonicalize_shape(slice_sizes),
        bool(indices_are_sorted),
        bool(unique_indices),
        mode,
        fill_value,
    )
    return op(operand, start_indices)


def _fill_value(dtype: Any, value: Any) -> Any:
    """What windows outside the operand read; by default what `gather` says."""
    if isinstance(dtype, dtypes.KeyDType):
        word = int(np.iinfo(np.uint32).max) if value is None else value
        return dtypes.KeyFill(word, dtype.words)
    if value is not None:
        return value
    if dtypes.issubdtype(dtype, np.inexact):
        return np.nan
    if dtypes.issubdtype(dtype, np.signedinteger):
        return int(dtypes.iinfo(dtype).min)
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return int(dtypes.iinfo(dtype).max)
    if dtype == np.bool_:
        return True
    raise ValueError(f"Unsupported dtype for gather fill_value {dtype}")


def scatter(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """`operand` with windows of it replaced by `updates`.

    Where windows overlap, which update is kept is not said.

    Args:
      operand: an array.
      scatter_indices: integers; the index vectors lie along the last dim.
      updates: the windows, of the dtype of `operand`.
      dimension_numbers: a `ScatterDimensionNumbers`.
      indices_are_sorted, unique_indices: promises about the vectors; False by default.
      mode: what becomes of windows not inside the operand: "clip" moves them inside;
        they are dropped by default, and with "fill"; "promise_in_bounds" says that
        there are none.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: for dimension numbers and updates that do not fit the operands, and
        dtypes that differ.
      ValueError: if indices are not integers or the mode is unknown.

    >>> import curta
    >>> from curta import lax
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, i = curta.numpy.zeros(3), curta.numpy.array([[2]])
    >>> lax.scatter(x, i, curta.numpy.ones(1), numbers)
    Array([0., 0., 1.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, mode)
    return _scatter(Scatter, operand, scatter_indices, updates, dimension_numbers, *how)


def _scatter(
    cls: type[Scattering],
    operand: Any,
    indices: Any,
    updates: Any,
    numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Any,
) -> Any:
    require_kind(cls.name, ScatterDimensionNumbers, numbers)
    op = cls.of(
        operand_type(cls.name, 0, operand).dtype,
        numbers,
        bool(indices_are_sorted),
        bool(unique_indices),
        GatherScatterMode.from_any(mode),
    )
    out = op(operand, indices, updates)
    promised = mode is None or op.mode is GatherScatterMode.PROMISE_IN_BOUNDS
    if promised and config.curta_debug_index:
        rank = typeof(operand).ndim
        sizes = window_sizes(op.gather_numbers(), typeof(updates).shape, rank)
        axes = numbers.scatter_dims_to_operand_dims
        check_index_vectors(operand, axes, indices, sizes)
    return out


def scatter_add(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """`operand` with `updates` added to windows of it.

    Args:
      operand, updates: arrays of numbers of one dtype.
      scatter_indices, dimension_numbers, indices_are_sorted, unique_indices, mode: as
        for `scatter`.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: where `scatter` does, and for booleans.
      ValueError: where `scatter` does.

    >>> import curta
    >>> from curta import lax
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, i = curta.numpy.zeros(3), curta.numpy.array([[2], [2]])
    >>> lax.scatter_add(x, i, curta.numpy.ones(2), numbers)
    Array([0., 0., 2.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, mode)
    return _scatter(
        ScatterAdd, operand, scatter_indices, updates, dimension_numbers, *how
    )


def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """`operand` with `updates` subtracted from windows of it.

    Args:
      operand, updates: arrays of numbers of one dtype.
      scatter_indices, dimension_numbers, indices_are_sorted, unique_indices, mode: as
        for `scatter`.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: where `scatter` does, and for booleans.
      ValueError: where `scatter` does.

    >>> import curta
    >>> from curta import lax
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, i = curta.numpy.arange(3.0), curta.numpy.array([[2], [2]])
    >>> lax.scatter_sub(x, i, curta.numpy.ones(2), numbers)
    Array([0., 1., 0.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, mode)
    return _scatter(
        ScatterSub, operand, scatter_indices, updates, dimension_numbers, *how
    )


def scatter_mul(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """`operand` with windows of it multiplied by `updates`.

    Args:
      operand, updates: arrays of numbers of one dtype.
      scatter_indices, dimension_numbers, indices_are_sorted, unique_indices, mode: as
        for `scatter`.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: where `scatter` does, and for booleans.
      ValueError: where `scatter` does.

    >>> import curta
    >>> from curta import lax
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, i = curta.numpy.arange(3.0), curta.numpy.array([[2], [2]])
    >>> lax.scatter_mul(x, i, curta.numpy.array([2.0, 5.0]), numbers)
    Array([ 0.,  1., 20.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, mode)
    return _scatter(
        ScatterMul, operand, scatter_indices, updates, dimension_numbers, *how
    )


def scatter_min(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """`operand` with the lesser of it and `updates` in windows.

    Args:
      operand, updates: arrays of one dtype.
      scatter_indices, dimension_numbers, indices_are_sorted, unique_indices, mode: as
        for `scatter`.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError, ValueError: where `scatter` does.

    >>> import curta
    >>> from curta import lax
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, i = curta.numpy.arange(3.0), curta.numpy.array([[2], [2]])
    >>> lax.scatter_min(x, i, curta.numpy.array([1.0, 5.0]), numbers)
    Array([0., 1., 1.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, mode)
    return _scatter(
        ScatterMin, operand, scatter_indices, updates, dimension_numbers, *how
    )


def scatter_max(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """`operand` with the greater of it and `updates` in windows.

    Args:
      operand, updates: arrays of one dtype.
      scatter_indices, dimension_numbers, indices_are_sorted, unique_indices, mode: as
        for `scatter`.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError, ValueError: where `scatter` does.

    >>> import curta
    >>> from curta import lax
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, i = curta.numpy.arange(3.0), curta.numpy.array([[2], [2]])
    >>> lax.scatter_max(x, i, curta.numpy.array([1.0, 5.0]), numbers)
    Array([0., 1., 5.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, mode)
    return _scatter(
        ScatterMax, operand, scatter_indices, updates, dimension_numbers, *how
    )


# ---- dynamic slices


def index_take(src: Array, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """The slices of `src` at indices `idxs` along `axes`; they become dim 0.

    Args:
      src: an array.
      idxs: vectors of integers of one length, one for each axis. Indices out of bounds
        are taken modulo the size.
      axes: the axes, not negative.

    Returns:
      An array of the dtype of `src`, with one dim instead of the axes.

    Raises:
      IndexError: if an axis is out of range.
      ValueError: for no axes, and indices that are not integers.
      TypeError: for another number of vectors than of axes.

    >>> import curta
    >>> indices = (curta.numpy.array([2, -3]),)
    >>> curta.lax.index_take(curta.numpy.arange(3) * 10, indices, (0,))
    Array([20,  0], dtype=int32)
    """
    shape = operand_shape("index_take", src)
    axes = sequence("index_take axes", axes)
    for axis in axes:
        dim_of("index_take axes", axis, shape)
    if not axes:
        raise ValueError("indices must have an integer type: index_take got no axes")
    sizes = [shape[a] for a in axes]
    vectors = [expand_dims(fitting_indices(i, *sizes), (1,)) for i in idxs]
    indices = concatenate(vectors, 1)
    dtype = typeof(indices).dtype
    bounds = np.array(sizes, dtype)
    bounds = bounds.reshape(*[1] * (typeof(indices).ndim - 1), -1)
    indices = rem(indices, bounds)
    zero = np.zeros((), dtype)[()]
    indices = select_n(lt(indices, zero), indices, add(indices, bounds))
    sizes = [1 if d in axes else size for d, size in enumerate(shape)]
    kept = tuple(range(1, len(shape) - len(axes) + 1))
    numbers = GatherDimensionNumbers(kept, axes, axes)
    return gather(src, indices, numbers, sizes)
