"""Linear equations, and inverses of many kinds."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.custom_derivatives import custom_jvp
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import concrete, ensure_arraylike, ensure_arraylikes
from curta.numpy.complex_numbers import conjugate
from curta.numpy.conditional import where
from curta.numpy.constructors import array, asarray
from curta.numpy.creation import zeros
from curta.numpy.linalg.decompositions import adjoint, svd, svdvals
from curta.numpy.linalg.factored import solve_by_lu
from curta.numpy.linalg.norms import norm
from curta.numpy.linear_algebra import matmul
from curta.numpy.logic import isnan
from curta.numpy.matrices import eye
from curta.numpy.promotion import promote_dtypes_inexact
from curta.numpy.reductions import any, sum
from curta.numpy.shapes import (
    broadcast_to,
    expand_dims,
    matrix_transpose,
    moveaxis,
    ravel,
    reshape,
)

_exact = functools.partial(matmul, precision=lax.Precision.HIGHEST)


@inner_jit(whole=True)
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """x of a x = b, for square matrices a.

    Args:
      a: matrices (..., n, n).
      b: one vector (n,), or matrices (..., n, k). Leading dims broadcast.

    Returns:
      Arrays of the shape of `b`, with the leading dims of both, in floats or complex
      numbers. Singular matrices give infinities or NaN.

    Raises:
      ValueError: if shapes do not match.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.solve(jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([2.0, 2.0]))
    Array([1. , 0.5], dtype=float32)
    """
    a, b = promote_dtypes_inexact(*ensure_arraylikes("jnp.linalg.solve", a, b))
    if a.ndim < 2:
        raise ValueError(
            f"left hand array must be at least two dimensional; got {a.shape=}"
        )
    vector = b.ndim == 1
    if (
        a.shape[-1] != a.shape[-2]
        or b.ndim == 0
        or a.shape[-1] != b.shape[-1 if vector else -2]
    ):
        vectors = b.shape[-1:] == a.shape[-1:] and b.ndim == a.ndim - 1
        opening = f"Invalid shapes for solve: {a.shape}, {b.shape}. "
        raise ValueError(
            f"{opening if vectors else ''}The arguments to solve must have shapes"
            " a=[..., m, m] and b=[..., m, k] or b=[m]; got"
            f" a={a.shape} and b={b.shape}. A batch of vectors is solved as"
            " solve(a, b[..., None])[..., 0]."
        )
    if vector and a.ndim == 2:
        return solve_by_lu(a, b)
    columns = expand_dims(b, -1) if vector else b
    batch = lax.broadcast_shapes(a.shape[:-2], columns.shape[:-2])
    a = broadcast_to(a, (*batch, *a.shape[-2:]))
    x = solve_by_lu(a, broadcast_to(columns, (*batch, *columns.shape[-2:])))
    return lax.squeeze(x, (x.ndim - 1,)) if vector else x


@inner_jit(whole=True)
def inv(a: ArrayLike) -> Array:
    """The inverses of square matrices (..., n, n).

    Raises ValueError for other shapes. Singular matrices give infinities or NaN.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    a = ensure_arraylike("jnp.linalg.inv", a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"Argument to inv must have shape [..., n, n], got {a.shape}.")
    unit = eye(a.shape[-1], dtype=a.dtype)
    return solve(a, lax.broadcast(unit, a.shape[:-2]))


def pinv(
    a: ArrayLike,
    rtol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rcond: ArrayLike | None = None,
) -> Array:
    """The pseudo-inverses (..., n, m) of matrices (..., m, n).

    V diag(1/s) U^H over the singular values that count (R. Penrose, A generalized
    inverse for matrices, 1955).

    Args:
      a: matrices (..., m, n); integers become floats.
      rtol: singular values up to `rtol` times the greatest count as zero; of a shape
        that broadcasts with (...). None (default) is 10 max(m, n) eps.
      hermitian: the matrices are Hermitian, and eigenvalues tell the singular values.
        Default False.
      rcond: the older name of `rtol`. None (default) takes `rtol`.

    Returns:
      Matrices (..., n, m).

    Raises:
      TypeError: `a` is a list, a string or None; `rtol` or `rcond` is not a number; `a`
        is not square and `hermitian` is True.
      ValueError: `a` has less than two dims, or both `rtol` and `rcond` are given.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.pinv(jnp.array([[2.0, 0.0], [0.0, 0.0]])).shape
    (2, 2)
    """
    if rcond is not None:
        if rtol is not None:
            raise ValueError("pinv: only one of rtol and rcond may be specified.")
        rtol = rcond
    (a,) = promote_dtypes_inexact(ensure_arraylike("jnp.linalg.pinv", a))
    return _pinv(a, rtol, hermitian)


