"""The gamma function and what is made of it: beta, factorials, binomials."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.custom_derivatives import custom_jvp
from curta.api.inner import inner_jit
from curta.api.jvp import jvp
from curta.core.array import Array, ArrayLike
from curta.core.trace import typeof
from curta.numpy.arguments import concrete
from curta.numpy.promotion import const, inexact_operands
from curta.scipy.special.arguments import in_double, real
from curta.scipy.special.deviance import LARGE, stirling_error


def gammaln(x: ArrayLike) -> Array:
    """log|gamma(x)|, infinite at the poles.

    >>> from curta.scipy import special
    >>> special.gammaln(5.0)
    Array(3.1780539, dtype=float32, weak_type=True)
    """
    (x,) = inexact_operands("gammaln", x)
    return lax.lgamma(x)


@inner_jit
def gammasgn(x: ArrayLike) -> Array:
    """The sign of gamma(x), NaN at negative integers.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import special
    >>> special.gammasgn(jnp.array([-1.5, -0.5, 0.5]))
    Array([ 1., -1.,  1.], dtype=float32)
    """
    (x,) = real("gammasgn", x)
    below = lax.floor(x)
    pole = ((x < 0) & (x == below)) | jnp.isnan(x)
    negative = ((x < 0) & (below % 2 != 0)) | ((x == 0) & jnp.signbit(x))
    scalar: Any = x.dtype.type
    return jnp.select([pole, negative], [scalar(np.nan), scalar(-1)], scalar(1))


# Lanczos' approximation with g = 7 and nine terms, by P. Godfrey.
_LANCZOS_G = 7.0
_LANCZOS = (
    0.99999999999980993,
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)


def _complex_loggamma(z: Any) -> Any:
    """log(gamma(z)), continuous in the plane cut along the negative axis.

    By Lanczos in the right half plane, and reflected into it from the left:
    gamma(z) gamma(1 - z) = pi / sin(pi z).
    """
    left = z.real < 0.5
    w = jnp.where(left, 1.0 - z, z) - 1.0
    series = _LANCZOS[0] + sum(c / (w + k) for k, c in enumerate(_LANCZOS[1:], 1))
    t = w + (_LANCZOS_G + 0.5)
    right = 0.5 * math.log(2 * np.pi) + (w + 0.5) * jnp.log(t) - t + jnp.log(series)
    reflected = math.log(np.pi) - _log_sin_pi(jnp.where(left, z, 0.5)) - right
    return jnp.where(left, reflected, right).astype(z.dtype)


def _log_sin_pi(z: Any) -> Any:
    """log(sin(pi z)), continuous in each half plane, and 0 at z = 1/2.

    For Im z >= 0 the sine is (i / 2) exp(-i pi z) (1 - exp(2 i pi z)), whose last
    factor has a positive real part.
    """
    below = jnp.signbit(z.imag)
    z = jnp.where(below, z.conj(), z)
    near = lax.complex(z.real - jnp.round(z.real), z.imag)
    factor = -jnp.expm1(2j * np.pi * near)
    log = jnp.log(factor) - math.log(2) + 1j * np.pi * (0.5 - z)
    return jnp.where(below, log.conj(), log)


def _undefined(z: Any) -> Any:
    """Where gamma has a pole, or z is NaN."""
    pole = (z.imag == 0) & (z.real <= 0) & (z.real == jnp.floor(z.real))
    return pole | jnp.isnan(z)


def _nan(z: Any) -> Any:
    return np.asarray(complex(np.nan, np.nan), z.dtype)


@inner_jit
def _finite_loggamma(z: Any) -> Any:
    """`_complex_loggamma`, NaN at the poles of gamma."""
    bad = _undefined(z)
    return jnp.where(bad, _nan(z), _complex_loggamma(jnp.where(bad, 1, z)))


def loggamma(x: ArrayLike) -> Array:
    """The principal branch of log(gamma(x)); NaN for real x < 0.

    >>> from curta.scipy import special
    >>> special.loggamma(4.0)
    Array(1.7917595, dtype=float32, weak_type=True)
    """
    (x,) = inexact_operands("loggamma", x)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return _finite_loggamma(x)
    return jnp.where(x >= 0, lax.lgamma(x), np.nan)


def gamma(x: ArrayLike) -> Array:
    """The gamma function, for real or complex x.

    >>> from curta.scipy import special
    >>> special.gamma(5.0).round(3)
    Array(24., dtype=float32)
    """
    (x,) = inexact_operands("gamma", x)
    if not dtypes.issubdtype(x.dtype, np.complexfloating):
        return gammasgn(x) * in_double(_size_of_gamma)(x)
    return jnp.exp(_finite_loggamma(x))


def _size_of_gamma(x: Any) -> Any:
    return lax.exp(lax.lgamma(x))


def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """log|beta(a, b)|.

    For large arguments by the difference of Stirling's corrections, as in A. DiDonato
    and A. Morris (ACM TOMS 708), where the sum of lgammas would cancel.

    >>> from curta.scipy import special
    >>> special.betaln(1.0, 2.0)
    Array(-0.6931472, dtype=float32, weak_type=True)
    """
    return in_double(_betaln)(*inexact_operands("betaln", a, b))


def _betaln(a: Any, b: Any) -> Any:
    a, b = jnp.broadcast_arrays(a, b)
    # Selected, as the derivatives of maxima are halves where operands are equal.
    a, b = jnp.where(b < a, b, a), jnp.where(b < a, a, b)
    whole = _is_pole(a)
    # At poles of gamma(a) and gamma(a + b) by reflection (NIST DLMF 5.5.3).
    reflected = whole & _is_pole(a + b) & (b == jnp.floor(b)) & (b > 0)
    infinite = whole & ~reflected
    a = jnp.where(reflected, 1 - a - b, jnp.where(infinite, 1, a))
    a, b = jnp.where(b < a, b, a), jnp.where(b < a, a, b)
    small_b = lax.lgamma(a) + (lax.lgamma(b) - lax.lgamma(a + b))
    mixed = lax.lgamma(a) + _log_gamma_ratio(a, b)
    small = (b < 8) | (a + b < 8)
    value = jnp.where(small, small_b, jnp.where(a < 8, mixed, _betaln_large(a, b)))
    return jnp.where(infinite, np.inf, value)


def _is_pole(x: Any) -> Any:
    """Whether x is 0 or a negative integer."""
    return (x <= 0) & (x == jnp.floor(x))


# The coefficients of Stirling's correction log(gamma(x)) - (x - 1/2) log(x) + x -
# log(2 pi) / 2 in odd powers of 1/x: B_2k / (2k (2k - 1)).
_STIRLING = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)


def _stirling(x: Any) -> Any:
    x = jnp.where(x < 8, 8, x)
    y = 1 / (x * x)
    total: Any = _STIRLING[0]
    for coefficient in _STIRLING[1:]:
        total = total * y + coefficient
    return total / x


def _log_gamma_ratio(a: Any, b: Any) -> Any:
    """log(gamma(b) / gamma(a + b)) for b >= 8."""
    b = jnp.where(b < 8, 8, b)
    h = a / b
    correction = _stirling(b) - _stirling(a + b)
    return correction - (a + (b - 0.5)) * jnp.log1p(h) - a * (jnp.log(b) - 1)


def _betaln_large(a: Any, b: Any) -> Any:
    """betaln for 8 <= a <= b."""
    a, b = jnp.where(a < 8, 8, a), jnp.where(b < 8, 8, b)
    h = a / b
    correction = _stirling(a) + _stirling(b) - _stirling(a + b)
    main = (a - 0.5) * jnp.log(h / (1 + h)) - b * jnp.log1p(h)
    return 0.5 * (math.log(2 * np.pi) - jnp.log(b)) + correction + main


def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """gamma(a) gamma(b) / gamma(a + b).

    >>> from curta.scipy import special
    >>> special.beta(2.0, 1.0)
    Array(0.5, dtype=float32)
    """
    a, b = real("beta", a, b)
    value: Array = in_double(_beta)(a, b).astype(a.dtype)
    return value


def _beta(a: Any, b: Any) -> Any:
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    # Where a is a pole, 1 / gamma(a + b) is 0 or the sign is that of (-1)**b.
    low, high = jnp.minimum(a, b), jnp.maximum(a, b)
    whole = _is_pole(low)
    odd = (high % 2 == 1) & _is_pole(low + high)
    sign = jnp.where(whole, jnp.where(odd, -1, 1), sign)
    return sign * lax.exp(_betaln(a, b))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function I_x(a, b).

    The integral of t^(a - 1) (1 - t)^(b - 1) from 0 to x, over that from 0 to 1
    (NIST Digital Library of Mathematical Functions, 8.17).

    Args:
      a, b: positive real numbers.
      x: real numbers in [0, 1].

    Returns:
      Floats, of the shape to which the arguments broadcast.

    Raises:
      ValueError: for complex numbers.
      TypeError: if an operand is not an array or shapes do not broadcast.

    >>> from curta.scipy import special
    >>> special.betainc(1.0, 1.0, 0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return lax.betainc(*real("betainc", a, b, x))


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function.

    >>> from curta.scipy import special
    >>> special.gammainc(1.0, 1.0)
    Array(0.63212055, dtype=float32, weak_type=True)
    """
    return lax.igamma(*inexact_operands("gammainc", a, x))


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized upper incomplete gamma function, 1 - gammainc(a, x).

    >>> from curta.scipy import special
    >>> special.gammaincc(1.0, 1.0)
    Array(0.36787945, dtype=float32, weak_type=True)
    """
    return lax.igammac(*inexact_operands("gammaincc", a, x))


def digamma(x: ArrayLike) -> Array:
    """The derivative of gammaln.

    >>> from curta.scipy import special
    >>> special.digamma(1.0)
    Array(-0.5772157, dtype=float32, weak_type=True)
    """
    (x,) = inexact_operands("digamma", x)
    return lax.digamma(x)


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of digamma, for integer n.

    Raises ValueError where n has no integer dtype, or x is complex.

    >>> from curta.scipy import special
    >>> special.polygamma(1, 1.0).round(4)
    Array(1.6449, dtype=float32, weak_type=True)
    """
    if not dtypes.issubdtype(typeof(n).dtype, np.integer):
        raise ValueError(
            "Argument `n` to polygamma must be of integer type."
            f" Got dtype {typeof(n).dtype}."
        )
    return lax.polygamma(*real("polygamma", n, x))


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """gamma(n + 1), 0 for negative n, as floats.

    Raises NotImplementedError for exact=True: arrays have no exact integers.

    >>> from curta.scipy import special
    >>> special.factorial(4).round(3)
    Array(24., dtype=float32, weak_type=True)
    """
    if exact:
        raise NotImplementedError("factorial with exact=True")
    (n,) = inexact_operands("factorial", n)
    below = n < 0
    return jnp.where(below, 0, lax.exp(lax.lgamma(jnp.where(below, 0, n) + 1)))


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """The number of ways to choose k of N, with or without repetition, as floats.

    By gamma functions: gamma(N + 1) / (gamma(k + 1) gamma(N + 1 - k)); 0 where k > N.

    Args:
      N, k: real numbers, not negative.
      repetition: whether one may be chosen several times; False by default.

    Returns:
      Floats, of the shape to which the arguments broadcast.

    Raises:
      TypeError: if an operand is complex or not an array, or shapes do not broadcast.

    >>> from curta.scipy import special
    >>> special.comb(5, 2).round(3)
    Array(10., dtype=float32, weak_type=True)
    """
    N, k = inexact_operands("comb", N, k)
    if repetition:
        return jnp.where((k == 0) & (N >= 0), 1.0, comb(N + k - 1, k))
    possible = (k <= N) & (N >= 0) & (k >= 0)
    n, k = jnp.where(possible, N, 0.0), jnp.where(possible, k, 0.0)
    return jnp.where(possible, in_double(_ways)(n, k), 0.0)


