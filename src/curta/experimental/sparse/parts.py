"""Parts of arrays in batched coordinates: slices and gathers."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import curta.numpy as jnp
from curta import lax
from curta.api.tracing import eval_shape
from curta.api.vmap import vmap
from curta.core.shape_struct import ShapeDtypeStruct
from curta.experimental.sparse.coordinates import (
    Coordinates,
    full_batch,
    is_inside,
    row_of,
    sparse_shape,
    where_inside,
)
from curta.experimental.sparse.layout import bcoo_sum_duplicates, fewer
from curta.experimental.sparse.rearranging import (
    bcoo_reshape,
    bcoo_squeeze,
    bcoo_transpose,
)
from curta.primitives.indexing.numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    require_kind,
)


def bcoo_slice(
    mat: Coordinates,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """A part of the array, as by `lax.slice`.

    Args:
      mat: a `BCOO`.
      start_indices, limit_indices: integers, one for each dim.
      strides: how far elements lie apart; 1 by default.

    Returns:
      A `BCOO` of the same dtype.

    Raises:
      TypeError: if the argument is not a `BCOO`.
      ValueError: for indices outside, other numbers of them, and strides that are not
        positive.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcoo_slice(x, start_indices=(0, 1), limit_indices=(2, 3)).todense()
    Array([[0, 2],
           [3, 0]], dtype=int32)
    """
    if not isinstance(mat, Coordinates):
        raise TypeError(
            f"bcoo_slice: input should be BCOO array, got type(mat)={type(mat)}"
        )
    starts, stops = (
        [operator.index(i) for i in part] for part in (start_indices, limit_indices)
    )
    steps = [1] * mat.ndim if strides is None else [operator.index(i) for i in strides]
    if not len(starts) == len(stops) == len(steps) == mat.ndim:
        raise ValueError(f"bcoo_slice: indices must have size mat.ndim={mat.ndim}")
    if any(step <= 0 for step in steps):
        raise ValueError(
            f"strides must be a sequence of positive integers; got {steps}"
        )
    if not all(0 <= i <= j <= size for i, j, size in zip(starts, stops, mat.shape)):
        raise ValueError(
            f"bcoo_slice: invalid indices. Got start_indices={starts},"
            f" limit_indices={stops} and shape={mat.shape}"
        )
    n_batch, end = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = full_batch(mat)
    shape = [-(-(j - i) // step) for i, j, step in zip(starts, stops, steps)]
    ranges = [slice(*part) for part in zip(starts, stops, steps)]
    data = data[(*ranges[:n_batch], slice(None), *ranges[end:])]
    indices = indices[tuple(ranges[:n_batch])]
    first, step, stop = (
        row_of(x[n_batch:end], indices) for x in (starts, steps, stops)
    )
    inside = (indices >= first) & (indices < stop) & ((indices - first) % step == 0)
    return _cut(mat, data, (indices - first) // step, inside.all(-1), shape)


def _cut(
    mat: Coordinates, data: Any, indices: Any, inside: Any, shape: Sequence[int]
) -> Any:
    """The array of `shape` of the elements inside, with nothing stored needlessly."""
    sizes = tuple(shape[mat.n_batch : mat.n_batch + mat.n_sparse])
    indices = jnp.where(inside[..., None], indices, row_of(sizes, indices))
    out = mat.made((where_inside(inside, data), indices), shape=shape)
    most = math.prod(sizes)
    return bcoo_sum_duplicates(out, nse=most) if sizes and out.nse > most else out


def bcoo_dynamic_slice(
    mat: Coordinates, start_indices: Sequence[Any], slice_sizes: Sequence[int]
) -> Any:
    """A part of known size from a traced start on, as by `lax.dynamic_slice`.

    Args:
      mat: a `BCOO`.
      start_indices: integer scalars, one for each dim.
      slice_sizes: the shape of the part.

    Returns:
      A `BCOO` of shape `slice_sizes` and the same dtype.

    Raises:
      TypeError: if the argument is not a `BCOO`, sizes do not match, or indices are not
          integers.
      ValueError: if the number of indices is not the number of dims.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcoo_dynamic_slice(x, (jnp.int32(1), 0), (1, 2)).todense()
    Array([[0, 3]], dtype=int32)
    """
    if not isinstance(mat, Coordinates):
        raise TypeError(
            f"bcoo_slice: input should be BCOO array, got type(mat)={type(mat)}"
        )
    sizes = tuple(map(operator.index, slice_sizes))
    starts = [jnp.asarray(start) for start in start_indices]
    eval_shape(  # the errors of lax.dynamic_slice
        lambda x, *starts: lax.dynamic_slice(x, starts, sizes),
        ShapeDtypeStruct(mat.shape, mat.dtype),
        *starts,
    )
    n_batch, end = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = full_batch(mat)
    zero = jnp.zeros((), starts[0].dtype if starts else jnp.int32)
    data = lax.dynamic_slice(
        data,
        [*starts[:n_batch], zero, *starts[end:]],
        (*sizes[:n_batch], mat.nse, *sizes[end:]),
    )
    indices = lax.dynamic_slice(
        indices,
        [*starts[:n_batch], zero, zero],
        (*sizes[:n_batch], mat.nse, mat.n_sparse),
    )
    if mat.n_sparse:
        whole = row_of(sparse_shape(mat), indices)
        part = row_of(sizes[n_batch:end], indices)
        first = jnp.stack(starts[n_batch:end]).astype(indices.dtype)
        first = first.reshape(whole.shape)
        first = jnp.where(first < 0, first + whole, first)
        indices = indices - jnp.clip(first, 0, whole - part)
    return _cut(mat, data, indices, is_inside(indices, sizes[n_batch:end]), sizes)


def padded(mat: Coordinates, config: Sequence[tuple[int, int, int]]) -> Any:
    """The array with zeros around and between its elements, as by `lax.pad`.

    `config` has for each dim how many go before, after and between; less than none
    cuts elements off.
    """
    shape = eval_shape(
        lambda x: lax.pad(x, jnp.zeros((), mat.dtype), config),
        ShapeDtypeStruct(mat.shape, mat.dtype),
    ).shape
    n_batch, end = mat.n_batch, mat.n_batch + mat.n_sparse
    if any(any(part) for part in (*config[:n_batch], *config[end:])):
        mat = fewer(mat, 0, 0)
        n_batch, end = 0, mat.ndim
    low, _, between = zip(*config[n_batch:end])
    there = is_inside(mat.indices, sparse_shape(mat))
    step = row_of([n + 1 for n in between], mat.indices)
    indices = mat.indices * step + row_of(low, mat.indices)
    inside = there & is_inside(indices, shape[n_batch:end])
    return _cut(mat, mat.data, indices, inside, shape)


def bcoo_gather(
    operand: Coordinates,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Any:
    """`lax.gather` of an array in batched coordinates.

    Args:
      operand: a `BCOO`.
      start_indices, dimension_numbers, slice_sizes: as for `lax.gather`.
      unique_indices, indices_are_sorted: as for `lax.gather`.
      mode: "promise_in_bounds" (the default) or "clip".
      fill_value: of no effect with these modes.

    Returns:
      A `BCOO` of the same dtype.

    Raises:
      NotImplementedError: for other modes, and batching dims.
      TypeError: if an argument is not a `BCOO` or the dimension numbers are invalid, or
          indices are not integers.
      ValueError: if the mode is unknown.

    >>> from curta import lax, numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(10 * jnp.arange(4))
    >>> numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    >>> sparse.bcoo_gather(x, jnp.array([[3], [1]]), numbers, (1,)).todense()
    Array([30, 10], dtype=int32)
    """
    require_kind("bcoo_gather", GatherDimensionNumbers, dimension_numbers)
    mode = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else mode
    allowed = GatherScatterMode.PROMISE_IN_BOUNDS, GatherScatterMode.CLIP
    if GatherScatterMode.from_any(mode) not in allowed:
        raise NotImplementedError(f"bcoo_gather: mode={mode} not yet supported.")
    if dimension_numbers.operand_batching_dims:
        raise NotImplementedError("bcoo_gather with batching dimensions.")
    start_indices = jnp.asarray(start_indices)
    collapsed = dimension_numbers.collapsed_slice_dims
    chosen = dimension_numbers.start_index_map
    sizes = tuple(slice_sizes)

    def part(start: Any) -> Any:
        starts = [jnp.zeros((), start.dtype)] * operand.ndim
        for i, dim in enumerate(chosen):
            most = operand.shape[dim] - sizes[dim]
            starts[dim] = jnp.clip(start[i], 0, most)
        result = bcoo_dynamic_slice(operand, starts, sizes)
        return bcoo_squeeze(result, dimensions=collapsed)

    batch = start_indices.shape[:-1]
    count = math.prod(batch)
    parts = vmap(part)(start_indices.reshape(count, start_indices.shape[-1]))
    out = bcoo_reshape(parts, new_sizes=(*batch, *parts.shape[1:]))
    offset = tuple(dimension_numbers.offset_dims)
    rest = [i for i in range(out.ndim) if i not in offset]
    order = [0] * out.ndim
    for position, dim in enumerate((*rest, *offset)):
        order[dim] = position
    if order == sorted(order):
        return out
    if set(order[: out.n_batch]) != set(range(out.n_batch)):
        out = fewer(out, 0, out.n_dense)
    if out.n_dense and order[-out.n_dense :] != sorted(order)[-out.n_dense :]:
        out = fewer(out, out.n_batch, 0)
    return bcoo_transpose(out, permutation=order)
