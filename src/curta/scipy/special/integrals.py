"""Exponential, trigonometric and Fresnel integrals, and the dilogarithm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.custom_derivatives import custom_jvp
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import const, inexact_operands
from curta.scipy.special.arguments import (
    in_double,
    only_f32_or_f64,
    polynomial,
    ratio,
    real,
    real_or_lists,
)
from curta.scipy.special.cancellation import horner
from curta.scipy.special.error_functions import _faddeeva_upper

# --- exponential integrals ----------------------------------------------------------


@custom_jvp
@inner_jit
def expi(x: ArrayLike) -> Array:
    """The exponential integral Ei(x): the principal value of ∫ exp(t)/t dt up to x.

    By its power series, and for large x its asymptotic series (A. & S. 5.1.10, 5.1.51);
    -E1(-x) for negative x.

    >>> from curta.scipy import special
    >>> special.expi(1.0).round(4)
    Array(1.8951, dtype=float32)
    """
    (x,) = real("expi", x)
    value: Array = in_double(_expi)(x).astype(x.dtype)
    return value


def _expi(x: Any) -> Any:
    limit, terms = 40.0, 140
    near = jnp.where(x > 0, jnp.minimum(x, limit), 1)
    k = np.arange(terms, 0, -1)
    logs = [n * math.log(limit) - math.lgamma(n + 1) for n in k.tolist()]
    # In powers of x / limit, so that no coefficient underflows.
    series = near / limit * polynomial(np.exp(logs) / k, near / limit)
    low = np.euler_gamma + jnp.log(near) + series
    far = jnp.maximum(x, limit)
    factorials = [math.factorial(n) for n in range(int(limit) // 2, -1, -1)]
    root = jnp.exp(far / 2)  # its square may overflow where Ei does not
    high = root / far * polynomial(factorials, 1 / far) * root
    high = jnp.where(x == np.inf, np.inf, high)
    negative = -_expn_of(const(x, 1), jnp.maximum(-x, 0))
    positive = jnp.where(x > limit, high, low)
    value = jnp.where(x > 0, positive, negative)
    return jnp.where(jnp.isnan(x), np.nan, value)


@expi.defjvp
def _expi_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    slope = jnp.where(x == np.inf, np.inf, jnp.exp(x) / x)
    return expi(x), slope.astype(x.dtype) * t


@custom_jvp
@inner_jit
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The exponential integral E_n(x) = ∫₁ exp(-xt) / tⁿ dt, for integers n >= 0.

    NaN for negative n or x. By its series for x <= 1, else by its continued fraction
    (A. & S. 5.1.12 and 5.1.22).

    >>> from curta.scipy import special
    >>> special.expn(1, 1.0).round(4)
    Array(0.2194, dtype=float32)
    """
    n, x = real_or_lists("expn", n, x)
    value: Array = in_double(_expn_of)(n, x).astype(x.dtype)
    return value


@expn.defjvp
def _expn_jvp(primals: Any, tangents: Any) -> Any:
    (n, x), (_, t) = primals, tangents
    below = expn(jnp.maximum(n - 1, 0), x)
    slope = jnp.where(n == 0, jnp.exp(-x) * (1 + x) / (x * x), below)  # n = -1
    out = expn(n, x)
    return out, lax.mul(lax.neg(t), slope.astype(out.dtype))


def _expn_of(n: Any, x: Any) -> Any:
    n, x = jnp.broadcast_arrays(n, x)
    order = jnp.maximum(n, 1)
    small = jnp.where(x > 0, jnp.minimum(x, 1), 1)
    value = jnp.where(x <= 1, _expn_series(order, small), _expn_fraction(order, x))
    value = jnp.where(n == 0, jnp.exp(-x) / x, value)
    at_zero = jnp.where(n < 2, np.inf, 1 / jnp.maximum(n - 1, 1))
    value = jnp.where(x == 0, at_zero, value)
    value = jnp.where(x == np.inf, 0, value)
    return jnp.where((n < 0) | ~(x >= 0), np.nan, value)


