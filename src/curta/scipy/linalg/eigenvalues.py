"""Eigenvalues and singular values of matrices."""

from __future__ import annotations

import operator
from typing import Any

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import check_arraylike
from curta.scipy.linalg.arguments import adjoint, inexact


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array | tuple[Array, Array, Array]:
    """The singular value decomposition a = u diag(s) vh.

    Args:
      a: matrices (..., m, n).
      full_matrices: u and vh are square, rather than thin; True by default.
      compute_uv: whether to return u and vh; True by default.
      overwrite_a, check_finite, lapack_driver: accepted for SciPy's sake, and without
        effect.

    Returns:
      u, the singular values, real, descending, (..., min(m, n)), and vh; or these
      alone.

    Raises:
      TypeError: if an argument is not an array of at least two dims.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.svd(jnp.array([[0.0, 2.0], [3.0, 0.0]]), compute_uv=False)
    Array([3., 2.], dtype=float32)
    """
    return _svd(a, full_matrices=full_matrices, compute_uv=compute_uv)


@inner_jit(static_argnames=("full_matrices", "compute_uv"))
def _svd(a: Any, *, full_matrices: bool, compute_uv: bool) -> Any:
    (a,) = inexact(a)
    return lax.linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)


def eigh(
    a: ArrayLike,
    b: None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """Ascending eigenvalues and the eigenvectors, as columns, of Hermitian matrices.

    Args:
      a: matrices (..., n, n).
      b, eigvals, type: only None, None and 1 are supported.
      lower: which triangle is read; the lower one by default.
      eigvals_only: do not return the eigenvectors.
      overwrite_a, overwrite_b, turbo, check_finite: accepted for SciPy's sake, and
        without effect.

    Returns:
      The eigenvalues, real, (..., n), and the eigenvectors (..., n, n).

    Raises:
      NotImplementedError: for `b`, `eigvals` and `type` but the defaults.
      TypeError: if an argument is not an array; for matrices that are not square.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.eigh(jnp.array([[2.0, 1.0], [1.0, 2.0]]), eigvals_only=True).round(4)
    Array([1., 3.], dtype=float32)
    """
    return _eigh(a, b, lower, eigvals_only, eigvals, type)


@inner_jit(static_argnames=("lower", "eigvals_only", "eigvals", "type"))
def _eigh(
    a: Any, b: None, lower: bool, eigvals_only: bool, eigvals: None, type: int
) -> Any:
    if b is not None:
        raise NotImplementedError("Only the b=None case of eigh is implemented")
    if type != 1:
        raise NotImplementedError("Only the type=1 case of eigh is implemented.")
    if eigvals is not None:
        raise NotImplementedError("Only the eigvals=None case of eigh is implemented.")
    (a,) = inexact(a)
    v, w = lax.linalg.eigh(a, lower=lower)
    return w if eigvals_only else (w, v)


@inner_jit(static_argnames=("eigvals_only", "select", "select_range"))
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[int, int] | None = None,
    tol: float | None = None,
    key: Array | None = None,
) -> Array | tuple[Array, Array]:
    """Ascending eigenvalues, and eigenvectors, of a Hermitian tridiagonal matrix.

    Args:
      d: the diagonal, (n,); imaginary parts are ignored.
      e: the diagonal above it, (n - 1,).
      eigvals_only: do not return the eigenvectors.
      select: "a" for all, "i" for those with an index in `select_range`.
      select_range: the first and the last index, both included.
      tol: how far off the eigenvalues may be, a number. They are always as exact as
        the dtype: the matrix is decomposed as a full one.
      key: of the random vectors with which other methods begin, and not used by this.

    Returns:
      The eigenvalues, real, (k,), and the eigenvectors, as columns, (n, k).

    Raises:
      TypeError: unless both are of one inexact dtype and of these shapes.
      ValueError: for a `select_range` outside of 0 ... n - 1 or none, and another
        `select`.
      NotImplementedError: for "v".

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> d, e = jnp.array([2.0, 2.0]), jnp.array([1.0])
    >>> linalg.eigh_tridiagonal(d, e, eigvals_only=True).round(4)
    Array([1., 3.], dtype=float32)
    """
    d, e = jnp.asarray(d), jnp.asarray(e)
    if d.dtype != e.dtype:
        raise TypeError(
            "diagonal and off-diagonal values must have same dtype, got"
            f" {d.dtype} and {e.dtype}"
        )
    if d.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise TypeError(
            "Only float32 and float64 inputs are supported as inputs to"
            f" jax.scipy.linalg.eigh_tridiagonal, got {d.dtype} and {e.dtype}"
        )
    if d.ndim != 1 or e.shape != (max(d.shape[0] - 1, 0),):
        raise TypeError(
            "eigh_tridiagonal got incompatible shapes: it takes a diagonal of shape"
            f" (n,) and the one above it of shape (n - 1,), got {d.shape} and {e.shape}"
        )
    check_arraylike("eigh_tridiagonal", *(x for x in (tol, key) if x is not None))
    if tol is not None and (jnp.ndim(tol) or jnp.iscomplexobj(tol)):
        raise TypeError(f"eigh_tridiagonal takes tol as one real number, got {tol}")
    chosen = slice(*_selected(select, select_range, d.shape[0]))
    d = jnp.real(d).astype(d.dtype)
    matrix = jnp.diag(d) + jnp.diag(e, 1) + jnp.diag(jnp.conj(e), -1)
    v, w = lax.linalg.eigh(matrix, symmetrize_input=False)
    return w[chosen] if eigvals_only else (w[chosen], v[:, chosen])


