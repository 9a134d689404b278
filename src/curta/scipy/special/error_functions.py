"""The error function, Faddeeva and Dawson functions, the normal distribution."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.custom_derivatives import custom_jvp
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import const, inexact_operands
from curta.scipy.special.arguments import (
    in_double,
    only_f32_or_f64,
    polynomial,
    ratio,
    real,
)

_SQRT_PI = math.sqrt(np.pi)


def erf(x: ArrayLike) -> Array:
    """The error function.

    >>> from curta.scipy import special
    >>> special.erf(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = inexact_operands("erf", x)
    return lax.erf(x)


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x).

    >>> from curta.scipy import special
    >>> special.erfc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    (x,) = inexact_operands("erfc", x)
    return lax.erfc(x)


def erfinv(x: ArrayLike) -> Array:
    """The inverse of erf.

    >>> from curta.scipy import special
    >>> special.erfinv(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = inexact_operands("erfinv", x)
    return lax.erf_inv(x)


# --- the Faddeeva function ----------------------------------------------------------


@functools.cache
def _weideman(terms: int = 32) -> tuple[float, tuple[float, ...]]:
    """The scale L and the coefficients, highest first, of Weideman's expansion.

    J. A. C. Weideman, Computation of the complex error function (1994), by an FFT.
    """
    points = 2 * terms
    scale = math.sqrt(terms / math.sqrt(2))
    t = scale * np.tan(np.arange(-points + 1, points) * np.pi / (2 * points))
    f = np.concatenate([[0.0], np.exp(-t * t) * (scale**2 + t * t)])
    coefficients = np.fft.fft(np.fft.fftshift(f)).real / (2 * points)
    return float(scale), tuple(coefficients[terms:0:-1])


def _faddeeva_upper(z: Any) -> Any:
    """w(z) for Im z >= 0."""
    scale, coefficients = _weideman()
    iz = 1j * z
    below = scale - iz
    series = jnp.polyval(np.asarray(coefficients, z.dtype), (scale + iz) / below)
    return 2 * series / (below * below) + (1 / _SQRT_PI) / below


@custom_jvp
def _faddeeva(z: Any) -> Any:
    z = jnp.asarray(z)
    upper = z.imag >= 0
    value = _faddeeva_upper(lax.select(upper, z, lax.neg(z)))
    # w(-z) = 2 exp(-z²) - w(z)
    return lax.select(upper, value, 2 * lax.exp(-z * z) - value)


_faddeeva.defjvps(
    lambda t, out, z: t * (np.asarray(2j / _SQRT_PI, z.dtype) - 2 * z * out)
)


def wofz(z: ArrayLike) -> Array:
    """The Faddeeva function exp(-z²) erfc(-iz), complex.

    >>> from curta.scipy import special
    >>> special.wofz(0.0).round(5)
    Array(1.+0.j, dtype=complex64)
    """
    (z,) = inexact_operands("wofz", z)
    return _faddeeva(z.astype(dtypes.to_complex_dtype(z.dtype)))


# The asymptotic series of sqrt(pi) x erfcx(x) in 1/x²: (-1)^k (2k - 1)!! / 2^k.
_ERFCX = (
    7918.06640625,
    -1055.7421875,
    162.421875,
    -29.53125,
    6.5625,
    -1.875,
    0.75,
    -0.5,
    1.0,
)


@custom_jvp
def _real_erfcx(x: Any) -> Any:
    x = jnp.asarray(x)
    wide = x.astype(dtypes.working_dtype(x.dtype))
    terms = 9 if x.dtype == np.float64 else 5
    large = wide > math.sqrt(math.log(float(dtypes.finfo(wide.dtype).max)))
    near = jnp.where(large, 1, wide)
    far = jnp.where(large, wide, 1)
    direct = lax.exp(near * near) * lax.erfc(near)
    series = polynomial(_ERFCX[-terms:], 1 / (far * far)) / (far * _SQRT_PI)
    return jnp.where(large, series, direct).astype(x.dtype)


@_real_erfcx.defjvp
def _real_erfcx_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    out = _real_erfcx(x)
    # 2 x erfcx(x) - 2/sqrt(pi) cancels for large x: minus erfcx(x) / x far out.
    far = x > const(x, _FAR_OUT)
    safe = jnp.where(far, const(x, 1), x)
    near = const(x, 2) * safe * out - const(x, 2 / _SQRT_PI)
    return out, t * jnp.where(far, -out / x, near)


_FAR_OUT = 1e7  # 1/x² does not count beside 1


def erfcx(x: ArrayLike) -> Array:
    """exp(x²) erfc(x), for real or complex x.

    >>> from curta.scipy import special
    >>> special.erfcx(0.0)
    Array(1., dtype=float32)
    """
    (x,) = inexact_operands("erfcx", x)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return _faddeeva(1j * x)
    return _real_erfcx(x)


# --- Dawson's integral: rational functions of the Cephes library, dawsn.c -----------

_DAWSON_NEAR = (
    (
        1.13681498971755972054e-11,
        8.49262267667473811108e-10,
        1.94434204175553054283e-8,
        9.53151741254484363489e-7,
        3.07828309874913200438e-6,
        3.52513368520288738649e-4,
        -8.50149846724410912031e-4,
        4.22618223005546594270e-2,
        -9.17480371773452345351e-2,
        1.0,
    ),
    (
        2.40372073066762605484e-11,
        1.48864681368493396752e-9,
        5.21265281010541664570e-8,
        1.27258478273186970203e-6,
        2.32490249820789513991e-5,
        3.25524741826057911661e-4,
        3.48805814657162590916e-3,
        2.79448531198828973716e-2,
        1.58874241960120565368e-1,
        5.74918629489320327824e-1,
        1.0,
    ),
)
_DAWSON_MIDDLE = (
    (
        5.08955156417900903354e-1,
        -2.44754418142697847934e-1,
        9.41512335303534411857e-2,
        -2.18711255142039025206e-2,
        3.66207612329569181322e-3,
        -4.23209114460388756528e-4,
        3.59641304793896631888e-5,
        -2.14640351719968974225e-6,
        9.10010780076391431042e-8,
        -2.40274520828250956942e-9,
        3.59233385440928410398e-11,
    ),
    (
        1.0,
        -6.31839869873368190192e-1,
        2.36706788228248691528e-1,
        -5.31806367003223277662e-2,
        8.48041718586295374409e-3,
        -9.47996768486665330168e-4,
        7.81025592944552338085e-5,
        -4.55875153252442634831e-6,
        1.89100358111421846170e-7,
        -4.91324691331920606875e-9,
        7.18466403235734541950e-11,
    ),
)
_DAWSON_FAR = (
    (
        -5.90592860534773254987e-1,
        6.29235242724368800674e-1,
        -1.72858975380388136411e-1,
        1.64837047825189632310e-2,
        -4.86827613020462700845e-4,
    ),
    (
        1.0,
        -2.69820057197544900361e0,
        1.73270799045947845857e0,
        -3.93708582281939493482e-1,
        3.44278924041233391079e-2,
        -9.73655226040941223894e-4,
    ),
)


@custom_jvp
def _dawson(x: Any) -> Any:
    x = jnp.asarray(x)
    dtype = x.dtype
    x = x.astype(dtypes.working_dtype(dtype))
    size = lax.abs(x)
    near = jnp.minimum(size, 3.25)
    square = near * near
    value = near * ratio(*_DAWSON_NEAR, square)
    middle = jnp.clip(size, 3.25, 6.25)
    t = 1 / (middle * middle)
    value = jnp.where(
        size < 3.25, value, 0.5 / middle * (1 + t * ratio(*_DAWSON_MIDDLE, t))
    )
    far = jnp.maximum(size, 6.25)
    t = 1 / (far * far)
    value = jnp.where(size < 6.25, value, 0.5 / far * (1 + t * ratio(*_DAWSON_FAR, t)))
    return (jnp.sign(x) * value).astype(dtype)


@_dawson.defjvp
def _dawson_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    out = _dawson(x)
    # 1 - 2 x dawsn(x) cancels for large x: minus dawsn(x) / x far out.
    far = jnp.abs(x) > const(x, _FAR_OUT)
    safe = jnp.where(far, const(x, 1), x)
    near = const(x, 1) - const(x, 2) * safe * out
    return out, t * jnp.where(far, -out / jnp.where(far, x, 1), near)


def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral exp(-x²) ∫₀ˣ exp(t²) dt.

    >>> from curta.scipy import special
    >>> special.dawsn(0.0)
    Array(0., dtype=float32)
    """
    return _dawson(*real("dawsn", x))


