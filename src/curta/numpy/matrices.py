"""Matrices of a given pattern: the identity, triangles, powers."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes, lax
from curta._settings import api_version
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.dim import as_dim
from curta.numpy.arguments import (
    canonical_shape,
    concrete_index,
    ensure_arraylike,
    user_dtype,
)
from curta.numpy.arithmetic import power
from curta.numpy.creation import put_on
from curta.numpy.promotion import cast, const


def eye(
    N: int,
    M: int | None = None,
    k: int | float | ArrayLike = 0,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
) -> Array:
    """An N×M matrix with ones on the k-th diagonal.

    Args:
      N: the number of rows, a static int.
      M: the number of columns. None (default) is `N`.
      k: the diagonal with the ones, above the main one. Default 0.
      dtype: the dtype. None (default) is the default float dtype.
      device: a device or `Sharding` where the matrix is to be; None (default) is the
        default device.

    Returns:
      A matrix (N, M).

    Raises:
      TypeError: `N` or `M` is not an integer or traced, or `k` no scalar; `dtype` is
        unknown.
      ValueError: `N` or `M` is negative, or `k` no integer; `device` is neither a
        device nor a sharding.

    >>> from curta import numpy as jnp
    >>> jnp.eye(2, 3, k=1)
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    dtype = user_dtype(float if dtype is None else dtype, "eye")
    if isinstance(k, int):
        info = np.iinfo(np.int32)
        k = min(max(k, int(info.min)), int(info.max))
    k = ensure_arraylike("eye", k)
    if k.shape != () or not dtypes.issubdtype(k.dtype, np.integer):
        raise ValueError(f"k must be a scalar integer; got {k}")
    rows = canonical_shape((N,), "argument of 'N' jnp.eye()")[0]
    columns = (
        rows if M is None else canonical_shape((M,), "argument 'M' of jnp.eye()")[0]
    )
    if rows < 0 or columns < 0:
        raise ValueError(f"negative dimensions are not allowed, got {N} and {M}")
    i = lax.broadcasted_iota(k.dtype, (rows, columns), 0)
    j = lax.broadcasted_iota(k.dtype, (rows, columns), 1)
    diagonal = lax.eq(lax.add(i, cast(k, k.dtype)), j)
    return put_on(device, lax.convert_element_type(diagonal, dtype))


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The n×n identity matrix.

    >>> from curta import numpy as jnp
    >>> jnp.identity(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=user_dtype(dtype, "identity"))


def tri(
    N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None
) -> Array:
    """An N×M matrix with ones on and below the k-th diagonal.

    Args:
      N: the number of rows, a static int.
      M: the number of columns. None (default) is `N`.
      k: the last diagonal with ones. Default 0, the main one.
      dtype: the dtype. None (default) is float32.

    Returns:
      A matrix (N, M).

    Raises:
      TypeError: an argument is not an integer, or a size is negative; `dtype` is
          unknown.

    >>> from curta import numpy as jnp
    >>> jnp.tri(2, 3)
    Array([[1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    if dtype is None and not api_version.TRI_HAS_DEFAULT_FLOAT.applies():
        dtype = np.float32
    dtype = user_dtype(float if dtype is None else dtype, "tri")
    shape = canonical_shape((N, N if M is None else M))
    offset = ensure_arraylike("tri", as_dim(k) if isinstance(k, float) else k)
    if not dtypes.issubdtype(offset.dtype, np.integer):
        raise TypeError(f"offset must be an integer, got {offset!r}")
    i = lax.broadcasted_iota(np.int32, shape, 0)
    below = lax.add(i, cast(offset, np.dtype(np.int32)))
    below = lax.ge(below, lax.broadcasted_iota(np.int32, shape, 1))
    return lax.convert_element_type(below, dtype)


@inner_jit(static_argnames=("k",))
def tril(m: ArrayLike, k: int = 0) -> Array:
    """`m` with zeros above the k-th diagonal, of each matrix in the last two dims.

    >>> from curta import numpy as jnp
    >>> jnp.tril(jnp.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    m, mask = _triangle("tril", m, k)
    return lax.select(mask, m, lax.full_like(m, 0))


@inner_jit(static_argnames=("k",))
def triu(m: ArrayLike, k: int = 0) -> Array:
    """`m` with zeros below the k-th diagonal, of each matrix in the last two dims.

    >>> from curta import numpy as jnp
    >>> jnp.triu(jnp.ones((2, 2)))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    m, mask = _triangle("triu", m, as_dim(k) - 1)
    return lax.select(mask, lax.full_like(m, 0), m)


def _triangle(name: str, m: Any, k: int) -> tuple[Any, Any]:
    m = ensure_arraylike(name, m)
    if m.ndim < 2:
        raise ValueError(f"Argument to jax.numpy.{name} must be at least 2D")
    mask = tri(m.shape[-2], m.shape[-1], k=as_dim(k), dtype=bool)
    return m, lax.broadcast(mask, m.shape[:-2])


@inner_jit(static_argnames=("N", "increasing"))
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix whose columns are the powers of x, falling unless `increasing`.

    Named after A.-T. Vandermonde: x[i]**(N-1-j), or x[i]**j.

    Args:
      x: a vector (n,) of numbers.
      N: the number of columns, a static int. None (default) is n.
      increasing: powers rise from left to right. Default False.

    Returns:
      A matrix (n, N), of the dtype of `x`.

    Raises:
      TypeError: `x` is a list or a string; `x` is boolean, or `N` no integer.
      ValueError: `x` is not a vector, or `N` negative.

    >>> from curta import numpy as jnp
    >>> jnp.vander(jnp.array([1, 2, 3]), 2)
    Array([[1, 1],
           [2, 1],
           [3, 1]], dtype=int32)
    """
    x = ensure_arraylike("vander", x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array")
    N = x.shape[0] if N is None else concrete_index(N, "'N' argument of jnp.vander()")
    if N < 0:
        raise ValueError("N must be nonnegative")
    exponents = lax.iota(x.dtype, N)
    if not increasing:
        exponents = lax.sub(const(exponents, N - 1), exponents)
    return power(lax.expand_dims(x, (1,)), lax.expand_dims(exponents, (0,)))
