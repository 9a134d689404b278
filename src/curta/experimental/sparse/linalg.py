"""Eigenpairs of operators known by their products, and sparse linear systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta._base.on_demand import Listing, own
from curta.api.jit import jit
from curta.core.array import Array
from curta.core.trace import operand_type
from curta.numpy import (
    arange,
    asarray,
    concatenate,
    diag,
    diff,
    finfo,
    linalg,
    logical_and,
    maximum,
    median,
    repeat,
    sum,
    where,
    zeros,
    zeros_like,
)

__dir__: Listing = own(__name__)

Operator = Callable[[Any], Any]


def lobpcg_standard(
    A: Any, X: Any, m: int = 100, tol: Any = None
) -> tuple[Any, Any, Any]:
    """The k largest eigenvalues of a symmetric matrix, with their eigenvectors.

    By the locally optimal block preconditioned conjugate gradient method (A. Knyazev,
    2001), without a preconditioner and with an orthonormal basis in every step
    (J. Duersch, M. Shao, C. Yang and M. Gu, 2018).

    Args:
      A: a symmetric matrix (n, n), or the function that takes V (n, j) to A V.
      X: (n, k), of A's float dtype, where the search starts: linearly independent
        columns, with 0 < 5 k < n.
      m: the largest number of steps. Default 100.
      tol: an eigenpair (w, v) is found when |A v - w v| < tol 10 n (w + |A v|); the
        search stops when all are. The dtype's epsilon unless given.

    Returns:
      The eigenvalues (k,) from the largest down, the eigenvectors (n, k) and the number
      of steps.

    Raises:
      TypeError: if `A` is neither a matrix nor a function or `tol` is not a number.
      ValueError: if shapes or dtypes do not match.

    >>> import numpy as np
    >>> import curta.numpy as jnp
    >>> from curta.experimental.sparse.linalg import lobpcg_standard
    >>> start = jnp.asarray(np.random.RandomState(0).rand(20, 2), dtype=jnp.float32)
    >>> values, _, _ = lobpcg_standard(jnp.diag(jnp.arange(20.0)), start)
    >>> print(values.round(3))
    [19. 18.]
    """
    X = asarray(X)
    tol = float(finfo(X.dtype).eps) if tol is None else tol
    if isinstance(A, (Array, np.ndarray)):
        return _lobpcg_standard_matrix(A, X, m, tol)
    return _lobpcg_standard_callable(A, X, m, tol)


@jit(static_argnames=("m", "debug"))
def _lobpcg_standard_matrix(
    A: Any, X: Any, m: int, tol: Any, debug: bool = False
) -> tuple[Any, ...]:
    return _search(lambda V: _product(A, V), X, m, tol, debug)


@jit(static_argnames=("A", "m", "debug"))
def _lobpcg_standard_callable(
    A: Operator, X: Any, m: int, tol: Any, debug: bool = False
) -> tuple[Any, ...]:
    return _search(A, X, m, tol, debug)


def _search(A: Operator, X: Any, m: int, tol: Any, debug: bool) -> tuple[Any, ...]:
    """Eigenvalues, eigenvectors, and the number of steps.

    With `debug` it takes m steps, and gives the figures of each of them as well.
    """
    n, k = X.shape
    _check(A, n, k, X.dtype)

    def unfinished(state: Any) -> Any:
        steps, *_, converged = state
        return logical_and(steps < m, converged < k)

    def step(state: Any, _: Any = None) -> Any:
        steps, X, P, R, _, _ = state
        R = _outside(concatenate([X, P], axis=1), R)
        S = concatenate([X, P, R], axis=1)
        X, P, values = _best_part(A, S, k)
        AX = A(X)
        R = AX - values[None, :] * X
        scale = 10 * n * (_lengths(AX) + values)
        result = sum(_lengths(R) < tol * scale, dtype=np.int32)
        after = steps + 1, X, P, R, values, result
        if not debug:
            return after
        return after, _figures(S, X, P, values, result, _lengths(R) / scale)

    X = _orthonormal(X)
    AX = A(X)
    values = sum(X * AX, axis=0)
    zero = asarray(0, np.int32)
    start = (zero, X, zeros_like(X), AX - values[None, :] * X, values, zero)
    if debug:
        (steps, X, _, _, values, _), figures = lax.scan(step, start, length=m)
        return values, X, steps, figures
    steps, X, _, _, values, _ = lax.while_loop(unfinished, step, start)
    return values, X, steps


def _figures(S: Any, X: Any, P: Any, values: Any, converged: Any, left: Any) -> Any:
    """What shows how well a step went; `left` is how far each pair is off."""

    def zeros_of(V: Any) -> Any:
        return sum(_lengths(V) == 0, dtype=np.int32)

    def not_orthonormal(V: Any) -> Any:
        """How far the products of the columns are from those of an orthonormal basis.

        Columns of zeros are in order.
        """
        products = _product(V.T, V)
        one = diag((_lengths(V) != 0).astype(V.dtype))
        return linalg.norm(products - one) / V.shape[1]

    return {
        "basis rank": S.shape[1] - zeros_of(S),
        "X zeros": zeros_of(X),
        "P zeros": zeros_of(P),
        "lambda history": values,
        "X orth": not_orthonormal(X),
        "P orth": not_orthonormal(P),
        "P.X": linalg.norm(_product(P.T, X)) / X.shape[1],
        "converged": converged,
        "adjusted residual max": left.max(),
        "adjusted residual p50": median(left),
        "adjusted residual min": left.min(),
    }


def _check(A: Operator, n: int, k: int, dtype: Any) -> None:
    if k == 0:
        raise ValueError(f"must have search dim > 0, got {k}")
    if 5 * k >= n:
        raise ValueError(f"expected search dim * 5 < matrix dim (got {5 * k}, {n})")
    out = A(zeros((n, 1), dtype))
    if out.dtype != dtype:
        raise ValueError(f"A, X must have same dtypes (were {out.dtype}, {dtype})")
    if out.shape != (n, 1):
        raise ValueError(f"A must be ({n}, {n}) matrix A, got output {out.shape}")


def _product(a: Any, b: Any) -> Any:
    return lax.dot(a, b, precision=lax.Precision.HIGHEST)


def _lengths(V: Any) -> Any:
    """The Euclidean lengths of the columns."""
    return linalg.norm(V, axis=0)


def _normalised(V: Any) -> Any:
    """The columns with length 1; those that are zero stay so."""
    lengths = _lengths(V)[None, :]
    return V / where(lengths == 0, 1, lengths)


def _best_part(A: Operator, S: Any, k: int) -> tuple[Any, Any, Any]:
    """The Ritz pairs of the k largest values in the span of S = (X, P, R).

    Returns the Ritz vectors, the directions in which X moved to become them (an
    orthonormal basis of what is left of X beside them) and the Ritz values. Columns
    of S that are zero stand for none: their values are put below all others.
    """
    T = _product(S.T, A(S))
    T = (T + T.T) / 2
    none = (_lengths(S) == 0).astype(S.dtype)
    below = 1 + 2 * linalg.norm(T)
    diagonal = arange(S.shape[1])
    T = T.at[diagonal, diagonal].add(-below * none)
    values, Q = linalg.eigh(T, symmetrize_input=False)
    values, Q = values[::-1], Q[:, ::-1]
    rest, _ = linalg.qr(Q[:k, k:].T)
    X = _normalised(_product(S, Q[:, :k]))
    P = _product(S, _product(Q[:, k:], rest))
    # A pair that has converged did not move: its direction is rounding, or one of the
    # columns that stand for none. Normalizing that would bring back parts of X.
    P = P * (_lengths(P) > finfo(P.dtype).eps ** 0.5).astype(P.dtype)[None, :]
    return X, _outside(X, P), values[:k]


def _orthonormal(V: Any) -> Any:
    """An orthonormal basis of the columns' span, filled up with zero columns.

    By singular vectors of V from the eigenvectors of V^T V (A. Stathopoulos and K. Wu,
    2002), twice, as the first result is only as good as V^T V is conditioned.
    """
    for _ in range(2):
        V = _normalised(V)
        values, Q = linalg.eigh(_product(V.T, V), symmetrize_input=False)
        least = finfo(V.dtype).eps * values[-1]
        independent = (values > least).astype(V.dtype)
        roots = lax.rsqrt(where(least > 0, maximum(values, least), 1))
        V = _product(V, Q * (roots * independent)[None, :])
    return _normalised(V)


def _outside(basis: Any, V: Any) -> Any:
    """An orthonormal basis of what of V's span is orthogonal to an orthonormal basis.

    Each projection is done twice, which suffices (B. Parlett, 1980, section 6.9). What
    rounding then still put inside the basis is replaced by zero columns.
    """
    for _ in range(2):
        V = _orthonormal(V - _product(basis, _product(basis.T, V)))
    for _ in range(2):
        V = V - _product(basis, _product(basis.T, V))
    return V * (_lengths(V) >= 0.99).astype(V.dtype)[None, :]


def spsolve(
    data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1
) -> Any:
    """x of A x = b for a square sparse matrix A in CSR format.

    The matrix is converted to a dense one and factorized by LU, which takes memory for
    n² elements; `tol` and `reorder` steer sparse factorizations and change nothing.

    Args:
      data, indices, indptr: the elements, their columns, and where each row starts.
      b: (n,), of the dtype of `data`.
      tol: a number, without effect. Default 1e-6.
      reorder: 0 to 3, without effect. Default 1.

    Returns:
      The vector x (n,), in the dtype of `data`.

    Raises:
      TypeError: if an argument is not an array.
      ValueError: for dtypes, sizes, a `tol` or a `reorder` that do not fit.

    >>> import curta.numpy as jnp
    >>> from curta.experimental.sparse.linalg import spsolve
    >>> diagonal = jnp.array([2.0, 4.0])
    >>> spsolve(diagonal, jnp.arange(2), jnp.arange(3), jnp.array([2.0, 2.0]))
    Array([1. , 0.5], dtype=float32)
    """
    for position, x in enumerate((data, indices, indptr, b)):
        operand_type("spsolve", position, x)
    float(tol)  # raises TypeError or ValueError for what is no number
    data, indices, indptr, b = map(asarray, (data, indices, indptr, b))
    if data.dtype != b.dtype:
        raise ValueError(
            "data types do not match: data.dtype and b.dtype are"
            f" {data.dtype} and {b.dtype}"
        )
    for i in (indices, indptr):
        if not dtypes.issubdtype(i.dtype, np.integer):
            raise ValueError(
                f"index arrays must be integer typed; got indices.dtype and"
                f" indptr.dtype {indices.dtype} and {indptr.dtype}"
            )
    named = {"data": data, "indices": indices, "indptr": indptr, "b": b}
    shapes = " ".join(f"{name}.shape={x.shape}" for name, x in named.items())
    if any(x.ndim != 1 for x in named.values()):
        raise ValueError(f"Arrays must be one-dimensional. Got {shapes}")
    if indptr.size != b.size + 1 or data.shape != indices.shape:
        raise ValueError(f"Invalid CSR buffer sizes: {shapes}")
    if reorder not in (0, 1, 2, 3):
        raise ValueError(f"{reorder=} not valid, must be one of 0, 1, 2, 3")
    return _solve(data, indices, indptr, b)


@jit
def _solve(data: Any, indices: Any, indptr: Any, b: Any) -> Any:
    rows = repeat(arange(b.size), diff(indptr), total_repeat_length=data.size)
    dense = zeros((b.size, b.size), data.dtype).at[rows, indices].add(data)
    return linalg.solve(dense, b)