# --- the normal distribution --------------------------------------------------------


def ndtr(x: ArrayLike) -> Array:
    """The cumulative distribution function of the standard normal distribution.

    TypeError unless x is float32 or float64.

    >>> from curta.scipy import special
    >>> special.ndtr(0.0)
    Array(0.5, dtype=float32)
    """
    return _ndtr(only_f32_or_f64(x))


def _ndtr(x: Any) -> Any:
    half_sqrt2 = const(x, math.sqrt(0.5))
    w = x * half_sqrt2
    z = lax.abs(w)
    # Near the middle erf is exact, in the tails erfc.
    tails = lax.select(
        lax.gt(w, const(w, 0)), lax.sub(const(z, 2), lax.erfc(z)), lax.erfc(z)
    )
    middle = lax.add(const(w, 1), lax.erf(w))
    return const(x, 0.5) * lax.select(
        lax.lt(z, jnp.broadcast_to(half_sqrt2, z.shape)), middle, tails
    )


# Rational functions of the Cephes library, ndtri.c.
_NDTRI_MIDDLE = (
    (
        -5.99633501014107895267e1,
        9.80010754185999661536e1,
        -5.66762857469070293439e1,
        1.39312609387279679503e1,
        -1.23916583867381258016e0,
    ),
    (
        1.0,
        1.95448858338141759834e0,
        4.67627912898881538453e0,
        8.63602421390890590575e1,
        -2.25462687854119370527e2,
        2.00260212380060660359e2,
        -8.20372256168333339912e1,
        1.59056225126211695515e1,
        -1.18331621121330003142e0,
    ),
)
_NDTRI_TAIL = (
    (
        4.05544892305962419923e0,
        3.15251094599893866154e1,
        5.71628192246421288162e1,
        4.40805073893200834700e1,
        1.46849561928858024014e1,
        2.18663306850790267539e0,
        -1.40256079171354495875e-1,
        -3.50424626827848203418e-2,
        -8.57456785154685413611e-4,
    ),
    (
        1.0,
        1.57799883256466749731e1,
        4.53907635128879210584e1,
        4.13172038254672030440e1,
        1.50425385692907503408e1,
        2.50464946208309415979e0,
        -1.42182922854787788574e-1,
        -3.80806407691578277194e-2,
        -9.33259480895457427372e-4,
    ),
)
_NDTRI_FAR = (
    (
        3.23774891776946035970e0,
        6.91522889068984211695e0,
        3.93881025292474443415e0,
        1.33303460815807542389e0,
        2.01485389549179081538e-1,
        1.23716634817820021358e-2,
        3.01581553508235416007e-4,
        2.65806974686737550832e-6,
        6.23974539184983293730e-9,
    ),
    (
        1.0,
        6.02427039364742014255e0,
        3.67983563856160859403e0,
        1.37702099489081330271e0,
        2.16236993594496635890e-1,
        1.34204006088543189037e-2,
        3.28014464682127739104e-4,
        2.89247864745380683936e-6,
        6.79019408009981274425e-9,
    ),
)


