"""`CSR` and `CSC`: matrices with compressed rows, or columns."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

import curta.numpy as jnp
from curta import tree_util
from curta._base.lazy_dataclass import dataclass
from curta._base.on_demand import Listing, own
from curta.core.primitive import Primitive, primitive_of
from curta.experimental.sparse.base import require_format
from curta.experimental.sparse.bcoo import BCOO
from curta.experimental.sparse.coo import coordinate_product
from curta.experimental.sparse.coordinates import TRACED_NSE, _bcoo_fromdense
from curta.experimental.sparse.matrices import FormattedMatrix, check_product
from curta.experimental.sparse.operations import SparseOp
from curta.experimental.sparse.util import (
    Shape,
    _count_stored_elements,
    _csr_to_coo,
    pointers,
    rows_of,
)
from curta.numpy.arguments import concrete

__dir__: Listing = own(__name__)


@tree_util.register_pytree_node_class
class CSR(FormattedMatrix):
    """A matrix as (data, indices, indptr): the columns of its elements, row by row.

    Those of row i are stored from indptr[i] to indptr[i + 1].

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> sparse.CSR.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]])).indptr
    Array([0, 1, 2], dtype=int32)
    """

    _fields = ("data", "indices", "indptr")
    indices: Any
    indptr: Any

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Shape) -> None:
        super().__init__(args, shape=shape)

    def coordinates(self) -> tuple[Any, Any]:
        return rows_of(self.indptr, self.nse), self.indices

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32
    ) -> CSR:
        """The matrix without its zeros, with room for `nse` elements."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _from_bcoo(cls, mat: BCOO) -> CSR:
        mat = mat if mat.indices_sorted else mat.sort_indices()
        row, column = mat.indices[:, 0], mat.indices[:, 1]
        return cls((mat.data, column, pointers(row, mat.shape[0])), shape=mat.shape)

    def todense(self) -> Any:
        return csr_todense(self)

    def transpose(self, axes: Any = None) -> CSC:
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])

    def product(self, data: Any, x: Any) -> Any:
        multiply = _csr_matvec if x.ndim == 1 else _csr_matmat
        return multiply(data, self.indices, self.indptr, x, shape=self.shape)


@tree_util.register_pytree_node_class
class CSC(FormattedMatrix):
    """A matrix as (data, indices, indptr): its columns as those of `CSR` are rows.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> sparse.CSC.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]])).data
    Array([3., 2.], dtype=float32)
    """

    _fields = ("data", "indices", "indptr")
    indices: Any
    indptr: Any
    _compressed = 1

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Shape) -> None:
        super().__init__(args, shape=shape)

    def coordinates(self) -> tuple[Any, Any]:
        return self.indices, rows_of(self.indptr, self.nse)

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32
    ) -> CSC:
        """The matrix without its zeros, with room for `nse` elements."""
        mat = jnp.asarray(mat).T
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype).T

    @classmethod
    def _from_bcoo(cls, mat: BCOO) -> CSC:
        return CSR._from_bcoo(mat.T).transpose()

    def todense(self) -> Any:
        return self.transpose().todense().T

    def transpose(self, axes: Any = None) -> CSR:
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])

    def product(self, data: Any, x: Any) -> Any:
        multiply = _csr_matvec if x.ndim == 1 else _csr_matmat
        shape = self.shape[::-1]
        return multiply(data, self.indices, self.indptr, x, shape=shape, transpose=True)


# --- primitives ----------------------------------------------------------------------


@dataclass(frozen=True)
class CsrFromdense(SparseOp):
    """A dense matrix to (data, indices, indptr) of its `nse` first elements."""

    name: ClassVar[str] = "csr_fromdense"
    multiple_results: ClassVar[bool] = True
    linear_in: ClassVar[tuple[int, ...]] = ()
    nse: int
    index_dtype: Any

    def compose(self, *args: Any) -> Any:
        (mat,) = args
        data, indices = _bcoo_fromdense(mat, nse=self.nse, index_dtype=self.index_dtype)
        return data, indices[:, 1], pointers(indices[:, 0], mat.shape[0])


@dataclass(frozen=True)
class CsrTodense(SparseOp):
    """(data, indices, indptr) to the dense matrix."""

    name: ClassVar[str] = "csr_todense"
    shape: Shape

    def compose(self, *args: Any) -> Any:
        data, indices, indptr = args
        zero = jnp.zeros(self.shape, data.dtype)
        return zero.at[_csr_to_coo(indices, indptr)].add(data, mode="drop")


