"""Indices of diagonals and triangles; grids and joins written with brackets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import new_arrays
from curta.config import numpy_dtype_promotion
from curta.core.array import ArrayLike
from curta.core.dim import is_symbolic_dim, max_dim, min_dim
from curta.numpy.arguments import (
    concrete,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
)
from curta.numpy.constructors import array
from curta.numpy.creation import meshgrid, ones
from curta.numpy.joining import concatenate, stack
from curta.numpy.matrices import tril, triu
from curta.numpy.promotion import promote_dtypes
from curta.numpy.ranges import arange, linspace
from curta.numpy.searching import nonzero
from curta.numpy.shapes import expand_dims, transpose

s_, index_exp = np.s_, np.index_exp


@new_arrays
def ix_(*args: ArrayLike) -> tuple[Any, ...]:
    """Vectors shaped so that together they index the grid they span.

    >>> from curta import numpy as jnp
    >>> jnp.arange(9).reshape(3, 3)[jnp.ix_(jnp.array([0, 2]), jnp.array([1, 2]))]
    Array([[1, 2],
           [7, 8]], dtype=int32)
    """
    arrays = ensure_arraylikes("ix", *args)
    out = []
    for i, a in enumerate(arrays):
        if a.ndim != 1:
            raise ValueError(
                f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {a.shape}"
            )
        if a.dtype == np.bool_:
            raise NotImplementedError(
                "Boolean arguments to jax.numpy.ix_ are not implemented"
            )
        shape = [1] * len(arrays)
        shape[i] = a.shape[0]
        a = a if a.size else lax.convert_element_type(a, dtypes.default_int_dtype())
        out.append(lax.broadcast_in_dim(a, tuple(shape), (i,)))
    return tuple(out)


# ---- diagonals and triangles


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array with `ndim` dims of size n.

    >>> from curta import numpy as jnp
    >>> jnp.diag_indices(2)
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    n = concrete_index(n, "'n' argument of jnp.diag_indices()")
    ndim = concrete_index(ndim, "'ndim' argument of jnp.diag_indices()")
    for name, value in (("n", n), ("ndim", ndim)):
        if value < 0:
            raise ValueError(
                f"{name} argument to diag_indices must be nonnegative, got {value}"
            )
    return (lax.iota(dtypes.default_int_dtype(), n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Any, ...]:
    """The indices of the main diagonal of an array with equal dims.

    >>> from curta import numpy as jnp
    >>> jnp.diag_indices_from(jnp.zeros((2, 2)))[0]
    Array([0, 1], dtype=int32)
    """
    arr = ensure_arraylike("diag_indices_from", arr)
    if arr.ndim < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(arr.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(arr.shape[0], ndim=arr.ndim)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The indices of the upper triangle of an n×m matrix.

    Args:
      n: the number of rows, a static int.
      k: the diagonal from which on elements belong to the triangle. Default 0, the main
        one.
      m: the number of columns. None (default) is `n`.

    Returns:
      Row and column indices, two vectors (count,), of the default integer dtype.

    Raises:
      TypeError: an argument is not an integer, or a size is negative.
      ConcretizationTypeError: an argument is traced.

    >>> from curta import numpy as jnp
    >>> jnp.triu_indices(2)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return _triangle_indices("triu_indices", triu, np.triu, n, k, m)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The indices of the lower triangle of an n×m matrix.

    Args:
      n: the number of rows, a static int.
      k: the diagonal up to which elements belong to the triangle. Default 0, the main
        one.
      m: the number of columns. None (default) is `n`.

    Returns:
      Row and column indices, two vectors (count,), of the default integer dtype.

    Raises:
      TypeError: an argument is not an integer, or a size is negative.
      ConcretizationTypeError: an argument is traced.

    >>> from curta import numpy as jnp
    >>> jnp.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    return _triangle_indices("tril_indices", tril, np.tril, n, k, m)


def _triangle_indices(
    name: str,
    triangle: Callable[..., Any],
    count: Callable[..., Any],
    n: int,
    k: int,
    m: int | None,
) -> tuple[Any, Any]:
    rows = concrete_index(n, f"n argument of jnp.{name}")
    k = concrete_index(k, f"k argument of jnp.{name}")
    columns = rows if m is None else concrete_index(m, f"m argument of jnp.{name}")
    matrix = ones((rows, columns))
    if any(map(is_symbolic_dim, (rows, columns, k))):
        size = _triangle_size(rows, columns, k if triangle is tril else k - 1)
        size = size if triangle is tril else rows * columns - size
    else:
        size = int(count(np.ones((rows, columns), bool), k).sum())
    i, j = nonzero(triangle(matrix, k=k), size=size)
    return i, j


def _triangle_size(rows: Any, columns: Any, k: Any) -> Any:
    """How many elements are on and below the k-th diagonal.

    Row i has i + k + 1, but at least none and at most all.
    """
    first = min_dim(max_dim(-k, 0), rows)  # rows before have none
    full = max_dim(min_dim(columns - k, rows), first)  # rows from here on have all
    partial = full - first
    least = max_dim(first + k + 1, 0)
    return partial * least + partial * (partial - 1) // 2 + (rows - full) * columns


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The indices of the upper triangle of a matrix.

    >>> from curta import numpy as jnp
    >>> jnp.triu_indices_from(jnp.zeros((2, 2)))[1]
    Array([0, 1, 1], dtype=int32)
    """
    rows, columns = _matrix_shape("triu_indices_from", arr)
    return triu_indices(rows, k=k, m=columns)


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The indices of the lower triangle of a matrix.

    >>> from curta import numpy as jnp
    >>> jnp.tril_indices_from(jnp.zeros((2, 2)))[1]
    Array([0, 0, 1], dtype=int32)
    """
    rows, columns = _matrix_shape("tril_indices_from", arr)
    return tril_indices(rows, k=k, m=columns)


def _matrix_shape(name: str, arr: Any) -> tuple[int, int]:
    shape = (arr if hasattr(arr, "shape") else ensure_arraylike(name, arr)).shape
    if len(shape) != 2:
        raise ValueError("Only 2-D inputs are accepted")
    return shape[0], shape[1]


def mask_indices(
    n: int, mask_func: Callable[[Any, int], Any], k: int = 0, *, size: int | None = None
) -> tuple[Any, Any]:
    """The indices of what a masking function like `triu` keeps of an n×n matrix.

    Args:
      n: the size of the matrix, a static int.
      mask_func: a function of an n×n matrix of ones and `k`, such as `triu`.
      k: the second argument of `mask_func`. Default 0.
      size: static int, the number of indices. None (default) for as many as there are.

    Returns:
      Row and column indices, two vectors (count,), of the default integer dtype.

    Raises:
      TypeError: `n`, `k` or `size` is not an integer or negative where it may not be;
        `mask_func` cannot be called.
      ConcretizationTypeError: the mask is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.mask_indices(2, jnp.triu)[0]
    Array([0, 0, 1], dtype=int32)
    """
    i, j = nonzero(mask_func(ones((n, n)), k), size=size)
    return i, j


# ---- brackets


def _points(part: slice, name: str) -> Any:
    """The points of a slice; an imaginary step is their number."""
    start = concrete(part.start, f"slice start of jnp.{name}") or 0
    stop = concrete(part.stop, f"slice stop of jnp.{name}")
    step = concrete(part.step, f"slice step of jnp.{name}") or 1
    if np.iscomplexobj(step):
        return linspace(start, stop, int(abs(step)))
    return arange(start, stop, step)


class Grid:
    """`mgrid[0:2, 0:3]` and `ogrid[0:2, 0:3]`: the grid spanned by slices.

    >>> from curta import numpy as jnp
    >>> jnp.mgrid[0:2, 0:2]
    Array([[[0, 0],
            [1, 1]],
    <BLANKLINE>
           [[0, 1],
            [0, 1]]], dtype=int32)
    """

    def __init__(self, name: str, sparse: bool):
        self.name = name
        self.sparse = sparse

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Any:
        if isinstance(key, slice):
            return _points(key, self.name)
        axes = [_points(part, self.name) for part in key]
        with numpy_dtype_promotion("standard"):
            axes = promote_dtypes(*axes)
        grids = meshgrid(*axes, indexing="ij", sparse=self.sparse)
        if self.sparse:
            return [*grids]
        return stack(grids, 0) if grids else arange(0)


mgrid: Grid = Grid("mgrid", sparse=False)
ogrid: Grid = Grid("ogrid", sparse=True)


class Joined:
    """`r_[1:4, 0, 4]` and `c_[x, y]`: arrays, scalars and slices joined.

    A leading string "axis,ndmin,trans1d" says along which axis, to which rank, and
    where the dim of vectors goes; "r" and "c" make matrices of one row or column.

    >>> from curta import numpy as jnp
    >>> jnp.r_[1:4, 0, jnp.array([7, 8])]
    Array([1, 2, 3, 0, 7, 8], dtype=int32)
    """

    def __init__(self, name: str, axis: int, ndmin: int, trans1d: int):
        self.name = name
        self.defaults: tuple[int, int, int] = (axis, ndmin, trans1d)

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        axis, ndmin, trans1d = self.defaults
        matrix = None
        if items and isinstance(items[0], str):
            directive, items = items[0], items[1:]
            if directive in ("r", "c"):
                matrix = 0 if directive == "r" else 1
            else:
                axis, ndmin, trans1d = self._directive(directive)
        parts = [self._part(item, ndmin, trans1d) for item in items]
        out = concatenate(parts, axis=axis)
        return expand_dims(out, matrix) if matrix is not None and out.ndim == 1 else out

    def _directive(self, text: str) -> tuple[int, int, int]:
        try:
            given = tuple(int(x) for x in text.split(","))[:3]
        except ValueError as error:
            raise ValueError(f"could not understand directive {text!r}") from error
        axis, ndmin, trans1d = (*given, *self.defaults[len(given) :])
        return axis, ndmin, trans1d

    def _part(self, item: Any, ndmin: int, trans1d: int) -> Any:
        if isinstance(item, str):
            raise ValueError("string directive must be placed at the beginning")
        if isinstance(item, slice):
            x, rank = _points(item, self.name), 0
        else:
            x = array(item, copy=False)
            rank = x.ndim
        x = array(x, copy=False, ndmin=ndmin)
        if trans1d == -1 or ndmin <= rank:
            return x
        shift = ndmin - abs(ndmin + trans1d + 1) % ndmin
        dims = tuple(range(ndmin))
        return transpose(x, (*dims[shift:], *dims[:shift]))

    def __len__(self) -> int:
        return 0


r_: Joined = Joined("r_", axis=0, ndmin=1, trans1d=-1)
c_: Joined = Joined("c_", axis=-1, ndmin=2, trans1d=0)
