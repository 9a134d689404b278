"""Matrices of a certain form, or with a name."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import check_arraylike
from curta.numpy.promotion import inexact_operands, promote_dtypes
from curta.scipy.special import comb


@inner_jit
def block_diag(*arrs: ArrayLike) -> Array:
    """The matrices one after the other along the diagonal, zeros elsewhere.

    Scalars and vectors count as rows. ValueError for more than two dims.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.block_diag(jnp.array([[1, 2]]), 3)
    Array([[1, 2, 0],
           [0, 0, 3]], dtype=int32)
    """
    arrays = promote_dtypes(*(arrs or (jnp.zeros((1, 0)),)))
    for position, x in enumerate(arrays):
        if np.ndim(x) > 2:
            raise ValueError(
                "Arguments to jax.scipy.linalg.block_diag must have at most 2"
                f" dimensions, got {x} at argument {position}."
            )
    blocks = [jnp.atleast_2d(x) for x in arrays]
    width, column, rows = sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        after = width - column - block.shape[1]
        rows.append(jnp.pad(block, ((0, 0), (column, after))))
        column += block.shape[1]
    return jnp.concatenate(rows)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix with first column c and first row r, constant along diagonals.

    r is the conjugate of c if it is not given, and its first element is not read.
    Dims before the last are a batch.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.toeplitz(jnp.array([1, 2]), jnp.array([1, 5, 6]))
    Array([[1, 5, 6],
           [2, 1, 5]], dtype=int32)
    """
    check_arraylike("toeplitz", c, *(() if r is None else (r,)))
    c = jnp.atleast_1d(jnp.asarray(c))
    r = jnp.conjugate(c) if r is None else jnp.atleast_1d(jnp.asarray(r))
    m, n = c.shape[-1], r.shape[-1]
    diagonal = np.arange(m)[:, None] - np.arange(n)
    return _from_line(c, r, jnp.flip(c, -1), r[..., 1:], m - 1 - diagonal)


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix with first column c and last row r, constant along antidiagonals.

    r is zero if it is not given, and its first element is not read. ValueError for
    scalars.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.hankel(jnp.array([1, 2]), jnp.array([2, 5, 6]))
    Array([[1, 2, 5],
           [2, 5, 6]], dtype=int32)
    """
    check_arraylike("hankel", c, *(() if r is None else (r,)))
    c = jnp.asarray(c)
    r = jnp.zeros_like(c) if r is None else jnp.asarray(r)
    for name, x in (("c", c), ("r", r)):
        if x.ndim == 0:
            raise ValueError(
                f"hankel: {name} must be at least 1-dimensional, got a scalar."
            )
    m, n = c.shape[-1], r.shape[-1]
    return _from_line(c, r, c, r[..., 1:], np.arange(m)[:, None] + np.arange(n))


def _from_line(c: Any, r: Any, first: Any, rest: Any, index: Any) -> Any:
    """The elements `index` of the line of `first` and `rest`; empty if c or r are."""
    batch = jnp.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    if not index.size:
        return jnp.zeros((*batch, *index.shape), jnp.promote_types(c.dtype, r.dtype))
    first, rest = promote_dtypes(first, rest)
    parts = [jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (first, rest)]
    return jnp.concatenate(parts, axis=-1)[..., index]


def circulant(c: ArrayLike) -> Array:
    """The matrix with first column c, every other a rotation of the one before.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.circulant(jnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    check_arraylike("circulant", c)
    c = jnp.atleast_1d(jnp.asarray(c))
    n = c.shape[-1]
    return c[..., (np.arange(n)[:, None] - np.arange(n)) % max(n, 1)]


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """The matrix of a population with fecundities f (n,) and survival s (n - 1,).

    ValueError for other lengths.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.leslie(jnp.array([1.0, 2.0]), jnp.array([0.5]))
    Array([[1. , 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    check_arraylike("leslie", f, s)
    f, s = (jnp.atleast_1d(jnp.asarray(x)) for x in promote_dtypes(f, s))
    if f.shape[-1] < 2:
        raise ValueError(
            "The length of f along the last axis must be at least 2; got shape"
            f" {f.shape}."
        )
    if s.shape[-1] != f.shape[-1] - 1:
        raise ValueError(
            "Incorrect lengths for f and s. The length of s along the last axis must be"
            f" one less than the length of f; got f shape {f.shape} and s shape"
            f" {s.shape}."
        )
    make = jnp.vectorize(_with_first_row, signature="(n),(m)->(n,n)")
    return make(f, s)


def _with_first_row(first: Any, below: Any) -> Any:
    return jnp.diag(below, k=-1).at[0].set(first)


def companion(a: ArrayLike) -> Array:
    """The matrix whose characteristic polynomial has coefficients a, highest first.

    ValueError for fewer than two coefficients.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.companion(jnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    (a,) = inexact_operands("companion", a)
    a = jnp.atleast_1d(a)
    if a.shape[-1] < 2:
        raise ValueError(
            "The length of `a` along the last axis must be at least 2; got shape"
            f" {a.shape}."
        )
    first = -a[..., 1:] / a[..., :1]
    ones = jnp.ones((*first.shape[:-1], first.shape[-1] - 1), first.dtype)
    return jnp.vectorize(_with_first_row, signature="(n),(m)->(n,n)")(first, ones)


def fiedler(a: ArrayLike) -> Array:
    """The matrix of |a[i] - a[j]|.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.fiedler(jnp.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    check_arraylike("fiedler", a)
    a = jnp.atleast_1d(jnp.asarray(a))
    return jnp.abs(a[..., None] - a[..., None, :])


def fiedler_companion(a: ArrayLike) -> Array:
    """A pentadiagonal matrix with the characteristic polynomial of `companion`.

    ValueError for no coefficients.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.fiedler_companion(jnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    (a,) = inexact_operands("fiedler_companion", a)
    a = jnp.atleast_1d(a)
    if a.shape[-1] == 0:
        raise ValueError(
            "fiedler_companion requires the last axis of 'a' to have nonzero length,"
            f" but got an array of shape {a.shape}."
        )
    n = a.shape[-1] - 1
    a = a / a[..., :1]
    # Every element is 0, 1, or one of the coefficients, negated.
    source = np.full((n, n), n + 1)
    one = n + 2
    if n:
        source[0, 0] = 1
    for i in range(n):
        if i == 1:
            source[1, 0] = one
        if i % 2 == 0:
            for j, k in ((i + 1, i + 2), (i - 1, i + 1)):
                if 0 <= j < n:
                    source[i, j] = k
            if i + 2 < n:
                source[i, i + 2] = one
        elif i >= 3:
            source[i, i - 2] = one
    ends = jnp.broadcast_to(jnp.array([0, 1], a.dtype), (*a.shape[:-1], 2))
    return jnp.concatenate([-a, ends], axis=-1)[..., source]


@inner_jit(static_argnames=("n", "mode"))
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix whose product with v of length n is the convolution of a and v.

    Args:
      a: array (..., m).
      n: the number of columns, positive.
      mode: "full", "same" or "valid", as in `numpy.convolve`.

    Returns:
      Matrices (..., k, n) of the dtype of a; k is m + n - 1 for "full".

    Raises:
      ValueError: for other modes, n <= 0, and empty a.
      TypeError: if an argument is not an array; for an n that is not an integer.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import linalg
    >>> linalg.convolution_matrix(jnp.array([1, 2]), 2)
    Array([[1, 0],
           [2, 1],
           [0, 2]], dtype=int32)
    """
    n = operator.index(n)
    if n <= 0:
        raise ValueError(f"n must be a positive integer; got {n}.")
    check_arraylike("convolution_matrix", a)
    a = jnp.asarray(a)
    if a.ndim == 0:
        raise ValueError(
            "convolution_matrix: a must be at least 1-dimensional, got a scalar."
        )
    m = a.shape[-1]
    if m < 1:
        raise ValueError(f"len(a) must be at least 1; got shape {a.shape}.")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be one of 'full', 'valid', 'same'; got {mode!r}.")
    column = jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, n - 1)])
    row = jnp.zeros((*a.shape[:-1], n), a.dtype)
    full = toeplitz(column, row)
    cut = {"full": 0, "same": min(n, m) - 1, "valid": 2 * (min(n, m) - 1)}[mode]
    return full[..., cut // 2 : m + n - 1 - (cut - cut // 2), :]


@inner_jit(static_argnames=("n",))
def hilbert(n: int) -> Array:
    """The matrix of 1 / (i + j + 1).

    >>> from curta.scipy import linalg
    >>> linalg.hilbert(2).round(4)
    Array([[1.    , 0.5   ],
           [0.5   , 0.3333]], dtype=float32)
    """
    i = lax.broadcasted_iota(float, (n, 1), 0)
    return 1 / (i + i.T + 1)


@inner_jit(static_argnames=("n",))
def invhilbert(n: int) -> Array:
    """The inverse of `hilbert(n)`, as floats.

    >>> from curta.scipy import linalg
    >>> linalg.invhilbert(1).round(4)
    Array([[1.]], dtype=float32)
    """
    a = jnp.arange(n, dtype=dtypes.default_float_dtype())
    i, j = a[:, None], a[None, :]
    ways = comb(n + i, n - j - 1) * comb(n + j, n - i - 1) * comb(i + j, i) ** 2
    return (-1.0) ** (i + j) * (i + j + 1) * ways


def _counting(name: str, n: Any) -> Any:
    """0, 1, ... below n, which may be a float."""
    is_number = isinstance(n, numbers.Real)
    if not is_number:
        raise TypeError(f"{name} takes the size n as a number, got {n!r}.")
    return np.arange(n)


def _pascal_lower(n: int, dtype: Any) -> Any:
    i = range(len(_counting("pascal", n)))
    rows = [[math.comb(row, column) for column in i] for row in i]
    return jnp.array(np.array(rows, object).reshape(len(i), len(i)).astype(dtype))


def _checked_kind(kind: str | None) -> str:
    valid = ["symmetric", "lower", "upper"]
    kind = "symmetric" if kind is None else kind
    if kind not in valid:
        raise ValueError(f"Expected kind to be on of: {valid}; got {kind}")
    return kind


@inner_jit(static_argnames=("n", "kind"))
def pascal(n: int, kind: str | None = None) -> Array:
    """The binomial coefficients as a matrix of floats.

    `kind` is "symmetric" (the default: i + j over i), "lower" (i over j) or "upper".

    >>> from curta.scipy import linalg
    >>> linalg.pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    kind = _checked_kind(kind)
    lower = _pascal_lower(n, np.float32)
    if kind == "symmetric":
        return jnp.dot(lower, lower.T, precision=lax.Precision.HIGHEST)
    return lower if kind == "lower" else lower.T


@inner_jit(static_argnames=("n", "kind"))
def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal(n, kind)`, as floats.

    >>> from curta.scipy import linalg
    >>> linalg.invpascal(2)
    Array([[ 2., -1.],
           [-1.,  1.]], dtype=float32)
    """
    kind = _checked_kind(kind)
    lower = _pascal_lower(n, dtypes.default_float_dtype())
    i = _counting("invpascal", n)
    lower = lower * (1 - 2 * ((i[:, None] + i) % 2)).astype(lower.dtype)
    if kind == "symmetric":
        return jnp.dot(lower.T, lower, precision=lax.Precision.HIGHEST)
    return lower if kind == "lower" else lower.T


@inner_jit(static_argnames=("n", "full"))
def helmert(n: int, full: bool = False) -> Array:
    """Helmert's matrix (n - 1, n) of orthonormal contrasts; (n, n) if `full`.

    >>> from curta.scipy import linalg
    >>> linalg.helmert(2).round(4)
    Array([[ 0.7071, -0.7071]], dtype=float32)
    """
    if n < 1:
        raise ValueError(f"n must be a positive integer; got {n}.")
    k = jnp.arange(1, n, dtype=dtypes.default_float_dtype())[:, None]
    j = jnp.arange(n, dtype=k.dtype)[None]
    rows = jnp.where(j < k, 1.0, jnp.where(j == k, -k, 0.0)) / jnp.sqrt(k * (k + 1))
    if full:
        rows = jnp.concatenate([jnp.full((1, n), 1 / math.sqrt(n), rows.dtype), rows])
    return rows


@inner_jit(static_argnames=("n", "dtype"))
def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Sylvester's matrix of orthogonal rows of ±1, for a power n of 2.

    >>> from curta.scipy import linalg
    >>> linalg.hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    if n < 1 or not math.log2(n).is_integer():
        raise ValueError(f"n must be a positive power of 2; got {n}.")
    matrix = jnp.ones((1, 1), dtype)
    while len(matrix) < n:
        matrix = jnp.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


@inner_jit(static_argnames=("n", "scale", "dtype"))
def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """The matrix of the discrete Fourier transform, exp(-2 pi i j k / n) at (j, k).

    Args:
      n: the length.
      scale: None, "sqrtn" (divide by √n) or "n".
      dtype: a complex dtype, by default the default one.

    Returns:
      A matrix (n, n).

    Raises:
      ValueError: for another scale, and a dtype that is not complex.

    >>> from curta.scipy import linalg
    >>> linalg.dft(2).real
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; got {scale!r}.")
    if dtype is None:
        dtype = dtypes.default_complex_dtype()
    else:
        dtype = dtypes.check_user_dtype(dtype, "dft")
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise ValueError(
                f"dtype must be a complex floating-point type; got {dtype}."
            )
    row = _counting("dft", n)
    exponents = row[:, None] * row % max(n, 1)
    matrix = np.exp(-2j * np.pi * exponents / max(n, 1))
    matrix = matrix / {None: 1, "sqrtn": math.sqrt(max(n, 1)), "n": max(n, 1)}[scale]
    return jnp.array(matrix.astype(dtype))
