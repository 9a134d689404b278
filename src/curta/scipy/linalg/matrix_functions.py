"""Functions of matrices: the exponential, the square root, and any other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.api.jvp import jvp
from curta.core.array import Array, ArrayLike
from curta.scipy.linalg.arguments import adjoint, inexact
from curta.scipy.linalg.eigenvalues import rsf2csf, schur
from curta.scipy.linalg.solving import solve_triangular

# Of each precision the norm up to which Padé approximants of some degrees are exact:
# N. Higham, The scaling and squaring method revisited (2005).
_DEGREES: dict[bool, list[tuple[int, float]]] = {
    False: [(3, 4.258730016922831e-1), (5, 1.880152677804762), (7, 3.925724783138660)],
    True: [
        (3, 1.495585217958292e-2),
        (5, 2.539398330063230e-1),
        (7, 9.504178996162932e-1),
        (9, 2.097847961257068),
        (13, 5.371920351148152),
    ],
}


def _square(name: str, A: Any, verb: str = "Expected") -> None:
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(
            f"{verb} {name} to be a (batched) square matrix, got"
            f" {name}.shape={A.shape!r}."
        )


@inner_jit(static_argnames=("upper_triangular", "max_squarings"))
def expm(
    A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16
) -> Array:
    """The exponential of matrices.

    By Padé approximants of A / 2^s, squared s times; NaN if the norm of A / 2^s is then
    more than twice what the approximant is exact for.

    Args:
      A: matrices (..., n, n) of at least 32 bits.
      upper_triangular: says that A is, which makes it quicker.
      max_squarings: the greatest s; 16 by default.

    Returns:
      Matrices (..., n, n) of an inexact dtype.

    Raises:
      ValueError: unless the matrices are square.
      TypeError: if an argument is not an array; for floats of 16 bits.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.expm(jnp.array([[0.0, 1.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    (A,) = inexact(A)
    _square("A", A)
    if A.dtype.itemsize < 4:
        raise TypeError(f"A.dtype={A.dtype} is not supported.")

    def one(A: Any) -> Any:
        return _expm(A, upper_triangular, max_squarings)

    return jnp.vectorize(one, signature="(n,n)->(n,n)")(A) if A.ndim > 2 else one(A)


def _expm(A: Any, upper_triangular: bool, max_squarings: int) -> Any:
    if not A.size:
        return A
    degrees = _DEGREES[A.dtype.name in ("float64", "complex128")]
    norm = jnp.linalg.norm(A, 1)
    ratio = norm / degrees[-1][1]
    halvings = jnp.maximum(0, jnp.log2(jnp.where(ratio > 0, ratio, 1)))
    squarings = jnp.minimum(jnp.ceil(halvings), max_squarings)
    scaled = A / (2**squarings).astype(A.dtype)
    limits = np.array([limit for _, limit in degrees[:-1]], norm.dtype)
    choice = jnp.sum(norm > limits, dtype=np.int32)
    U, V = lax.switch(choice, [_pade(degree) for degree, _ in degrees], scaled)
    P, Q = V + U, V - U
    R = solve_triangular(Q, P) if upper_triangular else jnp.linalg.solve(Q, P)

    def square(R: Any, i: Any) -> tuple[Any, None]:
        return lax.cond(i < squarings, lambda x: x @ x, lambda x: x, R), None

    R, _ = lax.scan(square, R, jnp.arange(max_squarings, dtype=squarings.dtype))
    return jnp.where(jnp.floor(halvings) > max_squarings, np.nan, R)


def _pade(degree: int) -> Callable[[Any], tuple[Any, Any]]:
    """The odd and even part of the approximant's numerator, as a function of A."""
    whole = math.factorial(degree)
    coefficients = [
        float(math.factorial(2 * degree - k) // whole * math.comb(degree, k))
        for k in range(degree + 1)
    ]

    def parts(A: Any) -> tuple[Any, Any]:
        unit = jnp.eye(A.shape[0], dtype=A.dtype)
        powers = [unit]
        squared = A @ A
        while 2 * len(powers) < degree + 1:
            powers.append(powers[-1] @ squared)
        odd = sum(c * p for c, p in zip(coefficients[1::2], powers))
        even = sum(c * p for c, p in zip(coefficients[::2], powers))
        return A @ odd, even

    return parts


@inner_jit(static_argnames=("method", "compute_expm"))
def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Array | tuple[Array, Array]:
    """The exponential of A and its derivative in the direction E.

    Args:
      A, E: square matrices of one shape (..., n, n).
      method: accepted for SciPy's sake, and without effect.
      compute_expm: whether to return the exponential too; True by default.

    Returns:
      The exponential and the derivative, or the derivative.

    Raises:
      ValueError: unless both are square matrices of one shape.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.expm_frechet(jnp.zeros((1, 1)), jnp.ones((1, 1)))
    (Array([[1.]], dtype=float32), Array([[1.]], dtype=float32))
    """
    A, E = jnp.asarray(A), jnp.asarray(E)
    _square("A", A, "expected")
    _square("E", E, "expected")
    if A.shape != E.shape:
        raise ValueError(
            "expected A and E to be the same shape, got"
            f" A.shape={A.shape} E.shape={E.shape}"
        )
    value, derivative = jvp(expm, (A,), (E,))
    return (value, derivative) if compute_expm else derivative


def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """A complex square root of a matrix (n, n), by its Schur form.

    Å. Björck and S. Hammarling (1983). NotImplementedError for blocksize > 1.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.sqrtm(jnp.array([[4.0, 0.0], [0.0, 9.0]])).real.round(4)
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    if blocksize > 1:
        raise NotImplementedError("Blocked version is not implemented yet.")
    return _sqrtm(A)


@inner_jit
def _sqrtm(A: Any) -> Any:
    T, Z = schur(A, output="complex")
    n = T.shape[0]
    diagonal = jnp.sqrt(jnp.diag(T))

    # Column j of R R = T, from what is known of the columns before it.
    def column(j: Any, R: Any) -> Any:
        def element(step: Any, R: Any) -> Any:
            i = j - 1 - step
            inside = (jnp.arange(n) > i) & (jnp.arange(n) < j)
            rest = T[i, j] - jnp.sum(jnp.where(inside, R[i] * R[:, j], 0))
            value = jnp.where(rest == 0, 0, rest / (diagonal[i] + diagonal[j]))
            return R.at[i, j].set(value)

        return lax.fori_loop(0, j, element, R)

    root = lax.fori_loop(0, n, column, jnp.diag(diagonal))
    return Z @ root @ adjoint(Z)


def funm(
    A: ArrayLike, func: Callable[[Any], Any], disp: bool = True
) -> Array | tuple[Array, Array]:
    """A function of a matrix, given as a function of the eigenvalues.

    By Parlett's recurrence on the Schur form (G. Golub and C. Van Loan, Matrix
    Computations, algorithm 9.1.1), which needs eigenvalues that differ.

    Args:
      A: a matrix (n, n).
      func: from a vector of eigenvalues to their values.
      disp: whether to leave out the estimate of the error; True by default.

    Returns:
      The matrix, complex; and an estimate of the relative error if not `disp`.

    Raises:
      ValueError: if the matrix is not square.
      TypeError: if an argument is not an array; for a function that is not callable.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.funm(jnp.array([[1.0, 0.0], [0.0, 2.0]]), lambda x: x**2).real
    Array([[1., 0.],
           [0., 4.]], dtype=float32)
    """
    A = jnp.asarray(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError("expected square array_like input")
    T, Z = rsf2csf(*schur(A))
    n = T.shape[0]
    F = jnp.diag(func(jnp.diag(T))).astype(T.dtype)
    eigenvalues = jnp.diag(T)
    number = jnp.arange(n)

    # Superdiagonal p, all of it at once: its elements depend on those below.
    def superdiagonal(p: Any, F: Any) -> Any:
        i, j = number, jnp.minimum(number + p, n - 1)
        inside = (number[:, None] < number[None]) & (number[None] < j[:, None])
        sums = jnp.where(inside, T[i] * F[:, j].T - F[i] * T[:, j].T, 0).sum(-1)
        s = T[i, j] * (F[j, j] - F[i, i]) + sums
        gap = eigenvalues[j] - eigenvalues[i]
        value = jnp.where(gap != 0, s / jnp.where(gap != 0, gap, 1), s)
        return F.at[i, j].set(jnp.where(number + p < n, value, F[i, j]))

    F = lax.fori_loop(1, n, superdiagonal, F)
    gaps = jnp.abs(eigenvalues[:, None] - eigenvalues[None, :])
    least = jnp.min(gaps + jnp.diag(jnp.full(n, np.inf, gaps.dtype)), initial=np.inf)
    F = Z @ F @ adjoint(Z)
    if disp:
        return F
    eps = dtypes.finfo(F.dtype).eps
    least = jnp.where(least == 0, eps, least)
    error = eps / least * jnp.linalg.norm(jnp.triu(T, 1), 1)
    error = jnp.clip(error, eps, 1)
    return F, jnp.where(jnp.any(jnp.isinf(F)), np.inf, error)
