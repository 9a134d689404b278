"""`BCSR`: batches of matrices with compressed rows."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import curta.numpy as jnp
from curta import tree_util
from curta._base.lazy_dataclass import dataclass
from curta._base.on_demand import Listing, own
from curta.api.out_sharding import takes_out_sharding
from curta.core.primitive import Primitive, primitive_of
from curta.experimental.sparse import rearranging
from curta.experimental.sparse.base import JAXSparse
from curta.experimental.sparse.bcoo import BCOO
from curta.experimental.sparse.coordinates import (
    TRACED_NSE,
    _bcoo_extract,
    _bcoo_fromdense,
    _bcoo_todense,
    check_buffers,
    full_batch,
)
from curta.experimental.sparse.operations import SparseOp
from curta.experimental.sparse.products import (
    _bcoo_dot_general,
    bcoo_dot_general,
    normalised_numbers,
)
from curta.experimental.sparse.transform import sparsifiable, sparsify
from curta.experimental.sparse.util import (
    SparseInfo,
    _count_stored_elements,
    known_layout,
    over_batch,
    pointers,
    rebatched,
    rows_of,
)
from curta.numpy.arguments import concrete
from curta.primitives.dot import DotDims

__dir__: Listing = own(__name__)


@sparsifiable
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

    _fields = ("data", "indices", "indptr")

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
        self._rank = self.n_batch
        buffers = {"indices": self.indices, "indptr": self.indptr}
        check_buffers(self, "(*batch, nse) and (*batch, rows + 1)", **buffers)
        rows = self.shape[self.n_batch]
        if self.indptr.shape[self.n_batch :] != (rows + 1,):
            raise ValueError(
                "indptr shape must match the matrix shape plus 1. Got"
                f" indptr.shape={self.indptr.shape} for shape={self.shape}"
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
        """The number of trailing dims that are stored densely."""
        return self.data.ndim - self.indices.ndim

    def _details(self) -> str:
        counts = {"n_batch": self.n_batch, "n_dense": self.n_dense}
        return "".join(f", {name}={n}" for name, n in counts.items() if n)

    def _buffers(self) -> tuple[Any, ...]:
        return self.data, self.indices, self.indptr

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    def tree_flatten(self) -> tuple[Any, Any]:
        """Children, which may be anything in trees of this structure, and metadata."""
        rank = getattr(self.indices, "ndim", self._rank + 1) - 1
        batch, rest = self.shape[:rank], self.shape[rank:]
        return self._buffers(), (batch, rest, self.indices_sorted, self.unique_indices)

    @classmethod
    def tree_unflatten(cls, known: Any, children: Any) -> BCSR:
        self = object.__new__(cls)
        self.data, self.indices, self.indptr = children
        batch, rest, self.indices_sorted, self.unique_indices = known
        # As of `BCOO`: a function may be mapped over batch dims.
        rank = getattr(self.indices, "ndim", len(batch) + 1) - 1
        if rank != len(batch):
            batch = rebatched(batch, rank, self.data, self.indices)
        self._rank, self.shape = len(batch), (*batch, *rest)
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
        """See `bcsr_fromdense`."""
        return bcsr_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """An array in batched coordinates, with two sparse dims, in this format."""
        if arr.n_sparse != 2:
            raise NotImplementedError("BCSR.from_bcoo requires n_sparse=2")
        arr = arr if arr.indices_sorted else arr.sort_indices()
        data, indices = full_batch(arr)
        return cls(
            (data, *_bcoo_to_bcsr(indices, shape=arr.shape)),
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
        """An array that stores nothing but zeros, `nse` of them."""
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
        indices = _bcsr_to_bcoo(self.indices, self.indptr, shape=self.shape)
        return BCOO(
            (self.data, indices),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    def todense(self) -> Any:
        return bcsr_todense(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """Each index once; see `BCOO.sum_duplicates`."""
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse, remove_zeros))

    __matmul__ = sparsify(jnp.matmul)
    __rmatmul__ = sparsify(lambda x, y: jnp.matmul(y, x))

    def __getitem__(self, index: Any) -> Any:
        return sparsify(lambda x: x[index])(self)


def _bcsr_to_bcoo(indices: Any, indptr: Any, *, shape: Sequence[int]) -> Any:
    """The indices of an array with compressed rows in batched coordinates."""
    indices, indptr = jnp.asarray(indices), jnp.asarray(indptr)
    n_batch, nse = indices.ndim - 1, indices.shape[-1]
    rows = over_batch(lambda indptr: rows_of(indptr, nse), n_batch)(indptr)
    return jnp.stack(jnp.broadcast_arrays(rows, indices), axis=-1)


def _bcoo_to_bcsr(
    indices: Any, *, shape: Sequence[int], index_dtype: Any = None
) -> tuple[Any, Any]:
    """Column indices and indptr of an array whose coordinates are sorted."""
    indices = jnp.asarray(indices)
    n_batch = indices.ndim - 2
    if indices.shape[-1] != 2:
        raise ValueError("Must have 2 sparse dimensions to be converted to BCSR.")
    rows = shape[n_batch]
    begins = over_batch(lambda row: pointers(row, rows), n_batch)(indices[..., 0])
    dtype = indices.dtype if index_dtype is None else index_dtype
    return indices[..., 1].astype(dtype), begins.astype(dtype)


# --- primitives ----------------------------------------------------------------------


@dataclass(frozen=True)
class BcsrFromdense(SparseOp):
    """A dense array to (data, indices, indptr) of its `nse` first elements."""

    name: ClassVar[str] = "bcsr_fromdense"
    multiple_results: ClassVar[bool] = True
    linear_in: ClassVar[tuple[int, ...]] = ()
    nse: int
    n_batch: int
    n_dense: int
    index_dtype: Any

    def compose(self, *args: Any) -> Any:
        (mat,) = args
        if mat.ndim - self.n_dense - self.n_batch != 2:
            raise ValueError("bcsr_fromdense: must have 2 sparse dimensions.")
        data, indices = _bcoo_fromdense(
            mat,
            nse=self.nse,
            n_batch=self.n_batch,
            n_dense=self.n_dense,
            index_dtype=self.index_dtype,
        )
        return data, *_bcoo_to_bcsr(indices, shape=mat.shape)

    def batched(self, size: int) -> SparseOp:
        return dataclasses.replace(self, n_batch=self.n_batch + 1)


@dataclass(frozen=True)
class BcsrTodense(SparseOp):
    """(data, indices, indptr) to the array with all its elements."""

    name: ClassVar[str] = "bcsr_todense"
    spinfo: SparseInfo

    def compose(self, *args: Any) -> Any:
        data, indices, indptr = args
        indices = _bcsr_to_bcoo(indices, indptr, shape=self.spinfo.shape)
        return _bcoo_todense(data, indices, spinfo=self.spinfo)

    def batched(self, size: int) -> SparseOp:
        return BcsrTodense(self.spinfo.with_batch(size))


@dataclass(frozen=True)
class BcsrExtract(SparseOp):
    """(indices, indptr, dense array) to the data at those indices."""

    name: ClassVar[str] = "bcsr_extract"
    linear_in: ClassVar[tuple[int, ...]] = (2,)
    whole: ClassVar[tuple[int, ...]] = (2,)

    def compose(self, *args: Any) -> Any:
        indices, indptr, mat = args
        if mat.ndim <= indices.ndim:
            raise ValueError(
                "bcsr_extract takes a dense array of at least as many dims as the"
                f" sparse one, got mat.shape={mat.shape} for {indices.shape=}"
            )
        indices = _bcsr_to_bcoo(indices, indptr, shape=mat.shape)
        return _bcoo_extract(indices, mat)

    def batched(self, size: int) -> SparseOp:
        return self


@dataclass(frozen=True)
class BcsrDotGeneral(SparseOp):
    """(data, indices, indptr) of the left operand, and the right, to the product."""

    name: ClassVar[str] = "bcsr_dot_general"
    linear_in: ClassVar[tuple[int, ...]] = (0, 3)
    dimension_numbers: DotDims
    lhs_spinfo: SparseInfo
    preferred_element_type: Any = None

    def compose(self, *args: Any) -> Any:
        data, indices, indptr, rhs = args
        return _bcoo_dot_general(
            data,
            _bcsr_to_bcoo(indices, indptr, shape=self.lhs_spinfo.shape),
            rhs,
            dimension_numbers=self.dimension_numbers,
            preferred_element_type=self.preferred_element_type,
            lhs_spinfo=self.lhs_spinfo,
        )


bcsr_fromdense_p: Primitive = primitive_of(BcsrFromdense)
bcsr_todense_p: Primitive = primitive_of(BcsrTodense)
bcsr_extract_p: Primitive = primitive_of(BcsrExtract)
bcsr_dot_general_p: Primitive = primitive_of(BcsrDotGeneral)


# --- functions -----------------------------------------------------------------------


def bcsr_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> BCSR:
    """The array without its zeros.

    Args:
      mat, nse, n_batch, n_dense, index_dtype: as for `bcoo_fromdense`; two dims are
        neither of batches nor dense.

    Returns:
      A `BCSR` of the shape and dtype of the array.

    Raises:
      ValueError: for another number of sparse dims.
      TypeError: if an argument is not an array.
      ConcretizationTypeError: if the array is traced and `nse` is not given.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcsr_fromdense(x.todense()).indptr
    Array([0, 2, 3], dtype=int32)
    """
    mat = jnp.asarray(mat)
    layout = known_layout("bcsr_fromdense", mat.ndim, n_batch, n_dense, index_dtype)
    if nse is None:
        nse = _count_stored_elements(mat, layout["n_batch"], layout["n_dense"])
    buffers = _bcsr_fromdense(mat, nse=nse, **layout)
    return BCSR(buffers, shape=mat.shape, indices_sorted=True, unique_indices=True)


def _bcsr_fromdense(
    mat: Any,
    *,
    nse: int,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> Any:
    """(data, indices, indptr) of a dense array."""
    nse = concrete(nse, TRACED_NSE, operator.index)
    return BcsrFromdense(nse, n_batch, n_dense, index_dtype)(jnp.asarray(mat))


def bcsr_todense(mat: BCSR) -> Any:
    """The array with all its elements.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcsr_todense(sparse.BCSR.from_bcoo(x))
    Array([[1, 0, 2],
           [0, 3, 0]], dtype=int32)
    """
    return BcsrTodense(mat._info)(*mat._buffers())


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """Each index once, the elements of the same one added.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcsr_sum_duplicates(sparse.BCSR.from_bcoo(x)).data
    Array([1, 2, 3], dtype=int32)
    """
    return mat.sum_duplicates(nse, remove_zeros=False)


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Any:
    """The elements of a dense array at given indices.

    Args:
      indices: columns, integers (*batch, nse).
      indptr: where the rows begin, integers (*batch, rows + 1).
      mat: array (*batch, rows, columns, *dense).

    Returns:
      Data (*batch, nse, *dense) of the dtype of the array.

    Raises:
      ValueError: for an array of fewer dims.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> y = sparse.BCSR.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcsr_extract(y.indices, y.indptr, jnp.arange(6).reshape(2, 3))
    Array([0, 2, 4], dtype=int32)
    """
    return BcsrExtract()(indices, indptr, mat)


def bcsr_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`lax.dot_general` of a `BCSR` and a dense array, in either order.

    Args:
      lhs, rhs: the arrays.
      dimension_numbers, precision, preferred_element_type: as for `lax.dot_general`.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      A dense array; a sparse one if both are.

    Raises:
      TypeError: if numbers or shapes do not match.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCSR.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> numbers = (([1], [0]), ([], []))
    >>> sparse.bcsr_dot_general(x, jnp.ones(3, int), dimension_numbers=numbers)
    Array([3, 3], dtype=int32)
    """
    if isinstance(lhs, BCSR) and not isinstance(rhs, JAXSparse):
        numbers, kind = normalised_numbers(dimension_numbers), preferred_element_type
        return _dense_result(lhs, rhs, numbers, kind, out_sharding=out_sharding)
    return bcoo_dot_general(
        *(x.to_bcoo() if isinstance(x, BCSR) else x for x in (lhs, rhs)),
        dimension_numbers=dimension_numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


@takes_out_sharding
def _dense_result(
    lhs: BCSR, rhs: Any, numbers: DotDims, kind: Any, *, out_sharding: Any = None
) -> Any:
    op = BcsrDotGeneral(numbers, lhs._info, kind)
    return op(*lhs._buffers(), jnp.asarray(rhs))


def bcsr_broadcast_in_dim(
    mat: BCSR,
    *,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    sharding: Any = None,
) -> BCSR:
    """The array in a greater shape, with two sparse dims.

    Args:
      mat: a `BCSR`.
      shape: the shape of the result.
      broadcast_dimensions: the dim of the result for each dim of `mat`.
      sharding: not supported.

    Returns:
      A `BCSR` of this shape.

    Raises:
      ValueError: if shapes do not match.
      NotImplementedError: for a result of other than two sparse dims, and `sharding`.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> y = sparse.BCSR.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcsr_broadcast_in_dim(
    ...     y, shape=(2, 2, 3), broadcast_dimensions=(1, 2)
    ... ).shape
    (2, 2, 3)
    """
    out = rearranging.bcoo_broadcast_in_dim(
        mat.to_bcoo(),
        shape=shape,
        broadcast_dimensions=broadcast_dimensions,
        sharding=sharding,
    )
    return BCSR.from_bcoo(out)


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Several arrays, joined along a dim.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> y = sparse.BCSR.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcsr_concatenate([y, y], dimension=0).shape
    (4, 3)
    """
    stored = [mat.to_bcoo() for mat in operands]
    return BCSR.from_bcoo(rearranging.bcoo_concatenate(stored, dimension=dimension))