@functools.partial(custom_jvp, nondiff_argnums=(1, 2))
def _pinv(a: Any, rtol: Any, hermitian: bool) -> Any:
    m, n = a.shape[-2:]
    if m == 0 or n == 0:
        return zeros((*a.shape[:-2], n, m), a.dtype)
    a = conjugate(a)
    if rtol is None:
        rtol = 10.0 * max(m, n) * array(dtypes.finfo(a.dtype).eps)
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    limit = expand_dims(asarray(rtol), -1) * s[..., :1]
    s = where(s > limit, s, np.inf).astype(u.dtype)
    scaled = matrix_transpose(u) / expand_dims(s, -1)
    return _exact(matrix_transpose(vh), scaled).astype(a.dtype)


@_pinv.defjvp
def _pinv_jvp(rtol: Any, hermitian: bool, primals: Any, tangents: Any) -> Any:
    # Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least
    # squares problems whose variables separate" (1973).
    (a,), (da,) = primals, tangents
    p = _pinv(a, rtol, hermitian)
    if hermitian:
        a, da = (a + adjoint(a)) / 2, (da + adjoint(da)) / 2
    s = _product(p, adjoint(p), adjoint(da))
    t = _product(adjoint(da), adjoint(p), p)
    left, right = s - _product(s, a, p), t - _product(p, a, t)
    return p, left + right - _product(p, da, p)


def _product(x: Any, y: Any, z: Any) -> Any:
    """x y z, in the order that takes less work, and room."""
    (m, n), (k, columns) = x.shape[-2:], z.shape[-2:]
    if m * k * (n + columns) <= n * columns * (m + k):
        return _exact(_exact(x, y), z)
    return _exact(x, _exact(y, z))


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Any, Any, Any, Any]:
    """x that makes the length of a x - b least: (x, residuals, rank, singular values).

    By the singular value decomposition: x = V diag(1/s) U^H b over the singular values
    that count (G. Golub and C. Reinsch, 1970).

    Args:
      a: a matrix (m, n); integers become floats.
      b: a vector (m,) or a matrix (m, k).
      rcond: singular values below `rcond` times the greatest count as zero. None
        (default) is max(m, n) eps; a negative one is eps.
      numpy_resid: return no residuals where NumPy does not. Default False.

    Returns:
      x (n,) or (n, k), the squared residuals (1,) or (k,), the rank, an integer, and
      the singular values (min(m, n),).

    Raises:
      TypeError: `a` or `b` is a list, a string or None; `a` is not a matrix, `b` has
        more than two dims, or `rcond` is not a number.
      ValueError: `a` and `b` differ in m.
      IndexError: `a` or `b` is a scalar.

    >>> from curta import numpy as jnp
    >>> x, *_ = jnp.linalg.lstsq(jnp.array([[2.0], [0.0]]), jnp.array([4.0, 1.0]))
    >>> x
    Array([2.], dtype=float32)
    """
    a, b = ensure_arraylikes("jnp.linalg.lstsq", a, b)
    if numpy_resid:
        return _lstsq_of(a, b, rcond, True)
    return _lstsq(a, b, rcond)


