"""The static data of a sparse array, and counts of its elements."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import curta.numpy as jnp
from curta import dtypes, lax
from curta._base.on_demand import Listing, own
from curta.api.vmap import vmap
from curta.transforms.vmap import BatchTracer

__dir__: Listing = own(__name__)

Shape = tuple[int, ...]


class SparseEfficiencyError(ValueError):
    """An operation that would lose what a sparse format gains.

    >>> from curta.experimental import sparse
    >>> issubclass(sparse.SparseEfficiencyError, ValueError)
    True
    """


class SparseEfficiencyWarning(UserWarning):
    """An operation that is slow in this format.

    >>> from curta.experimental import sparse
    >>> issubclass(sparse.SparseEfficiencyWarning, Warning)
    True
    """


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """An operation that a GPU's library of sparse operations cannot do.

    No operation of this package calls such a library: it is never issued, and here for
    programs that filter it.

    >>> import warnings
    >>> from curta.experimental import sparse
    >>> warnings.filterwarnings("ignore", category=sparse.CuSparseEfficiencyWarning)
    """


def refuse_sharding(name: str, sharding: Any) -> None:
    """Raise NotImplementedError if a sharding is given for a sparse result."""
    if sharding is not None:
        raise NotImplementedError(
            f"{name}: a sparse result cannot be split as {sharding} says, as its stored"
            " elements are in no order of its dims. Split its buffers with"
            " jax.device_put, or the dense array."
        )


class SparseInfo(NamedTuple):
    """The shape of a sparse array, and what is known of its indices."""

    shape: Shape
    indices_sorted: bool = False
    unique_indices: bool = False

    def with_batch(self, size: int) -> SparseInfo:
        """The same of a batch of `size` such arrays."""
        return self._replace(shape=(size, *self.shape))


# --- functions of one example, over batch dims ---------------------------------------


def over_batch(
    f: Callable[..., Any], n_batch: int, mapped: Sequence[bool] | None = None
) -> Callable[..., Any]:
    """`f` over the first `n_batch` dims of its arguments, or of those `mapped`.

    An argument with a batch dim of size 1 serves the whole batch.
    """
    for _ in range(n_batch):
        f = _over_one(f, mapped)
    return f


def _over_one(
    f: Callable[..., Any], mapped: Sequence[bool] | None
) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        chosen = [True] * len(args) if mapped is None else mapped
        sizes = [x.shape[0] for x, m in zip(args, chosen) if m]
        size = next((s for s in sizes if s != 1), 1)
        axes = [0 if m and x.shape[0] == size else None for x, m in zip(args, chosen)]
        given = [
            lax.squeeze(x, (0,)) if m and axis is None else x
            for x, m, axis in zip(args, chosen, axes)
        ]
        return vmap(f, tuple(axes))(*given)

    return call


def rebatched(batch: Shape, rank: int, data: Any, indices: Any) -> Shape:
    """The batch dims of an array that lost or got some, as a function is mapped.

    `batch` is what they were, `rank` how many the buffers have now.
    """
    if isinstance(indices, BatchTracer) and rank == len(batch) - 1:
        dim = indices.batch_dim
        if dim >= len(batch):
            raise ValueError(
                f"Cannot map in_axis={dim} for a sparse array with"
                f" n_batch={len(batch)}. in_axes for batched sparse operations must"
                " correspond to a batch dimension: raise n_batch with update_layout."
            )
        return (*batch[:dim], *batch[dim + 1 :])
    stored = zip(data.shape[: max(rank, 0)], indices.shape[: max(rank, 0)])
    sizes = tuple(next((s for s in pair if s != 1), 1) for pair in stored)
    if len(sizes) == len(batch):
        return batch
    # Dims go from the front, and come there, unless their sizes tell otherwise.
    more, fewer = (sizes, batch) if len(sizes) > len(batch) else (batch, sizes)
    for kept in itertools.combinations(range(len(more))[::-1], len(fewer)):
        dims = kept[::-1]
        if all(1 in (more[i], s) or more[i] == s for i, s in zip(dims, fewer)):
            if more is batch:
                return tuple(batch[i] for i in dims)
            known = dict(zip(dims, batch))
            return tuple(known.get(i, s) for i, s in enumerate(sizes))
    return sizes


# --- counting ------------------------------------------------------------------------


def _count_stored_elements_per_batch(
    mat: Any, n_batch: int = 0, n_dense: int = 0
) -> Any:
    """How many elements each batch of a dense array would store."""
    mat = jnp.asarray(mat)
    mask = mat != 0
    if n_dense:
        mask = mask.any(tuple(range(mat.ndim - n_dense, mat.ndim)))
    return mask.sum(tuple(range(n_batch, mask.ndim)))


def known_layout(
    name: str, rank: int, n_batch: Any, n_dense: Any, index_dtype: Any
) -> Any:
    """The settings of a sparse format, each as what it has to be known as."""
    n_batch, n_dense = operator.index(n_batch), operator.index(n_dense)
    if min(n_batch, n_dense) < 0 or n_batch + n_dense > rank:
        raise ValueError(
            f"Invalid {n_batch=}, {n_dense=}: {name} got an array of {rank} dims"
        )
    return {
        "n_batch": n_batch,
        "n_dense": n_dense,
        "index_dtype": dtypes.check_user_dtype(index_dtype, name),
    }


def _count_stored_elements(mat: Any, n_batch: int = 0, n_dense: int = 0) -> Any:
    """How many elements a dense array would store, the most of all batches."""
    return _count_stored_elements_per_batch(mat, n_batch, n_dense).max(initial=0)


# --- compressed rows -----------------------------------------------------------------


def rows_of(indptr: Any, nse: int) -> Any:
    """The row of each of `nse` elements; those after the last row get its number."""
    numbers = jnp.arange(nse, dtype=indptr.dtype)
    result = jnp.searchsorted(indptr, numbers, side="right") - 1
    return result.astype(indptr.dtype)


def pointers(rows: Any, count: int) -> Any:
    """Where each of `count` rows begins among sorted row numbers, and the last ends."""
    return jnp.searchsorted(rows, jnp.arange(count + 1, dtype=rows.dtype)).astype(
        rows.dtype
    )


def _csr_to_coo(indices: Any, indptr: Any) -> tuple[Any, Any]:
    """Rows and columns of a matrix with compressed rows."""
    return rows_of(indptr, indices.shape[0]), indices
