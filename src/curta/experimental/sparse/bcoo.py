"""`BCOO`: arrays in batched coordinates, with their operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

import curta.numpy as jnp
from curta import tree_util
from curta._base.on_demand import Listing, own
from curta.experimental.sparse.coordinates import (
    Coordinates,
    _bcoo_extract as _bcoo_extract,
    _bcoo_fromdense,
    _bcoo_todense as _bcoo_todense,
)
from curta.experimental.sparse.layout import (
    bcoo_eliminate_zeros,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_update_layout,
)
from curta.experimental.sparse.products import (
    _bcoo_dot_general as _bcoo_dot_general,
    bcoo_dot_general as bcoo_dot_general,
)
from curta.experimental.sparse.rearranging import bcoo_transpose
from curta.experimental.sparse.transform import sparsifiable, sparsify
from curta.experimental.sparse.util import _count_stored_elements, known_layout

__dir__: Listing = own(__name__)


@sparsifiable
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

    # These are its own, so that what Python says of a wrong call names this class.
    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        super().__init__(
            args,
            shape=shape,
            indices_sorted=indices_sorted,
            unique_indices=unique_indices,
        )

    def todense(self) -> Any:
        return super().todense()

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
        """An array that stores nothing but zeros, `nse` of them."""
        shape = tuple(shape)
        n_sparse = len(shape) - n_dense - n_batch
        if min(n_sparse, n_dense, n_batch, nse) < 0:
            raise ValueError(
                f"Invalid inputs: shape={shape}, n_dense={n_dense}, n_batch={n_batch},"
                f" nse={nse}"
            )
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
        cls,
        N: int,
        M: int,
        k: int,
        *,
        dtype: Any = None,
        index_dtype: Any = np.int32,
        n_batch: int = 0,
        n_dense: int = 0,
    ) -> BCOO:
        """Ones on diagonal k."""
        if n_batch < 0 or n_dense < 0 or n_batch + n_dense > 2:
            raise ValueError(
                f"Invalid inputs: shape={(N, M)}, n_dense={n_dense}, n_batch={n_batch}"
            )
        if n_batch or n_dense:
            ones = np.eye(N, M, k, dtype=bool)
            inner = ones.any(1, keepdims=True) if n_dense == 1 else ones
            inner = inner.any(keepdims=True) if n_dense == 2 else inner
            nse = inner.sum(tuple(range(n_batch, 2))).max(initial=0)
            return cls.fromdense(
                jnp.eye(N, M, k, dtype=dtype),
                nse=int(nse),
                n_batch=n_batch,
                n_dense=n_dense,
                index_dtype=index_dtype,
            )
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
        return sparsify(lambda x: x.astype(dtype))(self)

    def sum(self, axis: Any = None) -> Any:
        """The sum over `axis`, all by default."""
        return sparsify(lambda x: x.sum(axis))(self)

    def reshape(self, *shape: Any) -> BCOO:
        """The array in another shape."""
        return sparsify(lambda x: x.reshape(*shape))(self)

    def __getitem__(self, index: Any) -> Any:
        return sparsify(lambda x: x[index])(self)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self.shape[0]))

    __matmul__ = sparsify(jnp.matmul)
    __rmatmul__ = sparsify(lambda x, y: jnp.matmul(y, x))
    __mul__ = sparsify(jnp.multiply)
    __rmul__ = sparsify(lambda x, y: jnp.multiply(y, x))
    __truediv__ = sparsify(jnp.divide)
    __rtruediv__ = sparsify(lambda x, y: jnp.divide(y, x))
    __add__ = sparsify(jnp.add)
    __radd__ = sparsify(lambda x, y: jnp.add(y, x))
    __sub__ = sparsify(jnp.subtract)
    __rsub__ = sparsify(lambda x, y: jnp.subtract(y, x))
    __neg__ = sparsify(jnp.negative)
    __pos__ = sparsify(jnp.positive)
    __abs__ = sparsify(jnp.abs)

    __rpow__ = sparsify(lambda x, y: jnp.power(y, x))
    __gt__ = sparsify(jnp.greater)
    __ge__ = sparsify(jnp.greater_equal)
    __lt__ = sparsify(jnp.less)
    __le__ = sparsify(jnp.less_equal)
    __eq__ = sparsify(jnp.equal)
    __ne__ = sparsify(jnp.not_equal)
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __pow__(self, exponent: Any) -> Any:
        return sparsify(lambda x: jnp.power(x, exponent))(self)


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
      nse: the number of elements to store for each batch; required in jit. Further
        elements are dropped, and missing ones are stored as zeros with indices out of
        range. By default the number of nonzero elements.
      n_batch, n_dense: the first and last dims that are kept as they are; none by
        default.
      index_dtype: of the indices; int32 by default.

    Returns:
      A `BCOO` of the shape and dtype of the array.

    Raises:
      ValueError: if numbers of dims do not match.
      TypeError: if an argument is not an array or `nse` is negative.
      ConcretizationTypeError: if the array is traced and `nse` is not given.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> sparse.bcoo_fromdense(jnp.array([[1, 0, 2], [0, 3, 0]])).indices
    Array([[0, 0],
           [0, 2],
           [1, 1]], dtype=int32)
    """
    mat = jnp.asarray(mat)
    layout = known_layout("bcoo_fromdense", mat.ndim, n_batch, n_dense, index_dtype)
    if nse is None:
        nse = _count_stored_elements(mat, layout["n_batch"], layout["n_dense"])
    buffers = _bcoo_fromdense(mat, nse=nse, **layout)
    return BCOO(buffers, shape=mat.shape, indices_sorted=True, unique_indices=True)
