"""Reading and writing parts of arrays at places that are data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.api.inner import inner_jit
from curta.config import config
from curta.core.array import Array, ArrayLike, Shape
from curta.core.avals import is_python_scalar
from curta.core.dim import as_dim
from curta.core.shapes import canonicalize_shape, dim_of, operand_shape, sequence
from curta.core.trace import operand_type, typeof
from curta.lax.bounds import check_index_vectors, check_windows
from curta.lax.shape import concatenate, expand_dims, squeeze
from curta.primitives.dims import dim_value
from curta.primitives.elementwise import add, convert_element_type, lt, rem, select_n
from curta.primitives.indexing import (
    DynamicSlice,
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
    dynamic_update_slice as _dynamic_update_slice,
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

    `mode` says what becomes of windows not inside the operand: "clip" moves them
    inside, "fill" gives `fill_value` (by default NaN, the least integer, the greatest
    unsigned one, True), "promise_in_bounds" says that there are none.

    Raises TypeError for dimension numbers that do not fit the operands.

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

    Windows that do not lie inside the operand are dropped, or moved inside if `mode`
    is "clip". Raises TypeError for dimension numbers that do not fit the operands.

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
    """`operand` with `updates` added to windows of it; see `scatter`.

    >>> import curta
    >>> from curta import lax
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, i = curta.numpy.zeros(3), curta.numpy.array([[2], [2]])
    >>> lax.scatter_add(x, i, curta.numpy.ones(2), numbers)
    Array([0., 0., 2.], dtype=float32)
    """
    return _scatter(
        ScatterAdd,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
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
    """`operand` with `updates` subtracted from windows of it; see `scatter`.

    >>> import curta
    >>> from curta import lax
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, i = curta.numpy.arange(3.0), curta.numpy.array([[2], [2]])
    >>> lax.scatter_sub(x, i, curta.numpy.ones(2), numbers)
    Array([0., 1., 0.], dtype=float32)
    """
    return _scatter(
        ScatterSub,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
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
    """`operand` with windows of it multiplied by `updates`; see `scatter`.

    >>> import curta
    >>> from curta import lax
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, i = curta.numpy.arange(3.0), curta.numpy.array([[2], [2]])
    >>> lax.scatter_mul(x, i, curta.numpy.array([2.0, 5.0]), numbers)
    Array([ 0.,  1., 20.], dtype=float32)
    """
    return _scatter(
        ScatterMul,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
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
    """`operand` with the lesser of it and `updates` in windows; see `scatter`.

    >>> import curta
    >>> from curta import lax
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, i = curta.numpy.arange(3.0), curta.numpy.array([[2], [2]])
    >>> lax.scatter_min(x, i, curta.numpy.array([1.0, 5.0]), numbers)
    Array([0., 1., 1.], dtype=float32)
    """
    return _scatter(
        ScatterMin,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
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
    """`operand` with the greater of it and `updates` in windows; see `scatter`.

    >>> import curta
    >>> from curta import lax
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, i = curta.numpy.arange(3.0), curta.numpy.array([[2], [2]])
    >>> lax.scatter_max(x, i, curta.numpy.array([1.0, 5.0]), numbers)
    Array([0., 1., 5.], dtype=float32)
    """
    return _scatter(
        ScatterMax,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


# ---- dynamic slices


def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Shape,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """The window of `slice_sizes` at `start_indices`, which may be traced.

    Negative indices count from the end, if allowed. A window not inside the operand is
    moved inside. Raises TypeError for sizes greater than the operand's.

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

    Negative indices count from the end, if allowed. A window not inside the operand is
    moved inside. Raises TypeError for an update greater than the operand.

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
    return signed and type(size) is int and size > dtypes.iinfo(dtype).max


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

    >>> import curta
    >>> curta.lax.dynamic_slice_in_dim(curta.numpy.arange(5), 1, 2)
    Array([1, 2], dtype=int32)
    """
    shape = operand_shape("dynamic_slice_in_dim", operand)
    sizes, axis = list(shape), int(axis)
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

    >>> import curta
    >>> x = curta.numpy.zeros(4)
    >>> curta.lax.dynamic_update_slice_in_dim(x, curta.numpy.ones(2), 1, 0)
    Array([0., 1., 1., 0.], dtype=float32)
    """
    rank = len(operand_shape("dynamic_update_slice_in_dim", operand))
    return dynamic_update_slice(
        operand,
        update,
        _starts_in_dim(start_index, rank, axis),
        allow_negative_indices=allow_negative_indices,
    )


def _starts_in_dim(start: Any, rank: int, axis: int) -> list[Any]:
    zero = 0 if is_python_scalar(start) else np.zeros((), dtypes.dtype(start))[()]
    starts = [zero] * rank
    starts[int(axis)] = start
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
    """The slice of size 1 at a place that may be traced.

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
    """`operand` with the slice of size 1 at a place that may be traced replaced.

    >>> import curta
    >>> curta.lax.dynamic_update_index_in_dim(curta.numpy.zeros(3), 1., 1, 0)
    Array([0., 1., 0.], dtype=float32)
    """
    if typeof(update).ndim == typeof(operand).ndim - 1:
        update = expand_dims(update, (int(axis),))
    return dynamic_update_slice_in_dim(
        operand, update, index, axis, allow_negative_indices=allow_negative_indices
    )


def index_take(src: Array, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """The slices of `src` at places `idxs` along `axes`; the places become dim 0.

    Places out of bounds are taken modulo the size.

    >>> import curta
    >>> places = (curta.numpy.array([2, -3]),)
    >>> curta.lax.index_take(curta.numpy.arange(3) * 10, places, (0,))
    Array([20,  0], dtype=int32)
    """
    shape = operand_shape("index_take", src)
    axes = sequence("index_take axes", axes)
    for axis in axes:
        dim_of("index_take axes", axis, shape)
    if not axes:
        raise ValueError("indices must have an integer type: index_take got no axes")
    places = concatenate([expand_dims(i, (1,)) for i in idxs], 1)
    dtype = typeof(places).dtype
    bounds = np.array([shape[a] for a in axes], dtype)
    bounds = bounds.reshape(*[1] * (typeof(places).ndim - 1), -1)
    places = rem(places, bounds)
    zero = np.zeros((), dtype)[()]
    places = select_n(lt(places, zero), places, add(places, bounds))
    sizes = [1 if d in axes else size for d, size in enumerate(shape)]
    kept = tuple(range(1, len(shape) - len(axes) + 1))
    numbers = GatherDimensionNumbers(kept, axes, axes)
    return gather(src, places, numbers, sizes)
