"""Activation functions, elementwise unless said otherwise."""

from __future__ import annotations

import math

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.api.custom_derivatives import custom_jvp
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import ensure_arraylike
from curta.numpy.promotion import inexact_operands


@inner_jit
def identity(x: ArrayLike) -> Array:
    """x itself, as an array.

    >>> from curta import nn
    >>> nn.identity(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return ensure_arraylike("identity", x)


@custom_jvp
@inner_jit
def relu(x: ArrayLike) -> Array:
    """max(x, 0), with derivative 0 at 0.

    >>> from curta import nn, numpy as jnp
    >>> nn.relu(jnp.array([-1.0, 2.0]))
    Array([0., 2.], dtype=float32)
    """
    return jnp.maximum(x, 0)


relu.defjvps(lambda g, ans, x: lax.select(x > 0, g, lax.full_like(g, 0)))


@custom_jvp
@inner_jit
def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6), with derivative 0 at 0 and 6.

    >>> from curta import nn, numpy as jnp
    >>> nn.relu6(jnp.array([-1.0, 8.0]))
    Array([0., 6.], dtype=float32)
    """
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


relu6.defjvps(lambda g, ans, x: lax.select((x > 0) & (x < 6), g, lax.full_like(g, 0)))


@inner_jit
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """(x + sqrt(x**2 + b)) / 2.

    >>> from curta import nn, numpy as jnp
    >>> nn.squareplus(jnp.array([0.0, 1.5]))
    Array([1., 2.], dtype=float32)
    """
    x, b = ensure_arraylike("squareplus", x), ensure_arraylike("squareplus", b)
    return (x + jnp.sqrt(jnp.square(x) + b)) / 2


