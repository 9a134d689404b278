"""Decompositions and solutions of batches of matrices."""

from __future__ import annotations

import enum
from typing import Any

from curta.core.trace import typeof
from curta.lax.arithmetic import add, mul
from curta.lax.conversion import conj
from curta.lax.dot import batch_matmul
from curta.lax.shape import expand_dims, squeeze
from curta.primitives import linalg as ops
from curta.primitives.elementwise import div
from curta.primitives.linalg import matrices
from curta.primitives.precision import Precision


class EigImplementation(enum.Enum):
    """Who computes `eig`; here it is LAPACK whatever is asked for."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """How `eigh` is computed; here it is LAPACK whatever is asked for."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(enum.Enum):
    """How `svd` is computed; here it is LAPACK whatever is asked for."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def symmetrize(x: Any) -> Any:
    """(x + x^H) / 2, of matrices (..., n, n)."""
    adjoint = matrices.swapped(x)
    if typeof(x).dtype.kind == "c":
        adjoint = conj(adjoint)
    total = add(x, adjoint)
    return div(total, typeof(total).dtype.type(2))


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """The lower triangular L with L L^H = x, for Hermitian positive definite matrices.

    Args:
      x: matrices (..., n, n) of an inexact dtype.
      symmetrize_input: take the mean of x and x^H first; otherwise only the lower
        triangle of x is read.

    Returns matrices of the shape and dtype of `x`, NaN where x is not positive
    definite. Raises ValueError for matrices that are not square.

    >>> import curta
    >>> curta.lax.linalg.cholesky(curta.numpy.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    if symmetrize_input:
        x = symmetrize(x)
    return matrices.tril(ops.Cholesky()(x))


def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Any]:
    """Eigenvalues, left and right eigenvectors (as columns) of square matrices.

    The eigenvectors have length 1 and a real greatest element. Their derivatives exist
    only where all eigenvalues differ, and are given if `enable_eigvec_derivs`.

    Returns complex arrays: the eigenvalues (..., n) and the vectors (..., n, n) that
    are asked for. Raises ValueError for matrices that are not square.

    >>> import curta
    >>> x = curta.numpy.array([[2.0, 0.0], [0.0, 3.0]])
    >>> w, left, right = curta.lax.linalg.eig(x)
    >>> w
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    op = ops.Eig(
        compute_left_eigenvectors,
        compute_right_eigenvectors,
        enable_eigvec_derivs,
        implementation,
    )
    return list(op(x))


def eigh(
    x: Any,
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
      symmetrize_input: take the mean of x and x^H first.
      sort_eigenvalues: accepted; they are always sorted.
      subset_by_index: (start, end), the eigenvalues to keep.

    Raises ValueError for matrices that are not square.

    >>> import curta
    >>> v, w = curta.lax.linalg.eigh(curta.numpy.array([[2.0, 0.0], [0.0, 3.0]]))
    >>> w
    Array([2., 3.], dtype=float32)
    """
    if symmetrize_input:
        x = symmetrize(x)
    v, w = ops.Eigh(lower, sort_eigenvalues, subset_by_index, implementation)(x)
    return v, w


def geqrf(a: Any) -> tuple[Any, Any]:
    """R and, below its diagonal, the Householder vectors of Q; and their factors tau.

    >>> import curta
    >>> packed, taus = curta.lax.linalg.geqrf(curta.numpy.ones((3, 2)))
    >>> packed.shape, taus.shape
    ((3, 2), (2,))
    """
    packed, taus = ops.Geqrf()(a)
    return packed, taus


def householder_product(a: Any, taus: Any) -> Any:
    """The first columns of the product of reflections, as `geqrf` gives them.

    Args:
      a: matrices (..., m, n), m >= n, with the vectors below the diagonal.
      taus: factors (..., k), k <= n.

    >>> import curta
    >>> packed, taus = curta.lax.linalg.geqrf(curta.numpy.ones((3, 2)))
    >>> curta.lax.linalg.householder_product(packed, taus).shape
    (3, 2)
    """
    return ops.HouseholderProduct()(a, taus)


