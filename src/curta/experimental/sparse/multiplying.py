"""Products of sparse arrays, element by element; convolutions."""

from __future__ import annotations

from typing import Any

import curta.numpy as jnp
from curta import lax
from curta.experimental.sparse.base import require_format
from curta.experimental.sparse.coordinates import Coordinates, is_inside, row_of
from curta.experimental.sparse.layout import fewer
from curta.experimental.sparse.util import over_batch, refuse_sharding


def bcoo_multiply_dense(sp_mat: Coordinates, v: Any) -> Any:
    """The data of the product, element by element, with a dense array.

    `v` broadcasts to the shape of the sparse array: NotImplementedError otherwise.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcoo_multiply_dense(x, jnp.array([10, 20, 30]))
    Array([10, 60, 60], dtype=int32)
    """
    v = jnp.asarray(v)
    if v.ndim == 0:
        return sp_mat.data * v
    if v.ndim > sp_mat.ndim or any(
        a not in (1, b) for a, b in zip(v.shape[::-1], sp_mat.shape[::-1])
    ):
        raise NotImplementedError(
            "multiplication between sparse and dense is only implemented for cases"
            " where the output shape matches the sparse matrix shape. Got"
            f" shape={sp_mat.shape}, v.shape={v.shape}"
        )
    v = v.reshape((1,) * (sp_mat.ndim - v.ndim) + v.shape)

    def multiply(data: Any, indices: Any, v: Any) -> Any:
        sizes = v.shape[: indices.shape[1]]
        index = [indices[:, i] if s != 1 else 0 for i, s in enumerate(sizes)]
        if not any(size != 1 for size in sizes):
            return data * v.reshape(1, *v.shape[len(sizes) :])
        return data * v.at[tuple(index)].get(mode="fill", fill_value=0)

    return over_batch(multiply, sp_mat.n_batch)(sp_mat.data, sp_mat.indices, v)


def bcoo_multiply_sparse(lhs: Coordinates, rhs: Coordinates) -> Any:
    """The product, element by element, of two arrays whose shapes broadcast.

    It stores the elements of the operand that has its shape; if none has, all pairs.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> sparse.bcoo_multiply_sparse(x, x).todense()
    Array([[1, 0, 4],
           [0, 9, 0]], dtype=int32)
    """
    if lhs.ndim != rhs.ndim:
        raise TypeError(
            "bcoo_multiply_sparse: arrays must have same number of dimensions, got"
            f" {lhs.shape}, {rhs.shape}"
        )
    if lhs.n_dense != rhs.n_dense:
        n_dense = min(lhs.n_dense, rhs.n_dense)
        lhs, rhs = fewer(lhs, lhs.n_batch, n_dense), fewer(rhs, rhs.n_batch, n_dense)
    shape = jnp.broadcast_shapes(lhs.shape, rhs.shape)
    n_batch = min(lhs.n_batch, rhs.n_batch)

    def multiply(*buffers: Any) -> Any:
        one = Coordinates(buffers[:2], shape=lhs.shape[n_batch:])
        other = Coordinates(buffers[2:], shape=rhs.shape[n_batch:])
        one, other = fewer(one, 0, one.n_dense), fewer(other, 0, other.n_dense)
        return _multiplied(one, other, shape[n_batch:])

    buffers = lhs.data, lhs.indices, rhs.data, rhs.indices
    data, indices = over_batch(multiply, n_batch)(*buffers)
    return lhs.made((data, indices), shape=shape)


def _multiplied(lhs: Coordinates, rhs: Coordinates, shape: tuple[int, ...]) -> Any:
    """Data and indices of the product of arrays without batch dims."""
    n = lhs.n_sparse
    meet = is_inside(lhs.indices, lhs.shape[:n])[:, None]
    meet = meet & is_inside(rhs.indices, rhs.shape[:n])[None]
    for i in range(n):
        if 1 not in (lhs.shape[i], rhs.shape[i]):
            meet = meet & (lhs.indices[:, None, i] == rhs.indices[None, :, i])
    wide = meet.reshape(*meet.shape, *(1,) * lhs.n_dense)
    data = jnp.where(wide, lhs.data[:, None] * rhs.data[None], 0)
    if shape == lhs.shape:
        return data.sum(1, dtype=data.dtype), lhs.indices
    if shape == rhs.shape:
        return data.sum(0, dtype=data.dtype), rhs.indices
    indices = jnp.maximum(lhs.indices[:, None], rhs.indices[None])
    indices = jnp.where(meet[..., None], indices, row_of(shape[:n], indices))
    return data.reshape(-1, *data.shape[2:]), indices.reshape(-1, n)


def bcoo_conv_general_dilated(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Any,
    padding: Any,
    out_sharding: Any = None,
    **options: Any,
) -> Any:
    """`lax.conv_general_dilated` where one operand, or both, are sparse.

    It is computed densely, and the result stores everything.

    Args:
      lhs, rhs: the operands.
      window_strides, padding, **options: as for `lax.conv_general_dilated`.
      out_sharding: not supported.

    Returns:
      A `BCOO`.

    Raises:
      TypeError, ValueError, RuntimeError: where `lax.conv_general_dilated` does;
        TypeError if no operand is sparse.
      NotImplementedError: if `out_sharding` is given.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[1, 0, 2], [0, 3, 0]]))
    >>> y = sparse.BCOO.fromdense(jnp.array([[[1.0, 0.0, 2.0]]]))
    >>> kernel = jnp.ones((1, 1, 2))
    >>> sparse.bcoo_conv_general_dilated(
    ...     y, kernel, window_strides=(1,), padding="VALID"
    ... )
    BCOO(float32[1, 1, 2], nse=2)
    """
    sparse: Any = lhs if isinstance(lhs, Coordinates) else rhs
    require_format("bcoo_conv_general_dilated", Coordinates, "BCOO", sparse)
    left, right = (x.todense() if isinstance(x, Coordinates) else x for x in (lhs, rhs))
    refuse_sharding("bcoo_conv_general_dilated", out_sharding)
    out = lax.conv_general_dilated(left, right, window_strides, padding, **options)
    return type(sparse).fromdense(out, nse=out.size)