@dataclass(frozen=True)
class CsrMatvec(SparseOp):
    """(data, indices, indptr) and a vector to their product."""

    name: ClassVar[str] = "csr_matvec"
    linear_in: ClassVar[tuple[int, ...]] = (0, 3)
    rank: ClassVar[int] = 1
    shape: Shape
    transpose_: bool

    param_names: ClassVar[Mapping[str, str | None]] = {"transpose": "transpose_"}

    def compose(self, *args: Any) -> Any:
        data, indices, indptr, x = args
        check_product(self.shape, x, self.transpose_, self.rank)
        row, col = _csr_to_coo(indices, indptr)
        return coordinate_product(data, row, col, x, self.shape, self.transpose_)


@dataclass(frozen=True)
class CsrMatmat(CsrMatvec):
    """(data, indices, indptr) and a matrix to their product."""

    name: ClassVar[str] = "csr_matmat"
    rank: ClassVar[int] = 2


csr_fromdense_p: Primitive = primitive_of(CsrFromdense)
csr_todense_p: Primitive = primitive_of(CsrTodense)
csr_matvec_p: Primitive = primitive_of(CsrMatvec)
csr_matmat_p: Primitive = primitive_of(CsrMatmat)


# --- functions -----------------------------------------------------------------------


def csr_fromdense(
    mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32
) -> CSR:
    """The matrix without its zeros.

    Args:
      mat: a matrix.
      nse: how many elements there is room for; by default as many as are not zero.
      index_dtype: of the indices; int32 by default.

    Returns:
      A `CSR` of the shape and dtype of the matrix.

    Raises:
      ValueError: if the rank differs.
      TypeError: if an argument is not an array.
      ConcretizationTypeError: if the matrix is traced and `nse` is not given.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.csr_fromdense(x.todense()).indptr
    Array([0, 2, 3], dtype=int32)
    """
    mat = jnp.asarray(mat)
    if mat.ndim != 2:
        raise ValueError(f"CSR must have ndim=2; got shape={mat.shape}")
    nse = _count_stored_elements(mat) if nse is None else nse
    return CSR(_csr_fromdense(mat, nse=nse, index_dtype=index_dtype), shape=mat.shape)


def csr_todense(mat: CSR, *, transpose: bool = False) -> Any:
    """The dense matrix, transposed if asked for.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.csr_todense(sparse.CSR.fromdense(x.todense()))
    Array([[1, 0, 2],
           [0, 3, 0]], dtype=int32)
    """
    out = _csr_todense(mat.data, mat.indices, mat.indptr, shape=mat.shape)
    return out.T if transpose else out


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Any:
    """mat v, or matᵀ v.

    Args:
      mat: a `CSR` (m, n).
      v: a vector (n,), or (m,) with `transpose`.
      transpose: whether to multiply with the transposed matrix.

    Returns:
      A vector (m,), or (n,).

    Raises:
      TypeError: if the argument is not a `CSR` or shapes do not match.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.csr_matvec(sparse.CSR.fromdense(x.todense()), jnp.ones(3, int))
    Array([3, 3], dtype=int32)
    """
    require_format("csr_matvec", CSR, "CSR", mat)
    buffers = mat.data, mat.indices, mat.indptr
    return _csr_matvec(*buffers, v, shape=mat.shape, transpose=transpose)


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Any:
    """mat B, or matᵀ B.

    Args:
      mat: a `CSR` (m, n).
      B: a matrix (n, k), or (m, k) with `transpose`.
      transpose: whether to multiply with the transposed matrix.

    Returns:
      A matrix (m, k), or (n, k).

    Raises:
      TypeError: if the argument is not a `CSR` or shapes do not match.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.csr_matmat(sparse.CSR.fromdense(x.todense()), jnp.ones((3, 1), int))
    Array([[3],
           [3]], dtype=int32)
    """
    require_format("csr_matmat", CSR, "CSR", mat)
    buffers = mat.data, mat.indices, mat.indptr
    return _csr_matmat(*buffers, B, shape=mat.shape, transpose=transpose)


def _csr_fromdense(mat: Any, *, nse: int, index_dtype: Any = np.int32) -> Any:
    nse = concrete(nse, TRACED_NSE, operator.index)
    return CsrFromdense(nse, index_dtype)(jnp.asarray(mat))


def _csr_todense(data: Any, indices: Any, indptr: Any, *, shape: Shape) -> Any:
    return CsrTodense(tuple(shape))(data, indices, indptr)


def _csr_matvec(
    data: Any,
    indices: Any,
    indptr: Any,
    v: Any,
    *,
    shape: Shape,
    transpose: bool = False,
) -> Any:
    op = CsrMatvec(tuple(shape), bool(transpose))
    return op(data, indices, indptr, v)


def _csr_matmat(
    data: Any,
    indices: Any,
    indptr: Any,
    B: Any,
    *,
    shape: Shape,
    transpose: bool = False,
) -> Any:
    op = CsrMatmat(tuple(shape), bool(transpose))
    return op(data, indices, indptr, B)
