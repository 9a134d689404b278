"""Arrays in batched coordinates stored in another way."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.experimental.sparse.coordinates import (
    Coordinates,
    bcoo_todense,
    from_linear,
    full_batch,
    linear_index,
    over_batch,
    sparse_shape,
)
from curta.numpy.arguments import concrete


def bcoo_sort_indices(mat: Coordinates) -> Any:
    """The array with its indices in order."""
    data, indices = full_batch(mat)
    shape = sparse_shape(mat)

    def sort(data: Any, indices: Any) -> Any:
        order = jnp.argsort(linear_index(indices, shape), stable=True)
        return data[order], indices[order]

    data, indices = over_batch(sort, mat.n_batch)(data, indices)
    return mat.replaced(data, indices, indices_sorted=True)


def bcoo_sum_duplicates(mat: Coordinates, nse: int | None = None) -> Any:
    """The array with each index once, the elements of the same one added.

    `nse` is the number of places in the result, and has to be given in jit.
    """
    data, indices = full_batch(mat)
    shape = sparse_shape(mat)
    flat = linear_index(indices, shape)
    if nse is None:
        distinct = over_batch(_count_distinct, mat.n_batch)(flat, math.prod(shape))
        nse = concrete(
            jnp.max(distinct, initial=0),
            "bcoo_sum_duplicates: pass a concrete nse in traced code.",
            int,
        )

    def add(data: Any, flat: Any) -> Any:
        kept, inverse = jnp.unique(
            flat, return_inverse=True, size=nse, fill_value=math.prod(shape)
        )
        outside = flat >= math.prod(shape)
        wide = outside.reshape(outside.shape + (1,) * (data.ndim - 1))
        zero = jnp.zeros((nse, *data.shape[1:]), data.dtype)
        total = zero.at[inverse.ravel()].add(jnp.where(wide, 0, data), mode="drop")
        return total, from_linear(kept, shape)

    data, indices = over_batch(add, mat.n_batch)(data, flat)
    return mat.replaced(
        data,
        indices.astype(mat.indices.dtype),
        indices_sorted=True,
        unique_indices=True,
    )


def _count_distinct(flat: Any, outside: int) -> Any:
    ordered = jnp.sort(flat)
    new = jnp.concatenate([jnp.ones(1, bool), ordered[1:] != ordered[:-1]])
    return jnp.sum(new[: ordered.size] & (ordered < outside))


def bcoo_eliminate_zeros(mat: Coordinates, nse: int | None = None) -> Any:
    """The array without stored zeros, and with each index once."""
    data, indices = full_batch(mat)
    zero = (data == 0).all(tuple(range(mat.n_batch + 1, data.ndim)))
    outside = jnp.array(sparse_shape(mat), indices.dtype)
    indices = jnp.where(zero[..., None], outside, indices)
    return bcoo_sum_duplicates(mat.replaced(data, indices), nse=nse)


def bcoo_update_layout(
    mat: Coordinates,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> Any:
    """The same array with other numbers of batch and dense dims.

    Fewer of them are stored exactly. More of them store more elements: through the
    dense array, for which `on_inefficient` has to be None or "warn".
    """
    from_batch, from_dense = mat.n_batch, mat.n_dense
    n_batch = from_batch if n_batch is None else operator.index(n_batch)
    n_dense = from_dense if n_dense is None else operator.index(n_dense)
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(
            f"Layout n_batch={n_batch}, n_dense={n_dense} does not fit an array of"
            f" {mat.ndim} dims."
        )
    if n_batch > from_batch or n_dense > from_dense:
        if on_inefficient == "error":
            raise ValueError(
                "bcoo_update_layout: more batch or dense dims need more storage. Pass"
                " on_inefficient=None to store them nevertheless."
            )
        mat = fewer(mat, min(n_batch, from_batch), min(n_dense, from_dense))
        nse = math.prod(mat.shape[n_batch : mat.ndim - n_dense])
        return type(mat).fromdense(
            bcoo_todense(mat),
            nse=nse,
            n_batch=n_batch,
            n_dense=n_dense,
            index_dtype=mat.indices.dtype,
        )
    return fewer(mat, n_batch, n_dense)


def fewer(mat: Coordinates, n_batch: int, n_dense: int) -> Any:
    """Batch and dense dims as sparse ones."""
    data, indices = full_batch(mat)
    nse, dtype = mat.nse, indices.dtype
    if n_batch < mat.n_batch:
        sizes = mat.shape[n_batch : mat.n_batch]
        kept = mat.shape[:n_batch]
        count = math.prod(sizes)
        grid = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1)
        grid = jnp.asarray(grid.reshape(count, 1, len(sizes)).astype(dtype))
        grid = jnp.broadcast_to(grid, (*kept, count, nse, len(sizes)))
        inner = indices.reshape(*kept, count, nse, mat.n_sparse)
        indices = jnp.concatenate([grid, inner], -1)
        indices = indices.reshape(*kept, count * nse, len(sizes) + mat.n_sparse)
        data = data.reshape(*kept, count * nse, *data.shape[mat.n_batch + 1 :])
        nse = count * nse
    if n_dense < mat.n_dense:
        first = mat.ndim - mat.n_dense
        sizes = mat.shape[first : mat.ndim - n_dense]
        count = math.prod(sizes)
        grid = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1)
        grid = jnp.asarray(grid.reshape(count, len(sizes)).astype(dtype))
        lead = indices.shape[:n_batch]
        inner = jnp.broadcast_to(
            indices[..., None, :], (*lead, nse, count, indices.shape[-1])
        )
        grid = jnp.broadcast_to(grid, (*lead, nse, count, len(sizes)))
        indices = jnp.concatenate([inner, grid], -1)
        indices = indices.reshape(*lead, nse * count, -1)
        rest = data.shape[data.ndim - n_dense :] if n_dense else ()
        data = data.reshape(*lead, nse * count, *rest)
    return mat.made((data, indices), shape=mat.shape, unique_indices=mat.unique_indices)


def unbatched(mat: Coordinates) -> Any:
    """The array with all its batch dims as sparse ones."""
    return fewer(mat, 0, mat.n_dense) if mat.n_batch else mat


def set_nse(mat: Coordinates, nse: int) -> Any:
    """The array with room for `nse` elements; what is more is dropped."""
    if nse <= mat.nse:
        data = lax.slice_in_dim(mat.data, 0, nse, axis=mat.n_batch)
        return mat.replaced(data, mat.indices[..., :nse, :])
    more = nse - mat.nse
    edges = [(0, 0)] * mat.data.ndim
    edges[mat.n_batch] = (0, more)
    outside = jnp.array(sparse_shape(mat), mat.indices.dtype)
    tail = jnp.broadcast_to(outside, (*mat.indices.shape[:-2], more, mat.n_sparse))
    return mat.replaced(
        jnp.pad(mat.data, edges), jnp.concatenate([mat.indices, tail], axis=-2)
    )
