"""`COO`: matrices in coordinates."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

import curta.numpy as jnp
from curta import tree_util
from curta._base.lazy_dataclass import dataclass
from curta._base.on_demand import Listing, own
from curta.core.primitive import Primitive, primitive_of
from curta.experimental.sparse.base import require_format
from curta.experimental.sparse.bcoo import BCOO
from curta.experimental.sparse.coordinates import TRACED_NSE, _bcoo_fromdense
from curta.experimental.sparse.matrices import FormattedMatrix, check_product
from curta.experimental.sparse.operations import SparseOp
from curta.experimental.sparse.util import Shape, _count_stored_elements
from curta.numpy.arguments import concrete

__dir__: Listing = own(__name__)


class COOInfo(NamedTuple):
    """The shape of a matrix in coordinates, and what is known of their order."""

    shape: Shape
    rows_sorted: bool = False
    cols_sorted: bool = False


@tree_util.register_pytree_node_class
class COO(FormattedMatrix):
    """A matrix as (data, row, col).

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> sparse.COO.fromdense(jnp.array([[0.0, 2.0]]))
    COO(float32[1, 2], nse=1)
    """

    _fields = ("data", "row", "col")
    row: Any
    col: Any

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:
        super().__init__(args, shape=shape)
        self._rows_sorted, self._cols_sorted = rows_sorted, cols_sorted

    @property
    def _info(self) -> COOInfo:
        return COOInfo(self.shape, self._rows_sorted, self._cols_sorted)

    def tree_flatten(self) -> tuple[Any, Any]:
        """The children and the metadata, for `register_pytree_node_class`."""
        return self._buffers(), self._info

    @classmethod
    def tree_unflatten(cls, known: Any, children: Any) -> Any:
        self = super().tree_unflatten(known[:1], children)
        _, self._rows_sorted, self._cols_sorted = known
        return self

    def coordinates(self) -> tuple[Any, Any]:
        return self.row, self.col

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32
    ) -> COO:
        """The matrix without its zeros, with room for `nse` elements."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _from_bcoo(cls, mat: BCOO) -> COO:
        args = mat.data, mat.indices[:, 0], mat.indices[:, 1]
        return cls(args, shape=mat.shape, rows_sorted=mat.indices_sorted)

    def _sort_indices(self) -> COO:
        """The matrix with its elements in the order of rows, then columns."""
        return (
            self if self._rows_sorted else COO._from_bcoo(self.to_bcoo().sort_indices())
        )

    def todense(self) -> Any:
        return coo_todense(self)

    def transpose(self, axes: Any = None) -> COO:
        if axes is not None:
            raise NotImplementedError("axes argument to transpose()")
        return COO(
            (self.data, self.col, self.row),
            shape=self.shape[::-1],
            rows_sorted=self._cols_sorted,
            cols_sorted=self._rows_sorted,
        )

    def product(self, data: Any, x: Any) -> Any:
        multiply = _coo_matvec if x.ndim == 1 else _coo_matmat
        return multiply(data, self.row, self.col, x, spinfo=self._info)


# --- primitives ----------------------------------------------------------------------


@dataclass(frozen=True)
class CooFromdense(SparseOp):
    """A dense matrix to (data, row, col) of its first `nse` elements but zeros."""

    name: ClassVar[str] = "coo_fromdense"
    multiple_results: ClassVar[bool] = True
    linear_in: ClassVar[tuple[int, ...]] = ()
    nse: int
    index_dtype: Any

    def compose(self, *args: Any) -> Any:
        data, indices = _bcoo_fromdense(
            *args, nse=self.nse, index_dtype=self.index_dtype
        )
        return data, indices[:, 0], indices[:, 1]


@dataclass(frozen=True)
class CooTodense(SparseOp):
    """(data, row, col) to the dense matrix."""

    name: ClassVar[str] = "coo_todense"
    spinfo: COOInfo

    def compose(self, *args: Any) -> Any:
        data, row, col = args
        zero = jnp.zeros(self.spinfo.shape, data.dtype)
        return zero.at[row, col].add(data, mode="drop")


@dataclass(frozen=True)
class CooMatvec(SparseOp):
    """(data, row, col) and a vector to their product."""

    name: ClassVar[str] = "coo_matvec"
    linear_in: ClassVar[tuple[int, ...]] = (0, 3)
    rank: ClassVar[int] = 1
    spinfo: COOInfo
    transpose_: bool

    param_names: ClassVar[Mapping[str, str | None]] = {"transpose": "transpose_"}

    def compose(self, *args: Any) -> Any:
        data, row, col, x = args
        check_product(self.spinfo.shape, x, self.transpose_, self.rank)
        return coordinate_product(data, row, col, x, self.spinfo.shape, self.transpose_)


