"""Roots of polynomials, and the polynomial that fits data best."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy import linalg
from curta.numpy.arguments import concrete, ensure_arraylike, ensure_operands
from curta.numpy.conditional import where
from curta.numpy.constructors import array
from curta.numpy.convolution import convolve
from curta.numpy.creation import ones
from curta.numpy.diagonals import diag
from curta.numpy.elementary import sqrt
from curta.numpy.linear_algebra import dot
from curta.numpy.matrices import vander
from curta.numpy.outer_products import outer
from curta.numpy.promotion import promote_dtypes_inexact
from curta.numpy.ranges import arange
from curta.numpy.rearranging import roll
from curta.numpy.reductions import all
from curta.numpy.searching import argmin
from curta.numpy.shapes import atleast_1d


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The complex roots of the polynomial with coefficients `p`, highest first.

    Args:
      p: an array of one dim.
      strip_zeros: leave leading zeros out, which have to be known then. Otherwise, as
        jit needs it, every leading zero makes one of the roots NaN, after the others.

    Returns:
      Complex numbers (n - 1,), the eigenvalues of the companion matrix.

    Raises:
      ValueError: `p` has more than one dim.

    >>> from curta import numpy as jnp
    >>> jnp.roots(jnp.array([1.0, -3.0, 2.0])).real.round(3)
    Array([2., 1.], dtype=float32)
    """
    (p,) = promote_dtypes_inexact(ensure_arraylike("roots", p))
    p = atleast_1d(p)
    if p.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    if p.size < 2:
        return array([], dtype=dtypes.to_complex_dtype(p.dtype))
    zeros = where(all(p == 0), len(p), argmin(p == 0))
    if not strip_zeros:
        return _roots_and_nan(p, zeros)
    context = (
        "The error occurred in the jnp.roots() function. To use this within a"
        " JIT-compiled context, pass strip_zeros=False, but be aware that leading zeros"
        " will result in some returned roots being set to NaN."
    )
    return _roots(p[concrete(zeros, context, int) :])


def _roots(p: Any) -> Any:
    if p.size < 2:
        return array([], dtype=dtypes.to_complex_dtype(p.dtype))
    companion = diag(ones((p.size - 2,), p.dtype), -1)
    return linalg.eigvals(companion.at[0, :].set(-p[1:] / p[0]))


def _roots_and_nan(p: Any, zeros: Any) -> Any:
    p = where(zeros == len(p), 1, p)
    # The zeros, moved to the end, only add roots at 0.
    result = _roots(roll(p, -zeros))
    result = lax.sort_key_val(result == 0, result)[1]
    nan = np.asarray(complex(np.nan, np.nan), result.dtype)
    return where(arange(result.size) < result.size - zeros, result, nan)


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Array | tuple[Array, ...]:
    """The polynomial of degree `deg` that fits points best, in least squares.

    By `linalg.lstsq` of the Vandermonde matrix, its columns scaled to length 1.

    Args:
      x: positions, a vector (n,) of one or more.
      y: values there, (n,), or (n, k) for k polynomials.
      deg: the degree, static and not negative.
      rcond: singular values below this share of the greatest count as zero. None
        (default) is n eps.
      full: return residuals, rank, singular values and `rcond` too. Default False.
      w: weights of the points, (n,). None (default) weighs all alike.
      cov: return the covariance of the coefficients too; "unscaled" does not estimate
        the variance of the values. Default False.

    Returns:
      The coefficients, highest power first, (deg + 1,) or (deg + 1, k), in floats; with
      `full` or `cov` a tuple of them and of what is asked for.

    Raises:
      TypeError: `x` or `y` is a list or a string; `x`, `y` or `w` has a shape that does
        not fit, or `x` is empty.
      ValueError: `deg` is negative, or `rcond` is not a number.

    >>> from curta import numpy as jnp
    >>> jnp.polyfit(jnp.arange(3.0), jnp.array([1.0, 3.0, 5.0]), 1).round(3)
    Array([2., 1.], dtype=float32)
    """
    x, y = ensure_operands("polyfit", x, y)
    deg = concrete(deg, "deg must be int", int)
    _check_points(x, y, deg)
    if rcond is not None:
        limit = concrete(rcond, "rcond must be float", float)
    else:
        limit = len(x) * float(dtypes.finfo(dtypes.to_inexact_dtype(x.dtype)).eps)
    (x,) = promote_dtypes_inexact(x)
    left, right = vander(x, deg + 1), y
    if w is not None:
        (w,) = promote_dtypes_inexact(ensure_arraylike("polyfit", w))
        if w.ndim != 1:
            raise TypeError("expected a 1-d array for weights")
        if w.shape[0] != y.shape[0]:
            raise TypeError("expected w and y to have the same length")
        left = left * w[:, None]
        right = right * (w[:, None] if right.ndim == 2 else w)
    # Columns of one length make the system better conditioned.
    scale = sqrt((left * left).sum(axis=0))
    left = left / scale[None]
    fit, residuals, rank, singular = linalg.lstsq(left, right, limit)
    fit = fit / (scale[:, None] if fit.ndim > 1 else scale)
    if full:
        return fit, residuals, rank, singular, array(limit)
    if cov:
        return fit, _covariance(left, scale, residuals, len(x), y.ndim, cov)
    return fit


def _check_points(x: Any, y: Any, deg: int) -> None:
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if x.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if x.size == 0:
        raise TypeError("expected non-empty vector for x")
    if y.ndim not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if x.shape[0] != y.shape[0]:
        raise TypeError("expected x and y to have same length")


def _covariance(
    left: Any, scale: Any, residuals: Any, n: int, rank: int, cov: bool | str
) -> Any:
    base = linalg.inv(dot(left.T, left)) / outer(scale, scale)
    order = left.shape[1]
    if cov == "unscaled":
        variance = ones((1,), base.dtype)
    elif n <= order:
        raise ValueError(
            "the number of data points must exceed order to scale the covariance matrix"
        )
    else:
        variance = atleast_1d(residuals / (n - order))
    return (
        base * variance[None] if rank == 1 else base[:, :, None] * variance[None, None]
    )


@inner_jit
def poly(seq_of_zeros: ArrayLike) -> Array:
    """The monic polynomial with the given zeros, or the eigenvalues of a matrix.

    Raises ValueError for other shapes than (n,) and (n, n).

    >>> from curta import numpy as jnp
    >>> jnp.poly(jnp.array([-2.0, -3.0]))
    Array([1., 5., 6.], dtype=float32)
    """
    (zeros,) = promote_dtypes_inexact(ensure_arraylike("poly", seq_of_zeros))
    zeros = atleast_1d(zeros)
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] != 0:
        zeros = linalg.eigvals(zeros)
    if zeros.ndim != 1:
        raise ValueError(
            "input must be 1d or non-empty square 2d array. Got an array of shape"
            f" {zeros.shape}"
        )
    if not zeros.shape[0]:
        return ones((), zeros.dtype)
    out = ones((1,), zeros.dtype)
    for zero in lax.unstack(zeros):
        factor = lax.stack([lax.full_like(zero, 1), lax.neg(zero)], 0)
        out = convolve(out, factor, mode="full")
    return out
