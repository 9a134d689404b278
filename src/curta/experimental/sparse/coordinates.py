"""Batched coordinates: the format with an index for each stored element.

An array of shape (*batch, *sparse, *dense) has the `indices` (*batch, nse, n_sparse) of
its stored elements, and their `data` (*batch, nse, *dense). Indices outside of the
shape stand for nothing: so arrays of one shape can store different numbers of elements.
A batch dim of size 1 in a buffer serves the whole batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta.api.vmap import vmap
from curta.experimental.sparse.base import JAXSparse


class Coordinates(JAXSparse):
    """Buffers and shape of an array in batched coordinates; `BCOO` adds operations."""

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices = (jnp.asarray(x) for x in args)
        self._n_batch = self.indices.ndim - 2
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        super().__init__(args, shape=shape)
        _check(self)

    @property
    def nse(self) -> int:
        return self.indices.shape[-2]

    @property
    def n_batch(self) -> int:
        """The number of batch dims."""
        return self._n_batch

    @property
    def n_sparse(self) -> int:
        """The number of dims that have indices."""
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        """The number of dims of which everything is stored."""
        return self.data.ndim - 1 - self.n_batch

    def _details(self) -> str:
        counts = {"n_batch": self.n_batch, "n_dense": self.n_dense}
        return "".join(f", {name}={n}" for name, n in counts.items() if n)

    def _buffers(self) -> tuple[Any, ...]:
        return self.data, self.indices

    def tree_flatten(self) -> tuple[Any, Any]:
        batch, rest = self.shape[: self.n_batch], self.shape[self.n_batch :]
        known = batch, rest, self.indices_sorted, self.unique_indices
        return (self.data, self.indices), known

    @classmethod
    def tree_unflatten(cls, known: Any, children: Any) -> Any:
        self = object.__new__(cls)
        self.data, self.indices = children
        batch, rest, self.indices_sorted, self.unique_indices = known
        # A function mapped over a batch dim has buffers without it, and gives
        # buffers that get another one.
        rank = getattr(self.indices, "ndim", len(batch) + 2) - 2
        if rank > len(batch):
            sizes = zip(self.data.shape[:rank], self.indices.shape[:rank])
            more = tuple(max(pair) for pair in sizes)
            batch = (*more[: rank - len(batch)], *batch)
        self._n_batch = max(rank, 0)
        self.shape = (*batch[len(batch) - self._n_batch :], *rest)
        return self

    def todense(self) -> Any:
        return bcoo_todense(self)

    def made(self, args: tuple[Any, Any], **known: Any) -> Any:
        """Another array of this class."""
        return type(self)(args, **known)

    def replaced(self, data: Any, indices: Any = None, **known: Any) -> Any:
        """The same array with other buffers, and other knowledge of them."""
        kept = {
            "shape": self.shape,
            "indices_sorted": self.indices_sorted,
            "unique_indices": self.unique_indices,
        }
        indices = self.indices if indices is None else indices
        return type(self)((data, indices), **{**kept, **known})


def _check(mat: Coordinates) -> None:
    """Raise ValueError for buffers that do not make an array of the shape."""
    data, indices, shape = mat.data, mat.indices, mat.shape
    if indices.ndim < 2 or not jnp.issubdtype(indices.dtype, np.integer):
        raise ValueError(
            "BCOO needs integer indices of shape (*batch, nse, n_sparse), got"
            f" {indices.dtype.name}{list(indices.shape)}"
        )
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    batch, dense = shape[:n_batch], shape[n_batch + n_sparse :]
    for name, buffer in (("data", data), ("indices", indices)):
        sizes = buffer.shape[:n_batch]
        if len(sizes) != len(batch) or any(
            s not in (1, b) for s, b in zip(sizes, batch)
        ):
            raise ValueError(
                f"{name} batch dimensions not compatible for"
                f" {name}.shape={buffer.shape}, shape={shape}"
            )
    if data.shape[n_batch:] != (indices.shape[-2], *dense):
        raise ValueError(
            f"Invalid data.shape={data.shape} for nse={indices.shape[-2]},"
            f" n_batch={n_batch}, n_dense={len(dense)}"
        )


# --- helpers -------------------------------------------------------------------------


def over_batch(f: Any, n_batch: int) -> Any:
    for _ in range(n_batch):
        f = vmap(f)
    return f


def full_batch(mat: Coordinates) -> tuple[Any, Any]:
    """The buffers with batch dims of the whole size."""
    batch = mat.shape[: mat.n_batch]
    return (
        jnp.broadcast_to(mat.data, (*batch, *mat.data.shape[mat.n_batch :])),
        jnp.broadcast_to(mat.indices, (*batch, *mat.indices.shape[-2:])),
    )


def sparse_shape(mat: Coordinates) -> tuple[int, ...]:
    """The sizes of the dims that have indices."""
    return mat.shape[mat.n_batch : mat.n_batch + mat.n_sparse]


def places(batch: Sequence[int], indices: Any) -> tuple[Any, ...]:
    """Index arrays, of the batch and of the sparse dims, for the dense array."""
    rank = len(batch) + 1
    grid = [
        jnp.arange(size).reshape([-1 if i == axis else 1 for i in range(rank)])
        for axis, size in enumerate(batch)
    ]
    return (*grid, *(indices[..., i] for i in range(indices.shape[-1])))


def linear_index(indices: Any, shape: tuple[int, ...]) -> Any:
    """The place of each element in a flat array; its size for those outside."""
    place = jnp.zeros(indices.shape[:-1], indices.dtype)
    inside = jnp.ones(indices.shape[:-1], bool)
    for i, size in enumerate(shape):
        place = place * size + indices[..., i]
        inside = inside & (indices[..., i] >= 0) & (indices[..., i] < size)
    return jnp.where(inside, place, math.prod(shape))


def from_linear(place: Any, shape: tuple[int, ...]) -> Any:
    """Indices of the places; those outside get the shape itself."""
    outside = place >= math.prod(shape)
    columns = []
    for size in shape[::-1]:
        columns.append(jnp.where(outside, size, place % max(size, 1)))
        place = place // max(size, 1)
    if not columns:
        return jnp.zeros((*place.shape, 0), place.dtype)
    return jnp.stack(columns[::-1], axis=-1)


# --- to and from dense arrays --------------------------------------------------------


def bcoo_todense(mat: Coordinates) -> Any:
    """The array with all its elements; those stored twice are added."""
    data, indices = full_batch(mat)
    if mat.n_sparse == 0:
        return data.sum(mat.n_batch, dtype=data.dtype)
    zero = jnp.zeros(mat.shape, data.dtype)
    return zero.at[places(mat.shape[: mat.n_batch], indices)].add(data, mode="drop")


def bcoo_extract(
    sparr: Coordinates, arr: Any, *, assume_unique: bool | None = None
) -> Any:
    """The elements of a dense array where a sparse one stores its own.

    Of indices that occur twice only the first gets the element, unless they are said
    to be unique.
    """
    if not isinstance(sparr, Coordinates):
        raise TypeError(
            "First argument to bcoo_extract should be a BCOO array. Got"
            f" type(sparr)={type(sparr)!r}"
        )
    arr = jnp.asarray(arr)
    if arr.shape != sparr.shape:
        raise ValueError(
            f"shape mismatch: sparr.shape={sparr.shape} a.shape={arr.shape}"
        )
    _, indices = full_batch(sparr)
    nse, n_batch = sparr.nse, sparr.n_batch
    if sparr.n_sparse:
        data = arr.at[places(arr.shape[:n_batch], indices)].get(
            mode="fill", fill_value=0
        )
    else:
        wide = (*arr.shape[:n_batch], nse, *arr.shape[n_batch:])
        data = jnp.broadcast_to(jnp.expand_dims(arr, n_batch), wide)
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    if not unique:
        flat = linear_index(indices, sparse_shape(sparr))
        first = over_batch(_first_occurrence, n_batch)(flat)
        first = first.reshape(first.shape + (1,) * sparr.n_dense)
        data = jnp.where(first, data, 0)
    return sparr.replaced(data)


def _first_occurrence(place: Any) -> Any:
    _, first = jnp.unique(place, return_index=True, size=place.size, fill_value=-1)
    return jnp.zeros(place.shape, bool).at[first].set(True)