@inner_jit
def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)).

    >>> from curta import nn, numpy as jnp
    >>> nn.softplus(jnp.array([0.0]))
    Array([0.6931472], dtype=float32)
    """
    return jnp.logaddexp(x, 0)


@inner_jit
def sparse_plus(x: ArrayLike) -> Array:
    """0 up to -1, x from 1 on, (x + 1)**2 / 4 between.

    >>> from curta import nn, numpy as jnp
    >>> nn.sparse_plus(jnp.array([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = ensure_arraylike("sparse_plus", x)
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@inner_jit
def soft_sign(x: ArrayLike) -> Array:
    """x / (abs(x) + 1).

    >>> from curta import nn, numpy as jnp
    >>> nn.soft_sign(jnp.array([-1.0, 3.0]))
    Array([-0.5 ,  0.75], dtype=float32)
    """
    x = ensure_arraylike("soft_sign", x)
    return x / (jnp.abs(x) + 1)


@inner_jit(inline=True)
def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    >>> from curta import nn, numpy as jnp
    >>> nn.sigmoid(jnp.array([0.0]))
    Array([0.5], dtype=float32)
    """
    return lax.logistic(x)


@inner_jit
def sparse_sigmoid(x: ArrayLike) -> Array:
    """0 up to -1, 1 from 1 on, linear between.

    >>> from curta import nn, numpy as jnp
    >>> nn.sparse_sigmoid(jnp.array([-2.0, 0.0, 2.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return 0.5 * jnp.clip(x + 1.0, 0.0, 2.0)


@inner_jit
def silu(x: ArrayLike) -> Array:
    """x * sigmoid(x), also called swish.

    >>> from curta import nn, numpy as jnp
    >>> nn.silu(jnp.array([0.0, 1.0]))
    Array([0.       , 0.7310586], dtype=float32)
    """
    x = ensure_arraylike("silu", x)
    return x * sigmoid(x)


swish = silu


def tanh(x: ArrayLike) -> Array:
    """The hyperbolic tangent.

    >>> from curta import nn, numpy as jnp
    >>> nn.tanh(jnp.array([0.0]))
    Array([0.], dtype=float32)
    """
    return jnp.tanh(x)


@custom_jvp
@inner_jit
def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)) for x > 0, without cancellation.

    M. Mächler, Accurately computing log(1 - exp(-|a|)) (2012).

    >>> from curta import nn
    >>> nn.log1mexp(0.5).round(4)
    Array(-0.9328, dtype=float32, weak_type=True)
    """
    x = ensure_arraylike("log1mexp", x)
    near = x < math.log(2.0)
    return jnp.where(near, jnp.log(-jnp.expm1(-x)), jnp.log1p(-jnp.exp(-x)))


log1mexp.defjvps(lambda t, out, x: t / jnp.expm1(x))


@inner_jit
def mish(x: ArrayLike) -> Array:
    """x * tanh(softplus(x)).

    >>> from curta import nn, numpy as jnp
    >>> nn.mish(jnp.array([0.0]))
    Array([0.], dtype=float32)
    """
    x = ensure_arraylike("mish", x)
    return x * jnp.tanh(softplus(x))


@inner_jit
def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)), without overflow.

    >>> from curta import nn, numpy as jnp
    >>> nn.log_sigmoid(jnp.array([0.0]))
    Array([-0.6931472], dtype=float32)
    """
    x = ensure_arraylike("log_sigmoid", x)
    return -softplus(-x)


@inner_jit
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x for x > 0, alpha * (exp(x) - 1) elsewhere.

    >>> from curta import nn, numpy as jnp
    >>> nn.elu(jnp.array([0.0, 2.0]))
    Array([0., 2.], dtype=float32)
    """
    x = ensure_arraylike("elu", x)
    # The inner where keeps the derivative finite for large x.
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x)))


@inner_jit
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """x for x >= 0, negative_slope * x elsewhere.

    >>> from curta import nn, numpy as jnp
    >>> nn.leaky_relu(jnp.array([-1.0, 2.0]))
    Array([-0.01,  2.  ], dtype=float32)
    """
    x = ensure_arraylike("leaky_relu", x)
    return jnp.where(x >= 0, x, negative_slope * x)


@inner_jit
def hard_tanh(x: ArrayLike) -> Array:
    """x cut off at -1 and 1.

    >>> from curta import nn, numpy as jnp
    >>> nn.hard_tanh(jnp.array([-2.0, 0.5]))
    Array([-1. ,  0.5], dtype=float32)
    """
    x = ensure_arraylike("hard_tanh", x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


@inner_jit
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1).

    >>> from curta import nn, numpy as jnp
    >>> nn.celu(jnp.array([0.0, 2.0]))
    Array([0., 2.], dtype=float32)
    """
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


@inner_jit
def selu(x: ArrayLike) -> Array:
    """A scaled `elu` that keeps mean 0 and variance 1 through layers.

    Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    >>> from curta import nn, numpy as jnp
    >>> nn.selu(jnp.array([0.0, 1.0]))
    Array([0.      , 1.050701], dtype=float32)
    """
    alpha = 1.6732632423543772848170429916717
    scale = 1.0507009873554804934193349852946
    return scale * elu(x, alpha)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the normal distribution function of x.

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016. With
    `approximate` the distribution function is approximated by a tanh.

    >>> from curta import nn, numpy as jnp
    >>> nn.gelu(jnp.array([0.0, 1.0]))
    Array([0.      , 0.841192], dtype=float32)
    """
    (x,) = inexact_operands("gelu", x)
    if approximate:
        factor = np.sqrt(2 / np.pi).astype(x.dtype)
        cdf = 0.5 * (1.0 + jnp.tanh(factor * (x + 0.044715 * (x**3))))
        return x * cdf
    half = np.sqrt(0.5).astype(x.dtype)
    return jnp.array(0.5 * x * lax.erfc(-x * half), dtype=x.dtype)


@inner_jit(static_argnames=("axis",))
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half of x along `axis` times the sigmoid of the second.

    >>> from curta import nn, numpy as jnp
    >>> nn.glu(jnp.array([2.0, 0.0]))
    Array([1.], dtype=float32)
    """
    x = ensure_arraylike("glu", x)
    if x.shape[axis] % 2:
        raise AssertionError(
            f"axis size must be divisible by 2: glu got shape {x.shape}, axis {axis}"
        )
    first, second = jnp.split(x, 2, axis)
    return first * sigmoid(second)


@inner_jit
def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6.

    >>> from curta import nn, numpy as jnp
    >>> nn.hard_sigmoid(jnp.array([0.0]))
    Array([0.5], dtype=float32)
    """
    return relu6(x + 3.0) / 6.0


@inner_jit
def hard_silu(x: ArrayLike) -> Array:
    """x * hard_sigmoid(x), also called hard swish.

    >>> from curta import nn, numpy as jnp
    >>> nn.hard_silu(jnp.array([3.0]))
    Array([3.], dtype=float32)
    """
    x = ensure_arraylike("hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu
