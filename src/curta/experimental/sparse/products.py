"""Products of arrays in batched coordinates: `dot_general`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta._base.lazy_dataclass import dataclass
from curta.api.out_sharding import takes_out_sharding
from curta.api.tracing import eval_shape
from curta.core.op import BatchDims, Batched
from curta.core.primitive import Primitive, primitive_of
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.tangents import is_linear
from curta.core.trace import typeof
from curta.experimental.sparse.coordinates import (
    Coordinates,
    dense_index,
    is_inside,
    sparse_shape,
    where_inside,
)
from curta.experimental.sparse.layout import BcooSumDuplicates, fewer, unbatched
from curta.experimental.sparse.operations import SparseOp
from curta.experimental.sparse.util import (
    Shape,
    SparseInfo,
    over_batch,
    refuse_sharding,
)
from curta.primitives.dot import DotDims, batched_dims, others
from curta.primitives.structure import move_dim


def normalised_numbers(numbers: Any) -> DotDims:
    """Dimension numbers, which may be lists, as an op has them."""

    def tuples(dims: Any) -> tuple[int, ...]:
        return (dims,) if isinstance(dims, int) else tuple(map(operator.index, dims))

    (lc, rc), (lb, rb) = numbers
    return (tuples(lc), tuples(rc)), (tuples(lb), tuples(rb))


def _dense_product(left: Any, right: Any, numbers: DotDims, preferred: Any) -> Any:
    """The shape and dtype of the product of dense arrays; raises what it raises."""

    def product(x: Any, y: Any) -> Any:
        return lax.dot_general(x, y, numbers, preferred_element_type=preferred)

    return eval_shape(
        product, *(ShapeDtypeStruct(x.shape, x.dtype) for x in (left, right))
    )


def bcoo_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`lax.dot_general` where one operand, or both, are in batched coordinates.

    Args:
      lhs, rhs: the arrays.
      dimension_numbers, precision, preferred_element_type: as for `lax.dot_general`.
      out_sharding: how a dense result is split over explicit axes of the mesh.

    Returns:
      A dense array if one operand is dense, else a `BCOO`.

    Raises:
      TypeError: if numbers or shapes do not match.
      NotImplementedError: for `out_sharding` of a sparse result.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> numbers = (([1], [0]), ([], []))
    >>> sparse.bcoo_dot_general(x, jnp.ones((3, 1), int), dimension_numbers=numbers)
    Array([[3],
           [3]], dtype=int32)
    """
    numbers, kind = normalised_numbers(dimension_numbers), preferred_element_type
    if all(isinstance(x, Coordinates) for x in (lhs, rhs)):
        refuse_sharding("bcoo_dot_general", out_sharding)
        return _sparse_sparse(lhs, rhs, numbers, kind)
    if not any(isinstance(x, Coordinates) for x in (lhs, rhs)):
        return lax.dot_general(
            lhs, rhs, numbers, precision, kind, out_sharding=out_sharding
        )
    return _dense_result(lhs, rhs, numbers, kind, out_sharding=out_sharding)


@takes_out_sharding
def _dense_result(
    lhs: Any, rhs: Any, numbers: DotDims, kind: Any, *, out_sharding: Any = None
) -> Any:
    """The product where one operand is dense, in either order."""
    if isinstance(lhs, Coordinates):
        return _sparse_dense(lhs, jnp.asarray(rhs), numbers, kind)
    swapped: Any = tuple(pair[::-1] for pair in numbers)
    out = _sparse_dense(rhs, jnp.asarray(lhs), swapped, kind)
    n_batch = len(numbers[1][0])
    n_right = len(rhs.shape) - len(numbers[0][0])
    order = (*range(n_batch), *range(n_right, out.ndim), *range(n_batch, n_right))
    return lax.transpose(out, order)


def _sparse_dense(lhs: Coordinates, rhs: Any, numbers: DotDims, kind: Any) -> Any:
    return _bcoo_dot_general(
        lhs.data,
        lhs.indices,
        rhs,
        dimension_numbers=numbers,
        preferred_element_type=kind,
        lhs_spinfo=lhs._info,
    )


def _bcoo_dot_general(
    lhs_data: Any,
    lhs_indices: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    preferred_element_type: Any,
    lhs_spinfo: SparseInfo,
) -> Any:
    """The dense product of a sparse array, given by its buffers, and a dense one."""
    info = lhs_spinfo._replace(shape=tuple(lhs_spinfo.shape))
    op = BcooDotGeneral(
        normalised_numbers(dimension_numbers), info, preferred_element_type
    )
    return op(lhs_data, lhs_indices, rhs)


