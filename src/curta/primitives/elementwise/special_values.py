"""Special functions of NumPy arrays: error functions, gamma functions, zeta.

All compute in float64, to a few units in the last place. The coefficients are
Chebyshev series of the functions named beside them, computed in 40 digits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from curta._base.on_demand import late

chebyshev: late = late("numpy.polynomial.chebyshev")

# erf(x) / x as a function of 2 x**2 - 1, for |x| <= 1.
_ERF = (
    0.9754769393826541, -0.14226120510371364, 0.010035582187599796,
    -0.00057687646997674848, 2.7419931252196061e-5, -1.1043175507344508e-6,
    3.8488755420345037e-8, -1.1808582533875467e-9, 3.233421582605091e-11,
    -7.9910159470045488e-13, 1.7990725113961456e-14, -3.7186354878186926e-16,
    7.103599003714253e-18,
)  # fmt: skip

# (1 + 2 x) exp(x**2) erfc(x) as a function of (x - 3.75) / (x + 3.75), for x >= 0: the
# form of Shepherd and Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x
# (1981).
_ERFC = (
    1.1775789345674018, -0.0045900545806464773, -0.084249133366517916,
    0.05920993999819189, -0.026658668435305752, 0.0090749976707052651,
    -0.0024131635404176082, 0.00049077583652580863, -6.9169733025012064e-5,
    4.1390279860730102e-6, 7.7403830661984907e-7, -2.1886401049234396e-7,
    1.076499946567091e-8, 4.5219598112182869e-9, -7.7544002088313511e-10,
    -6.3180883408866845e-11, 2.8687950109306699e-11, 1.9455868545777347e-13,
    -9.6546967484334389e-13, 3.2525481481487398e-14, 3.3478119482868054e-14,
    -1.8645628804193131e-15, -1.2507950530688647e-15, 7.4182352566240435e-17,
    5.0681489047961113e-17, -2.2370566594359996e-18, -2.1873429443030177e-18,
)  # fmt: skip

# log(gamma(x)) / ((x - 1) (x - 2)) as a function of x - 1.5, for 0.5 <= x <= 2.5.
_LGAMMA = (
    0.52338306759362265, -0.17797233729529864, 0.043707765509376003,
    -0.012436054693716325, 0.0038166273622453444, -0.0012248310110168688,
    0.00040463073093376953, -0.00013639992864783831, 4.6669854564403647e-5,
    -1.6152571568530024e-5, 5.6418612942891375e-6, -1.985468608994096e-6,
    7.0312923501566581e-7, -2.503431672683324e-7, 8.954655195462511e-8,
    -3.2160388168131608e-8, 1.1591674196198932e-8, -4.1913313430925174e-9,
    1.5198287942838018e-9, -5.5252482443543668e-10, 2.0133461407895696e-10,
    -7.3519733993467371e-11, 2.6898575436827366e-11, -9.8588288661775801e-12,
    3.6193544006547719e-12, -1.3307382122555226e-12, 4.8996134352349177e-13,
    -1.8063242404502505e-13, 6.6673881609341332e-14, -2.4638096705345539e-14,
    9.1141996697478844e-15, -3.3749037208856614e-15, 1.2508630658961871e-15,
    -4.6402354547403188e-16, 1.7227826138316332e-16, -6.4011984584571874e-17,
    2.3802040365336956e-17, -8.8567081056471102e-18, 3.2977685786612903e-18,
)  # fmt: skip

# digamma(x) / (x - root) as a function of 2 x - 3, for 1 <= x <= 2; and the root, in
# two parts.
_DIGAMMA = (
    0.98357026044156699, -0.2270640863346444, 0.033368899023930109,
    -0.0053200772715965474, 0.00087886569378205053, -0.00014773492650606043,
    2.5060543468359144e-5, -4.2721034029993322e-6, 7.302769272465923e-7,
    -1.2502886813559596e-7, 2.1425009322359474e-8, -3.673295918565179e-9,
    6.2997172361089309e-10, -1.080593028883266e-10, 1.8537351920536379e-11,
    -3.18023536582553e-12, 5.4561475703227942e-13, -9.3609931310364382e-14,
    1.606064636295075e-14, -2.7555431377438813e-15, 4.7277361786019114e-16,
    -8.11148420346509e-17, 1.3917077694741541e-17, -2.3877901082188627e-18,
)  # fmt: skip
_DIGAMMA_ROOT = (1.4616321449683622, 9.549995429965697e-17)

# The Bernoulli numbers B2, B4, ... B24.
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
    43867 / 798, -174611 / 330, 854513 / 138, -236364091 / 2730,
)  # fmt: skip

_HALF_LOG_TWO_PI = 0.91893853320467274178
# From here on the asymptotic series in 1/x are exact.
_ASYMPTOTIC = 8.0


def in_float64(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun`, computed in float64 and rounded to the dtype of its arguments."""

    @functools.wraps(fun)
    def wide(*args: Any) -> Any:
        return fun(*[x.astype(np.float64) for x in args]).astype(args[0].dtype)

    return wide