def _selected(
    select: str, select_range: tuple[int, int] | None, n: int
) -> tuple[int, int]:
    if select == "a":
        return 0, n
    if select == "v":
        raise NotImplementedError(
            "eigh_tridiagonal(..., select='v') is not implemented"
        )
    if select != "i":
        raise ValueError("'select must have a value in {'a', 'i', 'v'}.")
    if select_range is None:
        raise ValueError("for select='i', select_range must be specified.")
    if select_range[0] > select_range[1]:
        raise ValueError("Got empty index range in select_range.")
    first, last = map(operator.index, select_range)
    if not 0 <= first <= last < max(n, 1):
        raise ValueError(
            f"select_range={select_range} has indices outside of 0 ... {n - 1}."
        )
    return first, last + 1


def schur(a: ArrayLike, output: str = "real") -> list[Any]:
    """The triangular T and unitary Z of a = Z T Z^H, a list, for matrices (..., n, n).

    T of a real matrix has 2x2 blocks for pairs of complex eigenvalues, unless `output`
    is "complex".

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> t, z = linalg.schur(jnp.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> print(t)
    [[1. 2.]
     [0. 3.]]
    """
    if output not in ("real", "complex"):
        raise ValueError(
            "Expected 'output' to be either 'real' or 'complex', got"
            f" output={output!r}."
        )
    return _schur(a, output)


@inner_jit(static_argnames=("output",))
def _schur(a: Any, output: str) -> list[Any]:
    if output == "complex":
        a = lax.convert_element_type(a, dtypes.to_complex_dtype(dtypes.dtype(a)))
    return lax.linalg.schur(a)