@dataclass(frozen=True)
class CooMatmat(CooMatvec):
    """(data, row, col) and a matrix to their product."""

    name: ClassVar[str] = "coo_matmat"
    rank: ClassVar[int] = 2


def coordinate_product(
    data: Any, row: Any, col: Any, x: Any, shape: Sequence[int], transpose: bool
) -> Any:
    """The products of the elements with the rows of `x`, added up."""
    rows, columns = shape
    if transpose:
        row, col, rows = col, row, columns
    parts = x.at[col].get(mode="fill", fill_value=0)
    products = data.reshape(-1, *(1,) * (x.ndim - 1)) * parts
    zero = jnp.zeros((rows, *x.shape[1:]), products.dtype)
    return zero.at[row].add(products, mode="drop")


coo_fromdense_p: Primitive = primitive_of(CooFromdense)
coo_todense_p: Primitive = primitive_of(CooTodense)
coo_matvec_p: Primitive = primitive_of(CooMatvec)
coo_matmat_p: Primitive = primitive_of(CooMatmat)


# --- functions -----------------------------------------------------------------------


def coo_fromdense(
    mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32
) -> COO:
    """The matrix without its zeros.

    Args:
      mat: a matrix.
      nse: how many elements there is room for; by default as many as are not zero.
      index_dtype: of the indices; int32 by default.

    Returns:
      A `COO` of the shape and dtype of the matrix.

    Raises:
      ValueError: if the rank differs.
      TypeError: if an argument is not an array.
      ConcretizationTypeError: if the matrix is traced and `nse` is not given.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.coo_fromdense(x.todense()).row
    Array([0, 0, 1], dtype=int32)
    """
    mat = jnp.asarray(mat)
    if mat.ndim != 2:
        raise ValueError(f"COO must have ndim=2; got shape={mat.shape}")
    nse = _count_stored_elements(mat) if nse is None else nse
    args = _coo_fromdense(mat, nse=nse, index_dtype=index_dtype)
    return COO(args, shape=mat.shape, rows_sorted=True)


def coo_todense(mat: COO) -> Any:
    """See `COO.todense`.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.coo_todense(sparse.COO.fromdense(x.todense()))
    Array([[1, 0, 2],
           [0, 3, 0]], dtype=int32)
    """
    return _coo_todense(mat.data, mat.row, mat.col, spinfo=mat._info)


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Any:
    """mat v, or matᵀ v.

    Args:
      mat: a `COO` (m, n).
      v: a vector (n,), or (m,) with `transpose`.
      transpose: whether to multiply with the transposed matrix.

    Returns:
      A vector (m,), or (n,).

    Raises:
      TypeError: if the argument is not a `COO` or shapes do not match.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.coo_matvec(sparse.COO.fromdense(x.todense()), jnp.ones(3, int))
    Array([3, 3], dtype=int32)
    """
    require_format("coo_matvec", COO, "COO", mat)
    return _coo_matvec(
        mat.data, mat.row, mat.col, v, spinfo=mat._info, transpose=transpose
    )


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Any:
    """mat B, or matᵀ B.

    Args:
      mat: a `COO` (m, n).
      B: a matrix (n, k), or (m, k) with `transpose`.
      transpose: whether to multiply with the transposed matrix.

    Returns:
      A matrix (m, k), or (n, k).

    Raises:
      TypeError: if the argument is not a `COO` or shapes do not match.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.coo_matmat(sparse.COO.fromdense(x.todense()), jnp.ones((3, 1), int))
    Array([[3],
           [3]], dtype=int32)
    """
    require_format("coo_matmat", COO, "COO", mat)
    return _coo_matmat(
        mat.data, mat.row, mat.col, B, spinfo=mat._info, transpose=transpose
    )


def _coo_fromdense(mat: Any, *, nse: int, index_dtype: Any = np.int32) -> Any:
    nse = concrete(nse, TRACED_NSE, operator.index)
    return CooFromdense(nse, index_dtype)(jnp.asarray(mat))


def _coo_todense(data: Any, row: Any, col: Any, *, spinfo: COOInfo) -> Any:
    return CooTodense(_info(spinfo))(data, row, col)


def _coo_matvec(
    data: Any, row: Any, col: Any, v: Any, *, spinfo: COOInfo, transpose: bool = False
) -> Any:
    op = CooMatvec(_info(spinfo), bool(transpose))
    return op(data, row, col, v)


def _coo_matmat(
    data: Any, row: Any, col: Any, B: Any, *, spinfo: COOInfo, transpose: bool = False
) -> Any:
    op = CooMatmat(_info(spinfo), bool(transpose))
    return op(data, row, col, B)


def _info(spinfo: COOInfo) -> COOInfo:
    return spinfo._replace(shape=tuple(spinfo.shape))
