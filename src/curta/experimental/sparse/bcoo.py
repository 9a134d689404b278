"""`BCOO`: arrays in batched coordinates, with their operations."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import tree_util
from curta.experimental.sparse.coordinates import (
    Coordinates,
    bcoo_extract,
    from_linear,
    over_batch,
)
from curta.experimental.sparse.layout import (
    bcoo_eliminate_zeros,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_update_layout,
)
from curta.experimental.sparse.rearranging import bcoo_transpose
from curta.experimental.sparse.transform import sparsify
from curta.numpy.arguments import concrete

_TRACED_NSE = (
    "The error arose for the nse argument of bcoo_fromdense. In order for"
    " BCOO.fromdense() to be used in traced/compiled code, you must pass a concrete"
    " value to the nse (number of stored elements) argument."
)


@tree_util.register_pytree_node_class
class BCOO(Coordinates):
    """An array in batched coordinates.

    Args:
      args: data (*batch, nse, *dense) and indices (*batch, nse, n_sparse).
      shape: the shape of the array.
      indices_sorted, unique_indices: what is known of the indices.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> x
    BCOO(float32[2, 2], nse=2)
    >>> print(x.data, x @ jnp.array([1.0, 10.0]))
    [2. 3.] [20.  3.]
    """

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        """See `bcoo_fromdense`."""
        return bcoo_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_scipy_sparse(
        cls,
        mat: Any,
        *,
        index_dtype: Any = None,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        """A SciPy matrix in this format."""
        if n_dense or n_batch:
            raise NotImplementedError(
                "BCOO.from_scipy_sparse with nonzero n_dense/n_batch."
            )
        mat = mat.tocoo()
        indices = np.column_stack((mat.row, mat.col))
        return cls((mat.data, indices.astype(index_dtype or np.int32)), shape=mat.shape)

    @classmethod
    def _empty(
        cls,
        shape: Sequence[int],
        *,
        dtype: Any = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> BCOO:
        """An array that stores nothing, in `nse` places."""
        shape = tuple(shape)
        n_sparse = len(shape) - n_dense - n_batch
        batch, sparse = shape[:n_batch], shape[n_batch : n_batch + n_sparse]
        data = jnp.zeros((*batch, nse, *shape[n_batch + n_sparse :]), dtype)
        indices = jnp.broadcast_to(
            jnp.array(sparse, index_dtype), (*batch, nse, n_sparse)
        )
        return cls(
            (data, indices), shape=shape, indices_sorted=True, unique_indices=True
        )

    @classmethod
    def _eye(
        cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = np.int32
    ) -> BCOO:
        """Ones on diagonal k."""
        size = max(0, min(N, M - k) if k >= 0 else min(N + k, M))
        row = np.arange(size) + max(0, -k)
        indices = np.column_stack([row, row + k]).astype(index_dtype)
        return cls(
            (jnp.ones(size, dtype), indices),
            shape=(N, M),
            indices_sorted=True,
            unique_indices=True,
        )

    def transpose(self, axes: Any = None) -> BCOO:
        order = range(self.ndim)[::-1] if axes is None else axes
        return bcoo_transpose(self, permutation=tuple(order))

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """See `bcoo_sum_duplicates`; without zeros if `remove_zeros`."""
        if remove_zeros:
            return bcoo_eliminate_zeros(self, nse=nse)
        return bcoo_sum_duplicates(self, nse=nse)

    def sort_indices(self) -> BCOO:
        """See `bcoo_sort_indices`."""
        return bcoo_sort_indices(self)

    def update_layout(
        self,
        *,
        n_batch: int | None = None,
        n_dense: int | None = None,
        on_inefficient: str | None = "error",
    ) -> BCOO:
        """See `bcoo_update_layout`."""
        return bcoo_update_layout(
            self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient
        )

    def to_bcoo(self) -> BCOO:
        """This array."""
        return self

    def astype(self, dtype: Any) -> BCOO:
        """The array with another dtype."""
        return self.replaced(self.data.astype(dtype))

    def sum(self, axis: Any = None) -> Any:
        """The sum over `axis`, all by default."""
        return sparsify(lambda x: x.sum(axis))(self)

    def reshape(self, *shape: Any) -> BCOO:
        """The array in another shape."""
        return sparsify(lambda x: x.reshape(*shape))(self)

    def __getitem__(self, index: Any) -> Any:
        return sparsify(lambda x: x[index])(self)

    __matmul__ = sparsify(operator.matmul)
    __rmatmul__ = sparsify(lambda x, y: y @ x)
    __mul__ = sparsify(operator.mul)
    __rmul__ = sparsify(lambda x, y: y * x)
    __truediv__ = sparsify(operator.truediv)
    __add__ = sparsify(operator.add)
    __radd__ = sparsify(lambda x, y: y + x)
    __sub__ = sparsify(operator.sub)
    __rsub__ = sparsify(lambda x, y: y - x)
    __neg__ = sparsify(operator.neg)
    __pos__ = sparsify(operator.pos)
    __abs__ = sparsify(operator.abs)

    def __pow__(self, exponent: int) -> BCOO:
        return sparsify(lambda x: x**exponent)(self)


def bcoo_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> BCOO:
    """The array without its zeros.

    Args:
      mat: array.
      nse: how many elements to store, of each batch; has to be given in jit. What is
        too much is dropped, what is missing stored as zeros outside.
      n_batch, n_dense: the first and last dims that are kept as they are.
      index_dtype: of the indices.
    """
    mat = jnp.asarray(mat)
    mask = mat != 0
    if n_dense:
        mask = mask.any(tuple(range(mat.ndim - n_dense, mat.ndim)))
    counts = mask.sum(tuple(range(n_batch, mask.ndim)))
    if nse is None:
        nse = concrete(counts.max(initial=0), _TRACED_NSE, int)
    nse = concrete(nse, _TRACED_NSE, operator.index)
    sizes = mask.shape[n_batch:]

    def places(mask: Any) -> Any:
        found = jnp.nonzero(mask.ravel(), size=nse, fill_value=mask.size)[0]
        return from_linear(found, sizes).astype(index_dtype)

    indices = over_batch(places, n_batch)(mask)
    empty = jnp.zeros((*mat.shape[:n_batch], nse, *mat.shape[mask.ndim :]), mat.dtype)
    stored = BCOO(
        (empty, indices), shape=mat.shape, indices_sorted=True, unique_indices=True
    )
    found = bcoo_extract(stored, mat)
    # Without sparse dims there is no index that would be outside.
    used = jnp.arange(nse) < counts[..., None]
    used = used.reshape(used.shape + (1,) * n_dense)
    return found.replaced(jnp.where(used, found.data, 0))
