"""Systems of linear equations, inverses and determinants."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta._base.user_warnings import warn
from curta.api.inner import inner_jit
from curta.api.jit import jit
from curta.core.array import Array, ArrayLike
from curta.numpy.linalg.factored import lu_solve as solve_with_lu
from curta.scipy.linalg.arguments import adjoint, inexact
from curta.scipy.linalg.eigenvalues import schur
from curta.scipy.linalg.factorizations import cho_factor


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinants of matrices.

    Args:
      a: matrices (..., n, n).
      overwrite_a, check_finite: accepted for SciPy's sake, and without effect.

    Returns:
      An array (...) of an inexact dtype.

    Raises:
      ValueError: if matrices are not square.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.det(jnp.array([[2.0, 1.0], [0.0, 3.0]]))
    Array(6., dtype=float32)
    """
    return jnp.linalg.det(a)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverses of matrices.

    Args:
      a: matrices (..., n, n).
      overwrite_a, check_finite: accepted for SciPy's sake, and without effect.

    Returns:
      Matrices (..., n, n) of an inexact dtype.

    Raises:
      ValueError: if matrices are not square.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.inv(jnp.array([[2.0]]))
    Array([[0.5]], dtype=float32)
    """
    return jnp.linalg.inv(a)


def _as_columns(
    name: str, solve: Callable[..., Any], a: Any, b: Any, *more: Any
) -> Any:
    """`solve` mapped over batches; b holds one vector, or matrices of columns."""
    if b.ndim != 1 and a.ndim == b.ndim + 1 and a.shape[-1] == b.shape[-1]:
        warn(
            f"{name}: batched 1D solves with b.ndim > 1 are deprecated, and in the"
            " future will be treated as a batched 2D solve. Use b[..., None] and"
            " squeeze(-1) to avoid this warning.",
            FutureWarning,
        )
        one = True
    else:
        one = b.ndim == 1
    columns = b[..., None] if one else b
    extra = ",".join(["(n,n)", *["(n)"] * len(more), "(n,k)"])
    mapped = jnp.vectorize(solve, signature=f"{extra}->(n,k)")(a, *more, columns)
    return mapped[..., 0] if one else mapped


def cho_solve(
    c_and_lower: tuple[Any, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """x of a x = b, given `cho_factor` of a.

    Args:
      c_and_lower: the pair that `cho_factor` returns.
      b: a vector (n,), or matrices (..., n, k).
      overwrite_b, check_finite: accepted for SciPy's sake, and without effect.

    Returns:
      An array of the shape of b.

    Raises:
      ValueError: if sizes do not match.
      TypeError: if the argument is not a pair.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.cho_solve(linalg.cho_factor(jnp.array([[4.0]])), jnp.array([8.0]))
    Array([2.], dtype=float32)
    """
    factor, lower = _pair("cho_solve", "c_and_lower", c_and_lower)
    return _cho_solve(factor, b, lower)


def _pair(name: str, what: str, given: Any) -> tuple[Any, Any]:
    try:
        first, second = given
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{error}: {name} takes {what} as a pair, got {given}"
        ) from None
    return first, second


@inner_jit(static_argnames=("lower",))
def _cho_solve(factor: Any, b: Any, lower: bool) -> Any:
    factor, b = inexact(factor, b)

    def solve(factor: Any, b: Any) -> Any:
        once = partial(lax.linalg.triangular_solve, factor, left_side=True, lower=lower)
        b = once(b, transpose_a=not lower, conjugate_a=not lower)
        return once(b, transpose_a=lower, conjugate_a=lower)

    return _as_columns("cho_solve", solve, factor, b)


@inner_jit(static_argnames=("trans", "overwrite_b", "check_finite"))
def lu_solve(
    lu_and_piv: tuple[Any, Any],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """x of a x = b, given `lu_factor` of a.

    Args:
      lu_and_piv: the pair that `lu_factor` returns.
      b: a vector (n,), or matrices (..., n, k).
      trans: 0 for a itself, 1 for a^T, 2 for a^H.
      overwrite_b, check_finite: accepted for SciPy's sake, and without effect.

    Returns:
      An array of the shape of b.

    Raises:
      ValueError: if sizes do not match or `trans` has another value.
      TypeError: if the argument is not a pair.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.lu_solve(linalg.lu_factor(jnp.array([[4.0]])), jnp.array([8.0]))
    Array([2.], dtype=float32)
    """
    factors, pivots = _pair("lu_solve", "lu_and_piv", lu_and_piv)
    factors, b = inexact(factors, b)
    rows, _ = factors.shape[-2:]
    permutation = lax.linalg.lu_pivots_to_permutation(pivots, rows)

    def solve(factors: Any, permutation: Any, b: Any) -> Any:
        return solve_with_lu(factors, permutation, b, trans)

    return _as_columns("lu_solve", solve, factors, b, permutation)


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """x of a x = b.

    Args:
      a: matrices (..., n, n).
      b: a vector (n,), or matrices (..., n, k).
      lower: which triangle of a is read if it is positive definite.
      overwrite_a, overwrite_b, debug, check_finite: accepted for SciPy's sake, and
        without effect.
      assume_a: "pos" for Hermitian positive definite matrices, by Cholesky
        factorization; "gen" (the default), "sym" and "her" by LU factorization.

    Returns:
      An array of the shape of b and an inexact dtype.

    Raises:
      ValueError: if sizes do not match or `assume_a` has another value.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.solve(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 4.0]))
    Array([1., 1.], dtype=float32)
    """
    valid = ["gen", "sym", "her", "pos"]
    if assume_a not in valid:
        raise ValueError(f"Expected assume_a to be one of {valid}; got {assume_a!r}")
    return _solve(a, b, assume_a, lower)


@inner_jit(static_argnames=("assume_a", "lower"))
def _solve(a: Any, b: Any, assume_a: str, lower: bool) -> Any:
    if assume_a != "pos":
        return jnp.linalg.solve(a, b)
    a, b = inexact(a, b)
    square = a.ndim > 1 and a.shape[-1] == a.shape[-2]
    if not square or b.ndim < 1 or b.shape[-2:][0] != a.shape[-1]:
        raise ValueError(
            "The arguments to solve must have shapes a=[..., m, m] and b=[..., m, k] or"
            f" b=[..., m]; got a={a.shape} and b={b.shape}"
        )
    factors = cho_factor(lax.stop_gradient(a), lower=lower)

    def solve_columns(a: Any, factor: Any, b: Any) -> Any:
        def solve(_: Any, x: Any) -> Any:
            return cho_solve((factor, lower), x)

        def solve_transposed(_: Any, x: Any) -> Any:
            return jnp.conj(cho_solve((factor, lower), jnp.conj(x)))

        # The transpose of a Hermitian matrix is its conjugate, itself if it is real.
        real = not jnp.iscomplexobj(a)
        return lax.custom_linear_solve(
            lambda x: jnp.dot(a, x, precision=lax.Precision.HIGHEST),
            b,
            solve=solve,
            transpose_solve=None if real else solve_transposed,
            symmetric=real,
        )

    one = b.ndim == 1
    columns = b[:, None] if one else b
    signature = "(n,n),(n,n),(n,k)->(n,k)"
    x = jnp.vectorize(solve_columns, signature=signature)(a, factors[0], columns)
    return x[..., 0] if one else x


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """x of op(a) x = b for triangular matrices.

    Args:
      a: matrices (..., n, n); one triangle is read.
      b: a vector (n,), or matrices (..., n, k).
      trans: 0 or "N" for a itself, 1 or "T" for a^T, 2 or "C" for a^H.
      lower: whether it is the lower triangle.
      unit_diagonal: take the diagonal to be 1.
      overwrite_b, debug, check_finite: accepted for SciPy's sake, and without effect.

    Returns:
      An array of the shape of b and an inexact dtype.

    Raises:
      ValueError: if sizes do not match or `trans` has another value.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> a, b = jnp.array([[2.0, 1.0], [0.0, 4.0]]), jnp.array([3.0, 4.0])
    >>> linalg.solve_triangular(a, b)
    Array([1., 1.], dtype=float32)
    """
    return _solve_triangular(a, b, trans, lower, unit_diagonal)


@inner_jit(static_argnames=("trans", "lower", "unit_diagonal"))
def _solve_triangular(
    a: Any, b: Any, trans: int | str, lower: bool, unit_diagonal: bool
) -> Any:
    names: dict[Any, str] = {0: "N", 1: "T", 2: "C"}
    kind = names.get(trans, trans)
    if kind not in ("N", "T", "C"):
        raise ValueError(f"Invalid 'trans' value {trans}")
    a, b = inexact(a, b)
    once = partial(
        lax.linalg.triangular_solve,
        left_side=True,
        lower=lower,
        transpose_a=kind != "N",
        conjugate_a=kind == "C",
        unit_diagonal=unit_diagonal,
    )
    return _as_columns("solve_triangular", once, a, b)


@jit(static_argnames=("method",))
def solve_sylvester(
    A: ArrayLike,
    B: ArrayLike,
    C: ArrayLike,
    *,
    method: str = "schur",
    tol: float = 1e-8,
) -> Array:
    """X of A X + X B = C.

    By the Schur forms of A and B (R. Bartels and G. Stewart, 1972), or by their
    eigenvectors.

    Args:
      A, B, C: matrices (..., m, m), (..., n, n) and (..., m, n).
      method: "schur" or "eigen".
      tol: NaN where an eigenvalue of A and one of -B differ by less; 1e-8 by default.

    Returns:
      Matrices (..., m, n) of an inexact dtype.

    Raises:
      ValueError: if sizes do not match or the method is unknown.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.solve_sylvester(jnp.eye(1), jnp.eye(1), jnp.array([[4.0]]))
    Array([[2.]], dtype=float32)
    """
    if method not in ("schur", "eigen"):
        raise ValueError(
            f"Unrecognized method {method}. The two valid methods are either"
            ' "schur" or "eigen".'
        )
    A, B, C = inexact(A, B, C)
    m, n = C.shape[-2:]
    if A.shape[-2:] != (m, m) or B.shape[-2:] != (n, n):
        raise ValueError(
            "Incompatible shapes for Sylvester equation:\n"
            f"A: {A.shape}\nB: {B.shape}\nC: {C.shape}"
        )
    one = _sylvester_schur if method == "schur" else _sylvester_eigen

    def solve(A: Any, B: Any, C: Any) -> Any:
        X, sums = one(A, B, C)
        if not dtypes.issubdtype(C.dtype, np.complexfloating):
            X = X.real
        return jnp.where(jnp.any(jnp.abs(sums) < tol), np.nan, X)

    return jnp.vectorize(solve, signature="(m,m),(n,n),(m,n)->(m,n)")(A, B, C)


def _sylvester_schur(A: Any, B: Any, C: Any) -> tuple[Any, Any]:
    R, U = schur(A, output="complex")
    S, V = schur(B, output="complex")
    F = adjoint(U) @ C.astype(R.dtype) @ V
    n = S.shape[0]
    unit = jnp.eye(R.shape[0], dtype=R.dtype)

    # Column j of the transformed equation: (R + S[j, j]) y_j = f_j - Y S[:, j].
    def column(j: Any, Y: Any) -> Any:
        known = jnp.where(jnp.arange(n) < j, S[:, j], 0)
        right = F[:, j] - Y @ known
        y = lax.linalg.triangular_solve(R + S[j, j] * unit, right, left_side=True)
        return Y.at[:, j].set(y)

    Y = lax.fori_loop(0, n, column, jnp.zeros_like(F))
    return U @ Y @ adjoint(V), jnp.diag(R)[:, None] + jnp.diag(S)[None, :]


def _sylvester_eigen(A: Any, B: Any, C: Any) -> tuple[Any, Any]:
    (a, U), (b, V) = jnp.linalg.eig(A), jnp.linalg.eig(B)
    sums = a[:, None] + b[None, :]
    Y = jnp.linalg.solve(U, C.astype(U.dtype) @ V) / sums
    return U @ Y @ jnp.linalg.inv(V), sums
