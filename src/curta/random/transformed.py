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
from curta.numpy.arguments import check_arraylike
from curta.random.keys import check_key, random_bits, split_key
from curta.random.samplers import bernoulli, normal, uniform, uniform_draws
from curta.random.shapes import (
    asked_dtype,
    constant,
    float_dtype,
    parameter_shape,
    sample_shape,
)

Shape = Sequence[int]
_ONE = np.float32(1.0)


@takes_out_sharding
def exponential(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws with density exp(-x) for x >= 0: -log(1 - u).

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
      shape: the shape of the result.
      dtype: a float dtype.
      mode: 'low', 'high' or 'highest': how far the tails reach.

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
    turn = (mode - left) / (right - left)
    u = uniform(typed, shape, chosen)
    rising = left + lax.sqrt(u * (right - left) * (mode - left))
    falling = right - lax.sqrt((1 - u) * (right - left) * (right - mode))
    return lax.select(u < turn, rising, falling)


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


@takes_out_sharding
def rademacher(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Signs: -1 or 1 with equal probability.

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


def double_sided_maxwell(
    key: ArrayLike,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """loc plus or minus scale times a Maxwell draw.

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
