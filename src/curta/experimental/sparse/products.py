"""Products with arrays in batched coordinates."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import curta.numpy as jnp
from curta import lax
from curta.experimental.sparse.coordinates import (
    Coordinates,
    full_batch,
    linear_index,
    over_batch,
    places,
    sparse_shape,
)
from curta.experimental.sparse.layout import bcoo_sum_duplicates, fewer, unbatched

Numbers = tuple[tuple[Any, Any], tuple[Any, Any]]


def _normalised(numbers: Any) -> Numbers:
    def tuples(dims: Any) -> tuple[int, ...]:
        return (dims,) if isinstance(dims, int) else tuple(map(operator.index, dims))

    (lc, rc), (lb, rb) = numbers
    return (tuples(lc), tuples(rc)), (tuples(lb), tuples(rb))


def _check_shapes(left: Any, right: Any, numbers: Numbers) -> None:
    for pairs, what in zip(numbers, ("contracting", "batch")):
        for i, j in zip(*pairs, strict=True):
            if left[i] != right[j]:
                raise TypeError(
                    f"dot_general requires {what} dimensions to have equal shapes, got"
                    f" {left} and {right} with dimension numbers {numbers}."
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

    The result is dense if one of them is.
    """
    numbers = _normalised(dimension_numbers)
    _check_shapes(lhs.shape, rhs.shape, numbers)
    if isinstance(lhs, Coordinates) and isinstance(rhs, Coordinates):
        out = _sparse_sparse(lhs, rhs, numbers)
    elif isinstance(lhs, Coordinates):
        out = _sparse_dense(lhs, jnp.asarray(rhs), numbers)
    elif isinstance(rhs, Coordinates):
        turned: Any = tuple(pair[::-1] for pair in numbers)
        out = _sparse_dense(rhs, jnp.asarray(lhs), turned)
        n_batch = len(numbers[1][0])
        n_right = len(rhs.shape) - len(numbers[0][0])
        order = (*range(n_batch), *range(n_right, out.ndim), *range(n_batch, n_right))
        out = lax.transpose(out, order)
    else:
        return lax.dot_general(
            lhs,
            rhs,
            numbers,
            precision=precision,
            preferred_element_type=preferred_element_type,
        )
    if preferred_element_type is None:
        return out
    if isinstance(out, Coordinates):
        return out.replaced(out.data.astype(preferred_element_type))
    return out.astype(preferred_element_type)


def _sparse_dense(lhs: Coordinates, rhs: Any, numbers: Numbers) -> Any:
    """Gather the rows of rhs that the stored elements meet, and add the products up."""
    (lc, rc), (lb, rb) = numbers
    lhs = unbatched(lhs)
    n_sparse, nse = lhs.n_sparse, lhs.nse
    # The dims of rhs that indices choose, and the labels of the others.
    chosen = [(i, j) for i, j in zip((*lc, *lb), (*rc, *rb)) if i < n_sparse]
    data, rhs = (
        x.astype(jnp.result_type(lhs.dtype, rhs.dtype)) for x in (lhs.data, rhs)
    )
    rest = [j for j in range(rhs.ndim) if j not in [q for _, q in chosen]]
    rows = rhs.transpose([q for _, q in chosen] + rest)
    if chosen:
        where = tuple(lhs.indices[:, i] for i, _ in chosen)
        rows = rows.at[where].get(mode="fill", fill_value=0)
    else:
        rows = jnp.broadcast_to(rows, (nse, *rows.shape))
    label = {("l", i): i for i in range(lhs.ndim)}
    label |= {("r", j): lhs.ndim + j for j in range(rhs.ndim)}
    label |= {("r", j): label["l", i] for i, j in zip((*lc, *lb), (*rc, *rb))}
    stored = lhs.ndim + rhs.ndim
    dense = [label["l", i] for i in range(n_sparse, lhs.ndim)]
    others = [label["r", j] for j in rest]
    kept = [i for i in range(n_sparse) if i not in lc]
    order = [label["l", i] for i in lb]
    order += [label["l", i] for i in range(lhs.ndim) if i not in (*lc, *lb)]
    order += [label["r", j] for j in range(rhs.ndim) if j not in (*rc, *rb)]
    inner = [x for x in order if x not in [label["l", i] for i in kept]]
    highest = lax.Precision.HIGHEST
    products = jnp.einsum(
        data,
        [stored, *dense],
        rows,
        [stored, *others],
        [stored, *inner],
        precision=highest,
    )
    sizes = [lhs.shape[i] for i in kept]
    if kept:
        zero = jnp.zeros((*sizes, *products.shape[1:]), products.dtype)
        total = zero.at[tuple(lhs.indices[:, i] for i in kept)].add(
            products, mode="drop"
        )
    else:
        inside = linear_index(lhs.indices, sparse_shape(lhs)) < math.prod(
            sparse_shape(lhs)
        )
        wide = inside.reshape(-1, *(1,) * (products.ndim - 1))
        total = jnp.where(wide, products, 0).sum(0, dtype=products.dtype)
    found = [label["l", i] for i in kept] + inner
    return total.transpose([found.index(x) for x in order])


