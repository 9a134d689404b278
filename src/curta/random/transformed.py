"""Continuous distributions whose draws are functions of uniform and normal draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.api.out_sharding import takes_out_sharding
from curta.config import config
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.random.keys import check_key, random_bits
from curta.random.samplers import bernoulli, normal, uniform, uniform_draws
from curta.random.shapes import (
    asked_dtype,
    float_dtype,
    sample_shape,
)

Shape = Sequence[int]


@takes_out_sharding
def exponential(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws with density exp(-x) for x >= 0: -log(1 - u) of uniform u.

    Args:
      key: a single key.
      shape: the shape of the result; () by default.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys or `dtype` is not a float dtype.
      TypeError: if `key` is not a key or `shape` is not a shape.

    >>> from curta import random
    >>> random.exponential(random.key(0), (2,)).shape
    (2,)
    """
    typed, _ = check_key("exponential", key)
    return _exponential(typed, sample_shape(shape), float_dtype("exponential", dtype))


@inner_jit(static_argnames=("shape", "dtype"))
def _exponential(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return lax.neg(lax.log1p(lax.neg(uniform(key, shape, dtype))))


@takes_out_sharding
def laplace(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws with density exp(-abs(x)) / 2.

    Args:
      key: a single key.
      shape: the shape of the result; () by default.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys or `dtype` is not a float dtype.
      TypeError: if `key` is not a key or `shape` is not a shape.

    >>> from curta import random
    >>> random.laplace(random.key(0), (2,)).shape
    (2,)
    """
    typed, _ = check_key("laplace", key)
    return _laplace(typed, sample_shape(shape), float_dtype("laplace", dtype))


@inner_jit(static_argnames=("shape", "dtype"))
def _laplace(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    low = -1.0 + dtypes.finfo(dtype).epsneg
    u = uniform(key, shape, dtype, minval=low, maxval=1.0)
    return lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u))))


@takes_out_sharding
def logistic(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws whose distribution function is 1 / (1 + exp(-x)).

    Args:
      key: a single key.
      shape: the shape of the result; () by default.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys or `dtype` is not a float dtype.
      TypeError: if `key` is not a key or `shape` is not a shape.

    >>> from curta import random
    >>> random.logistic(random.key(0), (2,)).shape
    (2,)
    """
    typed, _ = check_key("logistic", key)
    return _logistic(typed, sample_shape(shape), float_dtype("logistic", dtype))


@inner_jit(static_argnames=("shape", "dtype"))
def _logistic(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    u = uniform(key, shape, dtype, minval=dtypes.finfo(dtype).tiny, maxval=1.0)
    return lax.sub(lax.log(u), lax.log1p(lax.neg(u)))


@takes_out_sharding
def cauchy(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws with density 1 / (pi (x**2 + 1)).

    Args:
      key: a single key.
      shape: the shape of the result; () by default.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys or `dtype` is not a float dtype.
      TypeError: if `key` is not a key or `shape` is not a shape.

    >>> from curta import random
    >>> random.cauchy(random.key(0), (2,)).shape
    (2,)
    """
    typed, _ = check_key("cauchy", key)
    return _cauchy(typed, sample_shape(shape), float_dtype("cauchy", dtype))


@inner_jit(static_argnames=("shape", "dtype"))
def _cauchy(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    u = uniform(key, shape, dtype, minval=dtypes.finfo(dtype).eps, maxval=1.0)
    centred = lax.sub(u, np.array(0.5, dtype))
    return lax.tan(lax.mul(np.array(np.pi, dtype), centred))


@takes_out_sharding
def gumbel(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws whose distribution function is exp(-exp(-x)).

    Args:
      key: a single key.
      shape: the shape of the result; () by default.
      dtype: a float dtype, by default the default one.
      mode: 'low', 'high' or 'highest': how far the tails reach; by default as the
        setting jax_high_dynamic_range_gumbel says.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, `dtype` is not a float dtype, or the
          mode is unknown.
      TypeError: if `key` is not a key or `shape` is not a shape.

    >>> from curta import random
    >>> random.gumbel(random.key(0), (2,)).shape
    (2,)
    """
    typed, _ = check_key("gumbel", key)
    chosen = float_dtype("gumbel", dtype)
    if mode is None:
        mode = "high" if config.jax_high_dynamic_range_gumbel else "low"
    if mode not in ("highest", "high", "low"):
        raise ValueError(f"Must provide valid mode for gumbel got: {mode}")
    return _gumbel(typed, sample_shape(shape), chosen, mode)


@inner_jit(static_argnames=("shape", "dtype", "mode"))
def _gumbel(key: Any, shape: tuple[int, ...], dtype: Any, mode: str) -> Any:
    info = dtypes.finfo(dtype)
    if mode == "low":
        u = uniform_draws(key, minval=info.tiny, maxval=1.0, shape=shape, dtype=dtype)
        return -jnp.log(-jnp.log(u))
    if mode == "highest" and dtype == np.float32:
        return _gumbel_from_64_bits(key, shape)
    high, low = uniform_draws(
        key, minval=0.0, maxval=1.0, shape=(2, *shape), dtype=dtype
    )
    # The second draw fills the bits that the first lacks near zero.
    coarse = high >= 0.5
    x = jnp.where(coarse, high, high + 2.0**-info.nmant * low + info.tiny)
    return -jnp.log(-jnp.log1p(-x))


def _gumbel_from_64_bits(key: Any, shape: tuple[int, ...]) -> Any:
    """Gumbel draws whose tails have the resolution of 64 random bits."""
    bits = random_bits(key, 32, (2, *shape))
    negated = lax.bitwise_not(bits)
    full = np.array(0xFFFFFFFF, np.uint32)
    carry = jnp.stack([negated[1] == full, jnp.ones_like(negated[1], dtype=bool)])
    negated = negated + carry.astype(np.uint32)
    lower_half = bits[0] < np.array(1 << 31, np.uint32)
    x = _fraction(jnp.where(lower_half, bits, negated))
    return jnp.where(lower_half, -jnp.log(-jnp.log1p(-x)), -jnp.log(-jnp.log(x)))


def _fraction(bits: Any) -> Any:
    """64 bits, as high and low words, as a float32 in [0, 1) rounded down."""
    info = dtypes.finfo(np.float32)
    high_zeros, low_zeros = lax.clz(bits)
    high, low = bits
    no_high = high_zeros == 32
    mantissa = lax.bitwise_or(
        lax.shift_left(high, high_zeros),
        jnp.where(
            no_high,
            lax.shift_left(low, low_zeros),
            lax.shift_right_logical(low, info.bits - high_zeros),
        ),
    )
    mantissa = lax.shift_right_logical(
        mantissa, np.array(info.bits - info.nmant - 1, np.uint32)
    )
    mantissa = lax.bitwise_and(mantissa, np.array((1 << info.nmant) - 1, np.uint32))
    zeros = jnp.where(no_high, 32 + low_zeros, high_zeros)
    exponent = lax.shift_left(-info.minexp - zeros, np.array(info.nmant, np.uint32))
    mask = (1 << (info.bits - 2)) - (1 << (info.nmant - 1))
    exponent = lax.bitwise_and(exponent, np.array(mask, np.uint32))
    return lax.bitcast_convert_type(lax.bitwise_or(exponent, mantissa), np.float32)


@takes_out_sharding
def rademacher(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Signs: -1 or 1 with equal probability.

    Args:
      key: a single key.
      shape: the shape of the result; () by default.
      dtype: a dtype of numbers, by default the default integer one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys.
      TypeError: if `key` is not a key or `shape` is not a shape.

    >>> from curta import random
    >>> random.rademacher(random.key(0), (2,)).dtype
    dtype('int32')
    """
    typed, _ = check_key("rademacher", key)
    chosen = asked_dtype(dtype, int)
    return _rademacher(typed, sample_shape(shape), chosen)


@inner_jit(static_argnames=("shape", "dtype"))
def _rademacher(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    ones = bernoulli(key, p=0.5, shape=shape).astype(dtype)
    return (2 * ones - 1).astype(dtype)


@takes_out_sharding
def maxwell(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Lengths of vectors of three standard normal draws.

    The density is sqrt(2 / pi) x**2 exp(-x**2 / 2) for x >= 0.

    Args:
      key: a single key.
      shape: the shape of the result; () by default.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys or `dtype` is not a float dtype.
      TypeError: if `key` is not a key or `shape` is not a shape.

    >>> from curta import random
    >>> random.maxwell(random.key(0), (2,)).shape
    (2,)
    """
    typed, _ = check_key("maxwell", key)
    return _maxwell(typed, sample_shape(shape), float_dtype("maxwell", dtype))


@inner_jit(static_argnames=("shape", "dtype"))
def _maxwell(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    vectors = normal(key, (*shape, 3), dtype)
    return jnp.linalg.norm(vectors, axis=-1)
