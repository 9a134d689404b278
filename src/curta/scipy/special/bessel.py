"""Bessel functions and spherical harmonics."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.core.trace import typeof
from curta.numpy.arguments import concrete
from curta.numpy.promotion import inexact_operands
from curta.scipy.special.arguments import real

_TINY = float(np.finfo(np.float32).tiny)


def i0e(x: ArrayLike) -> Array:
    """exp(-|x|) i0(x).

    >>> from curta.scipy import special
    >>> special.i0e(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    (x,) = inexact_operands("i0e", x)
    return lax.bessel_i0e(x)


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind, of order 0.

    >>> from curta.scipy import special
    >>> special.i0(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    (x,) = inexact_operands("i0", x)
    return lax.mul(_growth(x), lax.bessel_i0e(x))


def _growth(x: Array) -> Array:
    """exp(|x|), with the derivative 0 at 0 that even functions have."""
    return lax.exp(lax.mul(x, lax.sign(x)))


def i1e(x: ArrayLike) -> Array:
    """exp(-|x|) i1(x).

    >>> from curta.scipy import special
    >>> special.i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = inexact_operands("i1e", x)
    return lax.bessel_i1e(x)


def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind, of order 1.

    >>> from curta.scipy import special
    >>> special.i1(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = inexact_operands("i1", x)
    return lax.mul(_growth(x), lax.bessel_i1e(x))


@inner_jit(static_argnames=("v", "n_iter"))
def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions J_0(z) to J_v(z) of the first kind, along a new axis 0.

    By the backward recurrence of the ratios J_k / J_{k-1}, normalized by J_0 + 2 J_2 +
    2 J_4 + ... = 1 (J. C. P. Miller).

    Args:
      z: real numbers.
      v: the greatest order, a known integer.
      n_iter: the order from which the recurrence begins, known; 50 by default.

    Returns:
      Floats (v + 1, *z.shape).

    Raises:
      ValueError: if `z` is complex.
      TypeError: if `z` is not an array, or an order is not an integer.

    >>> from curta.scipy import special
    >>> special.bessel_jn(1.0, v=1).round(4)
    Array([0.7652, 0.4401], dtype=float32)
    """
    (z,) = real("bessel_jn", jnp.asarray(z))
    v = concrete(v, "Argument v of bessel_jn.", operator.index)
    n_iter = concrete(n_iter, "Argument n_iter of bessel_jn.", int)

    def step(carry: Any, k: Any) -> Any:
        ratio_above, sum_above = carry
        below = 2 * k / z - ratio_above
        ratio = 1 / jnp.where(below == 0, _TINY, below)
        return (ratio, jnp.where(k % 2 == 1, 0, 2) + ratio_above * sum_above), ratio

    zero = jnp.zeros_like(z)
    orders = jnp.arange(1, max(n_iter, v) + 1, dtype=z.dtype)
    (first, total), ratios = lax.scan(step, (zero, zero), orders, reverse=True)
    start = 1 / (1 + first * total)
    powers = jnp.concatenate([jnp.ones_like(z)[None], ratios[: max(v, 0)]])
    return (start[None] * jnp.cumprod(powers, axis=0))[: max(v + 1, 0)]


def sph_harm_y(
    n: Array,
    m: Array,
    theta: Array,
    phi: Array,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """The spherical harmonics of degree n and order m, complex.

    By the recurrence over degrees of normalized Legendre functions (W. Press et al.,
    Numerical Recipes, 6.7).

    Args:
      n, m: integer arrays, |m| <= n.
      theta: the polar angle, in [0, π]; outside, the angle in [0, π] with the same
        cosine.
      phi: the azimuth, in [0, 2π].
      diff_n: not supported.
      n_max: a static bound of the degrees, by default the largest n; degrees beyond it
        count as n_max.

    Returns:
      A complex array, of the shape to which the arguments broadcast.

    Raises:
      TypeError: if degrees are not integers.
      ValueError: if shapes do not broadcast.
      NotImplementedError: for `diff_n`.
      ConcretizationTypeError: for traced degrees without `n_max`.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import special
    >>> degree, order = jnp.array([1]), jnp.array([0])
    >>> special.sph_harm_y(degree, order, jnp.array([0.0]), jnp.array([0.0]))
    Array([0.48860252+0.j], dtype=complex64)
    """
    if diff_n is not None:
        raise NotImplementedError(
            "The 'diff_n' argument to curta.scipy.special.sph_harm_y is not supported."
        )
    if n_max is None:
        text = "sph_harm_y needs a static `n_max` where its degrees are traced."
        n_max = int(np.max(concrete(n, text, np.asarray)))
    n_max = concrete(n_max, "The `n_max` argument of `sph_harm_y`.", int)
    theta, phi = (jnp.atleast_1d(x) for x in inexact_operands("sph_harm_y", theta, phi))
    n, m, theta, phi = jnp.broadcast_arrays(n, m, theta, phi)
    for degrees in (n, m):
        dtype = typeof(degrees).dtype
        if not jnp.issubdtype(dtype, np.integer) and dtype != np.bool_:
            raise TypeError(
                "Indexer must have integer or boolean type, got indexer with type"
                f" {dtype}: the degrees and orders of sph_harm_y count."
            )
    order, degree = jnp.abs(m), jnp.minimum(n, n_max)
    legendre = _normalised_legendre(
        degree, order, jnp.cos(theta), jnp.abs(jnp.sin(theta)), n_max
    )
    angle = order * phi
    value = lax.complex(legendre * jnp.cos(angle), legendre * jnp.sin(angle))
    sign = jnp.where(order % 2 == 0, 1, -1).astype(typeof(legendre).dtype)
    value = jnp.where(m < 0, sign * value.conj(), value)
    return jnp.where(order > degree, 0, value)


def _normalised_legendre(n: Any, m: Any, x: Any, sine: Any, n_max: int) -> Any:
    """The Legendre function P_n^m(x), normalised on the sphere; sine is √(1 - x²)."""
    diagonal = jnp.full_like(x, math.sqrt(0.25 / np.pi))
    for k in range(1, n_max + 1):
        factor = -math.sqrt((2 * k + 1) / (2 * k)) * sine
        diagonal = jnp.where(k <= m, diagonal * factor, diagonal)
    below, here = jnp.zeros_like(x), diagonal
    order = m.astype(x.dtype)
    for k in range(1, n_max + 1):
        above_order = k > m
        gap = jnp.where(above_order, k * k - order * order, 1)
        last = jnp.where(above_order, (k - 1) ** 2 - order * order, 0)
        scale = jnp.sqrt((4 * k * k - 1) / gap)
        damp = jnp.sqrt(last / np.asarray(max(4 * (k - 1) ** 2 - 1, 1), x.dtype))
        following = scale * (x * here - damp * below)
        go = above_order & (k <= n)
        below, here = jnp.where(go, here, below), jnp.where(go, following, here)
    return here