def _sparse_sparse(lhs: Coordinates, rhs: Coordinates, numbers: Numbers) -> Any:
    """Every pair of stored elements, of which those that meet count."""
    if lhs.n_dense or rhs.n_dense:
        raise NotImplementedError("bcoo_spdot_general with dense dimensions.")
    (lc, rc), (lb, rb) = numbers
    lhs, rhs = fewer(lhs, 0, 0), fewer(rhs, 0, 0)
    left, right = lhs.indices, rhs.indices
    meet = jnp.ones((lhs.nse, rhs.nse), bool)
    for i, j in zip((*lc, *lb), (*rc, *rb)):
        meet = meet & (left[:, None, i] == right[None, :, j])
    inside = [linear_index(x.indices, x.shape) < math.prod(x.shape) for x in (lhs, rhs)]
    meet = meet & inside[0][:, None] & inside[1][None]
    data = jnp.where(meet, lhs.data[:, None] * rhs.data[None], 0).ravel()
    free_left = [i for i in range(lhs.ndim) if i not in (*lc, *lb)]
    free_right = [j for j in range(rhs.ndim) if j not in (*rc, *rb)]
    shape = [lhs.shape[i] for i in (*lb, *free_left)]
    shape += [rhs.shape[j] for j in free_right]
    columns = [left[:, None, i] for i in (*lb, *free_left)]
    columns += [right[None, :, j] for j in free_right]
    wide = [jnp.where(meet, c, size).ravel() for c, size in zip(columns, shape)]
    indices = (
        jnp.stack(wide, axis=-1) if wide else jnp.zeros((data.size, 0), left.dtype)
    )
    out = lhs.made((data, indices.astype(left.dtype)), shape=shape)
    most = min(data.size, math.prod(shape))
    return bcoo_sum_duplicates(out, nse=most) if most < data.size else out


def bcoo_dot_general_sampled(
    A: Any, B: Any, indices: Any, *, dimension_numbers: Any
) -> Any:
    """The elements of a product of dense arrays at the `indices` (*batch, nse, n)."""
    out = lax.dot_general(
        jnp.asarray(A), jnp.asarray(B), _normalised(dimension_numbers)
    )
    indices = jnp.asarray(indices)
    batch = out.shape[: indices.ndim - 2]
    indices = jnp.broadcast_to(indices, (*batch, *indices.shape[-2:]))
    return out.at[places(batch, indices)].get(mode="fill", fill_value=0)


def bcoo_multiply_dense(sp_mat: Coordinates, v: Any) -> Any:
    """The product, element by element, with a dense array that broadcasts to it."""
    v = jnp.asarray(v)
    if v.ndim > sp_mat.ndim or any(
        a not in (1, b) for a, b in zip(v.shape[::-1], sp_mat.shape[::-1])
    ):
        raise NotImplementedError(
            "bcoo_multiply_dense: the dense operand must broadcast to the sparse one,"
            f" got shapes {sp_mat.shape} and {v.shape}."
        )
    v = jnp.broadcast_to(v, sp_mat.shape)
    data, indices = full_batch(sp_mat)
    if sp_mat.n_sparse:
        factors = v.at[places(sp_mat.shape[: sp_mat.n_batch], indices)].get(
            mode="fill", fill_value=0
        )
    else:
        factors = jnp.expand_dims(v, sp_mat.n_batch)
    return sp_mat.replaced(data * factors, indices)


def bcoo_multiply_sparse(lhs: Coordinates, rhs: Coordinates) -> Any:
    """The product, element by element, of two arrays of one shape."""
    if lhs.shape != rhs.shape:
        raise ValueError(
            f"bcoo_multiply_sparse: shapes differ: {lhs.shape} and {rhs.shape}"
        )
    if (lhs.n_batch, lhs.n_dense) != (rhs.n_batch, rhs.n_dense):
        n_batch = min(lhs.n_batch, rhs.n_batch)
        n_dense = min(lhs.n_dense, rhs.n_dense)
        lhs, rhs = fewer(lhs, n_batch, n_dense), fewer(rhs, n_batch, n_dense)
    shape = sparse_shape(lhs)
    size = math.prod(shape)

    def multiply(x: Any, i: Any, y: Any, j: Any) -> tuple[Any, Any]:
        a, b = linear_index(i, shape), linear_index(j, shape)
        meet = (a[:, None] == b[None]) & (a[:, None] < size)
        wide = meet.reshape(*meet.shape, *(1,) * (x.ndim - 1))
        # Those that are stored twice meet each of the other's.
        data = jnp.where(wide, x[:, None] * y[None], 0).sum(1)
        return data, i

    args = (*full_batch(lhs), *full_batch(rhs))
    data, indices = over_batch(multiply, lhs.n_batch)(*args)
    return lhs.replaced(data, indices)


def bcoo_gather(
    operand: Coordinates,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    **options: Any,
) -> Any:
    """`lax.gather` of an array in batched coordinates; the result stores everything."""
    dense = lax.gather(
        operand.todense(),
        start_indices,
        dimension_numbers,
        tuple(slice_sizes),
        **options,
    )
    return type(operand).fromdense(dense, nse=dense.size)


def bcoo_conv_general_dilated(lhs: Any, rhs: Any, **options: Any) -> Any:
    """`lax.conv_general_dilated` of arrays of which both are sparse."""
    dense = [x.todense() if isinstance(x, Coordinates) else x for x in (lhs, rhs)]
    strides = options.pop("window_strides")
    padding = options.pop("padding")
    out = lax.conv_general_dilated(*dense, strides, padding, **options)
    kind = type(lhs) if isinstance(lhs, Coordinates) else type(rhs)
    return kind.fromdense(out, nse=out.size)
