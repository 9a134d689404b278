"""Decompositions of matrices, and what is read off them: eigenvalues, ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import ensure_arraylike
from curta.numpy.complex_numbers import conjugate
from curta.numpy.promotion import cast, promote_dtypes_inexact
from curta.numpy.reductions import any, max, sum
from curta.numpy.shapes import expand_dims, matrix_transpose
from curta.numpy.taking import take_along_axis


class EighResult(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """The result of `eig`."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """The result of `qr`."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """The result of `svd`."""

    U: Any
    S: Any
    Vh: Any


def adjoint(x: Any) -> Any:
    """The conjugated and transposed matrices."""
    return conjugate(matrix_transpose(x))


def _inexact(name: str, x: Any) -> Any:
    return promote_dtypes_inexact(ensure_arraylike(f"jnp.linalg.{name}", x))[0]


@inner_jit(static_argnames=("upper", "symmetrize_input"))
def cholesky(
    a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True
) -> Array:
    """The lower triangular L with L L^H = a, or the upper L^H.

    Args:
      a: Hermitian positive definite matrices (..., n, n); integers become floats.
      upper: return the upper L^H. Default False.
      symmetrize_input: take the mean of a and a^H first. Default True.

    Returns:
      Matrices (..., n, n), in floats or complex numbers; NaN for those that are not
      positive definite.

    Raises:
      TypeError: `a` is a list, a string or None; `a` is a vector or a scalar, or not
        square.
      ValueError: `a` is not square and `symmetrize_input` is False.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    a = _inexact("cholesky", a)
    factor = lax.linalg.cholesky(a, symmetrize_input=symmetrize_input)
    return adjoint(factor) if upper else factor