# --- sparse with dense ---------------------------------------------------------------


@dataclass(frozen=True)
class BcooDotGeneral(SparseOp):
    """(data, indices) of the left operand and the dense right one to their product."""

    name: ClassVar[str] = "bcoo_dot_general"
    linear_in: ClassVar[tuple[int, ...]] = (0, 2)
    dimension_numbers: DotDims
    lhs_spinfo: SparseInfo
    preferred_element_type: Any = None

    def compose(self, *args: Any) -> Any:
        data, indices, rhs = args
        lhs = Coordinates((data, indices), shape=self.lhs_spinfo.shape)
        numbers, kind = self.dimension_numbers, self.preferred_element_type
        out = _dense_product(lhs, rhs, numbers, kind)
        lhs = unbatched(lhs.replaced(lhs.data.astype(out.dtype)))
        return _gathered_product(lhs, rhs.astype(out.dtype), numbers)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        data, indices, rhs = args
        rank = len(self.lhs_spinfo.shape)
        if not is_linear(data) or indices.shape != (*data.aval.shape, rank):
            return super().transpose(cotangent, *args)
        # By the elements of the product of the cotangent and rhs that are stored.
        (lc, rc), (lb, rb) = self.dimension_numbers
        free = others(rank, lb, lc)
        n_batch, kept = len(lb), others(typeof(rhs).ndim, rb, rc)
        contract = tuple(range(n_batch + len(free), typeof(cotangent).ndim))
        op = BcooDotGeneralSampled(((contract, kept), (tuple(range(n_batch)), rb)))
        order = (*lb, *free, *(lc[rc.index(j)] for j in sorted(rc)))
        if order != tuple(range(rank)):
            indices = indices[:, np.array(order)]
        result = op(cotangent, rhs, indices)
        return [result.astype(data.aval.dtype), None, None]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        data, indices, rhs = args
        info = self.lhs_spinfo
        lhs_dim = None if dims[0] is None and dims[1] is None else 0
        if lhs_dim == 0:
            data, indices = (
                jnp.expand_dims(x, 0) if d is None else move_dim(x, d, 0)
                for x, d in zip((data, indices), dims[:2], strict=True)
            )
            info = info.with_batch(axis.size)
        ranks = [len(info.shape), typeof(rhs).ndim]
        pair = [lhs_dim, dims[2]]
        numbers, out_dim = batched_dims(self.dimension_numbers, ranks, pair)
        op = BcooDotGeneral(numbers, info, self.preferred_element_type)
        return op(data, indices, rhs), out_dim


bcoo_dot_general_p: Primitive = primitive_of(BcooDotGeneral)


def _gathered_product(lhs: Coordinates, rhs: Any, numbers: DotDims) -> Any:
    """Gather the rows of rhs that the stored elements meet, and add the products up."""
    (lc, rc), (lb, rb) = numbers
    n_sparse = lhs.n_sparse
    # The dims of rhs that indices choose, and the others.
    pairs = [(i, j) for i, j in zip((*lc, *lb), (*rc, *rb)) if i < n_sparse]
    rest = others(rhs.ndim, [j for _, j in pairs])
    columns = [lhs.indices[:, i] for i, _ in pairs]
    rows = _rows(rhs, [j for _, j in pairs], rest, columns, lhs.nse)
    left = list(range(lhs.ndim))
    right = [lhs.ndim + j for j in range(rhs.ndim)]
    for i, j in zip((*lc, *lb), (*rc, *rb)):
        right[j] = left[i]
    stored = lhs.ndim + rhs.ndim
    kept = [i for i in range(n_sparse) if i not in lc]
    order = [*lb, *others(lhs.ndim, lc, lb)]
    order += [right[j] for j in others(rhs.ndim, rc, rb)]
    inner = [x for x in order if x not in kept]
    products = jnp.einsum(
        lhs.data,
        [stored, *left[n_sparse:]],
        rows,
        [stored, *(right[j] for j in rest)],
        [stored, *inner],
        precision=lax.Precision.HIGHEST,
    )
    if kept:
        zero = jnp.zeros(
            (*(lhs.shape[i] for i in kept), *products.shape[1:]), products.dtype
        )
        at = zero.at[tuple(lhs.indices[:, i] for i in kept)]
        total = at.add(products, mode="drop")
    else:
        inside = is_inside(lhs.indices, sparse_shape(lhs))
        total = where_inside(inside, products).sum(0, dtype=products.dtype)
    result = kept + inner
    return total.transpose([result.index(x) for x in order])