@inner_jit(static_argnames=("check_finite",))
def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Any, Any]:
    """The complex Schur form of what `schur` gives of a real matrix.

    One rotation for each block on the diagonal.

    Args:
      T, Z: the triangular and the unitary matrix, (..., n, n).
      check_finite: accepted for SciPy's sake, and without effect.

    Returns:
      Complex matrices T and Z of these shapes.

    Raises:
      ValueError: if matrices are not square, or of different sizes.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> t, z = linalg.rsf2csf(jnp.array([[0.0, 2.0], [-2.0, 0.0]]), jnp.eye(2))
    >>> jnp.diag(t).imag.round(4)
    Array([ 2., -2.], dtype=float32)
    """
    T, Z = jnp.asarray(T), jnp.asarray(Z)
    for name, x in (("T", T), ("Z", Z)):
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise ValueError(f"Input '{name}' must be square.")
    if T.shape[-1] != Z.shape[-1]:
        raise ValueError(
            f"Input array shapes must match: Z: {Z.shape} vs. T: {T.shape}"
        )
    T, Z = inexact(T, Z)
    dtype = dtypes.to_complex_dtype(T.dtype)
    T, Z = T.astype(dtype), Z.astype(dtype)
    triangular = jnp.vectorize(_triangular, signature="(n,n),(n,n)->(n,n),(n,n)")
    return triangular(T, Z)


def _triangular(t: Any, z: Any) -> tuple[Any, Any]:
    n = t.shape[0]
    eps = dtypes.finfo(t.dtype).eps

    def rotate(i: Any, state: Any) -> Any:
        t, z = state
        m = n - 1 - i
        block = lax.dynamic_slice(t, (m, m), (2, 2))
        mu = jnp.linalg.eigvals(block)[0] - block[1, 1]
        length = jnp.sqrt(jnp.abs(mu) ** 2 + jnp.abs(block[1, 0]) ** 2)
        small = jnp.abs(block[1, 0]) <= eps * (
            jnp.abs(block[0, 0]) + jnp.abs(block[1, 1])
        )
        safe = jnp.where(small, 1, length).astype(t.dtype)
        c = jnp.where(small, 1, mu / safe)
        s = jnp.where(small, 0, block[1, 0] / safe)
        g = jnp.array([[c.conj(), s], [-s, c]])
        # Elements before the block's columns, and below its rows, stay as they are.
        number = jnp.arange(n)
        rows = lax.dynamic_slice_in_dim(t, m, 2, axis=0)
        rows = jnp.where(number[None] >= m, g @ rows, rows)
        t = lax.dynamic_update_slice_in_dim(t, rows, m, axis=0)
        columns = lax.dynamic_slice_in_dim(t, m, 2, axis=1)
        columns = jnp.where(number[:, None] < m + 2, columns @ adjoint(g), columns)
        t = lax.dynamic_update_slice_in_dim(t, columns, m, axis=1)
        columns = lax.dynamic_slice_in_dim(z, m, 2, axis=1) @ adjoint(g)
        z = lax.dynamic_update_slice_in_dim(z, columns, m, axis=1)
        return t.at[m + 1, m].set(0), z

    return lax.fori_loop(1, n, rotate, (t, z)) if n > 1 else (t, z)


@inner_jit(static_argnames=("calc_q", "overwrite_a", "check_finite"))
def hessenberg(
    a: ArrayLike,
    *,
    calc_q: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """H of a = Q H Q^H, zero below its first subdiagonal, and Q if `calc_q`.

    Args:
      a: matrices (..., n, n).
      calc_q: whether to return Q; False by default.
      overwrite_a, check_finite: accepted for SciPy's sake, and without effect.

    Returns:
      Matrices (..., n, n), or two of them.

    Raises:
      ValueError: if matrices are not square.
      TypeError: if an argument is not an array of at least two dims.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.hessenberg(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    n = jnp.shape(a)[-1]
    if n == 0:
        return (jnp.zeros_like(a), jnp.zeros_like(a)) if calc_q else jnp.zeros_like(a)
    packed, factors = lax.linalg.hessenberg(a)
    h = jnp.triu(packed, -1)
    if not calc_q:
        return h
    # The first row and column of Q are those of the unit matrix.
    inner = lax.linalg.householder_product(packed[..., 1:, :-1], factors)
    edges = [(0, 0)] * (packed.ndim - 2) + [(1, 0), (1, 0)]
    q = jnp.pad(inner, edges)
    return h, q.at[..., 0, 0].set(1)