def ndtri(p: ArrayLike) -> Array:
    """The quantile function of the standard normal distribution, inverse to ndtr.

    TypeError unless p is float32 or float64.

    >>> from curta.scipy import special
    >>> special.ndtri(0.5)
    Array(0., dtype=float32)
    """
    dtypes.dtype(p)  # raises TypeError for lists and the like
    return _ndtri(only_f32_or_f64(p))


@custom_jvp
def _ndtri(p: Any) -> Any:
    upper = p > 1 - math.exp(-2.0)
    tail = jnp.where(p > -math.expm1(-2.0), 1 - p, p)
    safe = jnp.where(tail == 0, 0.5, tail)
    w = safe - 0.5
    square = w * w
    middle = -math.sqrt(2 * np.pi) * (w + w * square * ratio(*_NDTRI_MIDDLE, square))
    z = jnp.sqrt(-2 * jnp.log(safe))
    first = z - jnp.log(z) / z
    near = first - ratio(*_NDTRI_TAIL, 1 / z) / z
    far = first - ratio(*_NDTRI_FAR, 1 / z) / z
    size = jnp.where(safe > math.exp(-2.0), middle, jnp.where(z >= 8, far, near))
    x = jnp.where(upper, size, -size)
    return jnp.where(p == 0, -np.inf, jnp.where(p == 1, np.inf, x)).astype(p.dtype)


@_ndtri.defjvp
def _ndtri_jvp(primals: Any, tangents: Any) -> Any:
    (p,), (t,) = primals, tangents
    out = _ndtri(p)
    end = (p == 0) | (p == 1)  # where the slope is taken to be 0
    x = jnp.where(end, 0, out)
    slope = math.sqrt(2 * np.pi) * jnp.exp(0.5 * x * x)
    return out, t * jnp.where(end, 0, slope)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """log(ndtr(x)), accurate in both tails.

    Below -12.5 (-37 in float64) by an asymptotic series of `series_order` terms, at
    most 30. TypeError unless x is float32 or float64.

    >>> from curta.scipy import special
    >>> special.log_ndtr(0.0)
    Array(-0.6931472, dtype=float32)
    """
    if not isinstance(series_order, int):
        raise TypeError("series_order must be a Python integer.")
    if series_order < 0:
        raise ValueError("series_order must be non-negative.")
    if series_order > 30:
        raise ValueError("series_order must be <= 30.")
    x = jnp.asarray(x)
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(f"x.dtype={x.dtype} is not supported.")
    lower = _log_ndtr_end(x)
    tail = 0.5 * lax.erfc(jnp.abs(jnp.maximum(x, lower)) * math.sqrt(0.5))
    high = jnp.where(x > 0, jnp.log1p(-tail), jnp.log(tail))
    low = _log_ndtr_series(jnp.minimum(x, lower), series_order)
    return jnp.where(x > lower, high, low).astype(x.dtype)