@in_float64
def erf(x: Any) -> Any:
    """The error function."""
    return _erf(x)


def _erf(x: Any) -> Any:
    a = np.minimum(np.absolute(x), 1.0)
    near = x * chebyshev.chebval(2 * a * a - 1, _ERF)
    return np.where(np.absolute(x) < 1, near, np.copysign(1 - _erfc(abs(x)), x))


@in_float64
def erfc(x: Any) -> Any:
    """1 - erf(x), without cancellation for large x."""
    return np.where(x < 0, 2 - _erfc(abs(x)), _erfc(abs(x)))


def _erfc(x: Any) -> Any:
    """erfc of x >= 0."""
    x = np.minimum(x, 30.0)  # beyond 27 it is 0
    # exp(-x**2) with x**2 in two parts, the first of them exact.
    head = np.rint(x * 16) / 16
    decay = np.exp(-head * head) * np.exp((head - x) * (head + x))
    return decay * chebyshev.chebval((x - 3.75) / (x + 3.75), _ERFC) / (1 + 2 * x)


def erf_inv(x: Any) -> Any:
    """The inverse of the error function; half precision computes in single."""
    if x.dtype.itemsize == 8:
        return _erf_inv(x)
    return _erf_inv_single(x.astype(np.float32)).astype(x.dtype)


# The coefficients that Giles (2010) published, for compiled code too: normal random
# numbers then agree with JAX's to the last bit, but for the rounding of the logarithm.
GILES_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06,
    0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
GILES_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def _erf_inv_single(x: Any) -> Any:
    """Giles, Approximating the erfinv function (2010), in steps of single precision.

    The steps are those of the compiled function and of JAX, so that random numbers
    drawn through it agree.
    """
    w = -np.log1p(-(x * x).astype(np.float64)).astype(np.float32)
    central = w < 5
    v = np.where(central, w - np.float32(2.5), np.sqrt(w) - np.float32(3))
    p = np.zeros_like(x)
    for near, far in zip(GILES_CENTRE, GILES_TAIL, strict=True):
        c = np.where(central, np.float32(near), np.float32(far))
        # A multiplication and an addition with one rounding.
        p = (p.astype(np.float64) * v + c).astype(np.float32)
    return np.where(np.absolute(x) == 1, x * np.float32(np.inf), p * x)


def _erf_inv(x: Any) -> Any:
    """A rough inverse (Winitzki, 2008), then three of Halley's steps."""
    a = np.absolute(x)
    log = np.log1p(-a) + np.log1p(a)
    half = 2 / (np.pi * 0.147) + log / 2
    y = np.sqrt(np.sqrt(half * half - log / 0.147) - half)
    for _ in range(3):
        # What y misses, from the side where nothing cancels.
        error = np.where(a > 0.5, (1 - a) - _erfc(y), a - _erf(y))
        error = np.where(a > 0.5, -error, error)
        step = error * (np.sqrt(np.pi) / 2) * np.exp(y * y)
        y = y + step / (1 - y * step)
    y = np.where(a < 1e-8, a * (np.sqrt(np.pi) / 2), y)
    y = np.where(a < 1, y, np.where(a == 1, np.inf, np.nan))
    return np.copysign(y, x)


@in_float64
def lgamma(x: Any) -> Any:
    """log|gamma(x)|; infinite at the poles and at both infinities."""
    a = np.absolute(x)
    positive = _lgamma(a)
    # Reflection: |gamma(-a)| = pi / (a |sin(pi a)| gamma(a)).
    mirrored = np.log(np.pi) - np.log(a * np.absolute(_sin_pi(a))) - positive
    out = np.where(x < -1e-30, mirrored, positive)
    return np.where(((x <= 0) & (np.floor(x) == x)) | (a == np.inf), np.inf, out)


def log_gamma_above_one(x: Any) -> Any:
    """log(gamma(1 + x)) for 0 <= x <= 1, accurate near 0."""
    return x * (x - 1) * chebyshev.chebval(x - 0.5, _LGAMMA)


def _sin_pi(x: Any) -> Any:
    """sin(pi x), up to sign."""
    return np.sin(np.pi * (x - np.rint(x)))


def _lgamma(x: Any) -> Any:
    """log(gamma(x)) for x > 0."""
    small, y, product = _reduced(x)
    near = np.log(product) + (y - 1) * (y - 2) * chebyshev.chebval(y - 1.5, _LGAMMA)
    near = np.where(x < 0.5, near - np.log(x), near)
    large = np.where(small, _ASYMPTOTIC, x)
    # Stirling's series (NIST DLMF 5.11.1).
    far = (large - 0.5) * np.log(large) - large + _HALF_LOG_TWO_PI
    power = 1 / large
    for k, bernoulli in enumerate(BERNOULLI[:9], 1):
        far = far + bernoulli / (2 * k * (2 * k - 1)) * power
        power = power / (large * large)
    return np.where(small, near, far)


