"""Small functions of batches of matrices, of which derivatives are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray
from curta.core.trace import typeof
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise import (
    add,
    convert_element_type,
    div,
    eq,
    ge,
    or_,
    real,
    select,
    sub,
)
from curta.primitives.elementwise.complex import conj
from curta.primitives.precision import Precision
from curta.primitives.shape import Iota, expand_dims
from curta.primitives.slicing import Slice
from curta.primitives.structure import BroadcastInDim, Transpose, reduce_sum, zeros

_HIGHEST = (Precision.HIGHEST, Precision.HIGHEST)
_INT = np.dtype(np.int32)


def swapped(x: Any) -> Any:
    """The transposed matrices."""
    rank = typeof(x).ndim
    return Transpose((*range(rank - 2), rank - 1, rank - 2))(x)


def adjoint(x: Any) -> Any:
    """The conjugated and transposed matrices."""
    return conjugate(swapped(x))


def conjugate(x: Any) -> Any:
    """The complex conjugates; `x` itself if it is real."""
    complex_ = dtypes.issubdtype(typeof(x).dtype, np.complexfloating)
    return conj(x) if complex_ else x


def matmul(x: Any, y: Any) -> Any:
    """The matrix products."""
    rank = typeof(x).ndim
    batch = tuple(range(rank - 2))
    return DotGeneral((((rank - 1,), (rank - 2,)), (batch, batch)), _HIGHEST)(x, y)


def rows_and_columns(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The row and the column number of every element of a matrix."""
    return Iota(_INT, shape[-2:], 0)(), Iota(_INT, shape[-2:], 1)()


def tril(x: Any, k: int = 0) -> Any:
    """The elements on and below diagonal `k`, and zeros."""
    return _one_side(x, k, below=True)


def triu(x: Any, k: int = 0) -> Any:
    """The elements on and above diagonal `k`, and zeros."""
    return _one_side(x, k - 1, below=False)


def _one_side(x: Any, k: int, below: bool) -> Any:
    shape = typeof(x).shape
    row = add(Iota(_INT, shape[-2:], 0)(), np.int32(k))
    mask = ge(row, Iota(_INT, shape[-2:], 1)())
    if len(shape) > 2:
        mask = BroadcastInDim(shape, (len(shape) - 2, len(shape) - 1))(mask)
    nothing = zeros(typeof(x))
    if typeof(x).weak_type:  # then the result is weak too
        zero = zeros(ShapedArray((), nothing.dtype, weak_type=True))
        nothing = BroadcastInDim(shape, ())(zero)
    return select(mask, x, nothing) if below else select(mask, nothing, x)


def symmetrized(x: Any) -> Any:
    """(x + x^H) / 2, of matrices (..., n, n); integers become floats."""
    dtype, weak_type = typeof(x).dtype, typeof(x).weak_type
    if dtype == np.bool_:
        total, weak_type = or_(x, swapped(x)), True
        dtype = dtypes.canonicalize_dtype(float)
    else:
        total, dtype = add(x, adjoint(x)), dtypes.to_inexact_dtype(dtype)
    two = convert_element_type(2, dtype, weak_type)
    return div(convert_element_type(total, dtype, weak_type), two)


def eye(dtype: Any, size: int, rank: int = 2) -> Any:
    """The unit matrix, with dims of size 1 in front up to `rank`."""
    row, column = rows_and_columns((size, size))
    unit = convert_element_type(eq(row, column), dtype)
    return expand_dims(unit, tuple(range(rank - 2)))


def diagonal(x: Any) -> Any:
    """The diagonals of square matrices, by summing over what is left of the rows."""
    aval = typeof(x)
    row, column = rows_and_columns(aval.shape)
    mask = eq(row, column)
    if aval.ndim > 2:
        mask = BroadcastInDim(aval.shape, (aval.ndim - 2, aval.ndim - 1))(mask)
    return reduce_sum(select(mask, x, zeros(aval)), (aval.ndim - 2,))


def columns(x: Any, start: int, limit: int) -> Any:
    """Columns `start` to `limit` of the matrices."""
    return _part(x, -1, start, limit)


def rows(x: Any, start: int, limit: int) -> Any:
    """Rows `start` to `limit` of the matrices."""
    return _part(x, -2, start, limit)


def _part(x: Any, axis: int, start: int, limit: int) -> Any:
    shape = typeof(x).shape
    low, high = [0] * len(shape), list(shape)
    low[axis], high[axis] = start, limit
    return Slice(tuple(low), tuple(high), (1,) * len(shape))(x)


def along_rows(x: Any) -> Any:
    """Vectors as matrices of one row."""
    return expand_dims(x, (typeof(x).ndim - 1,))


def along_columns(x: Any) -> Any:
    """Vectors as matrices of one column."""
    return expand_dims(x, (typeof(x).ndim,))


def differences(x: Any) -> Any:
    """The matrix of `x[j] - x[i]` at row i and column j."""
    return sub(along_rows(x), along_columns(x))


def reciprocal_off_diagonal(x: Any) -> Any:
    """1 / x off the diagonal, of square matrices whose diagonal is zero; 0 on it."""
    aval = typeof(x)
    unit = eye(aval.dtype, aval.shape[-1], aval.ndim)
    return sub(div(np.ones((), aval.dtype), add(x, unit)), unit)


def real_like(x: Any) -> Any:
    """The real part of `x`, in the dtype of `x`."""
    dtype = typeof(x).dtype
    return convert_element_type(real(x), dtype) if dtype.kind == "c" else x
