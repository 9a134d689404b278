"""`BCSR`: batches of matrices with compressed rows."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import tree_util
from curta.experimental.sparse import rearranging
from curta.experimental.sparse.base import JAXSparse
from curta.experimental.sparse.bcoo import BCOO
from curta.experimental.sparse.coordinates import (
    bcoo_extract,
    full_batch,
    over_batch,
)
from curta.experimental.sparse.products import bcoo_dot_general
from curta.experimental.sparse.transform import sparsify


@tree_util.register_pytree_node_class
class BCSR(JAXSparse):
    """An array (*batch, rows, columns, *dense) with compressed rows.

    Args:
      args: data (*batch, nse, *dense), column indices (*batch, nse), and indptr
        (*batch, rows + 1): where each row begins.
      shape: the shape of the array.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCSR.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> print(x, x.indptr, x @ jnp.array([1.0, 10.0]))
    BCSR(float32[2, 2], nse=2) [0 1 2] [20.  3.]
    """

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices, self.indptr = (jnp.asarray(x) for x in args)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        super().__init__(args, shape=shape)
        rows = self.shape[self.n_batch]
        if self.indptr.ndim != self.indices.ndim or self.indptr.shape[-1] != rows + 1:
            raise ValueError(
                f"Invalid indptr.shape={self.indptr.shape} for shape={self.shape} and"
                f" indices.shape={self.indices.shape}"
            )

    @property
    def nse(self) -> int:
        return self.indices.shape[-1]

    @property
    def n_batch(self) -> int:
        """The number of batch dims."""
        return self.indices.ndim - 1

    @property
    def n_sparse(self) -> int:
        """Two: rows and columns."""
        return 2

    @property
    def n_dense(self) -> int:
        """The number of dims of which everything is stored."""
        return self.data.ndim - self.indices.ndim

    def _details(self) -> str:
        counts = {"n_batch": self.n_batch, "n_dense": self.n_dense}
        return "".join(f", {name}={n}" for name, n in counts.items() if n)

    def _buffers(self) -> tuple[Any, ...]:
        return self.data, self.indices, self.indptr

    def tree_flatten(self) -> tuple[Any, Any]:
        return self._buffers(), (self.shape, self.indices_sorted, self.unique_indices)

    @classmethod
    def tree_unflatten(cls, known: Any, children: Any) -> BCSR:
        self = object.__new__(cls)
        self.data, self.indices, self.indptr = children
        self.shape, self.indices_sorted, self.unique_indices = known
        return self

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:
        """The array without its zeros; see `bcoo_fromdense`."""
        mat = jnp.asarray(mat)
        if mat.ndim - n_dense - n_batch != 2:
            raise ValueError("bcsr_fromdense: must have 2 sparse dimensions.")
        stored = BCOO.fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )
        return cls.from_bcoo(stored)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """An array in batched coordinates, with two sparse dims, in this format."""
        if arr.n_sparse != 2:
            raise NotImplementedError("BCSR.from_bcoo requires n_sparse=2")
        arr = arr if arr.indices_sorted else arr.sort_indices()
        data, indices = full_batch(arr)
        rows = arr.shape[arr.n_batch]

        def pointers(row: Any) -> Any:
            return jnp.searchsorted(row, jnp.arange(rows + 1)).astype(row.dtype)

        indptr = over_batch(pointers, arr.n_batch)(indices[..., 0])
        return cls(
            (data, indices[..., 1], indptr),
            shape=arr.shape,
            indices_sorted=True,
            unique_indices=arr.unique_indices,
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """A SciPy matrix in this format."""
        if n_dense or n_batch:
            raise NotImplementedError(
                "BCSR from_scipy_sparse with nonzero n_dense/n_batch."
            )
        mat = mat.tocsr()
        kind = index_dtype or np.int32
        args = mat.data, mat.indices.astype(kind), mat.indptr.astype(kind)
        return cls(args, shape=mat.shape)

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
    ) -> BCSR:
        """An array that stores nothing, in `nse` places."""
        stored = BCOO._empty(
            shape,
            dtype=dtype,
            index_dtype=index_dtype,
            n_dense=n_dense,
            n_batch=n_batch,
            nse=nse,
        )
        if stored.n_sparse != 2:
            raise ValueError("BCSR sparse.empty: must have 2 sparse dimensions.")
        return cls.from_bcoo(stored)

    def to_bcoo(self) -> BCOO:
        """The array in batched coordinates."""
        nse = self.nse

        def row_of(pointers: Any) -> Any:
            places = jnp.arange(nse, dtype=pointers.dtype)
            found = jnp.searchsorted(pointers, places, side="right") - 1
            return found.astype(pointers.dtype)

        rows = over_batch(row_of, self.n_batch)(self.indptr)
        indices = jnp.stack(jnp.broadcast_arrays(rows, self.indices), axis=-1)
        return BCOO(
            (self.data, indices),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    def todense(self) -> Any:
        return self.to_bcoo().todense()

    def transpose(self, axes: Any = None) -> BCSR:
        raise NotImplementedError("BCSR.transpose: use to_bcoo().transpose")

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """Each index once; see `BCOO.sum_duplicates`."""
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse, remove_zeros))

    def __matmul__(self, other: Any) -> Any:
        return sparsify(operator.matmul)(self.to_bcoo(), other)

    def __rmatmul__(self, other: Any) -> Any:
        return sparsify(operator.matmul)(other, self.to_bcoo())


def bcsr_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> BCSR:
    """See `BCSR.fromdense`."""
    return BCSR.fromdense(
        mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
    )


def bcsr_todense(mat: BCSR) -> Any:
    """The array with all its elements."""
    return mat.todense()


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """Each index once, the elements of the same one added."""
    return mat.sum_duplicates(nse, remove_zeros=False)


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Any:
    """The elements of a dense array at given places, as data (*batch, nse, *dense)."""
    mat, indices = jnp.asarray(mat), jnp.asarray(indices)
    n_batch = indices.ndim - 1
    dense = mat.shape[n_batch + 2 :]
    data = jnp.zeros((*indices.shape, *dense), mat.dtype)
    stored = BCSR((data, indices, indptr), shape=mat.shape).to_bcoo()
    return bcoo_extract(stored, mat, assume_unique=True).data


def bcsr_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`lax.dot_general` of a `BCSR` and a dense array."""
    if not isinstance(lhs, BCSR):
        raise TypeError(f"bcsr_dot_general requires a BCSR array, got {type(lhs)}")
    return bcoo_dot_general(
        lhs.to_bcoo(),
        rhs,
        dimension_numbers=dimension_numbers,
        preferred_element_type=preferred_element_type,
    )


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> BCSR:
    """The array in a greater shape, of two dims."""
    out = rearranging.bcoo_broadcast_in_dim(
        mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions
    )
    return BCSR.from_bcoo(out)


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Several arrays, joined along a dim."""
    stored = [mat.to_bcoo() for mat in operands]
    return BCSR.from_bcoo(rearranging.bcoo_concatenate(stored, dimension=dimension))
