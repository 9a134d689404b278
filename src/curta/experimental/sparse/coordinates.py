"""Batched coordinates: the format with an index for each stored element.

An array of shape (*batch, *sparse, *dense) has the `indices` (*batch, nse, n_sparse) of
its stored elements, and their `data` (*batch, nse, *dense). Indices outside of the
shape stand for nothing: so arrays of one shape can store different numbers of elements.
A batch dim of size 1 in a buffer serves the whole batch.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import curta.numpy as jnp
from curta._base.lazy_dataclass import dataclass
from curta.core.primitive import Primitive, primitive_of
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.core.trace import typeof
from curta.experimental.sparse.base import JAXSparse
from curta.experimental.sparse.operations import SparseOp
from curta.experimental.sparse.util import SparseInfo, over_batch, rebatched
from curta.numpy.arguments import concrete


class Coordinates(JAXSparse):
    """Buffers and shape of an array in batched coordinates; `BCOO` adds operations."""

    data: Any
    indices: Any

    _fields = ("data", "indices")

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices = (jnp.asarray(x) for x in args)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        super().__init__(args, shape=shape)
        check_buffers(self, "(*batch, nse, n_sparse)", indices=self.indices)
        self._rank = self.n_batch

    @property
    def nse(self) -> int:
        return self.indices.shape[-2]

    @property
    def n_batch(self) -> int:
        """The number of batch dims."""
        return self.indices.ndim - 2

    @property
    def n_sparse(self) -> int:
        """The number of dims that have indices."""
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        """The number of trailing dims that are stored densely."""
        return self.data.ndim - 1 - self.n_batch

    def _details(self) -> str:
        counts = {"n_batch": self.n_batch, "n_dense": self.n_dense}
        return "".join(f", {name}={n}" for name, n in counts.items() if n)

    def _buffers(self) -> tuple[Any, ...]:
        return self.data, self.indices

    @property
    def _info(self) -> SparseInfo:
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    def tree_flatten(self) -> tuple[Any, Any]:
        """The children and the metadata, for `register_pytree_node_class`."""
        # The buffers may be anything, as of trees that only look like arrays.
        rank = getattr(self.indices, "ndim", self._rank + 2) - 2
        batch, rest = self.shape[:rank], self.shape[rank:]
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
        if rank != len(batch):
            batch = rebatched(batch, rank, self.data, self.indices)
        self._rank, self.shape = len(batch), (*batch, *rest)
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


def check_buffers(mat: Any, form: str, **indices: Any) -> None:
    """Raise ValueError for buffers that do not make an array of the shape.

    `indices` are those of integers, `form` is the shape that they are to have.
    """
    name, shape, n_batch = type(mat).__name__, mat.shape, mat.n_batch
    for what, buffer in indices.items():
        if n_batch < 0 or not jnp.issubdtype(buffer.dtype, np.integer):
            raise ValueError(
                f"{name} needs integer {what} of shape {form}, got"
                f" {buffer.dtype.name}{list(buffer.shape)}"
            )
    end = n_batch + mat.n_sparse
    if end > len(shape):
        raise ValueError(
            f"{name} with {n_batch} batch and {mat.n_sparse} sparse dims has at least"
            f" {end} dims, got {shape=}"
        )
    batch, dense = shape[:n_batch], shape[end:]
    for what, buffer in {"data": mat.data, **indices}.items():
        sizes = buffer.shape[:n_batch]
        if len(sizes) != n_batch or any(s not in (1, b) for s, b in zip(sizes, batch)):
            raise ValueError(
                f"{what} batch dimensions not compatible for"
                f" {what}.shape={buffer.shape}, {shape=}"
            )
    if mat.data.shape[n_batch:] != (mat.nse, *dense):
        raise ValueError(
            f"Invalid data.shape={mat.data.shape} for nse={mat.nse}, {n_batch=},"
            f" n_dense={len(dense)}"
        )


# --- helpers -------------------------------------------------------------------------


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


def dense_index(batch: Sequence[int], indices: Any) -> tuple[Any, ...]:
    """Index arrays, of the batch and of the sparse dims, for the dense array."""
    rank = len(batch) + 1
    grid = [
        jnp.arange(size).reshape([-1 if i == axis else 1 for i in range(rank)])
        for axis, size in enumerate(batch)
    ]
    return (*grid, *(indices[..., i] for i in range(indices.shape[-1])))


def require_sizes(name: str, shape: Sequence[Any]) -> None:
    """Raise ValueError for negative sizes of an array that is to be made."""
    if any(size < 0 for size in shape):
        raise ValueError(
            f"sparse.{name} takes sizes that are not negative, got the shape"
            f" {tuple(shape)}."
        )


def row_of(sizes: Sequence[int], indices: Any) -> Any:
    """Sizes of the sparse dims, to compare indices with."""
    row = np.array(tuple(sizes), indices.dtype)
    return row.reshape((1,) * (indices.ndim - 1) + row.shape)


def is_inside(indices: Any, shape: Sequence[int]) -> Any:
    """Which of the stored elements lie within the sparse dims of these sizes."""
    return ((indices >= 0) & (indices < row_of(shape, indices))).all(-1)


def where_inside(inside: Any, data: Any) -> Any:
    """The data, with zeros where elements stand for nothing."""
    more = data.ndim - inside.ndim
    return jnp.where(inside.reshape(inside.shape + (1,) * more), data, 0)


def linear_index(indices: Any, shape: tuple[int, ...]) -> Any:
    """The number of each element in a flat array; its size for those outside."""
    if math.prod(shape) > np.iinfo(indices.dtype).max:
        raise ValueError(
            f"The elements of an array of shape {shape} cannot be numbered in"
            f" {indices.dtype.name}: store wider indices."
        )
    number = jnp.zeros(indices.shape[:-1], indices.dtype)
    for i, size in enumerate(shape):
        number = number * size + indices[..., i]
    return jnp.where(is_inside(indices, shape), number, math.prod(shape))


def from_linear(number: Any, shape: tuple[int, ...]) -> Any:
    """Indices of the numbered elements; those outside get the shape itself."""
    outside = number >= math.prod(shape)
    columns = []
    for size in shape[::-1]:
        columns.append(jnp.where(outside, size, number % max(size, 1)))
        number = number // max(size, 1)
    if not columns:
        return jnp.zeros((*number.shape, 0), number.dtype)
    return jnp.stack(columns[::-1], axis=-1)


# --- to dense arrays -----------------------------------------------------------------


@dataclass(frozen=True)
class BcooTodense(SparseOp):
    """(data, indices) to the array with all its elements."""

    name: ClassVar[str] = "bcoo_todense"
    spinfo: SparseInfo

    def compose(self, *args: Any) -> Any:
        mat = Coordinates(args, shape=self.spinfo.shape)
        data, indices = full_batch(mat)
        if mat.n_sparse == 0:
            return data.sum(mat.n_batch, dtype=data.dtype)
        zero = jnp.zeros(mat.shape, data.dtype)
        at = zero.at[dense_index(mat.shape[: mat.n_batch], indices)]
        return at.add(data, mode="drop")

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        data, indices = args
        result = _bcoo_extract(indices, cotangent)
        # A batch dim of size 1 serves them all.
        for i, size in enumerate(data.aval.shape[: indices.ndim - 2]):
            if size == 1 != result.shape[i]:
                result = result.sum(i, keepdims=True, dtype=result.dtype)
        return [result, None]

    def batched(self, size: int) -> SparseOp:
        return BcooTodense(self.spinfo.with_batch(size))


bcoo_todense_p: Primitive = primitive_of(BcooTodense)


def bcoo_todense(mat: Coordinates) -> Any:
    """The array with all its elements; those stored twice are added.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcoo_todense(x)
    Array([[1, 0, 2],
           [0, 3, 0]], dtype=int32)
    """
    return _bcoo_todense(mat.data, mat.indices, spinfo=mat._info)


def _bcoo_todense(data: Any, indices: Any, *, spinfo: SparseInfo) -> Any:
    info = spinfo._replace(shape=tuple(spinfo.shape))
    return BcooTodense(info)(data, indices)


# --- from dense arrays ---------------------------------------------------------------


@dataclass(frozen=True)
class BcooExtract(SparseOp):
    """(indices, dense array) to the data at the indices.

    Unless `assume_unique`, of equal indices only the first gets the element.
    """

    name: ClassVar[str] = "bcoo_extract"
    linear_in: ClassVar[tuple[int, ...]] = (1,)
    whole: ClassVar[tuple[int, ...]] = (1,)
    assume_unique: bool

    def compose(self, *args: Any) -> Any:
        indices, arr = args
        n_batch, (nse, n_sparse) = indices.ndim - 2, indices.shape[-2:]
        batch, sizes = arr.shape[:n_batch], arr.shape[n_batch : n_batch + n_sparse]
        indices = jnp.broadcast_to(indices, (*batch, nse, n_sparse))
        if n_sparse:
            at = arr.at[dense_index(batch, indices)]
            data = at.get(mode="fill", fill_value=0)
        else:
            wide = (*batch, nse, *arr.shape[n_batch:])
            data = jnp.broadcast_to(jnp.expand_dims(arr, n_batch), wide)
        if self.assume_unique:
            return data
        flat = linear_index(indices, sizes)
        return where_inside(over_batch(_first_occurrence, n_batch)(flat), data)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        indices, arr = args
        if not self.assume_unique or is_linear(indices):
            return super().transpose(cotangent, *args)
        info = SparseInfo(arr.aval.shape)
        return [None, _bcoo_todense(cotangent, indices, spinfo=info)]

    def batched(self, size: int) -> SparseOp:
        return self


def _first_occurrence(number: Any) -> Any:
    _, first = jnp.unique(number, return_index=True, size=number.size, fill_value=-1)
    return jnp.zeros(number.shape, bool).at[first].set(True)


bcoo_extract_p: Primitive = primitive_of(BcooExtract)


def bcoo_extract(
    sparr: Coordinates, arr: Any, *, assume_unique: bool | None = None
) -> Any:
    """The elements of a dense array at the stored indices of a sparse one.

    Args:
      sparr: a `BCOO`.
      arr: an array of the same shape.
      assume_unique: whether indices occur once; as `sparr` says by default. Of indices
        that occur twice only the first gets the element, otherwise.

    Returns:
      A `BCOO` with the indices of `sparr` and the dtype of `arr`.

    Raises:
      TypeError: if the arguments are not a `BCOO` and an array.
      ValueError: for another shape.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcoo_extract(x, jnp.arange(6).reshape(2, 3)).data
    Array([0, 2, 4], dtype=int32)
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
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    return sparr.replaced(_bcoo_extract(sparr.indices, arr, assume_unique=unique))