def _rows(
    x: Any, chosen: Sequence[int], rest: Sequence[int], columns: Sequence[Any], nse: int
) -> Any:
    """(nse, *rest): parts of `x` at indices of the dims `chosen`, zero outside."""
    rows = x.transpose([*chosen, *rest])
    if not chosen:
        return jnp.broadcast_to(rows, (nse, *rows.shape))
    return rows.at[tuple(columns)].get(mode="fill", fill_value=0)


# --- dense with dense, sampled -------------------------------------------------------


@dataclass(frozen=True)
class BcooDotGeneralSampled(SparseOp):
    """(A, B, indices) to the elements of the product at the indices."""

    name: ClassVar[str] = "bcoo_dot_general_sampled"
    linear_in: ClassVar[tuple[int, ...]] = (0, 1)
    dimension_numbers: DotDims

    def compose(self, *args: Any) -> Any:
        left, right, indices = args
        (lc, rc), (lb, rb) = self.dimension_numbers
        out = _dense_product(left, right, self.dimension_numbers, None)
        n_batch, (nse, n_sparse) = indices.ndim - 2, indices.shape[-2:]
        batch = out.shape[:n_batch]
        indices = jnp.broadcast_to(indices, (*batch, nse, n_sparse))
        columns = jnp.broadcast_arrays(
            *dense_index(batch, indices), jnp.zeros(indices.shape[:-1], indices.dtype)
        )
        columns = [column.ravel() for column in columns[:-1]]
        size = math.prod(batch) * nse
        # Labels: the dims of the product, then those that are summed over.
        count = len(columns)
        labels = list(range(len(out.shape) + len(lc)))
        free = len(lb) + left.ndim - len(lb) - len(lc)
        x = _labelled(left.ndim, lb, lc, labels[:free], labels[len(out.shape) :])
        y = _labelled(
            right.ndim,
            rb,
            rc,
            [*labels[: len(rb)], *labels[free : len(out.shape)]],
            labels[len(out.shape) :],
        )
        stored, operands = len(labels), []
        for array, names in ((left, x), (right, y)):
            chosen = [i for i, name in enumerate(names) if name < count]
            rest = others(array.ndim, chosen)
            where = [columns[names[i]] for i in chosen]
            operands.append(_rows(array.astype(out.dtype), chosen, rest, where, size))
            operands.append([stored, *(names[i] for i in rest)])
        result = [stored, *labels[count : len(out.shape)]]
        data = jnp.einsum(*operands, result, precision=lax.Precision.HIGHEST)
        return data.reshape(*batch, nse, *data.shape[1:])


def _labelled(
    rank: int,
    batch: Sequence[int],
    contract: Sequence[int],
    outer: Sequence[int],
    inner: Sequence[int],
) -> list[int]:
    """The label of each dim: `outer` for batch dims, then free ones, and `inner`."""
    dims = [*batch, *others(rank, batch, contract), *contract]
    label = dict(zip(dims, [*outer, *inner], strict=True))
    return [label[d] for d in range(rank)]


bcoo_dot_general_sampled_p: Primitive = primitive_of(BcooDotGeneralSampled)


def bcoo_dot_general_sampled(
    A: Any, B: Any, indices: Any, *, dimension_numbers: Any
) -> Any:
    """The elements of a product of dense arrays at given indices.

    Args:
      A, B: the arrays.
      indices: integers (*batch, nse, n), for a product of n dims but those of batches.
      dimension_numbers: as for `lax.dot_general`.

    Returns:
      The elements (*batch, nse).

    Raises:
      TypeError: if numbers or shapes do not match, or indices are not integers.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> numbers = (([1], [0]), ([], []))
    >>> sparse.bcoo_dot_general_sampled(
    ...     jnp.ones((2, 4)), jnp.ones((4, 3)), x.indices, dimension_numbers=numbers
    ... )
    Array([4., 4., 4.], dtype=float32)
    """
    op = BcooDotGeneralSampled(normalised_numbers(dimension_numbers))
    return op(A, B, indices)


# --- sparse with sparse --------------------------------------------------------------


