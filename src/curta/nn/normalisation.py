"""Softmax and related functions, standardization, one-hot encoding."""

from __future__ import annotations

import functools
import operator
from typing import Any, Literal, overload

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta._base.user_warnings import warn
from curta.api.custom_derivatives import custom_jvp
from curta.api.inner import inlined_jit, inner_jit
from curta.api.out_sharding import takes_out_sharding
from curta.config import config
from curta.core.array import Array, ArrayLike
from curta.core.dim import as_dim
from curta.core.trace import typeof
from curta.numpy.arguments import (
    canonical_axis,
    check_arraylike,
    check_arraylike_or_none,
    concrete,
    ensure_operand,
)
from curta.numpy.folds import named_axes
from curta.numpy.promotion import inexact_operands

Axis = int | tuple[int, ...] | None


@overload
def logsumexp(
    a: ArrayLike,
    axis: Axis = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    return_sign: Literal[False] = ...,
    where: ArrayLike | None = ...,
) -> Array: ...
@overload
def logsumexp(
    a: ArrayLike,
    axis: Axis = ...,
    b: ArrayLike | None = ...,
    keepdims: bool = ...,
    return_sign: bool = ...,
    where: ArrayLike | None = ...,
) -> Array | tuple[Array, Array]: ...
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Array | tuple[Array, Array]:
    """log(sum(b * exp(a))), without overflow.

    Args:
      a: array; integers count as floats.
      axis: the axes to sum over, by default all.
      b: weights that broadcast with `a`; 1 by default.
      keepdims: keep the summed axes with size 1.
      return_sign: return a pair of the log of the absolute sum and its sign.
      where: mask of the elements to include; all by default.

    Returns:
      An array of an inexact dtype, or a pair of them. NaN where the sum is negative, if
      the sign is not returned.

    Raises:
      ValueError: if an axis is out of range or weights do not broadcast.
      TypeError: if an argument is not an array.

    >>> from curta import nn, numpy as jnp
    >>> nn.logsumexp(jnp.array([0.0, 0.0]))
    Array(0.6931472, dtype=float32)
    """
    if where is not None:
        a = jnp.where(where, a, 0)
    if b is not None:
        a, b = inexact_operands("logsumexp", a, b)
        a = jnp.where(b != 0, a, -np.inf)
    else:
        (a,) = inexact_operands("logsumexp", a)
    dims, names = named_axes(axis, a.ndim)
    axes: Any = (*dims, *names)
    largest = jnp.max(
        a.real, axis=axes, keepdims=keepdims, where=where, initial=-np.inf
    )
    finite = jnp.isfinite(largest)
    largest = lax.stop_gradient(lax.select(finite, largest, lax.full_like(largest, 0)))
    shift = largest if keepdims else lax.expand_dims(largest, dims)
    terms = lax.exp(lax.sub(a, shift.astype(a.dtype)))
    if b is not None:
        terms = lax.mul(terms, b)
    total = terms.sum(axis=axes, keepdims=keepdims, where=where)
    sign = lax.sign(total)
    is_complex = dtypes.issubdtype(a.dtype, np.complexfloating)
    if return_sign or not is_complex:
        total = abs(total)
    out = lax.add(lax.log(total), largest.astype(total.dtype))
    if return_sign:
        return out, sign
    if b is not None and not is_complex:
        out = jnp.where(sign < 0, jnp.array(np.nan, dtype=out.dtype), out)
    return out