def _bcoo_extract(indices: Any, arr: Any, *, assume_unique: bool = True) -> Any:
    return BcooExtract(bool(assume_unique))(indices, arr)


@dataclass(frozen=True)
class BcooFromdense(SparseOp):
    """A dense array to (data, indices) of its `nse` first elements, zeros left out."""

    name: ClassVar[str] = "bcoo_fromdense"
    multiple_results: ClassVar[bool] = True
    linear_in: ClassVar[tuple[int, ...]] = ()
    nse: int
    n_batch: int
    n_dense: int
    index_dtype: Any

    def compose(self, *args: Any) -> Any:
        (mat,) = args
        n_batch, n_dense, nse = self.n_batch, self.n_dense, self.nse
        mask = mat != 0
        if n_dense:
            mask = mask.any(tuple(range(mat.ndim - n_dense, mat.ndim)))
        sizes = mask.shape[n_batch:]

        def stored(mask: Any) -> Any:
            result = jnp.nonzero(mask.ravel(), size=nse, fill_value=mask.size)[0]
            return from_linear(result, sizes).astype(self.index_dtype)

        indices = over_batch(stored, n_batch)(mask)
        if sizes:
            used = is_inside(indices, sizes)
        else:  # where no index would be outside: one element is all there is
            used = jnp.broadcast_to(jnp.arange(nse) < 1, indices.shape[:-1])
        return where_inside(used, _bcoo_extract(indices, mat)), indices

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        (mat,), (tangent,) = primals, tangents
        if typeof(mat).ndim == self.n_batch + self.n_dense or type(tangent) is Zero:
            return super().jvp(primals, tangents)
        data, indices = self(mat)
        dot = _bcoo_extract(indices, tangent)
        return [data, indices], [dot, zero_tangent(typeof(indices))]

    def batched(self, size: int) -> SparseOp:
        return dataclasses.replace(self, n_batch=self.n_batch + 1)


bcoo_fromdense_p: Primitive = primitive_of(BcooFromdense)

TRACED_NSE = (
    "The error arose for the nse argument of bcoo_fromdense. In order for"
    " BCOO.fromdense() to be used in traced/compiled code, you must pass a concrete"
    " value to the nse (number of stored elements) argument."
)


def _bcoo_fromdense(
    mat: Any,
    *,
    nse: int,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> Any:
    """(data, indices) of a dense array."""
    mat = jnp.asarray(mat)
    nse = concrete(nse, TRACED_NSE, operator.index)
    op = BcooFromdense(nse, n_batch, n_dense, index_dtype)
    return op(mat)