def _expn_series(n: Any, x: Any) -> Any:
    total, power = jnp.zeros_like(x), jnp.ones_like(x)  # (-x)**m / m!
    for m in range(20):
        singular = m - n + 1 == 0
        total = total + jnp.where(
            singular, 0, power / jnp.where(singular, 1, m - n + 1)
        )
        power = power * -x / (m + 1)
    sign = jnp.where((n - 1) % 2 == 0, 1, -1)
    scale = sign * jnp.exp((n - 1) * jnp.log(x) - lax.lgamma(n))
    return scale * (lax.digamma(n) - jnp.log(x)) - total


def _expn_fraction(n: Any, x: Any) -> Any:
    x = jnp.maximum(x, 1)
    depth = 100

    def outwards(i: Any, tail: Any) -> Any:
        k = (depth - i).astype(x.dtype)
        return x + n + 2 * (k - 1) - k * (n - 1 + k) / tail

    return jnp.exp(-x) / lax.fori_loop(0, depth, outwards, x + n + 2 * depth)


def exp1(x: ArrayLike) -> Array:
    """The exponential integral E_1(x).

    >>> from curta.scipy import special
    >>> special.exp1(1.0).round(4)
    Array(0.2194, dtype=float32)
    """
    (x,) = real("exp1", x)
    return expn(1, x)


# --- sine and cosine integrals ------------------------------------------------------


@custom_jvp
@inner_jit
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The sine integral ∫₀ˣ sin(t)/t dt and the cosine integral of x, a pair.

    By their power series up to |x| = 4, else by E_1(ix) = -Ci(x) + i (Si(x) - π/2). The
    cosine integral is even: Ci(x) = Ci(|x|), but NaN at -inf.

    >>> from curta.scipy import special
    >>> si, ci = special.sici(1.0)
    >>> print(si.round(4), ci.round(4))
    0.9461 0.3374
    """
    (x,) = inexact_operands("sici", x)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise ValueError(
            f"Argument `x` to sici must be real-valued. Got dtype {x.dtype}."
        )
    si, ci = in_double(_sici)(x)
    return si.astype(x.dtype), ci.astype(x.dtype)


def _sici(x: Any) -> tuple[Any, Any]:
    size = jnp.abs(x)
    square = jnp.square(jnp.minimum(size, 4))
    k = range(16, -1, -1)
    odd = [(-1) ** n / ((2 * n + 1) * math.factorial(2 * n + 1)) for n in k]
    even = [(-1) ** n / (2 * n * math.factorial(2 * n)) if n else 0.0 for n in k]
    si_near = size * polynomial(odd, square)
    ci_near = np.euler_gamma + jnp.log(size) + polynomial(even, square)
    e1 = _e1_imaginary(jnp.maximum(size, 4))
    far = size > 4
    si = jnp.where(far, np.pi / 2 + e1.imag, si_near)
    ci = jnp.where(far, -e1.real, ci_near)
    si = jnp.where(size == np.inf, np.pi / 2, si)
    ci = jnp.where(size == np.inf, jnp.where(x < 0, np.nan, 0), ci)
    return jnp.sign(x) * si, ci


def _e1_imaginary(x: Any) -> Any:
    """E_1(ix) by its continued fraction, for x >= 4."""
    z = lax.complex(jnp.zeros_like(x), x)
    depth = 60

    def outwards(i: Any, tail: Any) -> Any:
        k = (depth - i).astype(z.dtype)
        return z + (2 * k - 1) - k * k / tail

    return jnp.exp(-z) / lax.fori_loop(0, depth, outwards, z + (2 * depth + 1))


@sici.defjvp
def _sici_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    endless = jnp.abs(x) == np.inf
    cosine = jnp.where(endless, 0, jnp.cos(jnp.where(endless, 1, x)))
    return sici(x), (jnp.sinc(x / np.pi) * t, cosine / x * t)


# --- Fresnel's integrals ------------------------------------------------------------


@custom_jvp
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Fresnel's integrals of sin(πt²/2) and cos(πt²/2) from 0 to x, a pair.

    By their power series, and beyond |x| = 1.25 by the Faddeeva function (A. & S.
    7.3.22).

    >>> from curta.scipy import special
    >>> s, c = special.fresnel(1.0)
    >>> print(s.round(4), c.round(4))
    0.4383 0.7799
    """
    (x,) = inexact_operands("fresnel", x)
    if jnp.iscomplexobj(x):
        raise NotImplementedError(
            "Support for complex-valued inputs is not implemented yet: fresnel takes"
            " real numbers."
        )
    s, c = in_double(_fresnel)(x)
    return s.astype(x.dtype), c.astype(x.dtype)


def _fresnel(x: Any) -> tuple[Any, Any]:
    size = jnp.abs(x)
    near = jnp.minimum(size, 1.25)
    phase = np.pi / 2 * near * near
    k = range(12, -1, -1)
    sine = [(-1) ** n / (math.factorial(2 * n + 1) * (4 * n + 3)) for n in k]
    cosine = [(-1) ** n / (math.factorial(2 * n) * (4 * n + 1)) for n in k]
    square = phase * phase
    s_near = near * phase * polynomial(sine, square)
    c_near = near * polynomial(cosine, square)
    far = jnp.clip(size, 1.25, 1e6)
    w = _faddeeva_upper(lax.complex(far, far) * (math.sqrt(np.pi) / 2))
    rotated = jnp.exp(lax.complex(jnp.zeros_like(far), np.pi / 2 * far * far)) * w
    value = (0.5 + 0.5j) * (1 - rotated)
    vast = size > far  # there the oscillation is below rounding
    s = jnp.where(size < 1.25, s_near, jnp.where(vast, 0.5, value.imag))
    c = jnp.where(size < 1.25, c_near, jnp.where(vast, 0.5, value.real))
    nan = jnp.isnan(x)
    s, c = (jnp.where(nan, np.nan, jnp.sign(x) * part) for part in (s, c))
    return s, c


@fresnel.defjvp
def _fresnel_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    phase = np.pi / 2 * x * x
    return fresnel(x), (jnp.sin(phase) * t, jnp.cos(phase) * t)


# --- the dilogarithm ----------------------------------------------------------------

# A rational function of the Cephes library, spence.c.
_SPENCE = (
    (
        4.65128586073990045278e-5,
        7.31589045238094711071e-3,
        1.33847639578309018650e-1,
        8.79691311754530315341e-1,
        2.71149851196553469920e0,
        4.25697156008121755724e0,
        3.29771340985225106936e0,
        1.0,
    ),
    (
        6.90990488912553276999e-4,
        2.54043763932544379113e-2,
        2.82974860602568089943e-1,
        1.41172597751831069617e0,
        3.63800533345137075418e0,
        5.03278880143316990390e0,
        3.54771340985225096217e0,
        1.0,
    ),
)


@custom_jvp
def spence(x: Array) -> Array:
    """The dilogarithm ∫₁ˣ log(t) / (1 - t) dt, NaN for negative x.

    TypeError unless x is float32 or float64.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import special
    >>> special.spence(jnp.array([0.0, 1.0])).round(4)
    Array([1.6449, 0.    ], dtype=float32)
    """
    x = only_f32_or_f64(x)
    inside = jnp.where(x > 0, x, 0.75)
    y = jnp.where(inside > 2, 1 / inside, inside)
    inverted, reflected = inside > 1.5, y < 0.5
    w = jnp.where(y > 1.5, 1 / y - 1, jnp.where(reflected, -y, y - 1))
    value = 0 - w * ratio(*_SPENCE, w)
    mirror = np.pi**2 / 6 - jnp.log(y) * jnp.log1p(-jnp.minimum(y, 0.5)) - value
    value = jnp.where(reflected, mirror, value)
    value = jnp.where(inverted, -0.5 * jnp.log(y) ** 2 - value, value)
    edge = jnp.where(x == 0, np.pi**2 / 6, np.nan)
    return jnp.where(x > 0, value, edge).astype(x.dtype)


def _spence_slope(t: Any, out: Any, x: Any) -> Any:
    """log(x) / (1 - x), near 1 by log(1 + u) / u and its series."""
    u = x - 1
    close, closest = jnp.abs(u) < 0.5, jnp.abs(u) < 0.01
    safe = jnp.where(close & ~closest, u, 0.25)
    near = jnp.log1p(safe) / safe
    series = horner([(-1.0) ** k / (k + 1) for k in range(8, -1, -1)], u)
    far = jnp.log(jnp.where(close, 3, x)) / jnp.where(close, 2, u)
    far = jnp.where(x == np.inf, 0, far)
    slope = jnp.where(closest, series, jnp.where(close, near, far))
    return t * -slope


spence.defjvps(_spence_slope)
