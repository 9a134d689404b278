"""Eigenvalues, and what they are found by."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from curta.core.array import Array, ArrayLike
from curta.core.trace import operand_type
from curta.primitives import linalg as ops
from curta.primitives.linalg import matrices


class EigImplementation(enum.Enum):
    """The library that computes `eig`. LAPACK is supported; others raise ValueError."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """How `eigh` is computed; here by QR, and NotImplementedError for the others."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


_ELSEWHERE = {
    EighImplementation.JACOBI: "Jacobi implementation is not supported on CPU",
    EighImplementation.QDWH: "QDWH implementation is only supported on TPU",
}


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Any]:
    """Eigenvalues, left and right eigenvectors (as columns) of square matrices.

    The eigenvectors have length 1 and a real greatest element. Their derivatives exist
    only where all eigenvalues differ.

    Args:
      x: matrices (..., n, n) of an inexact dtype.
      compute_left_eigenvectors, compute_right_eigenvectors: whether to return them;
        True by default.
      enable_eigvec_derivs: whether the eigenvectors have derivatives.
      implementation: None or LAPACK.
      use_magma: not supported.

    Returns:
      A list of complex arrays: the eigenvalues (..., n) and the vectors (..., n, n)
      that are asked for.

    Raises:
      ValueError: for matrices that are not square, and other implementations.
      TypeError: if the dtype is not supported.

    >>> import curta
    >>> x = curta.numpy.array([[2.0, 0.0], [0.0, 3.0]])
    >>> w, left, right = curta.lax.linalg.eig(x)
    >>> w
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    if use_magma or implementation not in (None, EigImplementation.LAPACK):
        raise ValueError(
            "Only the lapack implementation is supported on CPU. Got"
            f" {implementation!r} and {use_magma=}."
        )
    op = ops.Eig(
        bool(compute_left_eigenvectors),
        bool(compute_right_eigenvectors),
        bool(enable_eigvec_derivs),
        implementation,
    )
    return list(op(x))


def eigh(
    x: Array,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Any, Any]:
    """Eigenvectors, as columns, and ascending eigenvalues of Hermitian matrices.

    Args:
      x: matrices (..., n, n) of an inexact dtype.
      lower: which triangle to read, if not `symmetrize_input`.
      symmetrize_input: take the mean of x and x^H first; True by default.
      sort_eigenvalues: accepted; they are always sorted.
      subset_by_index: (start, end), the eigenvalues to keep; all by default.
      implementation: None or an `EighImplementation` for this processor.

    Returns:
      The eigenvectors (..., n, k) and the real eigenvalues (..., k).

    Raises:
      ValueError: if matrices are not square and `symmetrize_input` is off, the subset
        is outside of 0 ... n, or `implementation` is unknown.
      TypeError: if matrices are not square with it.
      NotImplementedError: for implementations of other processors.

    >>> import curta
    >>> v, w = curta.lax.linalg.eigh(curta.numpy.array([[2.0, 0.0], [0.0, 3.0]]))
    >>> w
    Array([2., 3.], dtype=float32)
    """
    operand_type("eigh", 0, x)
    if symmetrize_input:
        x = matrices.symmetrized(x)
    if implementation is not None and not isinstance(
        implementation, EighImplementation
    ):
        raise ValueError(
            "implementation must be None or an EighImplementation, got"
            f" {implementation!r}."
        )
    if implementation in _ELSEWHERE:
        raise NotImplementedError(f"{_ELSEWHERE[implementation]}. Leave it out.")
    flags = bool(lower), bool(sort_eigenvalues)
    v, w = ops.Eigh(*flags, subset_by_index, implementation)(x)
    return v, w


def hessenberg(a: ArrayLike) -> list[Any]:
    """H of a = Q H Q^H, which is zero below its first subdiagonal.

    Args:
      a: square matrices (..., n, n).

    Returns:
      A list: matrices that hold H and, below it, Q as reflections, and the factors of
      those (..., n - 1); see `householder_product`. ValueError unless a is square.

    >>> import curta.numpy as jnp
    >>> from curta import lax
    >>> h, _ = lax.linalg.hessenberg(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> print(h)
    [[1. 2.]
     [3. 4.]]
    """
    return list(ops.Hessenberg()(a))


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> list[Any]:
    """The triangular T and unitary Z of x = Z T Z^H.

    Args:
      x: square matrices (..., n, n). If they are real, so is T, with 2x2 blocks on the
        diagonal for pairs of complex eigenvalues.
      compute_schur_vectors: whether to return Z; True by default.
      sort_eig_vals: not supported.
      select_callable: of no effect.

    Returns:
      A list of T and Z, or of T alone, of the shape and dtype of x.

    Raises:
      NotImplementedError: if `sort_eig_vals` is given.
      ValueError: if matrices are not square.
      TypeError: if dtypes are not inexact.

    >>> import curta.numpy as jnp
    >>> from curta import lax
    >>> t, z = lax.linalg.schur(jnp.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> print(t)
    [[1. 2.]
     [0. 3.]]
    """
    if sort_eig_vals:
        raise NotImplementedError(
            "The sort feature of LAPACK's gees routine is not implemented. Use"
            " sort_eig_vals=False."
        )
    return list(ops.Schur(bool(compute_schur_vectors))(x))


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> list[Any]:
    """The tridiagonal T of a = Q T Q^H, for Hermitian matrices (..., n, n).

    Args:
      a: matrices (..., n, n) of an inexact dtype.
      lower: whether the lower triangle of `a` is read, else the upper one.

    Returns:
      A list: the matrix whose triangle holds Q as reflections, the diagonal (..., n),
      the off-diagonal (..., n - 1), and the factors of the reflections.

    Raises:
      ValueError: if matrices are not square.

    >>> import curta.numpy as jnp
    >>> from curta import lax
    >>> _, d, e, _ = lax.linalg.tridiagonal(jnp.array([[2.0, 1.0], [1.0, 3.0]]))
    >>> print(d, e)
    [2. 3.] [1.]
    """
    return list(ops.Tridiagonal(bool(lower))(a))
