"""Distributions with parameters, whose draws are functions of uniform ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import check_arraylike
from curta.random.keys import check_key, split_key
from curta.random.samplers import normal, uniform
from curta.random.shapes import (
    constant,
    float_dtype,
    parameter_shape,
    sample_shape,
)
from curta.random.transformed import exponential, maxwell, rademacher

Shape = Sequence[int]
_ONE = np.float32(1.0)


@takes_out_sharding
def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws from the standard normal distribution, given that lower < x < upper.

    Args:
      key: a single key.
      lower, upper: the bounds, broadcast to `shape`.
      shape: the shape of the result, by default the broadcast shape of the parameters.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, `dtype` is not a float dtype, or
          parameters do not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.

    >>> from curta import random
    >>> random.truncated_normal(random.key(0), -1.0, 1.0, (2,)).shape
    (2,)
    """
    typed, _ = check_key("truncated_normal", key)
    chosen = float_dtype("truncated_normal", dtype)
    shape = parameter_shape("truncated_normal", shape, lower, upper)
    return _truncated_normal(typed, lower, upper, shape, chosen)


@inner_jit(static_argnames=("shape", "dtype"))
def _truncated_normal(
    key: Any, lower: Any, upper: Any, shape: tuple[int, ...], dtype: Any
) -> Any:
    root = np.array(np.sqrt(2), dtype)
    lower = lax.convert_element_type(lower, dtype)
    upper = lax.convert_element_type(upper, dtype)
    low, high = lax.erf(lower / root), lax.erf(upper / root)
    out = root * lax.erf_inv(uniform(key, shape, dtype, minval=low, maxval=high))
    infinity = np.array(np.inf, dtype)
    return jnp.clip(
        out,
        lax.nextafter(lax.stop_gradient(lower), infinity),
        lax.nextafter(lax.stop_gradient(upper), -infinity),
    )