def _reduced(x: Any) -> tuple[Any, Any, Any]:
    """Whether x is small; y in [0.5, 2.5) by whole steps; the product of the steps.

    That is gamma(x) / gamma(y) for x >= 0.5; an x below that makes one step up, which
    is not in the product.
    """
    small = x < _ASYMPTOTIC
    y = np.where(small, x, 1.5)
    y = np.where(y < 0.5, y + 1, y)
    product = np.ones_like(y)
    for _ in range(6):
        down = y >= 2.5
        y = np.where(down, y - 1, y)
        product = np.where(down, product * y, product)
    return small, y, product


@in_float64
def digamma(x: Any) -> Any:
    """The derivative of log(gamma(x)); NaN at the poles but the zeros, -inf at +0."""
    return _digamma(x)


def _digamma(x: Any) -> Any:
    # Reflection: digamma(1 - x) - digamma(x) = pi / tan(pi x).
    fraction = x - np.rint(x)
    mirrored = _positive_digamma(1 - x) - np.pi / np.tan(np.pi * fraction)
    out = np.where(x <= 0, mirrored, _positive_digamma(np.absolute(x)))
    pole = ((x < 0) & (fraction == 0)) | (x == -np.inf)
    out = np.where(pole, np.nan, np.where(x == np.inf, np.inf, out))
    return np.where(x == 0, np.copysign(np.inf, -x), out)


def _positive_digamma(x: Any) -> Any:
    small = x < _ASYMPTOTIC
    y = np.where(small, x, 1.5)
    total = np.where(y < 1, -1 / y, 0.0)
    y = np.where(y < 1, y + 1, y)
    for _ in range(6):
        down = y >= 2
        y = np.where(down, y - 1, y)
        total = np.where(down, total + 1 / y, total)
    head, tail = _DIGAMMA_ROOT
    near = ((y - head) - tail) * chebyshev.chebval(2 * y - 3, _DIGAMMA) + total
    large = np.where(small, _ASYMPTOTIC, x)
    # NIST DLMF 5.11.2.
    far = np.log(large) - 0.5 / large
    square = power = 1 / (large * large)
    for k, bernoulli in enumerate(BERNOULLI[:9], 1):
        far = far - bernoulli / (2 * k) * power
        power = power * square
    return np.where(small, near, far)


@in_float64
def polygamma(m: Any, x: Any) -> Any:
    """The m-th derivative of digamma; NaN unless m is a whole number >= 0.

    It is (-1)**(m + 1) m! zeta(m + 1, x) for m > 0 (NIST DLMF 25.11.12).
    """
    m, x = np.broadcast_arrays(m, x)
    whole = (m >= 0) & (np.floor(m) == m)
    s = np.where(whole & (m > 0), m + 1, 2.0)
    size = np.exp(_lgamma(s)) * _zeta(s, x)
    out = np.where(np.fmod(m, 2) == 0, -size, size)
    return np.where(whole, np.where(m == 0, _digamma(x), out), np.nan)


@in_float64
def zeta(s: Any, q: Any) -> Any:
    """Hurwitz's zeta function: the sum of (q + k)**-s over k >= 0."""
    return _zeta(*np.broadcast_arrays(s, q))


def _zeta(s: Any, q: Any) -> Any:
    """The first terms one by one, the rest by Euler and Maclaurin (DLMF 25.11.5)."""
    least = np.min(q, initial=0.0, where=np.isfinite(q))
    total = np.zeros_like(q)
    a = q
    for _ in range(10 + int(min(100.0, -least))):
        total = total + np.power(a, -s)
        a = a + 1
    tail = np.power(a, -s)
    total = total + tail * (a / (s - 1) + 0.5)
    factor = tail * (s / a)
    for k, bernoulli in enumerate(BERNOULLI, 1):
        total = total + bernoulli / FACTORIALS[k] * factor
        factor = factor * (s + 2 * k - 1) * (s + 2 * k) / (a * a)
    total = np.where((q == np.inf) & (s > 1), 0.0, total)
    total = np.where((s < 1) | ((q < 0) & (np.floor(s) != s)), np.nan, total)
    pole = (q <= 0) & (np.floor(q) == q)
    total = np.where(pole, np.where(np.fmod(s, 2) == 0, np.inf, np.nan), total)
    return np.where(s == 1, np.inf, total)


# (2 k)!
FACTORIALS = [float(np.prod(np.arange(1.0, 2 * k + 1))) for k in range(13)]