@inner_jit(
    static_argnames=("full_matrices", "compute_uv", "hermitian", "subset_by_index")
)
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Unitary U, descending singular values S, and Vh, with a = U diag(S) Vh.

    Args:
      a: matrices (..., m, n); integers become floats.
      full_matrices: U and Vh are square, rather than of min(m, n) columns and rows.
        Default True.
      compute_uv: whether to return U and Vh, rather than S alone. Default True.
      hermitian: compute it from eigenvalues, of matrices known to be Hermitian. Default
        False.
      subset_by_index: (start, end), the singular values to keep, without
        `full_matrices`. None (default) for all.

    Returns:
      A named tuple `U` (..., m, k), `S` (..., min(m, n)), real, and `Vh` (..., k, n),
      where k is m and n or min(m, n); or S alone.

    Raises:
      TypeError: `a` is a list, a string or None; `a` has less than two dims; it is not
        square and `hermitian` is True.
      ValueError: `subset_by_index` lies outside, or is given with `full_matrices`.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.svd(jnp.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    a = _inexact("svd", a)
    if hermitian:
        return _hermitian_svd(a, compute_uv, subset_by_index)
    out = lax.linalg.svd(
        a,
        full_matrices=full_matrices,
        compute_uv=compute_uv,
        subset_by_index=subset_by_index,
    )
    return SVDResult(*out) if compute_uv else out


def _hermitian_svd(a: Any, compute_uv: bool, subset: tuple[int, int] | None) -> Any:
    vectors, w = lax.linalg.eigh(a, subset_by_index=subset)
    s = lax.abs(w)
    last = s.ndim - 1
    if not compute_uv:
        return lax.rev(lax.sort(s, dimension=-1), dimensions=(last,))
    order = lax.broadcasted_iota(np.uint32, s.shape, last)
    ordered = lax.sort((s, order, lax.sign(w)), dimension=-1, num_keys=1)
    s, order, sign = (lax.rev(x, dimensions=(last,)) for x in ordered)
    u = take_along_axis(vectors, expand_dims(order, -2), axis=-1)
    return SVDResult(u, s, adjoint(u * cast(expand_dims(sign, -2), u.dtype)))


def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of matrices (..., m, n), descending.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.svdvals(jnp.array([[3.0, 0.0], [0.0, 4.0]]))
    Array([4., 3.], dtype=float32)
    """
    x = ensure_arraylike("jnp.linalg.svdvals", x)
    return svd(x, compute_uv=False, hermitian=False)


@inner_jit(static_argnames=("mode",))
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and upper triangular R with a = Q R.

    Args:
      a: matrices (..., m, n).
      mode: "reduced": Q has min(m, n) columns; "complete": m columns; "r": only R;
        "raw": the transposed packed form of LAPACK, and its factors tau.

    Returns:
      A pair with the names Q and R, or of "raw" h and tau; R alone for "r".

    >>> from curta import numpy as jnp
    >>> q, r = jnp.linalg.qr(jnp.ones((3, 2)))
    >>> q.shape, r.shape
    ((3, 2), (2, 2))
    """
    a = _inexact("qr", a)
    if mode == "raw":
        packed, taus = lax.linalg.geqrf(a)
        return QRResult(matrix_transpose(packed), taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise ValueError(
            f"Unsupported QR decomposition mode '{mode}'; the modes are 'reduced',"
            " 'complete', 'r' and 'raw'"
        )
    q, r = lax.linalg.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def eig(a: ArrayLike) -> EigResult:
    """Complex eigenvalues, and right eigenvectors as columns, of square matrices.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.eig(jnp.array([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    a = _inexact("eig", a)
    w, v = lax.linalg.eig(a, compute_left_eigenvectors=False)
    return EigResult(w, v)


@inner_jit
def eigvals(a: ArrayLike) -> Array:
    """The complex eigenvalues of square matrices, in no order.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.eigvals(jnp.array([[2.0, 0.0], [0.0, 3.0]]))
    Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    a = _inexact("eigvals", a)
    return lax.linalg.eig(
        a, compute_left_eigenvectors=False, compute_right_eigenvectors=False
    )[0]


@inner_jit(static_argnames=("UPLO", "symmetrize_input"))
def eigh(
    a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True
) -> EighResult:
    """Ascending eigenvalues, and eigenvectors as columns, of Hermitian matrices.

    Args:
      a: matrices (..., n, n); integers become floats.
      UPLO: "L" or "U", the triangle to read if not `symmetrize_input`. None (default)
        is "L".
      symmetrize_input: take the mean of a and a^H first. Default True.

    Returns:
      A named tuple `eigenvalues` (..., n), real, and `eigenvectors` (..., n, n).

    Raises:
      TypeError: `a` is a list, a string or None; `a` is a vector or a scalar, or not
        square.
      ValueError: `UPLO` is unknown; `a` is not square and `symmetrize_input` is False.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.eigh(jnp.array([[2.0, 1.0], [1.0, 2.0]])).eigenvalues.shape
    (2,)
    """
    a = ensure_arraylike("jnp.linalg.eigh", a)
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {UPLO}")
    (a,) = promote_dtypes_inexact(a)
    v, w = lax.linalg.eigh(a, lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(w, v)


@inner_jit(static_argnames=("UPLO", "symmetrize_input"))
def eigvalsh(
    a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True
) -> Array:
    """The ascending eigenvalues of Hermitian matrices.

    Args:
      a: matrices (..., n, n); integers become floats.
      UPLO: "L" (default) or "U", the triangle to read if not `symmetrize_input`.
      symmetrize_input: take the mean of a and a^H first. Default True.

    Returns:
      The eigenvalues, real, (..., n).

    Raises:
      TypeError: `a` is a list, a string or None; `a` is a vector or a scalar, or not
        square.
      ValueError: `UPLO` is unknown; `a` is not square and `symmetrize_input` is False.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.eigvalsh(jnp.array([[2.0, 0.0], [0.0, 3.0]]))
    Array([2., 3.], dtype=float32)
    """
    a = _inexact("eigvalsh", a)
    return eigh(a, UPLO, symmetrize_input=symmetrize_input).eigenvalues


@inner_jit(static_argnames=("hermitian",))
def matrix_rank(
    M: ArrayLike,
    rtol: ArrayLike | None = None,
    *,
    hermitian: bool = False,
    tol: ArrayLike | None = None,
) -> Array:
    """The number of singular values above a bound, of matrices (..., m, n).

    Args:
      M: matrices (..., m, n); integers become floats.
      rtol: the bound as a share of the greatest singular value, of a shape that
        broadcasts with (...). None (default) is max(m, n) eps.
      hermitian: the matrices are Hermitian, and eigenvalues tell the singular values.
        Default False.
      tol: the older name of `rtol`. None (default) takes `rtol`.

    Returns:
      Ranks, integers, (...); of a vector or a scalar, whether it is not all zeros.

    Raises:
      TypeError: `M` or `rtol` is a list, a string or None; `rtol` does not broadcast.
      ValueError: both `tol` and `rtol` are given.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.matrix_rank(jnp.ones((3, 3)))
    Array(1, dtype=int32)
    """
    M = ensure_arraylike("jnp.linalg.matrix_rank", M)
    if tol is not None:
        if rtol is not None:
            raise ValueError("matrix_rank: only one of tol or rtol may be specified.")
        rtol = tol
    (M,) = promote_dtypes_inexact(M)
    if M.ndim < 2:
        return any(M != 0).astype(np.int32)
    s = svd(M, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if rtol is None:
        eps = dtypes.finfo(s.dtype).eps
        size = np.max(M.shape[-2:]).astype(s.dtype)
        rtol = max(s, axis=-1) * size * eps
    return sum(s > expand_dims(rtol, np.ndim(rtol)), axis=-1)
