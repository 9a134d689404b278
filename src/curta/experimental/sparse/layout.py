"""Arrays in batched coordinates stored in another way."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.lazy_dataclass import dataclass
from curta._base.user_warnings import warn
from curta.core.primitive import Primitive, primitive_of
from curta.errors import ConcretizationTypeError
from curta.experimental.sparse.base import require_format
from curta.experimental.sparse.coordinates import (
    Coordinates,
    full_batch,
    is_inside,
    row_of,
    sparse_shape,
    where_inside,
)
from curta.experimental.sparse.operations import SparseOp
from curta.experimental.sparse.util import (
    SparseEfficiencyError,
    SparseEfficiencyWarning,
    SparseInfo,
    over_batch,
)
from curta.numpy.arguments import concrete

# --- order ---------------------------------------------------------------------------


def _order(indices: Any) -> Any:
    """The numbers of the stored elements, ordered by their indices."""
    if not indices.shape[1]:
        return jnp.arange(indices.shape[0], dtype=np.int32)
    return jnp.lexsort(tuple(indices[:, ::-1].T))


@dataclass(frozen=True)
class BcooSortIndices(SparseOp):
    """(data, indices) in the order of the indices."""

    name: ClassVar[str] = "bcoo_sort_indices"
    multiple_results: ClassVar[bool] = True
    spinfo: SparseInfo

    def compose(self, *args: Any) -> Any:
        data, indices = args
        n_batch = indices.ndim - 2
        order = over_batch(_order, n_batch)(indices)
        taken = over_batch(lambda x, order: x[order], n_batch)
        return taken(data, order), taken(indices, order)

    def batched(self, size: int) -> SparseOp:
        return BcooSortIndices(self.spinfo.with_batch(size))


bcoo_sort_indices_p: Primitive = primitive_of(BcooSortIndices)


def bcoo_sort_indices(mat: Coordinates) -> Any:
    """The array with its indices in order.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> y = sparse.BCOO((jnp.array([5, 4]), jnp.array([[1], [0]])), shape=(2,))
    >>> sparse.bcoo_sort_indices(y).data
    Array([4, 5], dtype=int32)
    """
    data, indices = BcooSortIndices(mat._info)(mat.data, mat.indices)
    return mat.replaced(data, indices, indices_sorted=True)


# --- duplicates ----------------------------------------------------------------------


def _grouped(indices: Any, shape: Sequence[int]) -> tuple[Any, Any, Any]:
    """The order of the elements, then in that order their indices, and which is new.

    Those outside are the shape itself, and come last.
    """
    inside = is_inside(indices, shape)
    indices = jnp.where(inside[:, None], indices, row_of(shape, indices))
    order = _order(indices)
    rows = indices[order]
    new = jnp.ones(rows.shape[:1], bool)
    return order, rows, new.at[1:].set((rows[1:] != rows[:-1]).any(-1))


@dataclass(frozen=True)
class BcooSumDuplicates(SparseOp):
    """(data, indices) with each index once, in order, room for `nse`."""

    name: ClassVar[str] = "bcoo_sum_duplicates"
    multiple_results: ClassVar[bool] = True
    spinfo: SparseInfo
    nse: int

    def compose(self, *args: Any) -> Any:
        data, indices = args
        n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
        shape = self.spinfo.shape[n_batch : n_batch + n_sparse]
        nse = self.nse

        def group(indices: Any) -> Any:
            order, rows, new = _grouped(indices, shape)
            slot = jnp.cumsum(new, dtype=np.int32) - 1
            kept = jnp.broadcast_to(row_of(shape, indices), (nse, n_sparse))
            slots = jnp.zeros_like(slot).at[order].set(slot)
            return slots, kept.at[slot].set(rows, mode="drop")

        def add(data: Any, slots: Any, inside: Any) -> Any:
            zero = jnp.zeros((nse, *data.shape[1:]), data.dtype)
            return zero.at[slots].add(where_inside(inside, data), mode="drop")

        slots, kept = over_batch(group, n_batch)(indices)
        inside = is_inside(indices, shape)
        return over_batch(add, n_batch)(data, slots, inside), kept

    def batched(self, size: int) -> SparseOp:
        return BcooSumDuplicates(self.spinfo.with_batch(size), self.nse)


bcoo_sum_duplicates_p: Primitive = primitive_of(BcooSumDuplicates)

_TRACED_NSE = (
    "bcoo_sum_duplicates: nse must be specified when using the function within jit,"
    " vmap, and other transformations requiring abstract evaluation: how many"
    " stored indices differ is not known there."
)


def bcoo_sum_duplicates(mat: Coordinates, nse: int | None = None) -> Any:
    """The array with each index once, the elements of the same one added.

    `nse` is the number of stored elements of the result, and has to be given in jit.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> y = sparse.BCOO((jnp.array([5, 4]), jnp.array([[1], [1]])), shape=(2,))
    >>> sparse.bcoo_sum_duplicates(y).data
    Array([9], dtype=int32)
    """
    if nse is None:
        shape = sparse_shape(mat)

        def count(indices: Any) -> Any:
            _, rows, new = _grouped(indices, shape)
            return (new & is_inside(rows, shape)).sum()

        counts = over_batch(count, mat.n_batch)(mat.indices)
        try:
            nse = concrete(counts.max(initial=0), _TRACED_NSE, int)
        except ConcretizationTypeError:
            raise ValueError(_TRACED_NSE) from None
    nse = concrete(nse, _TRACED_NSE, operator.index)
    data, indices = BcooSumDuplicates(mat._info, nse)(mat.data, mat.indices)
    return mat.replaced(data, indices, indices_sorted=True, unique_indices=True)


def bcoo_eliminate_zeros(mat: Coordinates, nse: int | None = None) -> Any:
    """The array without stored zeros, and with each index once.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> y = sparse.BCOO((jnp.array([5, 0]), jnp.array([[1], [0]])), shape=(2,))
    >>> sparse.bcoo_eliminate_zeros(y).data
    Array([5], dtype=int32)
    """
    data, indices = full_batch(mat)
    zero = (data == 0).all(tuple(range(mat.n_batch + 1, data.ndim)))
    outside = row_of(sparse_shape(mat), indices)
    indices = jnp.where(zero[..., None], outside, indices)
    return bcoo_sum_duplicates(mat.made((data, indices), shape=mat.shape), nse=nse)


def set_nse(mat: Coordinates, nse: int) -> Any:
    """The array with room for `nse` elements; what is more is dropped."""
    if nse <= mat.nse:
        data = lax.slice_in_dim(mat.data, 0, nse, axis=mat.n_batch)
        return mat.replaced(data, mat.indices[..., :nse, :])
    more = nse - mat.nse
    edges = [(0, 0)] * mat.data.ndim
    edges[mat.n_batch] = (0, more)
    outside = row_of(sparse_shape(mat), mat.indices)
    tail = jnp.broadcast_to(outside, (*mat.indices.shape[:-2], more, mat.n_sparse))
    return mat.replaced(
        jnp.pad(mat.data, edges), jnp.concatenate([mat.indices, tail], axis=-2)
    )


# --- batch, sparse and dense dims ----------------------------------------------------


def bcoo_update_layout(
    mat: Coordinates,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> Any:
    """The same array with other numbers of batch and dense dims.

    Args:
      mat: a `BCOO`.
      n_batch, n_dense: the numbers of dims; by default those that it has.
      on_inefficient: what is done where more elements are stored, as they are with more
        dims unless their sizes are 1: "error" raises, "warn" warns, None does it
        silently.

    Returns:
      A `BCOO` of the same shape.

    Raises:
      SparseEfficiencyError: where more elements are stored, with "error".
      ValueError: if numbers of dims do not match or `on_inefficient` has another value.
      TypeError: if the argument is not a `BCOO`.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0], [0, 3]]))
    >>> sparse.bcoo_update_layout(x, n_batch=1, on_inefficient=None).data
    Array([[1, 0],
           [0, 3]], dtype=int32)
    """
    require_format("bcoo_update_layout", Coordinates, "BCOO", mat)
    n_batch = mat.n_batch if n_batch is None else operator.index(n_batch)
    n_dense = mat.n_dense if n_dense is None else operator.index(n_dense)
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(
            f"on_inefficient={on_inefficient!r}; expected one of 'error', 'warn', None"
        )
    for name, count in (("n_batch", n_batch), ("n_dense", n_dense)):
        if count < 0:
            raise ValueError(f"{name} must be non-negative; got {count}")
    if n_batch + n_dense > mat.ndim:
        raise ValueError(
            f"sum of n_batch={n_batch} and n_dense={n_dense} cannot be larger than"
            f" mat.ndim={mat.ndim}."
        )
    _judge(mat, n_batch, n_dense, on_inefficient)
    mat = fewer(mat, min(n_batch, mat.n_batch), min(n_dense, mat.n_dense))
    mat = _more_dense(mat, n_dense - mat.n_dense)
    return _more_batch(mat, n_batch - mat.n_batch)


def _judge(mat: Coordinates, n_batch: int, n_dense: int, what: str | None) -> None:
    """Raise or warn if a layout stores much that another one does not."""
    end = mat.ndim - mat.n_dense
    grown = []
    if any(size > 1 for size in mat.shape[mat.ndim - n_dense : end]):
        grown.append(f"n_dense from {mat.n_dense} to {n_dense}")
    if any(size > 1 for size in mat.shape[mat.n_batch : n_batch]):
        grown.append(f"n_batch from {mat.n_batch} to {n_batch}")
    if not grown or what is None:
        return
    text = (
        f"For matrix of shape {mat.shape}, increasing {' and '.join(grown)} results in"
        " inefficient storage. Pass on_inefficient=None to do so nevertheless"
    )
    if what == "error":
        raise SparseEfficiencyError(text + ", or 'warn' for a warning.")
    warn(text + ".", SparseEfficiencyWarning)


def every_index(sizes: Sequence[int], dtype: Any) -> Any:
    """The indices of all elements of an array of these sizes, one a row."""
    grid = np.indices(sizes, dtype=dtype)
    return jnp.asarray(grid.reshape(len(sizes), math.prod(sizes)).T)


def fewer(mat: Coordinates, n_batch: int, n_dense: int) -> Any:
    """Batch and dense dims as sparse ones."""
    if (n_batch, n_dense) == (mat.n_batch, mat.n_dense):
        return mat
    data, indices = full_batch(mat)
    nse, dtype = mat.nse, indices.dtype
    if n_batch < mat.n_batch:
        sizes = mat.shape[n_batch : mat.n_batch]
        kept, count = mat.shape[:n_batch], math.prod(sizes)
        grid = every_index(sizes, dtype).reshape(count, 1, len(sizes))
        grid = jnp.broadcast_to(grid, (*kept, count, nse, len(sizes)))
        inner = indices.reshape(*kept, count, nse, mat.n_sparse)
        indices = jnp.concatenate([grid, inner], -1)
        indices = indices.reshape(*kept, count * nse, len(sizes) + mat.n_sparse)
        data = data.reshape(*kept, count * nse, *data.shape[mat.n_batch + 1 :])
        nse = count * nse
    if n_dense < mat.n_dense:
        sizes = mat.shape[mat.ndim - mat.n_dense : mat.ndim - n_dense]
        count = math.prod(sizes)
        lead, width = indices.shape[:n_batch], indices.shape[-1]
        inner = jnp.broadcast_to(indices[..., None, :], (*lead, nse, count, width))
        grid = every_index(sizes, dtype)
        grid = jnp.broadcast_to(grid, (*lead, nse, count, len(sizes)))
        indices = jnp.concatenate([inner, grid], -1)
        indices = indices.reshape(*lead, nse * count, width + len(sizes))
        rest = data.shape[data.ndim - n_dense :] if n_dense else ()
        data = data.reshape(*lead, nse * count, *rest)
    return mat.made((data, indices), shape=mat.shape, unique_indices=mat.unique_indices)


def unbatched(mat: Coordinates) -> Any:
    """The array with all its batch dims as sparse ones."""
    return fewer(mat, 0, mat.n_dense)


def _more_dense(mat: Coordinates, count: int) -> Any:
    """The last `count` sparse dims as dense ones."""
    if not count:
        return mat
    kept = mat.n_sparse - count
    end = mat.ndim - mat.n_dense
    sizes = mat.shape[end - count : end]

    def spread(data: Any, indices: Any) -> Any:
        zero = jnp.zeros((*sizes, *data.shape), data.dtype)
        index = tuple(indices[kept + i] for i in range(count))
        return zero.at[index].set(data, mode="drop"), indices[:kept]

    data, indices = over_batch(spread, mat.n_batch + 1)(mat.data, mat.indices)
    return mat.made((data, indices), shape=mat.shape)


def _more_batch(mat: Coordinates, count: int) -> Any:
    """The first `count` sparse dims as batch ones; each stores as many elements."""
    if not count:
        return mat
    sizes = mat.shape[mat.n_batch : mat.n_batch + count]

    def spread(data: Any, indices: Any) -> Any:
        zero = jnp.zeros((*sizes, *data.shape), data.dtype)
        index = tuple(indices[:, i] for i in range(count))
        at = zero.at[(*index, jnp.arange(mat.nse))]
        inner = indices[:, count:]
        return at.set(data, mode="drop"), jnp.broadcast_to(
            inner, (*sizes, *inner.shape)
        )

    data, indices = over_batch(spread, mat.n_batch)(mat.data, mat.indices)
    return mat.made((data, indices), shape=mat.shape)