def _ways(n: Any, k: Any) -> Any:
    """1 / ((n + 1) B(n - k + 1, k + 1)), whose logarithm does not cancel."""
    return lax.exp(-lax.log1p(n) - _betaln(n - k + 1, k + 1))


@custom_jvp
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """Pochhammer's symbol, gamma(z + m) / gamma(z).

    >>> from curta.scipy import special
    >>> special.poch(2.0, 3).round(3)
    Array(24., dtype=float32)
    """
    z, m = real("jnp.poch", *inexact_operands("poch", z, m))
    value: Array = in_double(_poch)(z, m).astype(z.dtype)
    return value


def _poch(z: Any, m: Any) -> Any:
    """By the logarithm of the ratio, of negative z and z + m by reflection.

    gamma(z + m) / gamma(z) is gamma(1 - z) / gamma(1 - z - m) times sin(π z) over
    sin(π (z + m)), which is (-1)**m for whole m (NIST DLMF 5.5.3).
    """
    z, m = jnp.broadcast_arrays(z, m)
    end, whole = z + m, m == jnp.floor(m)
    left = (z <= 0) & (end <= 0) & whole
    # 1 - z to 1 - z - m, downwards.
    start = jnp.where(left, 1 - end, z)
    log = _log_rising(start, m)
    sign = jnp.where(left, jnp.where(m % 2 == 0, 1, -1), gammasgn(z) * gammasgn(end))
    value = sign * jnp.exp(log)
    value = jnp.where(left & (z == 0) & (m > 0), 0, value)
    value = jnp.where(~left & _is_pole(end) & ~_is_pole(z), np.inf, value)
    value = jnp.where(~left & _is_pole(z) & ~_is_pole(end), 0, value)
    return jnp.where(m == 0, 1, value)


