"""The gamma distribution and those made from it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.api.inner import inner_jit
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.nn.normalisation import softmax
from curta.numpy.arguments import check_arraylike, concrete
from curta.random.approximate import check_method, gamma_approximate
from curta.random.keys import check_key, random_gamma, split_key
from curta.random.samplers import normal
from curta.random.shapes import (
    check_shape,
    constant,
    float_dtype,
    parameter_shape,
    sample_shape,
)
from curta.random.transformed import exponential, rademacher

Shape = Sequence[int]


@takes_out_sharding
def gamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: Any = None,
) -> Array:
    """Draws with density x**(a - 1) exp(-x) / gamma(a), differentiable in `a`.

    Args:
      key: a single key.
      a: positive shape parameters, broadcast to `shape`.
      shape: the shape of the result, by default the shape of `a`.
      dtype: a float dtype, by default the default one.
      method: 'exact' (default) draws and rejects in a loop; 'approximate' has no loop,
        is faster, and off by little: 0.05 % of the quantiles.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, the method is unknown, `dtype` is not a
          float dtype, or `a` does not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.

    >>> from curta import random
    >>> random.gamma(random.key(0), 2.0, (3,)).shape
    (3,)
    """
    typed, _ = check_key("gamma", key)
    chosen = float_dtype("gamma", dtype)
    check_method("gamma", method)
    draw = gamma_approximate if method == "approximate" else _gamma
    return draw(typed, a, parameter_shape("gamma", shape, a), chosen, False)


@takes_out_sharding
def loggamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: Any = None,
) -> Array:
    """The logarithms of gamma draws, accurate where those are close to 0.

    Args:
      key: a single key.
      a: positive shape parameters, broadcast to `shape`.
      shape: the shape of the result, by default the shape of `a`.
      dtype: a float dtype, by default the default one.
      method: 'exact' (default) draws and rejects in a loop; 'approximate' has no loop,
        is faster, and off by little: 0.05 % of the quantiles.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, the method is unknown, `dtype` is not a
          float dtype, or `a` does not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.

    >>> from curta import random
    >>> random.loggamma(random.key(0), 0.01, (3,)).shape
    (3,)
    """
    typed, _ = check_key("loggamma", key)
    chosen = float_dtype("loggamma", dtype)
    check_method("loggamma", method)
    draw = gamma_approximate if method == "approximate" else _gamma
    return draw(typed, a, parameter_shape("gamma", shape, a), chosen, True)


@inner_jit(static_argnames=("shape", "dtype", "log_space"))
def _gamma(
    key: Any, a: Any, shape: tuple[int, ...], dtype: Any, log_space: bool
) -> Any:
    a = jnp.broadcast_to(lax.convert_element_type(a, dtype), shape)
    return random_gamma(key, a, log_space)


@takes_out_sharding
def beta(
    key: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: Any = None,
) -> Array:
    """Draws with density proportional to x**(a - 1) (1 - x)**(b - 1) on (0, 1).

    Args:
      key: a single key.
      a, b: positive shape parameters, broadcast to `shape`.
      shape: the shape of the result, by default the broadcast shape of the parameters.
      dtype: a float dtype, by default the default one.
      method: 'exact' (default) draws and rejects in a loop; 'approximate' has no loop,
        is faster, and off by little: 0.05 % of the quantiles.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, the method is unknown, `dtype` is not a
          float dtype, or parameters do not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.
      TypePromotionError: if `dtype` cannot hold the parameters.

    >>> from curta import random
    >>> random.beta(random.key(0), 2.0, 3.0, (3,)).shape
    (3,)
    """
    typed, _ = check_key("beta", key)
    shape = parameter_shape("beta", shape, a, b)
    check_method("beta", method)
    return _beta(typed, a, b, shape, float_dtype("beta", dtype, a, b), method)


@inner_jit(static_argnames=("shape", "dtype", "method"))
def _beta(
    key: Any, a: Any, b: Any, shape: tuple[int, ...], dtype: Any, method: str
) -> Any:
    a, b = lax.convert_element_type(a, dtype), lax.convert_element_type(b, dtype)
    key_a, key_b = split_key(key)
    a, b = jnp.broadcast_to(a, shape), jnp.broadcast_to(b, shape)
    log_a = loggamma(key_a, a, shape, dtype, method=method)
    log_b = loggamma(key_b, b, shape, dtype, method=method)
    largest = lax.max(log_a, log_b)
    part_a, part_b = jnp.exp(log_a - largest), jnp.exp(log_b - largest)
    return part_a / (part_a + part_b)


@takes_out_sharding
def dirichlet(
    key: ArrayLike,
    alpha: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Probability vectors along the last axis.

    The density is proportional to the product of x_i**(alpha_i - 1).

    Args:
      key: a single key.
      alpha: positive concentrations along the last axis, (..., n).
      shape: the batch dims of the result, by default those of `alpha`.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of shape `(*shape, n)` and this dtype.

    Raises:
      ValueError: for several keys, a dtype that is not of floats, batch dims that do
        not broadcast to `shape`, and a scalar `alpha`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.

    >>> from curta import random, numpy as jnp
    >>> random.dirichlet(random.key(0), jnp.ones(4), (3,)).shape
    (3, 4)
    """
    typed, _ = check_key("dirichlet", key)
    if np.ndim(alpha) < 1:
        raise ValueError(
            f"dirichlet requires alpha.ndim >= 1, got alpha.ndim == {np.ndim(alpha)}"
        )
    check_arraylike("dirichlet", alpha)
    batch = np.shape(alpha)[:-1]
    shape = batch if shape is None else sample_shape(shape)
    check_shape("dirichlet", shape, batch)
    return _dirichlet(typed, alpha, shape, float_dtype("dirichlet", dtype))


