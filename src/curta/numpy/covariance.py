"""Covariances and correlation coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import (
    check_arraylike,
    ensure_arraylike,
    is_complex,
    user_dtype,
)
from curta.numpy.arithmetic import absolute, multiply, true_divide
from curta.numpy.complex_numbers import conjugate, imag, real
from curta.numpy.constructors import asarray
from curta.numpy.creation import full, zeros
from curta.numpy.diagonals import diag
from curta.numpy.extrema import clip
from curta.numpy.indexing import getitem
from curta.numpy.joining import concatenate
from curta.numpy.linear_algebra import dot
from curta.numpy.promotion import (
    cast,
    const,
    promote_args_inexact,
)
from curta.numpy.reductions import sum
from curta.numpy.shapes import atleast_2d, expand_dims, squeeze, transpose
from curta.numpy.statistics import average


@inner_jit(static_argnames=("rowvar", "bias", "ddof", "dtype"))
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The covariance matrix of variables in rows (or columns, without `rowvar`).

    sum of w (x - mean)(y - mean)* over the observations, divided by their count (the
    sum of weights) less `ddof`.

    Args:
      m: a matrix of variables and observations, or a vector: one variable.
      y: further variables, with as many observations. None (default) for none.
      rowvar: each row is a variable. Default True; False takes the columns.
      bias: divide by the count. Default False: by the count less one.
      ddof: what the divisor is less than the count; overrides `bias`. None (default)
        for 1, or 0 with `bias`.
      fweights: integers (observations,): how often each counts. None (default) for
        once.
      aweights: numbers (observations,): how much each counts. None (default) for alike.
      dtype: dtype of the result. None (default) is the promoted dtype, at least
        float32.

    Returns:
      The covariances, (variables, variables); a scalar for one variable.

    Raises:
      TypeError: `m` or `y` is a list, a string or None; `y` has another number of
        observations; `fweights` is not of integers; `ddof` is not a number; `dtype` is
        unknown.
      ValueError: `m` or `y` has more than two dims.
      RuntimeError: `fweights` or `aweights` is not a vector, or of another length.

    >>> from curta import numpy as jnp
    >>> jnp.cov(jnp.array([[0.0, 2.0], [0.0, 4.0]]))
    Array([[2., 4.],
           [4., 8.]], dtype=float32)
    """
    dtype = _inexact_dtype("cov", dtype)
    x = _variables(m, y, rowvar)
    if x.shape[0] == 0:
        return zeros((0, 0))
    if x.shape[1] == 0:
        shape = () if x.shape[0] == 1 else (x.shape[0],) * 2
        return full(shape, np.nan, dtype=x.dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = _observation_weights(x, fweights, aweights)
    if dtype is not None:
        x = cast(x, dtype)
        weights = None if weights is None else cast(weights, dtype)
    avg, total = average(x, axis=1, weights=weights, returned=True)
    total = getitem(total, 0)
    if weights is None:
        divisor: Any = x.shape[1] - ddof
    elif ddof == 0:
        divisor = total
    elif aweights is None:
        divisor = lax.sub(total, const(total, ddof))
    else:
        again = multiply(weights, absolute(asarray(aweights)))
        divisor = lax.sub(total, true_divide(multiply(ddof, sum(again)), total))
    x = lax.sub(x, expand_dims(avg, 1))
    scaled = x if weights is None else multiply(x, expand_dims(weights, 0))
    return squeeze(true_divide(dot(x, conjugate(transpose(scaled))), divisor))


def _inexact_dtype(name: str, dtype: Any) -> Any:
    dtype = user_dtype(dtype, name)
    if dtype is not None and not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(
            f"{name}: dtype must be a subclass of float or complex; got dtype={dtype!r}"
        )
    return dtype


def _variables(m: Any, y: Any, rowvar: bool) -> Any:
    if y is None:
        (m,) = promote_args_inexact("cov", m)
    else:
        m, y = promote_args_inexact("cov", m, y)
        if np.ndim(y) > 2:
            raise ValueError("y has more than 2 dimensions")
    if np.ndim(m) > 2:
        raise ValueError("m has more than 2 dimensions")
    x = atleast_2d(m)
    if not rowvar and np.ndim(m) != 1:
        x = transpose(x)
    if y is None:
        return x
    y = atleast_2d(y)
    if not rowvar and y.shape[0] != 1:
        y = transpose(y)
    return concatenate((x, y), axis=0)


def _observation_weights(x: Any, fweights: Any, aweights: Any) -> Any:
    out = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        w = ensure_arraylike("cov", given)
        if w.ndim > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if w.shape[0] != x.shape[1]:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if name == "fweights" and not dtypes.issubdtype(w.dtype, np.integer):
            raise TypeError("fweights must be integer.")
        w = absolute(w)
        out = w if out is None else multiply(out, w)
    return out


@inner_jit(static_argnames=("rowvar", "dtype"))
def corrcoef(
    x: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    dtype: DTypeLike | None = None,
) -> Array:
    """The matrix of K. Pearson's correlation coefficients: cov(x, y) / (std(x) std(y)).

    Args:
      x: a matrix of variables and observations, or a vector: one variable.
      y: further variables, with as many observations. None (default) for none.
      rowvar: each row is a variable. Default True; False takes the columns.
      dtype: dtype of the result. None (default) is the promoted dtype, at least
        float32.

    Returns:
      The coefficients, from -1 to 1, (variables, variables); a scalar for one variable.

    Raises:
      TypeError: `x` or `y` is a list or a string; `y` has another number of
        observations; `dtype` is unknown.
      ValueError: `x` or `y` has more than two dims.

    >>> from curta import numpy as jnp
    >>> jnp.corrcoef(jnp.array([[0.0, 2.0], [0.0, 4.0]]))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    check_arraylike("corrcoef", x)
    c = cov(x, y, rowvar, dtype=_inexact_dtype("corrcoef", dtype))
    if c.ndim == 0:
        return true_divide(c, c)
    deviations = cast(lax.sqrt(real(diag(c))), c.dtype)
    c = lax.div(c, expand_dims(deviations, 1))
    c = lax.div(c, expand_dims(deviations, 0))
    re = clip(real(c), -1, 1)
    return lax.complex(re, clip(imag(c), -1, 1)) if is_complex(c) else re