def _log_rising(z: Any, m: Any) -> Any:
    """log|gamma(z + m) / gamma(z)|, for large z by Stirling's series."""
    end = z + m
    low, high = jnp.minimum(z, end), jnp.maximum(z, end)
    large = low >= LARGE
    a, b = jnp.where(large, low, LARGE), jnp.where(large, high, LARGE)
    step = jnp.where(large, jnp.abs(m), 0)
    rise = (a - 0.5) * jnp.log1p(step / a) + step * (jnp.log(b) - 1)
    rise = rise + stirling_error(b) - stirling_error(a)
    direct = lax.lgamma(end) - lax.lgamma(z)
    return jnp.where(large, jnp.where(m < 0, -rise, rise), direct)


def _psi(x: Any, reflects: Any) -> Any:
    """digamma, or where asked for that of 1 - x, which has no poles for negative x."""
    return digamma(jnp.where(reflects, 1 - x, x))


def _poch_by_start(t: Any, out: Any, z: Any, m: Any) -> Any:
    z, m, out = map(jnp.asarray, (z, m, out))
    # Both digammas reflected differ by the same cotangent, if m is whole.
    left = (z <= 0) & (z + m <= 0) & (m == jnp.floor(m))
    slope = (_psi(z + m, left) - _psi(z, left)) * out
    # At a pole of gamma(z) the derivative of 1 / gamma(z) is (-1)**n n!, n = -z.
    pole = _is_pole(z) & ~_is_pole(z + m)
    n, end = jnp.where(pole, -z, 0), jnp.where(pole, z + m, 1)
    at_pole = jnp.where(n % 2 == 0, 1, -1) * gamma(n + 1) * gamma(end)
    slope = jnp.where(pole, at_pole, slope)
    return t * jnp.where(m == 0, 0, slope).astype(out.dtype)


