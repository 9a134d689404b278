"""Decompositions and solvers for batches of matrices."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from curta import dtypes
from curta._base.on_demand import Listing, listed
from curta.control.primitives import (
    cholesky_p as cholesky_p,
    cholesky_update_p as cholesky_update_p,
    eig_p as eig_p,
    eigh_p as eigh_p,
    geqrf_p as geqrf_p,
    hessenberg_p as hessenberg_p,
    householder_product_p as householder_product_p,
    lu_p as lu_p,
    lu_pivots_to_permutation_p as lu_pivots_to_permutation_p,
    ormqr_p as ormqr_p,
    qr_p as qr_p,
    schur_p as schur_p,
    svd_p as svd_p,
    symmetric_product_p as symmetric_product_p,
    triangular_solve_p as triangular_solve_p,
    tridiagonal_p as tridiagonal_p,
    tridiagonal_solve_p as tridiagonal_solve_p,
)
from curta.core.array import Array, ArrayLike
from curta.core.shapes import integer, real
from curta.core.trace import operand_type
from curta.lax.arithmetic import add
from curta.lax.eigen import (
    EighImplementation as EighImplementation,
    EigImplementation as EigImplementation,
    eig as eig,
    eigh as eigh,
    hessenberg as hessenberg,
    schur as schur,
    tridiagonal as tridiagonal,
)
from curta.lax.polar import qdwh as qdwh
from curta.lax.shape import expand_dims, squeeze
from curta.primitives import linalg as ops
from curta.primitives.linalg import matrices

__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "cholesky",
    "cholesky_p",
    "cholesky_update",
    "cholesky_update_p",
    "eig",
    "eig_p",
    "eigh",
    "eigh_p",
    "hessenberg",
    "hessenberg_p",
    "householder_product",
    "householder_product_p",
    "lu",
    "lu_p",
    "lu_pivots_to_permutation",
    "lu_pivots_to_permutation_p",
    "ormqr",
    "ormqr_p",
    "qdwh",
    "qr",
    "qr_p",
    "schur",
    "schur_p",
    "svd",
    "svd_p",
    "symmetric_product",
    "symmetric_product_p",
    "triangular_solve",
    "triangular_solve_p",
    "tridiagonal",
    "tridiagonal_p",
    "tridiagonal_solve",
    "tridiagonal_solve_p",
]
__dir__: Listing = listed(__all__)


class SvdAlgorithm(enum.Enum):
    """How `svd` is computed; here by LAPACK, which has no JACOBI and no POLAR."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with L L^H = x, for Hermitian positive definite matrices.

    Args:
      x: matrices (..., n, n) of an inexact dtype.
      symmetrize_input: take the mean of x and x^H first; otherwise only the lower
        triangle of x is read.

    Returns:
      Matrices of the shape and dtype of `x`, NaN where x is not positive definite.

    Raises:
      ValueError: if matrices are not square.

    >>> import curta
    >>> curta.lax.linalg.cholesky(curta.numpy.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    operand_type("cholesky", 0, x)
    if symmetrize_input:
        x = matrices.symmetrized(x)
    return matrices.tril(ops.Cholesky()(x))


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper triangular R' with R'^T R' = R^T R + w w^T.

    `r_matrix` is R, of shape (n, n), and `w_vector` has shape (n,). ValueError for
    other shapes.

    >>> import curta.numpy as jnp
    >>> from curta import lax
    >>> lax.linalg.cholesky_update(jnp.array([[3.0]]), jnp.array([4.0]))
    Array([[5.]], dtype=float32)
    """
    for i, (x, rank) in enumerate(((r_matrix, 2), (w_vector, 1))):
        shape = operand_type("cholesky_update", i, x).shape
        if len(shape) > rank:
            raise TypeError(
                f"Input {i} to cholesky_update must have a rank of exactly {rank}, but"
                f" got shape={shape}"
            )
    return ops.CholeskyUpdate()(r_matrix, w_vector)


def geqrf(a: Any) -> tuple[Any, Any]:
    """R and, below its diagonal, the Householder vectors of Q; and their factors tau.

    >>> import curta
    >>> packed, taus = curta.lax.linalg.geqrf(curta.numpy.ones((3, 2)))
    >>> packed.shape, taus.shape
    ((3, 2), (2,))
    """
    packed, taus = ops.Geqrf()(a)
    return packed, taus


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The first columns of the product of reflections, as `geqrf` gives them.

    Args:
      a: matrices (..., m, n), m >= n, with the vectors below the diagonal.
      taus: factors (..., k), k <= n.

    Returns:
      Matrices (..., m, n), of the dtype of `a`.

    >>> import curta
    >>> packed, taus = curta.lax.linalg.geqrf(curta.numpy.ones((3, 2)))
    >>> curta.lax.linalg.householder_product(packed, taus).shape
    (3, 2)
    """
    return ops.HouseholderProduct()(a, taus)


def lu(x: ArrayLike) -> list[Any]:
    """P x = L U with partial pivoting: L and U in one matrix, pivots, permutation.

    They are a list. The unit diagonal of L is not stored. Row i of P x is row
    `permutation[i]` of x.

    >>> import curta
    >>> curta.lax.linalg.lu(curta.numpy.array([[1.0, 2.0], [4.0, 4.0]]))[0]
    Array([[4.  , 4.  ],
           [0.25, 1.  ]], dtype=float32)
    """
    return list(ops.LU()(x))


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The permutation of `permutation_size` rows that exchanging rows makes.

    Row i is exchanged with row `pivots[..., i]`, an int32, one after the other.

    >>> import curta
    >>> pivots = curta.numpy.array([2, 2])
    >>> curta.lax.linalg.lu_pivots_to_permutation(pivots, 3)
    Array([2, 0, 1], dtype=int32)
    """
    size = integer("lu_pivots_to_permutation permutation_size", permutation_size)
    return ops.LUPivotsToPermutation(size)(pivots)


def ormqr(
    a: ArrayLike,
    taus: ArrayLike,
    c: ArrayLike,
    *,
    left: bool = True,
    transpose: bool = False,
) -> Array:
    """Q c if `left`, else c Q, with the Q that `geqrf` gives as reflections.

    Args:
      a: the matrices (..., m, n) whose columns hold the reflections.
      taus: their factors (..., k).
      c: matrices of the same dtype, with m rows if `left`, else m columns.
      left: the side of Q; True by default.
      transpose: take Q^H instead of Q.

    Returns:
      An array of the shape and dtype of c.

    Raises:
      ValueError: if sizes do not match.
      TypeError: if dtypes are not inexact or differ.

    >>> import curta.numpy as jnp
    >>> from curta import lax
    >>> packed, taus = lax.linalg.geqrf(jnp.array([[3.0], [4.0]]))
    >>> lax.linalg.ormqr(packed, taus, jnp.eye(2), transpose=True).round(2)
    Array([[-0.6, -0.8],
           [-0.8,  0.6]], dtype=float32)
    """
    return ops.Ormqr(bool(left), bool(transpose))(a, taus, c)


def qr(
    x: ArrayLike,
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
      use_magma: of no effect.

    Returns:
      Q, R, and p (..., n) of integers if `pivoting`.

    Raises:
      TypeError: if the dtype is not supported or an array has less than two dims.

    >>> import curta
    >>> q, r = curta.lax.linalg.qr(curta.numpy.ones((3, 2)), full_matrices=False)
    >>> q.shape, r.shape
    ((3, 2), (2, 2))
    """
    return tuple(ops.QR(bool(pivoting), bool(full_matrices), use_magma)(x))


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array | tuple[Array, Array, Array]:
    """Unitary U, descending singular values s, and V^H, with x = U diag(s) V^H.

    Args:
      x: matrices (..., m, n) of an inexact dtype.
      full_matrices: U and V are square, rather than with min(m, n) columns.
      compute_uv: whether to return U and V^H, rather than s alone; True by default.
      subset_by_index: (start, end), the singular values to keep, without
        `full_matrices`.
      algorithm: None, DEFAULT, QR or DIVIDE_AND_CONQUER of `SvdAlgorithm`.

    Returns:
      U (..., m, k), s (..., k), real, and V^H (..., k, n); or s.

    Raises:
      TypeError: if the dtype is not supported or an array has less than two dims.
      ValueError: for a subset outside of 0 ... min(m, n), or with `full_matrices`.
      NotImplementedError: for other algorithms.

    >>> import curta
    >>> x = curta.numpy.array([[3.0, 0.0], [0.0, 4.0]])
    >>> curta.lax.linalg.svd(x, compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    if algorithm is not None and not isinstance(algorithm, SvdAlgorithm):
        raise NotImplementedError(
            "The SVD algorithm is None or an SvdAlgorithm; not implemented:"
            f" {algorithm!r}."
        )
    if algorithm in (SvdAlgorithm.JACOBI, SvdAlgorithm.POLAR):
        raise NotImplementedError(
            "The SVD Jacobi and Polar algorithms are not implemented on CPU. Leave"
            " `algorithm` out, or give QR or DIVIDE_AND_CONQUER."
        )
    full_matrices, compute_uv = bool(full_matrices), bool(compute_uv)
    op = ops.SVD(full_matrices, compute_uv, subset_by_index, algorithm)
    if not compute_uv:
        return op(x)[0]
    s, u, vh = op(x)
    return u, s, vh


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """alpha a a^T + beta c, for matrices a (..., m, n) and symmetric c (..., m, m).

    Args:
      a_matrix, c_matrix: real matrices a and c of one dtype.
      alpha, beta: known real numbers, 1 and 0 by default.
      symmetrize_output: make the part above the diagonal that below it.

    Returns:
      Matrices (..., m, m) of the dtype of a.

    Raises:
      ValueError: if sizes do not match.
      TypeError: for other dtypes, and factors that are not numbers.

    >>> import curta
    >>> a = curta.numpy.array([[1.0], [2.0]])
    >>> curta.lax.linalg.symmetric_product(a, curta.numpy.zeros((2, 2)))
    Array([[1., 2.],
           [2., 4.]], dtype=float32)
    """
    factors = (
        real("symmetric_product alpha", alpha),
        real("symmetric_product beta", beta),
    )
    out = ops.SymmetricProduct(*factors)(a_matrix, c_matrix)
    if symmetrize_output:
        out = add(matrices.tril(out), matrices.swapped(matrices.tril(out, -1)))
    return out


def tridiagonal_solve(
    dl: Array, d: Array, du: Array, b: Array, *, perturb_singular: bool = False
) -> Array:
    """x of a x = b, for a tridiagonal matrix a.

    Args:
      dl: the lower diagonal, (..., n): dl[i] is a[i, i - 1], and dl[0] is not read.
      d: the diagonal, (..., n).
      du: the upper diagonal, (..., n): du[i] is a[i, i + 1]; the last is not read.
      b: matrices (..., n, k) of the same dtype.
      perturb_singular: make tiny pivots of those that are almost 0, so that the result
        is finite.

    Returns:
      An array of the shape and dtype of b.

    Raises:
      TypeError: if shapes do not fit, and dtypes that differ.

    >>> import curta.numpy as jnp
    >>> from curta import lax
    >>> one = jnp.ones(2)
    >>> lax.linalg.tridiagonal_solve(one, 3 * one, one, 4 * one[:, None]).round(3)
    Array([[1.],
           [1.]], dtype=float32)
    """
    return ops.TridiagonalSolve(bool(perturb_singular))(dl, d, du, b)


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """x of op(a) x = b if `left_side`, else of x op(a) = b, for triangular a.

    Args:
      a: matrices (..., m, m) of an inexact dtype.
      b: matrices (..., m, n) if `left_side`, else (..., n, m); or vectors (..., m).
      left_side: the side of a; False by default.
      lower: which triangle of a is read; the upper one by default.
      transpose_a, conjugate_a: what op does; nothing by default.
      unit_diagonal: take the diagonal of a to be 1.

    Returns:
      An array of the shape and dtype of b.

    Raises:
      ValueError: if sizes do not match.
      TypeError: for other dtypes, and dtypes that differ.

    >>> import curta.numpy as jnp
    >>> from curta import lax
    >>> a = jnp.array([[2.0, 0.0], [1.0, 4.0]])
    >>> b = jnp.array([2.0, 9.0])
    >>> lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
    Array([1., 2.], dtype=float32)
    """
    aval = operand_type(triangular_solve_p.name, 0, a)
    is_complex = dtypes.issubdtype(aval.dtype, np.complexfloating)
    conjugate = bool(conjugate_a) and is_complex
    flags = map(bool, (left_side, lower, transpose_a, conjugate, unit_diagonal))
    op = ops.TriangularSolve(*flags)
    rank = aval.ndim
    if operand_type(triangular_solve_p.name, 1, b).ndim != rank - 1:
        return op(a, b)
    dim = rank - 1 if left_side else rank - 2
    return squeeze(op(a, expand_dims(b, (dim,))), (dim,))
