"""Two-dimensional formats: coordinates (COO), compressed rows (CSR), columns (CSC)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import tree_util
from curta.experimental.sparse.base import JAXSparse
from curta.experimental.sparse.bcoo import BCOO


class _Matrix(JAXSparse):
    """A sparse matrix whose operations are those of `BCOO`."""

    _fields: tuple[str, ...] = ()

    def __init__(self, args: tuple[Any, ...], *, shape: Sequence[int]) -> None:
        for name, x in zip(self._fields, args, strict=True):
            setattr(self, name, jnp.asarray(x))
        super().__init__(args, shape=shape)

    @property
    def nse(self) -> int:
        return self.data.shape[0]

    def _buffers(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def tree_flatten(self) -> tuple[Any, Any]:
        return self._buffers(), self.shape

    @classmethod
    def tree_unflatten(cls, shape: Any, children: Any) -> Any:
        self = object.__new__(cls)
        for name, x in zip(cls._fields, children, strict=True):
            setattr(self, name, x)
        self.shape = shape
        return self

    def coordinates(self) -> tuple[Any, Any]:
        """The rows and columns of the stored elements."""
        raise NotImplementedError

    def to_bcoo(self) -> BCOO:
        """The matrix in batched coordinates."""
        indices = jnp.stack(self.coordinates(), axis=-1)
        return BCOO((self.data, indices), shape=self.shape)

    def todense(self) -> Any:
        return self.to_bcoo().todense()

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, JAXSparse):
            raise NotImplementedError("matmul between two sparse objects.")
        return self.to_bcoo() @ jnp.asarray(other)

    @classmethod
    def _from_bcoo(cls, mat: BCOO) -> Any:
        raise NotImplementedError

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32
    ) -> Any:
        """The matrix without its zeros, with room for `nse` elements."""
        return cls._from_bcoo(BCOO.fromdense(mat, nse=nse, index_dtype=index_dtype))

    @classmethod
    def _empty(
        cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = np.int32
    ) -> Any:
        """A matrix that stores nothing."""
        return cls._from_bcoo(BCOO._empty(shape, dtype=dtype, index_dtype=index_dtype))

    @classmethod
    def _eye(
        cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = np.int32
    ) -> Any:
        """Ones on diagonal k."""
        return cls._from_bcoo(BCOO._eye(N, M, k, dtype=dtype, index_dtype=index_dtype))


@tree_util.register_pytree_node_class
class COO(_Matrix):
    """A matrix as (data, row, col).

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> sparse.COO.fromdense(jnp.array([[0.0, 2.0]]))
    COO(float32[1, 2], nse=1)
    """

    _fields = ("data", "row", "col")

    def coordinates(self) -> tuple[Any, Any]:
        return self.row, self.col

    @classmethod
    def _from_bcoo(cls, mat: BCOO) -> COO:
        return cls((mat.data, mat.indices[:, 0], mat.indices[:, 1]), shape=mat.shape)

    def transpose(self, axes: Any = None) -> COO:
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        return COO((self.data, self.col, self.row), shape=self.shape[::-1])


def _pointers(index: Any, size: int) -> Any:
    """Where each row begins among sorted row numbers."""
    return jnp.searchsorted(index, jnp.arange(size + 1)).astype(index.dtype)


def _expanded(pointers: Any, nse: int) -> Any:
    """The row of each element; those after the last get the number of rows."""
    places = jnp.arange(nse, dtype=pointers.dtype)
    return (jnp.searchsorted(pointers, places, side="right") - 1).astype(pointers.dtype)


@tree_util.register_pytree_node_class
class CSR(_Matrix):
    """A matrix as (data, indices, indptr): row i has the elements from indptr[i] on.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> sparse.CSR.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]])).indptr
    Array([0, 1, 2], dtype=int32)
    """

    _fields = ("data", "indices", "indptr")

    def coordinates(self) -> tuple[Any, Any]:
        return _expanded(self.indptr, self.nse), self.indices

    @classmethod
    def _from_bcoo(cls, mat: BCOO) -> CSR:
        mat = mat.sort_indices()
        row, column = mat.indices[:, 0], mat.indices[:, 1]
        return cls((mat.data, column, _pointers(row, mat.shape[0])), shape=mat.shape)

    def transpose(self, axes: Any = None) -> CSC:
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])


@tree_util.register_pytree_node_class
class CSC(_Matrix):
    """A matrix as (data, indices, indptr): its columns as those of `CSR` are rows.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> sparse.CSC.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]])).data
    Array([3., 2.], dtype=float32)
    """

    _fields = ("data", "indices", "indptr")

    def coordinates(self) -> tuple[Any, Any]:
        return self.indices, _expanded(self.indptr, self.nse)

    @classmethod
    def _from_bcoo(cls, mat: BCOO) -> CSC:
        return CSR._from_bcoo(mat.T).transpose()

    def transpose(self, axes: Any = None) -> CSR:
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])


# --- functions -----------------------------------------------------------------------


def coo_fromdense(
    mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32
) -> COO:
    """See `COO.fromdense`."""
    return COO.fromdense(mat, nse=nse, index_dtype=index_dtype)


def coo_todense(mat: COO) -> Any:
    """See `COO.todense`."""
    return mat.todense()


def csr_fromdense(
    mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32
) -> CSR:
    """See `CSR.fromdense`."""
    return CSR.fromdense(mat, nse=nse, index_dtype=index_dtype)


def csr_todense(mat: CSR, *, transpose: bool = False) -> Any:
    """The dense matrix, transposed if asked for."""
    return mat.T.todense() if transpose else mat.todense()


def _product(mat: _Matrix, x: Any, rank: int, transpose: bool) -> Any:
    x = jnp.asarray(x)
    if x.ndim != rank:
        raise TypeError(f"expected an array of {rank} dims, got shape {x.shape}")
    if x.shape[0] != mat.shape[0 if transpose else 1]:
        raise TypeError(f"shapes {mat.shape} and {x.shape} do not fit")
    return (mat.T if transpose else mat) @ x


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Any:
    """mat v, or matᵀ v."""
    return _product(mat, v, 1, transpose)


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Any:
    """mat B, or matᵀ B."""
    return _product(mat, B, 2, transpose)


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Any:
    """mat v, or matᵀ v."""
    return _product(mat, v, 1, transpose)


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Any:
    """mat B, or matᵀ B."""
    return _product(mat, B, 2, transpose)


_FORMATS = {"bcoo": BCOO, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name: str) -> Any:
    if name not in _FORMATS:
        raise ValueError(
            f"sparse_format={name!r} not recognized; must be one of {list(_FORMATS)}"
        )
    return _FORMATS[name]


def empty(
    shape: Sequence[int],
    dtype: Any = None,
    index_dtype: Any = np.int32,
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """An array that stores nothing."""
    kind = _format(sparse_format)
    return kind._empty(tuple(shape), dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = np.int32,
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """Ones on diagonal k of a matrix (N, M)."""
    kind = _format(sparse_format)
    M = N if M is None else M
    return kind._eye(
        operator.index(N),
        operator.index(M),
        operator.index(k),
        dtype=dtype,
        index_dtype=index_dtype,
        **kwds,
    )
