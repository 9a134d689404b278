"""Arrays in batched coordinates in another order, shape, or part."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta.experimental.sparse.coordinates import (
    Coordinates,
    from_linear,
    full_batch,
    linear_index,
)
from curta.experimental.sparse.layout import fewer, unbatched


def bcoo_transpose(mat: Coordinates, *, permutation: Sequence[int]) -> Any:
    """The array with its dims in another order.

    Batch, sparse and dense dims each stay among themselves: NotImplementedError.
    """
    if not isinstance(permutation, (tuple, list, np.ndarray)):
        raise TypeError(
            "transpose permutation must be a tuple/list/ndarray, got"
            f" {type(permutation)}."
        )
    order = [operator.index(p) for p in permutation]
    if sorted(order) != list(range(mat.ndim)):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, got"
            f" permutation {permutation} for shape {mat.shape}."
        )
    n_batch, n_sparse = mat.n_batch, mat.n_sparse
    end = n_batch + n_sparse
    batch, sparse, dense = order[:n_batch], order[n_batch:end], order[end:]
    if sorted(batch) != list(range(n_batch)):
        raise NotImplementedError(
            "transpose permutation cannot permute batch axes with non-batch axes; got"
            f" permutation {permutation}, with n_batch={n_batch}."
        )
    if sorted(dense) != list(range(end, mat.ndim)):
        raise NotImplementedError(
            "transpose permutation cannot permute dense axes with non-dense axes; got"
            f" permutation {permutation}, with n_dense={mat.n_dense}."
        )
    columns = np.array([p - n_batch for p in sparse], np.int32)
    indices = mat.indices[..., columns] if n_sparse else mat.indices
    indices = indices.transpose(*batch, n_batch, n_batch + 1)
    data = mat.data.transpose(*batch, n_batch, *(p - n_sparse + 1 for p in dense))
    return mat.made(
        (data, indices),
        shape=[mat.shape[p] for p in order],
        unique_indices=mat.unique_indices,
    )


def bcoo_reduce_sum(mat: Coordinates, *, axes: Sequence[int]) -> Any:
    """The sums over some dims."""
    axes = sorted({axis % mat.ndim for axis in axes})
    if any(axis < mat.n_batch for axis in axes):
        mat = unbatched(mat)
    n_batch, end = mat.n_batch, mat.n_batch + mat.n_sparse
    kept = [i - n_batch for i in range(n_batch, end) if i not in axes]
    dense = tuple(i - mat.n_sparse + 1 for i in axes if i >= end)
    data = mat.data.sum(dense) if dense else mat.data
    indices = mat.indices[..., np.array(kept, np.int32)]
    shape = [size for i, size in enumerate(mat.shape) if i not in axes]
    return mat.made((data, indices), shape=shape)


def bcoo_reshape(
    mat: Coordinates, *, new_sizes: Sequence[int], dimensions: Any = None
) -> Any:
    """The array in another shape; batch and dense dims reshape among themselves."""
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    sizes = tuple(map(operator.index, new_sizes))
    if math.prod(sizes) != mat.size:
        raise TypeError(f"cannot reshape array of shape {mat.shape} to {sizes}")
    if mat.n_batch or mat.n_dense:
        mat = fewer(mat, 0, 0)
    flat = linear_index(mat.indices, mat.shape)
    return mat.made(
        (mat.data, from_linear(flat, sizes)),
        shape=sizes,
        indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )


def bcoo_squeeze(mat: Coordinates, *, dimensions: Sequence[int]) -> Any:
    """The array without some dims of size 1."""
    dims = sorted({d % mat.ndim for d in dimensions})
    if any(mat.shape[d] != 1 for d in dims):
        raise ValueError(
            f"cannot select an axis to squeeze out of shape {mat.shape}: {dims}"
        )
    n_batch, n_sparse = mat.n_batch, mat.n_sparse
    end = n_batch + n_sparse
    batch = tuple(d for d in dims if d < n_batch)
    columns = [i for i in range(n_sparse) if i + n_batch not in dims]
    dense = tuple(d - n_sparse + 1 for d in dims if d >= end)
    # What is outside of a dim that goes is to be outside of the others too.
    data, inside = mat.data, jnp.ones(mat.indices.shape[:-1], bool)
    for d in dims:
        if n_batch <= d < end:
            inside = inside & (mat.indices[..., d - n_batch] == 0)
    wide = inside.reshape(inside.shape + (1,) * mat.n_dense)
    data = jnp.where(wide, data, 0).squeeze(batch + dense)
    indices = mat.indices[..., np.array(columns, np.int32)].squeeze(batch)
    shape = [size for i, size in enumerate(mat.shape) if i not in dims]
    return mat.made(
        (data, indices),
        shape=shape,
        indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )


def bcoo_broadcast_in_dim(
    mat: Coordinates, *, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Any:
    """The array in a greater shape, as by `lax.broadcast_in_dim`."""
    shape = tuple(shape)
    places = tuple(broadcast_dimensions)
    if len(places) != mat.ndim or any(
        size not in (1, shape[p]) for p, size in zip(places, mat.shape)
    ):
        raise ValueError(
            f"cannot broadcast shape {mat.shape} to {shape} along {places}"
        )
    mat = fewer(mat, 0, 0)
    new = [
        i
        for i in range(len(shape))
        if i not in places or mat.shape[places.index(i)] != shape[i]
    ]
    count = math.prod(shape[i] for i in new)
    sizes = [shape[i] for i in new]
    grid = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1)
    grid = grid.reshape(count, len(new)).astype(mat.indices.dtype)
    columns = []
    for i, size in enumerate(shape):
        if i in new:
            column = jnp.asarray(grid[:, new.index(i)])[None, :]
            if i in places:  # outside stays outside
                inside = mat.indices[:, places.index(i)] == 0
                column = jnp.where(inside[:, None], column, size)
        else:
            column = mat.indices[:, places.index(i)][:, None]
        columns.append(jnp.broadcast_to(column, (mat.nse, count)).ravel())
    data = jnp.broadcast_to(mat.data[:, None], (mat.nse, count)).ravel()
    indices = jnp.stack(columns, axis=-1) if columns else mat.indices
    return mat.made((data, indices), shape=shape, unique_indices=mat.unique_indices)


def bcoo_concatenate(operands: Sequence[Coordinates], *, dimension: int) -> Any:
    """Several arrays, joined along a dim."""
    dimension = operator.index(dimension)
    if not all(isinstance(op, Coordinates) for op in operands):
        raise ValueError("bcoo_concatenate: expected operands to be a sequence of BCOO")
    layouts = {(op.n_batch, op.n_sparse, op.n_dense) for op in operands}
    if len(layouts) > 1:
        raise ValueError("bcoo_concatenate: operands have different layouts")
    ((n_batch, n_sparse, _),) = layouts
    total = list(operands[0].shape)
    total[dimension] = sum(op.shape[dimension] for op in operands)
    if not n_batch <= dimension < n_batch + n_sparse:
        # Along a batch or dense dim: those are sparse dims, joined, of which we know.
        joined = bcoo_concatenate(
            [fewer(op, 0, 0) for op in operands], dimension=dimension
        )
        return joined
    column, offset, datas, indices = dimension - n_batch, 0, [], []
    for op in operands:
        data, places = full_batch(op)
        outside = places[..., column] >= op.shape[dimension]
        moved = jnp.where(outside, total[dimension], places[..., column] + offset)
        datas.append(data)
        indices.append(places.at[..., column].set(moved))
        offset += op.shape[dimension]
    return operands[0].made(
        (jnp.concatenate(datas, n_batch), jnp.concatenate(indices, n_batch)),
        shape=total,
        unique_indices=all(op.unique_indices for op in operands),
    )


def bcoo_rev(operand: Coordinates, dimensions: Sequence[int]) -> Any:
    """The array with some dims reversed."""
    n_batch, n_sparse = operand.n_batch, operand.n_sparse
    dims = sorted({d % operand.ndim for d in dimensions})
    data, indices = full_batch(operand)
    for d in dims:
        if d < n_batch:
            data, indices = jnp.flip(data, d), jnp.flip(indices, d)
        elif d < n_batch + n_sparse:
            size, column = operand.shape[d], indices[..., d - n_batch]
            turned = jnp.where(column < size, size - 1 - column, size)
            indices = indices.at[..., d - n_batch].set(turned)
        else:
            data = jnp.flip(data, d - n_sparse + 1)
    return operand.replaced(data, indices, indices_sorted=False)


def bcoo_slice(
    mat: Coordinates,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """A part of the array, as by `lax.slice`; it stores as many elements."""
    steps = (1,) * mat.ndim if strides is None else tuple(strides)
    parts = list(zip(start_indices, limit_indices, steps))
    if len(parts) != mat.ndim:
        raise ValueError(f"bcoo_slice: indices must have size mat.ndim={mat.ndim}")
    return _sliced(mat, parts)


def _sliced(mat: Coordinates, parts: Sequence[tuple[Any, int, int]]) -> Any:
    n_batch, n_sparse = mat.n_batch, mat.n_sparse
    end = n_batch + n_sparse
    data, indices = full_batch(mat)
    shape = [max(0, -(-(stop - start) // step)) for start, stop, step in parts]
    ranges = [slice(*part) for part in parts]
    data = data[(*ranges[:n_batch], slice(None), *ranges[end:])]
    indices = indices[tuple(ranges[:n_batch])]
    inside = jnp.ones(indices.shape[:-1], bool)
    for i in range(n_sparse):
        start, stop, step = parts[n_batch + i]
        column = indices[..., i]
        hit = (column >= start) & (column < stop) & ((column - start) % step == 0)
        inside = inside & hit
        moved = jnp.where(hit, (column - start) // step, shape[n_batch + i])
        indices = indices.at[..., i].set(moved)
    outside = jnp.array(shape[n_batch:end], indices.dtype)
    indices = jnp.where(inside[..., None], indices, outside)
    wide = inside.reshape(inside.shape + (1,) * mat.n_dense)
    return mat.replaced(jnp.where(wide, data, 0), indices, shape=shape)


def bcoo_dynamic_slice(
    mat: Coordinates, start_indices: Sequence[Any], slice_sizes: Sequence[int]
) -> Any:
    """A part of known size from a traced place on, as by `lax.dynamic_slice`."""
    if mat.n_batch or mat.n_dense:
        mat = fewer(mat, 0, 0)
    starts = [
        jnp.clip(jnp.asarray(start), 0, size - part).astype(mat.indices.dtype)
        for start, size, part in zip(start_indices, mat.shape, slice_sizes)
    ]
    moved = mat.indices - jnp.stack(starts) if starts else mat.indices
    sizes = jnp.array(tuple(slice_sizes), moved.dtype)
    inside = jnp.all((moved >= 0) & (moved < sizes), axis=-1)
    indices = jnp.where(inside[:, None], moved, sizes)
    data = jnp.where(inside, mat.data, 0)
    return mat.replaced(data, indices, shape=tuple(slice_sizes))
