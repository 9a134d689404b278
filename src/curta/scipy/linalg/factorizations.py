"""Decompositions of matrices."""

from __future__ import annotations

from typing import Any

import curta.numpy as jnp
from curta import lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.scipy.linalg.arguments import adjoint, inexact


def cholesky(
    a: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> Array:
    """The factor of Hermitian positive definite matrices.

    Args:
      a: matrices (..., n, n); only the triangle of the factor is read.
      lower: L with L L^H = a, rather than U with U^H U = a.
      overwrite_a, check_finite: accepted for compatibility with SciPy, and have no
        effect.

    Returns:
      Triangular matrices (..., n, n) of an inexact dtype; NaN where a is not positive
      definite.

    Raises:
      ValueError: if matrices are not square.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.cholesky(jnp.array([[4.0]]))
    Array([[2.]], dtype=float32)
    """
    return _cholesky(a, lower)


@inner_jit(static_argnames=("lower",))
def _cholesky(a: Any, lower: bool) -> Any:
    (a,) = inexact(a)
    if lower:
        return lax.linalg.cholesky(a, symmetrize_input=False)
    return adjoint(lax.linalg.cholesky(adjoint(a), symmetrize_input=False))


def cho_factor(
    a: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> tuple[Any, bool]:
    """The Cholesky factor, as `cho_solve` takes it.

    Args:
      a, lower, overwrite_a, check_finite: as for `cholesky`.

    Returns:
      The factor (..., n, n), and `lower`.

    Raises:
      ValueError, TypeError: where `cholesky` does.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.cho_factor(jnp.array([[4.0]]))
    (Array([[2.]], dtype=float32), False)
    """
    return cholesky(a, lower), lower


@inner_jit(static_argnames=("overwrite_a", "check_finite"))
def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, Any]:
    """L and U in one array, and the row exchanges.

    Args:
      a: matrices (..., m, n).
      overwrite_a, check_finite: accepted for compatibility with SciPy, and have no
        effect.

    Returns:
      U and, below its diagonal, L without its unit diagonal, (..., m, n); and for each
      row the row with which it was exchanged, int32 (..., min(m, n)).

    Raises:
      TypeError: if an argument is not an array of at least two dims.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> factors, pivots = linalg.lu_factor(jnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> print(pivots)
    [1 1]
    """
    (a,) = inexact(a)
    factors, pivots, _ = lax.linalg.lu(a)
    return factors, pivots


@inner_jit(static_argnames=("permute_l", "overwrite_a", "check_finite"))
def lu(
    a: ArrayLike,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """P, L and U with a = P L U; P L and U if `permute_l`.

    Args:
      a: matrices (..., m, n).
      permute_l: whether to return the product of P and L; False by default.
      overwrite_a, check_finite: accepted for compatibility with SciPy, and have no
        effect.

    Returns:
      P (..., m, m), L (..., m, k) and U (..., k, n) with k = min(m, n), or P L and U.

    Raises:
      TypeError: if an argument is not an array of at least two dims.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> p, l, u = linalg.lu(jnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> print(p, u, sep="\\n")
    [[0. 1.]
     [1. 0.]]
    [[2. 3.]
     [0. 1.]]
    """
    (a,) = inexact(a)
    factors, _, permutation = lax.linalg.lu(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    rows = jnp.arange(m, dtype=permutation.dtype)[:, None]
    p = (permutation[..., None, :] == rows).astype(jnp.real(a).dtype)
    lower = jnp.tril(factors, -1)[..., :k] + jnp.eye(m, k, dtype=a.dtype)
    upper = jnp.triu(factors)[..., :k, :]
    return (p.astype(a.dtype) @ lower, upper) if permute_l else (p, lower, upper)


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array] | tuple[Array, Array] | tuple[Array, Array, Array]:
    """The unitary Q and triangular R of a = Q R.

    Args:
      a: matrices (..., m, n).
      overwrite_a, lwork, check_finite: accepted for compatibility with SciPy, and have
        no effect.
      mode: "full", "economic" (thin Q and R), or "r" (only R).
      pivoting: a[:, p] = Q R; p is returned last.

    Returns:
      A tuple of Q, unless it is not asked for, R, and p if `pivoting`.

    Raises:
      ValueError: if the mode is unknown.
      TypeError: if an argument is not an array of at least two dims.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> q, r = linalg.qr(jnp.array([[3.0], [4.0]]), mode="economic")
    >>> jnp.abs(r).round(4)
    Array([[5.]], dtype=float32)
    """
    return _qr(a, mode, pivoting)


@inner_jit(static_argnames=("mode", "pivoting"))
def _qr(a: Any, mode: str, pivoting: bool) -> Any:
    if mode not in ("full", "economic", "r"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    (a,) = inexact(a)
    full = mode != "economic"
    outs = lax.linalg.qr(a, pivoting=pivoting, full_matrices=full)
    return tuple(outs[1:] if mode == "r" else outs)


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """c Q, or Q c if `mode` is "left", and R, for a = Q R with thin Q.

    Args:
      a: matrices (..., m, n).
      c: matrices, or one vector, that fit.
      mode: "right" or "left": the side of Q.
      pivoting: decompose a[:, p], and return p last.
      conjugate: multiply with the conjugate of Q.
      overwrite_a, overwrite_c: accepted for compatibility with SciPy, and have no
        effect.

    Returns:
      The product, R, and p if `pivoting`.

    Raises:
      ValueError: if the mode is unknown or sizes do not match.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> product, r = linalg.qr_multiply(jnp.array([[3.0], [4.0]]), jnp.eye(2))
    >>> jnp.abs(product).round(4)
    Array([[0.6],
           [0.8]], dtype=float32)
    """
    a, c = inexact(a, c)
    if mode not in ("right", "left"):
        raise ValueError(f"mode must be 'right' or 'left', got {mode!r}")
    if a.ndim < 2 or not c.ndim:
        raise ValueError(
            "qr_multiply takes matrices a, and matrices c or one vector, got a of shape"
            f" {a.shape} and c of shape {c.shape}."
        )
    one = c.ndim == 1
    if one:
        c = c[:, None] if mode == "left" else c[None, :]
    m, n = a.shape[-2:]
    k = min(m, n)
    _check_product(a.shape, c.shape, mode)
    batch = jnp.broadcast_shapes(a.shape[:-2], c.shape[:-2])
    a = jnp.broadcast_to(a, (*batch, m, n))
    c = jnp.broadcast_to(c, (*batch, *c.shape[-2:]))
    outs = lax.linalg.qr(a, pivoting=pivoting, full_matrices=True)
    q, r, order = outs[0], outs[1][..., :k, :], outs[2:]
    q = q.conj() if conjugate else q
    product = c @ q[..., :k] if mode == "right" else q[..., :k] @ c
    return (product.ravel() if one else product, r, *order)


def _check_product(a: tuple[int, ...], c: tuple[int, ...], mode: str) -> None:
    m, k = a[-2], min(a[-2:])
    if mode == "left" and c[-2] != k:
        raise ValueError(
            f"Array shapes are not compatible for Q @ c operation: a has shape {a} so Q"
            f" has {k} columns, but c has {c[-2]} rows (expected {k})."
        )
    if mode == "right" and c[-1] != m:
        raise ValueError(
            f"Array shapes are not compatible for c @ Q operation: a has shape {a} so Q"
            f" has {m} rows, but c has {c[-1]} columns (expected {m})."
        )


def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Any, Any]:
    """The unitary u and Hermitian p >= 0 of a = u p, or of a = p u.

    Args:
      a: matrices (..., m, n).
      side: "right" for a = u p, "left" for a = p u.
      method: "svd", or "qdwh", which only takes m >= n on the right, m < n on the
        left.
      eps, max_iterations: when the iteration of `lax.linalg.qdwh` ends, by default
        when it agrees with the singular values, from which u and p then come. Of no
        effect with "svd".

    Returns:
      u (..., m, n) and p, (..., n, n) on the right, (..., m, m) on the left.

    Raises:
      ValueError: for another side, method or rank, and eps <= 0.
      TypeError: if an argument is not an array.
      NotImplementedError: for shapes that "qdwh" does not take.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> u, p = linalg.polar(jnp.array([[0.0, -2.0], [2.0, 0.0]]))
    >>> p.round(3)
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    if method != "qdwh":
        eps = max_iterations = None
    return _polar(a, side, method, eps, max_iterations)


@inner_jit(static_argnames=("side", "method", "eps", "max_iterations"), name="polar")
def _polar(a: Any, side: str, method: str, eps: Any, max_iterations: Any) -> Any:
    a = jnp.asarray(a)
    if a.ndim < 2:
        raise ValueError("The input `a` must be at least a 2-D array.")
    if side not in ("right", "left"):
        raise ValueError("The argument `side` must be either 'right' or 'left'.")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method}.")
    m, n = a.shape[-2:]
    if method == "qdwh" and (m >= n) != (side == "right"):
        raise NotImplementedError(
            "method='qdwh' only supports mxn matrices where m < n where side='right'"
            f" and m >= n side='left', got {a.shape} with side={side!r}"
        )
    if method == "qdwh" and not (eps is None and max_iterations is None):
        return _iterated(a, side, eps, max_iterations)
    left, s, right = lax.linalg.svd(a, full_matrices=False)
    s = s.astype(a.dtype)[..., None, :]
    if side == "right":
        posdef = (adjoint(right) * s) @ right
    else:
        posdef = (left * s) @ adjoint(left)
    return left @ right, posdef


def _iterated(a: Any, side: str, eps: Any, max_iterations: Any) -> tuple[Any, Any]:
    def one(a: Any) -> tuple[Any, Any]:
        (a,) = inexact(a)
        tall = a if side == "right" else adjoint(a)
        u, p, *_ = lax.linalg.qdwh(tall, max_iterations=max_iterations, eps=eps)
        return (u if side == "right" else adjoint(u)), p

    k = "n,n" if side == "right" else "m,m"
    return jnp.vectorize(one, signature=f"(m,n)->(m,n),({k})")(a)