@dataclass(frozen=True)
class BcooSpdotGeneral(SparseOp):
    """(data, indices) of both operands to those of their product."""

    name: ClassVar[str] = "bcoo_spdot_general"
    multiple_results: ClassVar[bool] = True
    linear_in: ClassVar[tuple[int, ...]] = (0, 2)
    dimension_numbers: DotDims
    lhs_spinfo: SparseInfo
    rhs_spinfo: SparseInfo
    preferred_element_type: Any = None

    def compose(self, *args: Any) -> Any:
        lhs = Coordinates(args[:2], shape=self.lhs_spinfo.shape)
        rhs = Coordinates(args[2:], shape=self.rhs_spinfo.shape)
        numbers = self.dimension_numbers
        out = _dense_product(lhs, rhs, numbers, self.preferred_element_type)
        (lc, rc), (lb, rb) = numbers
        # Batch dims of the product are batch dims of both operands, or sparse ones.
        matched = (lb, rb) if lb and not lhs.n_batch else ((), ())
        if lhs.n_batch == 0:
            lb, rb = (), ()
        left, right = lhs.n_batch - len(lb), rhs.n_batch - len(rb)
        shape = out.shape[lhs.n_batch + right :]
        nse = lhs.nse if lhs.n_sparse > len(lc) else 1
        nse *= rhs.nse if rhs.n_sparse > len(rc) else 1
        nse = min(nse, math.prod(shape))

        def product(*buffers: Any) -> Any:
            one = Coordinates(buffers[:2], shape=lhs.shape[lhs.n_batch :])
            other = Coordinates(buffers[2:], shape=rhs.shape[rhs.n_batch :])
            pair = [i - lhs.n_batch for i in lc], [j - rhs.n_batch for j in rc]
            return _pairs(one, other, (pair, matched), shape, nse)

        product = over_batch(product, right, (False, False, True, True))
        product = over_batch(product, left, (True, True, False, False))
        product = over_batch(product, len(lb))
        buffers = [_batch_first(x, lb, lhs.n_batch) for x in (lhs.data, lhs.indices)]
        buffers += [_batch_first(x, rb, rhs.n_batch) for x in (rhs.data, rhs.indices)]
        data, indices = product(*buffers)
        return data.astype(out.dtype), indices


def _batch_first(x: Any, batch: Sequence[int], n_batch: int) -> Any:
    """A buffer with these of its batch dims in front."""
    order = (*batch, *others(n_batch, batch), *range(n_batch, x.ndim))
    return x.transpose(order)


def _pairs(
    lhs: Coordinates, rhs: Coordinates, numbers: Any, shape: Shape, nse: int
) -> Any:
    """All pairs of stored elements, masked to those with equal indices."""
    (lc, rc), (lb, rb) = numbers
    left, right = lhs.indices, rhs.indices
    meet = is_inside(left, lhs.shape)[:, None] & is_inside(right, rhs.shape)[None]
    for i, j in zip((*lc, *lb), (*rc, *rb)):
        meet = meet & (left[:, None, i] == right[None, :, j])
    data = jnp.where(meet, lhs.data[:, None] * rhs.data[None], 0).ravel()
    columns = [left[:, None, i] for i in (*lb, *others(lhs.ndim, lb, lc))]
    columns += [right[None, :, j] for j in others(rhs.ndim, rb, rc)]
    wide = [jnp.where(meet, c, size).ravel() for c, size in zip(columns, shape)]
    dtype = jnp.result_type(left.dtype, right.dtype)
    indices = (
        jnp.stack(wide, axis=-1).astype(dtype)
        if wide
        else jnp.zeros((data.size, 0), dtype)
    )
    return BcooSumDuplicates(SparseInfo(shape), nse)(data, indices)


bcoo_spdot_general_p: Primitive = primitive_of(BcooSpdotGeneral)


def _sparse_sparse(
    lhs: Coordinates, rhs: Coordinates, numbers: DotDims, kind: Any
) -> Any:
    if lhs.n_dense or rhs.n_dense:
        raise NotImplementedError("bcoo_spdot_general with dense dimensions.")
    (lc, rc), (lb, rb) = numbers
    # What is summed over has to be sparse, and so has what is matched, if in one only.
    lhs, rhs = (fewer(x, min((x.n_batch, *c)), 0) for x, c in ((lhs, lc), (rhs, rc)))
    if max(lb, default=-1) >= lhs.n_batch or max(rb, default=-1) >= rhs.n_batch:
        lhs, rhs = fewer(lhs, 0, 0), fewer(rhs, 0, 0)
    if rhs.n_batch > (len(rb) if lhs.n_batch else 0) and lhs.n_sparse > len(lc):
        raise ValueError(
            "bcoo_spdot_general: cannot have unused batch dims on rhs with unused"
            " sparse dims on lhs. Lower n_batch of rhs with update_layout."
        )
    op = BcooSpdotGeneral(numbers, lhs._info, rhs._info, kind)
    out = op(lhs.data, lhs.indices, rhs.data, rhs.indices)
    return lhs.made(out, shape=_dense_product(lhs, rhs, numbers, kind).shape)