@inner_jit(static_argnames=("axis", "keepdims"))
def logmeanexp(
    x: ArrayLike,
    axis: Axis = None,
    where: ArrayLike | None = None,
    keepdims: bool = False,
) -> Array:
    """log(mean(exp(x))), without overflow.

    Args:
      x: array; integers count as floats.
      axis: the axes of the mean, by default all.
      where: mask of the elements to include; all by default.
      keepdims: keep these axes with size 1.

    Returns:
      An array of an inexact dtype.

    Raises:
      ValueError: if an axis is out of range or the mask does not broadcast.
      TypeError: if an argument is not an array.

    >>> from curta import nn, numpy as jnp
    >>> nn.logmeanexp(jnp.array([1.0, 1.0]))
    Array(1., dtype=float32)
    """
    total = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    if where is None:
        count = total.dtype.type(np.size(x) // max(total.size, 1))
    else:
        ones = jnp.ones_like(x, dtype=total.dtype)
        count = jnp.sum(ones, axis=axis, where=where, keepdims=keepdims)
    return total - jnp.log(count)


@inner_jit(static_argnames=("axis",))
def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """log(softmax(x)) along `axis`, without overflow.

    Args:
      x: array; integers count as floats.
      axis: the axis, or several; the last by default.
      where: mask of the elements to include; -inf elsewhere.

    Returns:
      An array of the shape of x and an inexact dtype.

    Raises:
      ValueError: if an axis is out of range or the mask is not of booleans.
      TypeError: if an argument is not an array.

    >>> from curta import nn, numpy as jnp
    >>> nn.log_softmax(jnp.array([0.0, 0.0]))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    x = ensure_operand("log_softmax", x)
    largest = jnp.max(x, axis, where=where, initial=-np.inf, keepdims=True)
    safe = x if where is None else jnp.where(where, x, -np.inf)
    shifted = safe - lax.stop_gradient(largest)
    total = jnp.log(jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True))
    result = shifted - total
    return result if where is None else jnp.where(where, result, -np.inf)


@inlined_jit(static_argnames=("axis",))
def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """exp(x) / sum(exp(x)) along `axis`, without overflow.

    Args:
      x: array; integers count as floats.
      axis: the axis, or several; the last by default.
      where: mask of the elements to include; 0 elsewhere.

    Returns:
      An array of the shape of x and an inexact dtype.

    Raises:
      ValueError: if an axis is out of range or the mask does not broadcast.
      TypeError: if an argument is not an array.

    >>> from curta import nn, numpy as jnp
    >>> nn.softmax(jnp.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    if config.jax_softmax_custom_jvp:
        return _softmax(x, axis, where)
    return _softmax_plain(x, axis, where)


def _softmax_plain(
    x: Any, axis: Axis = -1, where: Any = None, initial: Any = -np.inf
) -> Any:
    largest = jnp.max(x, axis, where=where, initial=initial, keepdims=True)
    return _softmax_of(x, lax.stop_gradient(largest), axis, where, initial)


def _softmax_of(x: Any, largest: Any, axis: Axis, where: Any, initial: Any) -> Any:
    safe = x if where is None else jnp.where(where, x, initial)
    terms = jnp.exp(safe - largest)
    result = terms / jnp.sum(terms, axis, where=where, keepdims=True)
    return result if where is None else jnp.where(where, result, 0)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _softmax(x: Any, axis: Axis = -1, where: Any = None, initial: Any = -np.inf) -> Any:
    largest = jnp.max(x, axis, where=where, initial=initial, keepdims=True)
    return _softmax_of(x, largest, axis, where, initial)


@_softmax.defjvp
def _softmax_jvp(axis: Axis, primals: Any, tangents: Any) -> Any:
    (x, where, initial), (dot, _, _) = primals, tangents
    y = _softmax(x, axis, where, initial)
    return y, y * (dot - (y * dot).sum(axis, where=where, keepdims=True))


@inner_jit(static_argnames=("axis", "algorithm"))
def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """(x - mean) / sqrt(variance + epsilon), statistics taken along `axis`.

    Args:
      x: array; integers count as floats.
      axis: the axis, or several; the last by default.
      mean, variance: the statistics, if they are known.
      epsilon: added to the variance; 1e-5 by default.
      where: mask of the elements that count for the statistics; all by default.
      algorithm: "fast", the mean of the squares less the squared mean, or "stable", the
        mean of the squared differences.

    Returns:
      An array of the shape of x and an inexact dtype.

    Raises:
      ValueError: if an axis is out of range or the algorithm is unknown.
      TypeError: if an argument is not an array; for statistics that do not broadcast.

    >>> from curta import nn, numpy as jnp
    >>> nn.standardize(jnp.array([-1.0, 1.0]), epsilon=0.0)
    Array([-1.,  1.], dtype=float32)
    """
    check_arraylike("standardize", x)
    check_arraylike_or_none("standardize", mean, variance, where)
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        if algorithm == "stable":
            centred = jnp.square(jnp.subtract(x, mean))
            variance = jnp.mean(centred, axis, keepdims=True, where=where)
        elif algorithm == "fast":
            squares = jnp.mean(jnp.square(x), axis, keepdims=True, where=where)
            variance = jnp.clip(squares - jnp.square(mean), 0)
        else:
            raise ValueError(
                f"Unknown algorithm '{algorithm}'. Expected 'fast' or 'stable'."
            )
    return jnp.subtract(x, mean) * lax.rsqrt(variance + epsilon)


@takes_out_sharding
def one_hot(
    x: Any,
    num_classes: int,
    *,
    dtype: Any = None,
    axis: int = -1,
    out_sharding: Any = None,
) -> Array:
    """Indices as vectors of zeros with a one at the index.

    Args:
      x: integer array.
      num_classes: the length of the vectors, a static int; an index out of range gives
        zeros.
      dtype: of the result, by default the default float.
      axis: the dim of the vectors in the result, last by default; or the name of a
        mapped axis of `num_classes` indices, each of them with its part of the vectors.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array with one more dim than x.

    Raises:
      TypeError: if an argument is not an array or a dtype is invalid; for a number that
        is not an integer or negative.
      ValueError: if an axis is out of range.
      NameError: if an axis name is not bound.
      ConcretizationTypeError: for a traced number.

    >>> from curta import nn, numpy as jnp
    >>> nn.one_hot(jnp.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    x = jnp.asarray(x)
    if not dtypes.issubdtype(x.dtype, np.integer):
        warn(
            f"jax.nn.one_hot input should be integer-typed; got dtype={x.dtype}",
            DeprecationWarning,
        )
    wanted = float if dtype is None else dtype
    chosen = dtypes.check_user_dtype(wanted, "one_hot")
    context = "The error arose in jax.nn.one_hot argument `num_classes`."
    count = concrete(num_classes, context, as_dim)
    try:
        operator.index(axis)
    except TypeError:
        return _part_of_one_hot(x, count, chosen, axis)
    return _one_hot(x, count, dtype=chosen, axis=axis)


@inner_jit(static_argnames=("num_classes", "dtype", "axis"))
def _one_hot(x: Any, num_classes: int, *, dtype: Any, axis: int) -> Any:
    class_axis = canonical_axis(axis, typeof(x).ndim + 1)
    indices = lax.expand_dims(x, (operator.index(axis),))
    shape = [1] * typeof(x).ndim
    shape.insert(class_axis, num_classes)
    classes = lax.broadcasted_iota(typeof(x).dtype, shape, class_axis)
    return (indices == classes).astype(dtype)


def _part_of_one_hot(x: Any, num_classes: int, dtype: Any, axis: Any) -> Any:
    size = lax.axis_size(axis)
    if size != num_classes:
        raise ValueError(
            f"Expected num_classes to match the size of axis {axis}, but"
            f" {num_classes} != {size}"
        )
    return (x == lax.axis_index(axis)).astype(dtype)