@log_ndtr.defjvp
def _log_ndtr_jvp(series_order: int, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    out = log_ndtr(x, series_order)
    lower = _log_ndtr_end(x)
    safe, far = jnp.maximum(x, lower), jnp.minimum(x, lower)
    density = -0.5 * safe * safe - 0.5 * math.log(2 * np.pi)
    slope = jnp.exp(density - jnp.where(x > lower, out, 0))
    # Far out by the quotient, in which the squares cancel.
    tail = -far / _normal_series(far, max(series_order, 1))
    return out, t * jnp.where(x > lower, slope, tail)


def _log_ndtr_end(x: Any) -> float:
    """Up to where erfc has all its bits."""
    return -37.0 if jnp.asarray(x).dtype == np.float64 else -12.5


def _log_ndtr_series(x: Any, order: int) -> Any:
    """log of exp(-x²/2) / (-x sqrt(2 pi)) times `_normal_series`."""
    return jnp.log(_normal_series(x, order) / -x) - 0.5 * (x * x + math.log(2 * np.pi))


def _normal_series(x: Any, order: int) -> Any:
    """1 - 1/x² + 3!!/x⁴ - 5!!/x⁶ ..."""
    square = x * x
    term = series = jnp.ones_like(x)
    for n in range(1, order + 1):
        term = -term * (2 * n - 1) / square
        series = series + term
    return series


# --- Owen's T -----------------------------------------------------------------------

_GAUSS_POINTS, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(36)
_REACH = 9.0  # beyond, exp(-x²/2) does not count


def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T: the probability of X > h and 0 < Y < aX for standard normal X, Y.

    By Gauss-Legendre quadrature of exp(-h²(1 + x²)/2) / (1 + x²) / 2π over 0 to a ≤ 1,
    or as far as it counts;
    for a > 1 by T(h, a) = (Q(h) + Q(ah))/2 - Q(h) Q(ah) - T(ah, 1/a) with the upper
    tail Q (M. Patefield and D. Tandy, 2000).

    >>> from curta.scipy import special
    >>> special.owens_t(0.0, 1.0).round(4)
    Array(0.125, dtype=float32)
    """
    h, a = inexact_operands("owens_t", h, a)
    single = jnp.promote_types(h.dtype, np.float32)
    return in_double(_owens_t)(*(lax.convert_element_type(x, single) for x in (h, a)))


@custom_jvp
def _owens_t(h: Any, a: Any) -> Any:
    h, a = jnp.broadcast_arrays(h, a)
    size, slope = jnp.abs(h), jnp.abs(a)
    steep = slope > 1
    upper = jnp.where(steep, 1 / jnp.where(steep, slope, 1), slope)
    scaled = jnp.where(steep & (size > 0), slope * size, size)
    # exp(-scaled² x²/2) is a narrow bell where h is large.
    wide = scaled * upper > _REACH
    upper = jnp.where(wide, _REACH / jnp.where(wide, scaled, 1), upper)
    half = upper[..., None] / 2
    along = (*(1,) * h.ndim, -1)
    x = half * (1 + np.asarray(_GAUSS_POINTS, h.dtype).reshape(along))
    weight = np.asarray(_GAUSS_WEIGHTS / (2 * np.pi), h.dtype).reshape(along)
    decay = -0.5 * jnp.square(scaled[..., None] * x)
    area = jnp.sum(half * weight * jnp.exp(decay) / (1 + x * x), axis=-1)
    area = area * jnp.exp(-0.5 * scaled * scaled)
    area = jnp.where(scaled == 0, jnp.arctan(upper) / (2 * np.pi), area)
    area = jnp.where(scaled == np.inf, 0, area)
    ends = size, jnp.where(size > 0, slope * size, 0)
    q_h, q_ah = (0.5 * lax.erfc(z * math.sqrt(0.5)) for z in ends)
    reflected = 0.5 * (q_h + q_ah) - q_h * q_ah - area
    value = jnp.sign(a) * jnp.where(steep, reflected, area)
    return jnp.where(jnp.isnan(h) | jnp.isnan(a), np.nan, value).astype(h.dtype)


@_owens_t.defjvp
def _owens_t_jvp(primals: Any, tangents: Any) -> Any:
    (h, a), (dh, da) = primals, tangents
    out = _owens_t(h, a)
    bell = jnp.exp(-0.5 * h * h)
    along_h = -bell * lax.erf(a * h * math.sqrt(0.5)) / (2 * math.sqrt(2 * np.pi))
    along_a = bell * jnp.exp(-0.5 * jnp.square(a * h)) / (2 * np.pi * (1 + a * a))
    return out, (along_h * dh + along_a * da).astype(out.dtype)
