"""Choosing among alternatives: categorical, choice, geometric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.trace import concrete_or_error
from curta.numpy.arguments import axis_of_shape, canonical_axis, check_arraylike
from curta.numpy.promotion import promote_dtypes_inexact
from curta.random.keys import check_key
from curta.random.samplers import permutation, randint, uniform
from curta.random.shapes import asked_dtype, check_shape, parameter_shape, sample_shape
from curta.random.transformed import gumbel

Shape = Sequence[int]


@takes_out_sharding
def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: Shape | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Indices along `axis`, each with probability softmax(logits).

    Drawn as the largest of logits plus Gumbel noise.

    Args:
      key: a single key.
      logits: unnormalized log-probabilities.
      axis: the axis of the alternatives; the last by default.
      shape: the shape of the result; it ends in the other dims of `logits`, which are
        the default.
      replace: whether an index may be drawn twice along the leading dims of `shape`.
      mode: as of `gumbel`.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of integers of this shape.

    Raises:
      ValueError: if `key` has several keys, `axis` is out of range, `shape` does not
        fit, there are more draws than alternatives without `replace`, or the mode is
        unknown.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.

    >>> from curta import random, numpy as jnp
    >>> random.categorical(random.key(0), jnp.array([-100.0, 0.0, -100.0]), shape=(3,))
    Array([1, 1, 1], dtype=int32)
    """
    typed, _ = check_key("categorical", key)
    check_arraylike("categorical", logits)
    logits = jnp.asarray(logits)
    dim = axis_of_shape(axis, logits.ndim)
    batch = logits.shape[:dim] + logits.shape[dim + 1 :]
    if shape is None:
        shape = batch
    else:
        shape = sample_shape(shape)
        check_shape("categorical", shape, batch)
    prefix = shape[: len(shape) - len(batch)]
    if not replace:
        return _without_replacement(typed, logits, dim, prefix, mode)
    inner = list(shape[len(shape) - len(batch) :])
    inner.insert(dim, logits.shape[dim])
    noise = gumbel(typed, (*prefix, *inner), logits.dtype, mode=mode)
    widened = lax.expand_dims(logits, tuple(range(len(prefix))))
    return jnp.argmax(noise + widened, axis=dim - logits.ndim)


def _without_replacement(
    key: Any, logits: Any, axis: int, prefix: tuple[int, ...], mode: str | None
) -> Any:
    count = math.prod(prefix)
    if count > logits.shape[axis]:
        raise ValueError(
            f"Number of samples without replacement ({count}) cannot exceed number of"
            f" categories ({logits.shape[axis]})."
        )
    noisy = logits + gumbel(key, logits.shape, logits.dtype, mode=mode)
    _, indices = lax.top_k(jnp.moveaxis(noisy, axis, -1), count)
    moved = jnp.moveaxis(indices, -1, 0)
    return lax.reshape(moved, (*prefix, *moved.shape[1:]))


def choice(
    key: ArrayLike,
    a: int | float | ArrayLike,
    shape: Shape = (),
    replace: bool = True,
    p: Array | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Random slices of an array along `axis`, or integers below `a`.

    Args:
      key: a single key.
      a: an array, or an integer standing for range(a).
      shape: how many draws, as a shape; () by default.
      replace: whether a slice may be drawn twice.
      p: probabilities along the axis, by default all equal.
      axis: the axis to draw from; 0 by default.
      mode: as of `gumbel`, for draws without replacement.

    Returns:
      The shape of `a` with `shape` instead of the axis; the dtype of `a`.

    Raises:
      ValueError: if `key` has several keys, `a` has 0 slices, there are more draws than
        slices without `replace`, `p` does not fit, or `axis` is out of range.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.
      ConcretizationTypeError: if `a` is a traced integer.

    >>> from curta import random
    >>> random.choice(random.key(0), 5, (3,)).shape
    (3,)
    """
    typed, _ = check_key("choice", key)
    if not isinstance(shape, Sequence):
        raise TypeError(
            f"shape argument of jax.random.choice must be a sequence, got {shape}"
        )
    check_arraylike("choice", a)
    array = jnp.asarray(a)
    if array.ndim == 0:
        count = concrete_or_error(int, a, "The error occurred in jax.random.choice()")
    else:
        axis = canonical_axis(axis, array.ndim)
        count = array.shape[axis]
    draws = math.prod(shape)
    if draws == 0:
        return jnp.zeros(tuple(shape), dtype=array.dtype)
    if count <= 0:
        raise ValueError("a must be greater than 0 unless no samples are taken")
    if not replace and draws > count:
        raise ValueError(
            f"Cannot take a larger sample (size {draws}) than population (size"
            f" {count}) when 'replace=False'"
        )
    result = _chosen(typed, array, count, tuple(shape), replace, p, axis, mode)
    rest = array.shape[:axis] + tuple(shape) + array.shape[axis + 1 :]
    return result.reshape(tuple(shape) if array.ndim == 0 else rest)


def _chosen(
    key: Any,
    array: Any,
    count: int,
    shape: tuple[int, ...],
    replace: bool,
    p: Any,
    axis: int,
    mode: str | None,
) -> Any:
    draws = math.prod(shape)
    if p is None and not replace:
        kept = (slice(None),) * axis + (slice(draws),)
        return permutation(key, count if array.ndim == 0 else array, axis)[kept]
    if p is None:
        indices = randint(key, shape, 0, count)
    else:
        check_arraylike("choice", p)
        (weights,) = promote_dtypes_inexact(p)
        if weights.shape != (count,):
            raise ValueError(
                "p must be None or a 1D vector with the same size as a.shape[axis]. p"
                f" has shape {weights.shape} and a.shape[axis] is {count}."
            )
        if replace:
            total = jnp.cumsum(weights)
            u = total[-1] * (1 - uniform(key, shape, dtype=total.dtype))
            indices = jnp.searchsorted(total, u).astype(int)
        else:
            noise = gumbel(key, (count,), dtype=weights.dtype, mode=mode)
            indices = lax.top_k(noise + jnp.log(weights), k=draws)[1].astype(int)
    return indices if array.ndim == 0 else jnp.take(array, indices, axis)


@takes_out_sharding
def geometric(
    key: ArrayLike,
    p: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """The number of trials up to the first success, of probability `p` each.

    Args:
      key: a single key.
      p: probabilities in (0, 1], broadcast to `shape`.
      shape: the shape of the result, by default the shape of `p`.
      dtype: an integer dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, `dtype` is not an integer dtype, or `p`
          does not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.

    >>> from curta import random
    >>> random.geometric(random.key(0), 1.0, (2,))
    Array([1, 1], dtype=int32)
    """
    typed, _ = check_key("geometric", key)
    chosen = asked_dtype(dtype, int)
    if not dtypes.issubdtype(chosen, np.integer):
        raise ValueError(
            f"dtype argument to `geometric` must be an int dtype, got {chosen}"
        )
    shape = parameter_shape("geometric", shape, p)
    return _geometric(typed, p, shape, chosen)


@inner_jit(static_argnames=("shape", "dtype"))
def _geometric(key: Any, p: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    check_arraylike("geometric", p)
    (p,) = promote_dtypes_inexact(p)
    u = uniform(key, shape, p.dtype)
    log_u = lax.log(jnp.where(u == 0, 1, u))
    log_failure = jnp.broadcast_to(lax.log1p(-p), shape)
    return (lax.floor(lax.div(log_u, log_failure)) + 1).astype(dtype)