def lu(x: Any) -> tuple[Any, Any, Any]:
    """P x = L U with partial pivoting: L and U in one matrix, pivots, permutation.

    The unit diagonal of L is not stored. Row i of P x is row `permutation[i]` of x.

    >>> import curta
    >>> curta.lax.linalg.lu(curta.numpy.array([[1.0, 2.0], [4.0, 4.0]]))[0]
    Array([[4.  , 4.  ],
           [0.25, 1.  ]], dtype=float32)
    """
    factors, pivots, permutation = ops.LU()(x)
    return factors, pivots, permutation


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The permutation of `permutation_size` rows that exchanging rows makes.

    Row i is exchanged with row `pivots[..., i]`, an int32, one after the other.

    >>> import curta
    >>> pivots = curta.numpy.array([2, 2])
    >>> curta.lax.linalg.lu_pivots_to_permutation(pivots, 3)
    Array([2, 0, 1], dtype=int32)
    """
    return ops.LUPivotsToPermutation(permutation_size)(pivots)


def qr(
    x: Any,
    *,
    pivoting: bool = False,
    full_matrices: bool = True,
    use_magma: bool | None = None,
) -> tuple[Any, ...]:
    """Unitary Q and upper triangular R with x = Q R.

    Args:
      x: matrices (..., m, n) of an inexact dtype.
      pivoting: reorder the columns, greatest first: x[:, p] = Q R, and return p too.
      full_matrices: Q is (..., m, m), rather than (..., m, min(m, n)).

    >>> import curta
    >>> q, r = curta.lax.linalg.qr(curta.numpy.ones((3, 2)), full_matrices=False)
    >>> q.shape, r.shape
    ((3, 2), (2, 2))
    """
    return tuple(ops.QR(pivoting, full_matrices, use_magma)(x))


def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """Unitary U, descending singular values s, and V^H, with x = U diag(s) V^H.

    Args:
      x: matrices (..., m, n) of an inexact dtype.
      full_matrices: U and V are square, rather than with min(m, n) columns.
      compute_uv: whether to return U and V^H, rather than s alone.
      subset_by_index: (start, end), the singular values to keep.

    >>> import curta
    >>> x = curta.numpy.array([[3.0, 0.0], [0.0, 4.0]])
    >>> curta.lax.linalg.svd(x, compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    op = ops.SVD(full_matrices, compute_uv, subset_by_index, algorithm)
    if not compute_uv:
        return op(x)[0]
    s, u, vh = op(x)
    return u, s, vh


def symmetric_product(
    a_matrix: Any,
    c_matrix: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Any:
    """alpha a a^T + beta c, for matrices a (..., m, n) and symmetric c (..., m, m).

    If `symmetrize_output`, the part above the diagonal is made that below it.

    >>> import curta
    >>> a = curta.numpy.array([[1.0], [2.0]])
    >>> curta.lax.linalg.symmetric_product(a, curta.numpy.zeros((2, 2)))
    Array([[1., 2.],
           [2., 4.]], dtype=float32)
    """
    a, c = typeof(a_matrix).shape[-2:], typeof(c_matrix).shape[-2:]
    if a[0] != c[1] or c[0] != c[1]:
        raise ValueError(
            "symmetric_product expects a rectangular matrix of shape (m, n) and a"
            f" square matrix of shape (m, m). Got shapes {a} and {c}."
        )
    scalar = typeof(a_matrix).dtype.type
    product = batch_matmul(a_matrix, matrices.swapped(a_matrix), Precision.HIGHEST)
    out = add(mul(product, scalar(alpha)), mul(c_matrix, scalar(beta)))
    if symmetrize_output:
        out = add(matrices.tril(out), matrices.swapped(matrices.tril(out, -1)))
    return out


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """x of op(a) x = b if `left_side`, else of x op(a) = b, for triangular a.

    Args:
      a: matrices (..., m, m).
      b: matrices (..., m, n) if `left_side`, else (..., n, m); or vectors (..., m).
      lower: which triangle of a is read.
      transpose_a, conjugate_a: what op does.
      unit_diagonal: take the diagonal of a to be 1.

    Raises ValueError for sizes that do not fit, TypeError for dtypes that differ.

    >>> import curta.numpy as jnp
    >>> from curta import lax
    >>> a = jnp.array([[2.0, 0.0], [1.0, 4.0]])
    >>> b = jnp.array([2.0, 9.0])
    >>> lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
    Array([1., 2.], dtype=float32)
    """
    conjugate = conjugate_a and typeof(a).dtype.kind == "c"
    op = ops.TriangularSolve(left_side, lower, transpose_a, conjugate, unit_diagonal)
    rank = typeof(a).ndim
    if typeof(b).ndim != rank - 1:
        return op(a, b)
    place = rank - 1 if left_side else rank - 2
    return squeeze(op(a, expand_dims(b, (place,))), (place,))