@takes_out_sharding
def pareto(
    key: ArrayLike,
    b: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws with density b / x**(b + 1) for x >= 1.

    Args:
      key: a single key.
      b: the shape parameter, positive, broadcast to `shape`.
      shape: the shape of the result, by default the shape of `b`.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, `dtype` is not a float dtype, or `b`
          does not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.
      TypePromotionError: if `dtype` cannot hold `b`.

    >>> from curta import random
    >>> random.pareto(random.key(0), 3.0, (2,)).shape
    (2,)
    """
    typed, _ = check_key("pareto", key)
    shape = parameter_shape("pareto", shape, b)
    return _pareto(typed, b, shape, float_dtype("pareto", dtype, b))


@inner_jit(static_argnames=("shape", "dtype"))
def _pareto(key: Any, b: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    b = lax.convert_element_type(b, dtype)
    return lax.exp(exponential(key, shape, dtype) / b)


@takes_out_sharding
def rayleigh(
    key: ArrayLike,
    scale: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws with density x / scale**2 exp(-x**2 / (2 scale**2)) for x >= 0.

    Args:
      key: a single key.
      scale: positive, broadcast to `shape`.
      shape: the shape of the result, by default the shape of `scale`.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, `dtype` is not a float dtype, or `scale`
          does not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.
      TypePromotionError: if `dtype` cannot hold `scale`.

    >>> from curta import random
    >>> random.rayleigh(random.key(0), 2.0, (2,)).shape
    (2,)
    """
    typed, _ = check_key("rayleigh", key)
    shape = parameter_shape("rayleigh", shape, scale)
    dtypes.dtype(scale)  # raises TypeError or ValueError for what is no array
    scale = jnp.asarray(scale)
    return _rayleigh(typed, scale, shape, float_dtype("rayleigh", dtype, scale))


@inner_jit(static_argnames=("shape", "dtype"))
def _rayleigh(key: Any, scale: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    u = uniform(key, shape, dtype)
    scale = jnp.broadcast_to(scale.astype(dtype), shape)
    log_u = lax.log(u)
    return lax.mul(scale, lax.sqrt(lax.mul(log_u, constant(u, -2))))


@takes_out_sharding
def wald(
    key: ArrayLike,
    mean: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws from the inverse Gaussian distribution of this mean and scale 1.

    Source: J. R. Michael, W. R. Schucany, R. W. Haas, "Generating Random Variates
    Using Transformations with Multiple Roots", 1976.

    Args:
      key: a single key.
      mean: positive, broadcast to `shape`.
      shape: the shape of the result, by default the shape of `mean`.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, `dtype` is not a float dtype, or `mean`
          does not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.
      TypePromotionError: if `dtype` cannot hold `mean`.

    >>> from curta import random
    >>> random.wald(random.key(0), 2.0, (2,)).shape
    (2,)
    """
    typed, _ = check_key("wald", key)
    shape = parameter_shape("wald", shape, mean)
    return _wald(typed, jnp.asarray(mean), shape, float_dtype("wald", dtype, mean))


@inner_jit(static_argnames=("shape", "dtype"))
def _wald(key: Any, mean: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    key_y, key_z = split_key(key)
    mean = jnp.broadcast_to(mean.astype(dtype), shape)
    v = normal(key_y, shape, dtype)
    z = uniform(key_z, shape, dtype)
    y = lax.integer_pow(v, 2)
    y_squared = lax.integer_pow(y, 2)
    mean_squared = lax.integer_pow(mean, 2)
    root = lax.sqrt(4 * mean * y + mean_squared * y_squared)
    x = mean + mean_squared * y / 2 - mean / 2 * root
    return lax.select(lax.le(z, mean / (mean + x)), x, mean_squared / x)


@takes_out_sharding
def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws whose density rises from `left` to `mode` and falls to `right`.

    Args:
      key: a single key.
      left, mode, right: the ends and the point of the greatest density, in ascending
        order, broadcast to `shape`.
      shape: the shape of the result, by default the broadcast shape of the parameters.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, `dtype` is not a float dtype, or
          parameters do not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.
      TypePromotionError: if `dtype` cannot hold the parameters.

    >>> from curta import random
    >>> random.triangular(random.key(0), 0.0, 1.0, 3.0, (2,)).shape
    (2,)
    """
    typed, _ = check_key("triangular", key)
    chosen = float_dtype("triangular", dtype, left, mode, right)
    shape = parameter_shape("triangular", shape, left, mode, right)
    left, right, mode = (
        jnp.broadcast_to(lax.convert_element_type(x, chosen), shape)
        for x in (left, right, mode)
    )
    threshold = (mode - left) / (right - left)
    u = uniform(typed, shape, chosen)
    rising = left + lax.sqrt(u * (right - left) * (mode - left))
    falling = right - lax.sqrt((1 - u) * (right - left) * (right - mode))
    return lax.select(u < threshold, rising, falling)


@takes_out_sharding
def lognormal(
    key: ArrayLike,
    sigma: ArrayLike = _ONE,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """exp(sigma times a standard normal draw), which may be complex.

    Args:
      key: a single key.
      sigma: the standard deviation of the logarithm, broadcast to `shape`; 1 by
        default.
      shape: the shape of the result, by default the shape of `sigma`.
      dtype: a float or complex dtype, by default the default float one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, `dtype` is not a float or complex dtype,
          or `sigma` does not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.
      TypePromotionError: if `dtype` cannot hold `sigma`.

    >>> from curta import random
    >>> random.lognormal(random.key(0), 0.5, (2,)).shape
    (2,)
    """
    typed, _ = check_key("lognormal", key)
    chosen = float_dtype("lognormal", dtype, sigma, or_complex=True)
    shape = parameter_shape("lognormal", shape, sigma)
    sigma = lax.convert_element_type(sigma, chosen)
    return lax.exp(normal(typed, shape, chosen) * sigma)


def weibull_min(
    key: ArrayLike,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Draws with distribution function 1 - exp(-(x / scale)**concentration).

    Args:
      key: a single key.
      scale, concentration: positive, broadcast to `shape`.
      shape: the shape of the result; () by default.
      dtype: a float dtype, by default the default one.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys or `dtype` is not a float dtype.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not an
        array; for parameters that do not broadcast to `shape`.

    >>> from curta import random
    >>> random.weibull_min(random.key(0), 1.0, 2.0, (2,)).shape
    (2,)
    """
    typed, _ = check_key("weibull_min", key)
    check_arraylike("weibull_min", scale, concentration)
    chosen = float_dtype("weibull_min", dtype)
    return _weibull_min(typed, scale, concentration, sample_shape(shape), chosen)


@inner_jit(static_argnames=("shape", "dtype"))
def _weibull_min(
    key: Any, scale: Any, concentration: Any, shape: tuple[int, ...], dtype: Any
) -> Any:
    u = uniform(key, shape, minval=0, maxval=1, dtype=dtype)
    return jnp.power(-jnp.log1p(-u), 1.0 / concentration) * scale


def double_sided_maxwell(
    key: ArrayLike,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """loc plus or minus scale times a Maxwell draw.

    Args:
      key: a single key.
      loc, scale: arrays that broadcast with each other, of shape s say.
      shape: how many draws for each; () for one.
      dtype: a float dtype, by default the default one.

    Returns:
      An array of shape `(*shape, *s)` and this dtype.

    Raises:
      ValueError: if `key` is an array of keys or `dtype` is not a float dtype.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.

    >>> from curta import random
    >>> random.double_sided_maxwell(random.key(0), 0.0, 1.0, (2,)).shape
    (2,)
    """
    typed, _ = check_key("double_sided_maxwell", key)
    check_arraylike("double_sided_maxwell", loc, scale)
    chosen = float_dtype("double_sided_maxwell", dtype)
    shape = sample_shape(shape)
    return _double_sided_maxwell(typed, loc, scale, shape, chosen)


@inner_jit(static_argnames=("shape", "dtype"))
def _double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: tuple[int, ...], dtype: Any
) -> Any:
    parameters = np.broadcast_shapes(np.shape(loc), np.shape(scale))
    shape = (shape or parameters) + parameters
    key_size, key_sign = split_key(key)
    size = maxwell(key_size, shape, dtype)
    return rademacher(key_sign, shape, dtype) * size * scale + loc
