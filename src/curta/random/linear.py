"""Random vectors and matrices that are made by linear algebra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import concrete_index, user_dtype
from curta.numpy.promotion import promote_dtypes_inexact
from curta.random.keys import check_key
from curta.random.samplers import normal
from curta.random.shapes import check_shape, float_dtype, sample_shape

Shape = Sequence[int]


@takes_out_sharding
def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Array:
    """Normal draws of vectors whose elements are correlated.

    The draws are mean + F z with z standard normal.

    Args:
      key: a single key.
      mean: the means (..., n).
      cov: the covariance matrices (..., n, n), positive definite.
      shape: the batch dims of the result, by default those of `mean` and `cov`
        broadcast with each other.
      dtype: a float dtype, by default the dtype of `mean`.
      method: how to find F with F F^T = cov: 'cholesky' (the default), or 'eigh' or
        'svd', which take singular matrices too.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of shape `(*shape, n)` and this dtype.

    Raises:
      ValueError: if `key` is an array of keys, `dtype` is not a float dtype, shapes do
          not match, or the method is unknown.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.

    >>> import curta.numpy as jnp
    >>> from curta import random
    >>> random.multivariate_normal(random.key(0), jnp.zeros(2), jnp.eye(2), (3,)).shape
    (3, 2)
    """
    typed, _ = check_key("multivariate_normal", key)
    means, covariances = promote_dtypes_inexact(mean, cov)
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError(
            f"method must be one of {{'svd', 'eigh', 'cholesky'}}, got {method!r}"
        )
    dtype = dtypes.canonicalize_dtype(means.dtype) if dtype is None else dtype
    chosen = float_dtype("multivariate_normal", dtype)
    wanted = None if shape is None else sample_shape(shape)
    return _multivariate_normal(typed, means, covariances, wanted, chosen, method)


@inner_jit(static_argnames=("shape", "dtype", "method"))
def _multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: tuple[int, ...] | None,
    dtype: Any,
    method: str,
) -> Any:
    if mean.ndim < 1:
        raise ValueError(
            f"multivariate_normal requires mean.ndim >= 1, got mean.ndim == {mean.ndim}"
        )
    if cov.ndim < 2:
        raise ValueError(
            f"multivariate_normal requires cov.ndim >= 2, got cov.ndim == {cov.ndim}"
        )
    n = mean.shape[-1]
    if cov.shape[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, but got"
            f" cov.shape == {cov.shape}."
        )
    batches = mean.shape[:-1], cov.shape[:-2]
    if shape is None:
        shape = lax.broadcast_shapes(*batches)
    else:
        check_shape("normal", shape, *batches)
    factor = _factor(cov, method)
    z = normal(key, (*shape, n), dtype)
    moved = jnp.einsum("...ij,...j->...i", factor, z)
    return jnp.broadcast_to(mean, jnp.broadcast_shapes(mean.shape, moved.shape)) + moved


def _factor(cov: Any, method: str) -> Any:
    """F with F F^T = cov."""
    if method == "cholesky":
        return jnp.linalg.cholesky(cov)
    if method == "eigh":
        scale, vectors = jnp.linalg.eigh(cov)
    else:
        vectors, scale, _ = jnp.linalg.svd(cov)
    return vectors * jnp.expand_dims(jnp.sqrt(scale), -2)


@takes_out_sharding
def orthogonal(
    key: ArrayLike,
    n: int,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    m: int | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Uniform draws of orthogonal matrices; of unitary ones for a complex dtype.

    They are the Q of normal matrices, with signs that make it unique (Mezzadri, "How to
    generate random matrices from the classical compact groups", 2007).

    Args:
      key: a single key.
      n: the number of rows, a known integer.
      shape: the batch dims of the result; () by default.
      dtype: an inexact dtype, by default the default float one.
      m: the number of columns, by default n. If it is not n, then the rows or the
        columns are orthonormal, whichever are fewer.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      Matrices (*shape, n, m).

    Raises:
      ValueError: if `key` is an array of keys, or `dtype` is not a float or complex
          dtype.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not an
        array; for sizes that are not integers or negative.
      ConcretizationTypeError: for traced sizes.

    >>> from curta import random
    >>> random.orthogonal(random.key(0), 3, (2,)).shape
    (2, 3, 3)
    """
    typed, _ = check_key("orthogonal", key)
    context = "The error occurred in random.orthogonal()"
    rows = concrete_index(n, context)
    columns = rows if m is None else concrete_index(m, context)
    chosen = user_dtype(float if dtype is None else dtype, "orthogonal")
    return _orthogonal(typed, rows, columns, sample_shape(shape), chosen)


@inner_jit(static_argnames=("n", "m", "shape", "dtype"))
def _orthogonal(key: Any, n: int, m: int, shape: tuple[int, ...], dtype: Any) -> Any:
    z = normal(key, (*shape, max(n, m), min(n, m)), dtype)
    q, r = jnp.linalg.qr(z)
    signs = jnp.sign(jnp.linalg.diagonal(r))
    x = q * jnp.expand_dims(signs, -2)
    return jnp.matrix_transpose(x) if n < m else x