poch.defjvps(_poch_by_start, lambda t, out, z, m: digamma(z + m) * out * t)


def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    """The log of the multivariate gamma function of dimension d, a static integer.

    >>> from curta.scipy import special
    >>> special.multigammaln(2.0, 1)
    Array(0., dtype=float32)
    """
    d = concrete(d, "d argument of multigammaln", int)
    a, dimension = inexact_operands("multigammaln", a, d)
    quarter = lax.mul(const(a, 0.25), dimension)
    constant = quarter * (dimension - 1) * math.log(np.pi)
    halves = jnp.arange(d, dtype=dimension.dtype).reshape(*(1,) * a.ndim, d) / 2
    return jnp.sum(gammaln(jnp.expand_dims(a, -1) - halves), axis=-1) + constant


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B_0 to B_n, as floats, with B_1 = -1/2.

    By their relation to the zeta function, B_2k = (-1)^(k+1) 2 (2k)! zeta(2k) /
    (2 pi)^2k.

    >>> from curta.scipy import special
    >>> special.bernoulli(2)
    Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    n = concrete(n, "Argument n of bernoulli", operator.index)
    if n < 0:
        raise ValueError("n must be a non-negative integer.")
    first = jnp.array([1, -1 / 2, 1 / 6])
    if n < 3:
        return first[: n + 1]
    even = jnp.arange(4, n + 1, 2, dtype=first.dtype)
    scale = jnp.cumprod(-(even - 1) * even / 4 / np.pi**2) / np.pi**2
    values = scale * lax.zeta(even, jnp.ones_like(even))
    return jnp.zeros(n + 1).at[:3].set(first).at[4::2].set(values)