@inner_jit(static_argnames=("shape", "dtype"))
def _dirichlet(key: Any, alpha: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    alpha = lax.convert_element_type(alpha, dtype)
    draws = loggamma(key, alpha, shape + np.shape(alpha)[-1:], dtype)
    return softmax(draws, -1)


@takes_out_sharding
def chisquare(
    key: ArrayLike,
    df: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: Any = None,
) -> Array:
    """Sums of `df` squared standard normal draws; `df` need not be an integer.

    Args:
      key: a single key.
      df: degrees of freedom, positive, broadcast to `shape`.
      shape: the shape of the result, by default the shape of `df`.
      dtype: a float dtype, by default the default one.
      method: 'exact' (default) draws and rejects in a loop; 'approximate' has no loop,
        is faster, and off by little: 0.05 % of the quantiles.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, the method is unknown, `dtype` is not a
          float dtype, or `df` does not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.
      TypePromotionError: if `dtype` cannot hold `df`.

    >>> from curta import random
    >>> random.chisquare(random.key(0), 3.0, (2,)).shape
    (2,)
    """
    typed, _ = check_key("chisquare", key)
    shape = parameter_shape("chisquare", shape, df)
    check_method("chisquare", method)
    return _chisquare(typed, df, shape, float_dtype("chisquare", dtype, df), method)


@inner_jit(static_argnames=("shape", "dtype", "method"))
def _chisquare(
    key: Any, df: Any, shape: tuple[int, ...], dtype: Any, method: str
) -> Any:
    df = lax.convert_element_type(df, dtype)
    two = constant(df, 2)
    half = loggamma(key, lax.div(df, two), shape, dtype, method=method)
    return lax.mul(jnp.exp(half), two)


@takes_out_sharding
def f(
    key: ArrayLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Quotients of two chi-square draws, each over its degrees of freedom.

    Args:
      key: a single key.
      dfnum, dfden: degrees of freedom above and below, positive, broadcast to `shape`.
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
    >>> random.f(random.key(0), 3.0, 5.0, (2,)).shape
    (2,)
    """
    typed, _ = check_key("f", key)
    shape = parameter_shape("f", shape, dfnum, dfden)
    return _f(typed, dfnum, dfden, shape, float_dtype("f", dtype, dfnum, dfden))


@inner_jit(static_argnames=("shape", "dtype"))
def _f(key: Any, dfnum: Any, dfden: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    dfden = lax.convert_element_type(dfden, dtype)
    dfnum = lax.convert_element_type(dfnum, dtype)
    key_below, key_above = split_key(key)
    above = chisquare(key_above, dfnum, shape, dtype)
    below = chisquare(key_below, dfden, shape, dtype)
    return lax.div(lax.div(above, dfnum), lax.div(below, dfden))


@takes_out_sharding
def t(
    key: ArrayLike,
    df: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws from Student's t distribution with `df` degrees of freedom.

    The density is proportional to (1 + x**2 / df)**(-(df + 1) / 2).

    Args:
      key: a single key.
      df: positive, broadcast to `shape`.
      shape: the shape of the result, by default the shape of `df`.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, `dtype` is not a float dtype, or `df`
          does not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.
      TypePromotionError: if `dtype` cannot hold `df`.

    >>> from curta import random
    >>> random.t(random.key(0), 3.0, (2,)).shape
    (2,)
    """
    typed, _ = check_key("t", key)
    chosen = float_dtype("t", dtype, df)
    wanted = None if shape is None else sample_shape(shape)
    return _t(typed, df, parameter_shape("t", wanted, df), chosen)


@inner_jit(static_argnames=("shape", "dtype"))
def _t(key: Any, df: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    df = lax.convert_element_type(df, dtype)
    key_n, key_g = split_key(key)
    n = normal(key_n, shape, dtype)
    half = lax.div(df, constant(n, 2))
    return n * jnp.sqrt(half / gamma(key_g, half, shape, dtype))


@takes_out_sharding
def generalized_normal(
    key: ArrayLike,
    p: float,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws with density proportional to exp(-abs(x)**p).

    Args:
      key: a single key.
      p: positive, broadcast to `shape`.
      shape: the shape of the result; () by default.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, `dtype` is not a float dtype, or `p`
          does not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.

    >>> from curta import random
    >>> random.generalized_normal(random.key(0), 2.0, (2,)).shape
    (2,)
    """
    typed, _ = check_key("generalized_normal", key)
    chosen = float_dtype("generalized_normal", dtype)
    return _generalized_normal(typed, p, sample_shape(shape), chosen)


@inner_jit(static_argnames=("shape", "dtype"))
def _generalized_normal(key: Any, p: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    keys = split_key(key)
    g = gamma(keys[0], 1 / p, shape, dtype)
    return rademacher(keys[1], shape, dtype) * g ** (1 / p)


@takes_out_sharding
def ball(
    key: ArrayLike,
    d: int,
    p: float = 2,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Uniform draws from the unit ball of the p-norm in `d` dimensions.

    Args:
      key: a single key.
      d: a known integer, not negative.
      p: the norm, positive; 2 by default.
      shape: the batch dims of the result; () by default.
      dtype: a float dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of shape `(*shape, d)` and this dtype.

    Raises:
      ValueError: if `key` is an array of keys or `dtype` is not a float dtype.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not an
        array; for a `d` that is not an integer or negative.
      ConcretizationTypeError: for a traced `d`.

    >>> from curta import random
    >>> random.ball(random.key(0), 3, shape=(2,)).shape
    (2, 3)
    """
    typed, _ = check_key("ball", key)
    chosen = float_dtype("ball", dtype)
    d = concrete(d, "The error occurred in jax.random.ball()", operator.index)
    return _ball(typed, p, d, sample_shape(shape), chosen)


@inner_jit(static_argnames=("d", "shape", "dtype"))
def _ball(key: Any, p: Any, d: int, shape: tuple[int, ...], dtype: Any) -> Any:
    key_g, key_e = split_key(key)
    g = generalized_normal(key_g, p, (*shape, d), dtype)
    e = exponential(key_e, shape, dtype)
    return g / (((jnp.abs(g) ** p).sum(-1) + e) ** (1 / p))[..., None]
