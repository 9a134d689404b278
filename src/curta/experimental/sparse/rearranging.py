"""Arrays in batched coordinates in another order, shape, or part."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.lazy_dataclass import dataclass
from curta.api.tracing import eval_shape
from curta.core.primitive import Primitive, primitive_of
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.shapes import canonicalize_axes, canonicalize_shape
from curta.experimental.sparse.base import require_format
from curta.experimental.sparse.coordinates import (
    Coordinates,
    from_linear,
    full_batch,
    is_inside,
    linear_index,
    sparse_shape,
    where_inside,
)
from curta.experimental.sparse.layout import every_index, fewer, set_nse
from curta.experimental.sparse.operations import SparseOp
from curta.experimental.sparse.util import Shape, SparseInfo, refuse_sharding


@dataclass(frozen=True)
class BcooTranspose(SparseOp):
    """(data, indices) of an array to those with its dims in another order."""

    name: ClassVar[str] = "bcoo_transpose"
    multiple_results: ClassVar[bool] = True
    permutation: tuple[int, ...]
    spinfo: SparseInfo

    def compose(self, *args: Any) -> Any:
        mat = Coordinates(args, shape=self.spinfo.shape)
        batch, sparse, dense = _parts(mat, self.permutation)
        n_batch, n_sparse = mat.n_batch, mat.n_sparse
        columns = np.array([p - n_batch for p in sparse], np.int32)
        indices = mat.indices[..., columns] if n_sparse else mat.indices
        indices = indices.transpose(*batch, n_batch, n_batch + 1)
        rest = [p - n_sparse + 1 for p in dense]
        return mat.data.transpose(*batch, n_batch, *rest), indices

    def batched(self, size: int) -> SparseOp:
        order = (0, *(p + 1 for p in self.permutation))
        return BcooTranspose(order, self.spinfo.with_batch(size))


bcoo_transpose_p: Primitive = primitive_of(BcooTranspose)


def _parts(mat: Coordinates, order: Sequence[int]) -> list[Sequence[int]]:
    """What a permutation does to batch, sparse and dense dims."""
    end = mat.n_batch + mat.n_sparse
    return [order[: mat.n_batch], order[mat.n_batch : end], order[end:]]


def bcoo_transpose(mat: Coordinates, *, permutation: Sequence[int]) -> Any:
    """The array with its dims in another order.

    Batch, sparse and dense dims each stay among themselves: NotImplementedError.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcoo_transpose(x, permutation=(1, 0)).todense()
    Array([[1, 0],
           [0, 3],
           [2, 0]], dtype=int32)
    """
    if not isinstance(permutation, (tuple, list, np.ndarray)):
        raise TypeError(
            "transpose permutation must be a tuple/list/ndarray, got"
            f" {type(permutation)}."
        )
    order = tuple(operator.index(p) for p in permutation)
    if sorted(order) != list(range(mat.ndim)):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, got"
            f" permutation {permutation} for shape {mat.shape}."
        )
    batch, sparse, dense = _parts(mat, order)
    for name, dims, first in (
        ("batch", batch, 0),
        ("dense", dense, mat.ndim - mat.n_dense),
    ):
        if sorted(dims) != list(range(first, first + len(dims))):
            raise NotImplementedError(
                f"transpose permutation cannot permute {name} axes with non-{name}"
                f" axes; got permutation {permutation}, with"
                f" n_{name}={len(dims)}."
            )
    data, indices = BcooTranspose(order, mat._info)(mat.data, mat.indices)
    return mat.made(
        (data, indices),
        shape=[mat.shape[p] for p in order],
        indices_sorted=mat.indices_sorted and list(sparse) == sorted(sparse),
        unique_indices=mat.unique_indices,
    )


def bcoo_reduce_sum(mat: Coordinates, *, axes: Sequence[int]) -> Any:
    """The sums over some dims; batch dims among them become more elements.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcoo_reduce_sum(x, axes=[0]).todense()
    Array([1, 3, 2], dtype=int32)
    """
    axes = sorted({*canonicalize_axes(axes, mat.ndim)})
    shape = [size for i, size in enumerate(mat.shape) if i not in axes]
    summed = [i for i in range(mat.n_batch) if i in axes]
    kept = [i for i in range(mat.n_batch) if i not in axes]
    if summed:
        order = [*kept, *summed, *range(mat.n_batch, mat.ndim)]
        axes = [order.index(axis) for axis in axes]
        mat = bcoo_transpose(mat, permutation=order)
        mat = fewer(mat, len(kept), mat.n_dense)
    n_batch, end = mat.n_batch, mat.n_batch + mat.n_sparse
    columns = [i - n_batch for i in range(n_batch, end) if i not in axes]
    dense = tuple(i - mat.n_sparse + 1 for i in axes if i >= end)
    data = where_inside(is_inside(mat.indices, sparse_shape(mat)), mat.data)
    if dense:
        data = data.sum(dense, dtype=data.dtype)
    indices = mat.indices[..., np.array(columns, np.int32)]
    return mat.made((data, indices), shape=shape)


def bcoo_reshape(
    mat: Coordinates,
    *,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    sharding: Any = None,
) -> Any:
    """The array in another shape; batch, sparse and dense dims do not mix.

    Args:
      mat: a `BCOO`.
      new_sizes: the shape, of as many elements.
      dimensions: the order in which the dims are read; theirs by default.
      sharding: not supported.

    Returns:
      A `BCOO` of shape `new_sizes` and the same dtype.

    Raises:
      ValueError: if the shape does not fit.
      TypeError: if the argument is not a `BCOO` or `permutation` is not a permutation.
      NotImplementedError: for `sharding`, and batch dims that the buffers do not store.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcoo_reshape(x, new_sizes=(3, 2)).todense()
    Array([[1, 0],
           [2, 0],
           [3, 0]], dtype=int32)
    """
    require_format("bcoo_reshape", Coordinates, "BCOO", mat)
    refuse_sharding("bcoo_reshape", sharding)
    batch = mat.shape[: mat.n_batch]
    if any(x.shape[: mat.n_batch] != batch for x in (mat.data, mat.indices)):
        raise NotImplementedError(
            "reshape of arrays with broadcasted batch dimensions. Store the whole"
            " batch in both buffers."
        )
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=tuple(dimensions))
    sizes = canonicalize_shape(new_sizes)
    if math.prod(sizes) != mat.size:
        raise ValueError(
            "bcoo_reshape: new shape cannot mix sparse and dense dimensions, nor have"
            f" another number of elements; got shape={mat.shape} new_shape={sizes}"
            f" with n_dense={mat.n_dense}"
        )
    new_batch, sparse, dense = _kinds_of_dims(mat, sizes)
    flat = linear_index(mat.indices, sparse_shape(mat))
    indices = from_linear(flat, sparse)
    return mat.made(
        (
            mat.data.reshape(*new_batch, mat.nse, *dense),
            indices.reshape(*new_batch, mat.nse, len(sparse)),
        ),
        shape=sizes,
        indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )


def _kinds_of_dims(mat: Coordinates, sizes: Shape) -> tuple[Shape, Shape, Shape]:
    """The batch, sparse and dense dims of a new shape; ValueError if they mix."""
    cuts, products = [], [math.prod(sizes[:i]) for i in range(1, len(sizes) + 1)]
    end = mat.n_batch + mat.n_sparse
    for first, last, what, count in (
        (0, mat.n_batch, "batch and sparse", f"n_batch={mat.n_batch}"),
        (mat.n_batch, end, "sparse and dense", f"n_dense={mat.n_dense}"),
    ):
        size = math.prod(mat.shape[:last])
        if math.prod(mat.shape[first:last]) != 1 and size not in products:
            raise ValueError(
                f"bcoo_reshape: new shape cannot mix {what} dimensions; got"
                f" shape={mat.shape} new_shape={sizes} with {count}"
            )
        cuts.append(sum(product <= size for product in products))
    return sizes[: cuts[0]], sizes[cuts[0] : cuts[1]], sizes[cuts[1] :]


def bcoo_squeeze(arr: Coordinates, *, dimensions: Sequence[int]) -> Any:
    """The array without some dims of size 1.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> row = sparse.bcoo_slice(x, start_indices=(0, 0), limit_indices=(1, 3))
    >>> sparse.bcoo_squeeze(row, dimensions=[0]).todense()
    Array([1, 0, 2], dtype=int32)
    """
    dims = sorted({*canonicalize_axes(dimensions, arr.ndim)})
    if any(arr.shape[d] != 1 for d in dims):
        raise ValueError(
            "cannot select an axis to squeeze out which has size not equal to one, got"
            f" shape={arr.shape} and dimensions={tuple(dims)}"
        )
    n_batch, n_sparse = arr.n_batch, arr.n_sparse
    end = n_batch + n_sparse
    batch = tuple(d for d in dims if d < n_batch)
    columns = [i for i in range(n_sparse) if i + n_batch not in dims]
    dense = tuple(d - n_sparse + 1 for d in dims if d >= end)
    # What is outside of a dim that goes is to be outside of the others too.
    data, inside = arr.data, jnp.ones(arr.indices.shape[:-1], bool)
    for d in dims:
        if n_batch <= d < end:
            inside = inside & (arr.indices[..., d - n_batch] == 0)
    wide = inside.reshape(inside.shape + (1,) * arr.n_dense)
    data = jnp.where(wide, data, 0).squeeze(batch + dense)
    indices = arr.indices[..., np.array(columns, np.int32)].squeeze(batch)
    shape = [size for i, size in enumerate(arr.shape) if i not in dims]
    return arr.made(
        (data, indices),
        shape=shape,
        indices_sorted=arr.indices_sorted,
        unique_indices=arr.unique_indices,
    )


def bcoo_broadcast_in_dim(
    mat: Coordinates,
    *,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    sharding: Any = None,
) -> Any:
    """The array in a greater shape, as by `lax.broadcast_in_dim`.

    New dims before the sparse ones are batch dims, those after dense ones are dense.

    Args:
      mat: a `BCOO`.
      shape: the shape of the result.
      broadcast_dimensions: the dim of the result for each dim of `mat`.
      sharding: not supported.

    Returns:
      A `BCOO` of this shape and the same dtype.

    Raises:
      ValueError: if shapes do not match.
      TypeError: if the argument is not a `BCOO`.
      NotImplementedError: if `sharding` is given.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcoo_broadcast_in_dim(
    ...     x, shape=(2, 2, 3), broadcast_dimensions=(1, 2)
    ... ).shape
    (2, 2, 3)
    """
    require_format("bcoo_broadcast_in_dim", Coordinates, "BCOO", mat)
    refuse_sharding("bcoo_broadcast_in_dim", sharding)
    shape = tuple(shape)
    at = tuple(map(operator.index, broadcast_dimensions))
    if len(at) != mat.ndim or any(
        not 0 <= p < len(shape) or size not in (1, shape[p])
        for p, size in zip(at, mat.shape)
    ):
        raise ValueError(f"cannot broadcast shape {mat.shape} to {shape} along {at}")
    n_batch, first_dense = mat.n_batch, mat.ndim - mat.n_dense
    kinds = at[:n_batch], at[n_batch:first_dense], at[first_dense:]
    for i, names in (0, "batch and sparse"), (1, "sparse and dense"):
        if max(kinds[i], default=0) > min(kinds[i + 1], default=len(shape)):
            raise ValueError(
                f"Cannot mix {names} dimensions during broadcast_in_dim: {mat} goes to"
                f" {shape} along {at}"
            )
    batch = min(at[n_batch:], default=len(shape))
    dense = at[first_dense] if mat.n_dense else len(shape)
    data = lax.broadcast_in_dim(
        mat.data,
        (*shape[:batch], mat.nse, *shape[dense:]),
        (*at[:n_batch], batch, *(p - dense + batch + 1 for p in at[first_dense:])),
    )
    indices = lax.broadcast_in_dim(
        mat.indices,
        (*shape[:batch], mat.nse, mat.n_sparse),
        (*at[:n_batch], batch, batch + 1),
    )
    old = at[n_batch:first_dense]
    sources = [old.index(p) if p in old else None for p in range(batch, dense)]
    sizes = mat.shape[n_batch:first_dense]
    buffers = _repeated(data, indices, shape[batch:dense], sources, sizes)
    return mat.made(buffers, shape=shape, unique_indices=mat.unique_indices)


def _repeated(
    data: Any,
    indices: Any,
    shape: Sequence[int],
    sources: Sequence[int | None],
    sizes: Sequence[int],
) -> tuple[Any, Any]:
    """Every stored element for all indices of sparse dims that are new, or grow.

    `sources` are the old dims, of these `sizes`, that those of `shape` come from.
    """
    (*lead, nse, _), dtype = indices.shape, indices.dtype
    new = [
        i
        for i, source in enumerate(sources)
        if source is None or sizes[source] != shape[i]
    ]
    grid = every_index([shape[i] for i in new], dtype)
    count = len(grid)
    columns = [jnp.zeros((*lead, nse, count, 0), dtype)]
    for i, source in enumerate(sources):
        if i not in new:
            column = indices[..., source][..., None]
        else:
            column = grid[:, new.index(i)].reshape((1,) * (len(lead) + 1) + (count,))
            if source is not None:  # outside stays outside
                column = jnp.where(indices[..., source, None] == 0, column, shape[i])
        columns.append(jnp.broadcast_to(column, (*lead, nse, count))[..., None])
    indices = jnp.concatenate(columns, -1).reshape(*lead, nse * count, len(sources))
    rank, rest = len(lead), data.shape[len(lead) + 1 :]
    data = jnp.expand_dims(data, rank + 1)
    data = jnp.broadcast_to(data, (*lead, nse, count, *rest))
    return data.reshape(*lead, nse * count, *rest), indices


def bcoo_concatenate(operands: Sequence[Coordinates], *, dimension: int) -> Any:
    """Several arrays, joined along a dim.

    They are stored with the fewest batch and dense dims that one of them has.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcoo_concatenate([x, x], dimension=0).shape
    (4, 3)
    """
    dimension = operator.index(dimension)
    if not all(isinstance(op, Coordinates) for op in operands):
        raise ValueError(
            "bcoo_concatenate: expected operands to be a sequence of BCOO arrays. Got"
            f" {operands}"
        )
    shape = eval_shape(
        lambda *xs: lax.concatenate(xs, dimension),
        *(ShapeDtypeStruct(op.shape, op.dtype) for op in operands),
    ).shape
    n_batch = min(op.n_batch for op in operands)
    # Dense dims are joined as sparse ones, of which only some elements are stored.
    n_dense = min(len(shape) - dimension - 1, *(op.n_dense for op in operands))
    mats = [fewer(op, n_batch, n_dense) for op in operands]
    datas, indices = map(list, zip(*map(full_batch, mats)))
    if dimension < n_batch:
        nse = max(op.nse for op in mats)
        mats = [set_nse(op, nse) for op in mats]
        datas, indices = map(list, zip(*map(full_batch, mats)))
        joined = jnp.concatenate(datas, dimension), jnp.concatenate(indices, dimension)
        return mats[0].made(joined, shape=shape)
    column, offset = dimension - n_batch, 0
    for i, op in enumerate(mats):
        position = indices[i][..., column]
        outside = position >= op.shape[dimension]
        moved = jnp.where(outside, shape[dimension], position + offset)
        indices[i] = indices[i].at[..., column].set(moved)
        offset += op.shape[dimension]
    return mats[0].made(
        (jnp.concatenate(datas, n_batch), jnp.concatenate(indices, n_batch)),
        shape=shape,
        unique_indices=all(op.unique_indices for op in mats),
    )


def bcoo_rev(operand: Coordinates, dimensions: Sequence[int]) -> Any:
    """The array with some dims reversed.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcoo_rev(x, [1]).todense()
    Array([[2, 0, 1],
           [0, 3, 0]], dtype=int32)
    """
    n_batch, n_sparse = operand.n_batch, operand.n_sparse
    dims = tuple(dimensions)
    like = ShapeDtypeStruct(operand.shape, operand.dtype)
    eval_shape(lambda x: lax.rev(x, dims), like)  # checks them
    data, indices = full_batch(operand)
    for d in dims:
        if d < n_batch:
            data, indices = jnp.flip(data, d), jnp.flip(indices, d)
        elif d < n_batch + n_sparse:
            size, column = operand.shape[d], indices[..., d - n_batch]
            flipped = jnp.where(column < size, size - 1 - column, size)
            indices = indices.at[..., d - n_batch].set(flipped)
        else:
            data = jnp.flip(data, d - n_sparse + 1)
    return operand.replaced(data, indices, indices_sorted=False)