@custom_jvp
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Hurwitz's zeta function: the sum of (q + k)**-x over k >= 0.

    Raises NotImplementedError without q.

    >>> from curta.scipy import special
    >>> special.zeta(2.0, 1.0).round(4)
    Array(1.6449, dtype=float32, weak_type=True)
    """
    return lax.zeta(*inexact_operands("zeta", x, _required(q)))


def _required(q: Any) -> Any:
    if q is None:
        raise NotImplementedError(
            "Riemann zeta function not implemented; pass q != None to compute the"
            " Hurwitz Zeta function."
        )
    return q


# (2k)! / B_2k for k = 1, 2, ..., of the Euler-Maclaurin formula.
_EULER_MACLAURIN = (
    12,
    -720,
    30240,
    -1209600,
    47900160,
    -1307674368000 / 691,
    74724249600,
    -10670622842880000 / 3617,
    5109094217170944000 / 43867,
    -802857662698291200000 / 174611,
    14101100039391805440000 / 77683,
    -1693824136731743669452800000 / 236364091,
    186134520519971831808000000 / 657931,
    -37893265687455865519472640000000 / 3392780147,
    759790291646040068357842010112000000 / 1723168255201,
    -134196726836183700385281186201600000000 / 7709321041217,
)


def _zeta_series(x: Any, q: Any = None) -> Any:
    """zeta by Euler and Maclaurin's formula, of operations that have derivatives.

    F. Johansson, Rigorous high-precision computation of the Hurwitz zeta function.
    """
    s, a = inexact_operands("zeta", x, _required(q))
    terms = 8 if a.dtype == np.float32 else 16
    k = np.arange(terms, dtype=a.dtype)
    head = jnp.sum((a[..., None] + k) ** -s[..., None], -1)
    end = a + terms
    integral = end ** (1 - s) / (s - 1)
    m = np.arange(2 * terms, dtype=a.dtype)
    rising = jnp.cumprod((s[..., None] + m) / end[..., None], -1)[..., ::2]
    rising = jnp.clip(rising, max=dtypes.finfo(a.dtype).max)
    tail = jnp.sum(rising / np.asarray(_EULER_MACLAURIN[:terms], a.dtype), -1)
    return head + integral + end**-s * (0.5 + tail)


@zeta.defjvp
def _zeta_jvp(primals: Any, tangents: Any) -> Any:
    return jvp(_zeta_series, primals, tangents)