@inner_jit
def _lstsq(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    return _lstsq_of(a, b, rcond, False)


def _lstsq_of(
    a: Any, b: Any, rcond: Any, numpy_resid: bool
) -> tuple[Any, Any, Any, Any]:
    a, b = promote_dtypes_inexact(a, b)
    if a.shape[0] != b.shape[0]:
        raise ValueError("Leading dimensions of input arrays must match")
    vector = b.ndim == 1
    b = expand_dims(b, -1) if vector else b
    for x, allowed in ((a, "two-dimensional"), (b, "one or two-dimensional")):
        if x.ndim != 2:
            raise TypeError(
                f"{x.ndim}-dimensional array given. Array must be {allowed}"
            )
    x, rank, s = _least_squares(a, b, rcond)
    m, n = a.shape
    if numpy_resid and (rank < n or m <= n):
        residuals = zeros(0)
    else:
        residuals = norm(b - _exact(a, x), axis=0) ** 2
    return ravel(x) if vector else x, residuals, rank, s


def _least_squares(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any]:
    m, n = a.shape
    if a.size == 0:
        return zeros((n, b.shape[1]), a.dtype), array(0), zeros(0, a.dtype)
    eps = dtypes.finfo(a.dtype).eps
    rcond = float(eps) * max(m, n) if rcond is None else where(rcond < 0, eps, rcond)
    u, s, vh = svd(a, full_matrices=False)
    mask = (s > 0) & (s >= array(rcond, dtype=s.dtype) * s[0])
    rank = sum(mask)
    inverse = where(mask, 1 / where(mask, s, 1).astype(a.dtype), 0)
    inverse = expand_dims(inverse, -1)
    coordinates = _exact(adjoint(u), b)
    return _exact(adjoint(vh), inverse * coordinates), rank, s


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of the map that `tensordot` with `a` over its last dims is.

    The first `ind` dims have as many elements as the others; they come last.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.tensorinv(jnp.eye(6).reshape(6, 2, 3), ind=1).shape
    (2, 3, 6)
    """
    a = ensure_arraylike("tensorinv", a)
    ind = operator.index(ind)
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got {ind=}")
    first, rest = a.shape[:ind], a.shape[ind:]
    if math.prod(first) != math.prod(rest):
        raise ValueError(
            "tensorinv is only possible when the product of the first `ind` dimensions"
            f" equals that of the remaining dimensions. got {a.shape=} with {ind=}."
        )
    flat = reshape(a, (math.prod(first), math.prod(rest)))
    return reshape(inv(flat), (*rest, *first))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """x with `tensordot(a, x, x.ndim)` equal to b.

    Args:
      a: an array (*b.shape, *x.shape), with as many elements in `b` as in x.
      b: an array.
      axes: axes of `a` that are moved to its end first. None (default) for none.

    Returns:
      x, in floats or complex numbers.

    Raises:
      TypeError: `a` or `b` is a list, a string or None; `axes` is not a sequence, or
        has an axis twice.
      ValueError: `a` does not begin with the shape of `b`, or is not square as a
        matrix; an axis is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.tensorsolve(jnp.eye(6).reshape(6, 2, 3), jnp.ones(6)).shape
    (2, 3)
    """
    a, b = ensure_arraylikes("tensorsolve", a, b)
    if axes is not None:
        if isinstance(axes, Array):
            axes = concrete(axes, "expected a static index sequence.", np.asarray)
        if not isinstance(axes, (Sequence, np.ndarray)) or isinstance(axes, str):
            raise TypeError(
                f"tensorsolve takes axes as a sequence of integers, got {axes!r}: write"
                " (axis,) for one of them."
            )
        a = moveaxis(a, tuple(axes), tuple(range(a.ndim - len(axes), a.ndim)))
    shape = a.shape[b.ndim :]
    if a.shape[: b.ndim] != b.shape:
        raise ValueError(
            "After moving axes to end, leading shape of a must match shape of b. got"
            f" a.shape={a.shape}, b.shape={b.shape}"
        )
    if b.size != math.prod(shape):
        raise ValueError(
            "Input arrays must have prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]);"
            f" got a.shape={a.shape}, b.ndim={b.ndim}."
        )
    x = solve(reshape(a, (b.size, math.prod(shape))), ravel(b))
    return reshape(x, shape)


@inner_jit(static_argnames=("p",))
def cond(x: ArrayLike, p: Any = None) -> Array:
    """The condition numbers of matrices: the norm times the norm of the inverse.

    Args:
      x: matrices (..., m, n), square unless `p` is None, 2 or -2.
      p: the order of the norm, see `norm`; by default 2.

    Returns:
      Real numbers (...), infinity for singular matrices.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.cond(jnp.array([[4.0, 0.0], [0.0, 2.0]]))
    Array(2., dtype=float32)
    """
    x = ensure_arraylike("cond", x)
    if x.ndim < 2:
        raise ValueError(
            f"jnp.linalg.cond: input array must be at least 2D; got {x.shape=}"
        )
    if 0 in x.shape[-2:]:
        raise ValueError(
            f"jnp.linalg.cond: input array must not be empty; got {x.shape=}"
        )
    if p in (None, 2, -2):
        s = svdvals(x)
        if p != -2:
            return s[..., 0] / s[..., -1]
        ratio = s[..., -1] / s[..., 0]
    elif x.shape[-2] != x.shape[-1]:
        raise ValueError(
            f"jnp.linalg.cond: for {p=}, array must be square; got {x.shape=}"
        )
    else:
        axes = (-2, -1)
        ratio = norm(x, ord=p, axis=axes) * norm(inv(x), ord=p, axis=axes)
    unexpected = isnan(ratio) & ~any(isnan(x), axis=(-2, -1))
    return where(unexpected, np.inf, ratio)
