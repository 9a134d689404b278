"""Exact values of special functions and distributions, by mpmath.

Functions of real mpmath numbers, which raise ValueError or ZeroDivisionError outside
of the domain. Integrals over densities are by quadrature where mpmath's own series
would take too many terms.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp

LARGE = 300


def _is_pole(x: Any) -> bool:
    return bool(x <= 0 and x == mp.floor(x))


def gamma(x: Any) -> Any:
    return mp.nan if _is_pole(x) and x != 0 else mp.inf if x == 0 else mp.gamma(x)


def gammaln(x: Any) -> Any:
    return mp.inf if _is_pole(x) else mp.re(mp.loggamma(x))


def digamma(x: Any) -> Any:
    return -mp.inf if x == 0 else mp.nan if _is_pole(x) else mp.digamma(x)


def polygamma(n: Any, x: Any) -> Any:
    return mp.psi(int(n), x)


def zeta(s: Any, q: Any) -> Any:
    with mp.workdps(mp.mp.dps + int(s * max(1, mp.log10(q)) / 2)):
        return mp.zeta(s, q)


def comb(n: Any, k: Any) -> Any:
    return mp.binomial(n, k) if 0 <= k <= n else mp.mpf(0)


def poch(z: Any, m: Any) -> Any:
    if _is_pole(z) and m == mp.floor(m) and abs(m) < 1000:
        return (
            mp.fprod(z + k for k in range(int(m)))
            if m >= 0
            else (1 / mp.fprod(z - k for k in range(1, int(-m) + 1)))
        )
    if _is_pole(z + m):
        return mp.inf
    with mp.workdps(mp.mp.dps + 110 if abs(z) > 1e10 else mp.mp.dps):
        return mp.gammaprod([z + m], [z])


def beta(a: Any, b: Any) -> Any:
    low, high = min(a, b), max(a, b)
    if _is_pole(low):
        if high == mp.floor(high) and high > 0 and low + high <= 0:
            return (-1) ** int(high) * beta(1 - low - high, high)
        return mp.inf
    return mp.gammaprod([a, b], [a + b])


def betaln(a: Any, b: Any) -> Any:
    value = beta(a, b)
    return mp.inf if mp.isinf(value) else mp.log(abs(value))


def _tail(log_density: Any, start: Any, scale: Any) -> Any:
    """The integral over u > 0 of exp(log_density(start, u)), which falls with u.

    Relative to its greatest value, as the tolerance of `quad` is absolute.
    """
    ends = [0, *(scale * mp.mpf(k) for k in (0.5, 1, 2, 4, 7, 12, 20, 40, 120))]
    first = log_density(start, mp.mpf(0))
    return mp.exp(first) * mp.quad(
        lambda u: mp.exp(log_density(start, u) - first), ends
    )


def gamma_parts(a: Any, x: Any) -> tuple[Any, Any]:
    """P(a, x) and Q(a, x)."""
    if a <= 0 or x < 0:
        raise ValueError("outside of the domain")
    if x == 0:
        return mp.mpf(0), mp.mpf(1)
    if max(a, x) < LARGE:
        p = mp.gammainc(a, 0, x, regularized=True)
        if p < 0.5:
            return p, 1 - p
        q = mp.gammainc(a, x, regularized=True)
        return 1 - q, q
    norm = mp.loggamma(a)
    width = 1 / (abs(x - a) + mp.sqrt(a))
    sign = 1 if x > a else -1

    def log_density(x: Any, u: Any) -> Any:  # over log t = log x +- u
        return a * (mp.log(x) + sign * u) - x * mp.exp(sign * u) - norm

    part = _tail(log_density, x, width)
    return (1 - part, part) if x > a else (part, 1 - part)


def gammainc(a: Any, x: Any) -> Any:
    return gamma_parts(a, x)[0]


def gammaincc(a: Any, x: Any) -> Any:
    return gamma_parts(a, x)[1]


def beta_parts(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """I_x(a, b) and 1 - I_x(a, b)."""
    if x <= 0 or x >= 1:
        return (mp.mpf(0), mp.mpf(1)) if x <= 0 else (mp.mpf(1), mp.mpf(0))
    # The parts may be as small as a parameter.
    with mp.workdps(mp.mp.dps + int(max(0, -mp.log10(min(a, b, x))))):
        return _beta_parts(a, b, x)


def _beta_parts(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    norm = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
    if max(a, b) < 5000:
        if x < (a + 1) / (a + b + 2):
            front = mp.exp(a * mp.log(x) + b * mp.log1p(-x) - norm) / a
            part = front * mp.hyp2f1(a + b, 1, a + 1, x)
            return part, 1 - part
        front = mp.exp(a * mp.log(x) + b * mp.log1p(-x) - norm) / b
        part = front * mp.hyp2f1(a + b, 1, b + 1, 1 - x)
        return 1 - part, part
    n = a + b
    width = 1 / (abs(n * x - a) + mp.sqrt(a * b / n))
    sign = 1 if x > a / n else -1
    odds = mp.log(x) - mp.log1p(-x)

    def log_density(odds: Any, u: Any) -> Any:  # over log(t / (1 - t))
        v = odds + sign * u
        return a * v - n * mp.log1p(mp.exp(v)) - norm

    part = _tail(log_density, odds, width)
    return (1 - part, part) if sign > 0 else (part, 1 - part)


def betainc(a: Any, b: Any, x: Any) -> Any:
    return beta_parts(a, b, x)[0]


def erfcx(x: Any) -> Any:
    if x > 1e8:
        return (1 - 1 / (2 * x * x)) / (x * mp.sqrt(mp.pi))
    return mp.exp(x * x) * mp.erfc(x)


def dawsn(x: Any) -> Any:
    if abs(x) > 1e6:
        return 1 / (2 * x) * (1 + 1 / (2 * x * x))
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def ndtr(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def log_ndtr(x: Any) -> Any:
    if x < -1e5:
        s = 1 / (x * x)
        return (
            -x * x / 2
            - mp.log(-x)
            - mp.log(2 * mp.pi) / 2
            + mp.log1p(-s + 3 * s * s - 15 * s**3)
        )
    if x > 0:
        return mp.log1p(-ndtr(-x))
    return mp.log(ndtr(x))


def ndtri(p: Any) -> Any:
    if not 0 < p < 1:
        return mp.inf if p == 1 else -mp.inf if p == 0 else mp.nan
    if p > 0.5:
        return -_ndtri(1 - p)
    return _ndtri(p)


def _ndtri(p: Any) -> Any:
    if p == 0.5:
        return mp.mpf(0)
    log = mp.log(p)
    x = -mp.sqrt(max(-2 * log - mp.log(max(-4 * mp.pi * log, 1.01)), 1e-9))
    x = (p - 0.5) * mp.sqrt(2 * mp.pi) if p > 0.3 else x
    for _ in range(60):
        density = mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)
        value = ndtr(x)
        step = (mp.log(value) - log) * value / density  # Newton's, of the logarithm
        x -= step
        if abs(step) <= mp.mpf(10) ** (5 - mp.mp.dps) * abs(x):
            break
    return x


def owens_t(h: Any, a: Any) -> Any:
    if h == 0:
        return mp.atan(a) / (2 * mp.pi)
    h, size = abs(h), abs(a)
    reach = min(size, 60 / h)
    ends = [k * reach / 8 for k in range(9)]
    area = reach * mp.quad(
        lambda x: mp.exp(-h * h * x * x / 2) / (1 + x * x) / reach, ends
    )
    return mp.sign(a) * area * mp.exp(-h * h / 2) / (2 * mp.pi)


def expi(x: Any) -> Any:
    return mp.re(mp.ei(x)) if x else -mp.inf


def expn(n: Any, x: Any) -> Any:
    return mp.expint(n, x)


def sici(x: Any) -> Any:
    return mp.si(x), mp.re(mp.ci(abs(x)))


def fresnel(x: Any) -> Any:
    return mp.fresnels(x), mp.fresnelc(x)


def spence(x: Any) -> Any:
    if x < 0:
        return mp.nan
    return mp.re(mp.polylog(2, 1 - x))


def bessel_scaled(order: int) -> Any:
    def value(x: Any) -> Any:
        a = abs(x)
        sign = mp.sign(x) if order % 2 and x else 1
        if a > 1e4:
            m = 4 * order * order
            total = term = mp.mpf(1)
            for k in range(1, 12):
                term *= -(m - (2 * k - 1) ** 2) / (k * 8 * a)
                total += term
            return sign * total / mp.sqrt(2 * mp.pi * a)
        return sign * mp.besseli(order, a) * mp.exp(-a)

    return value


def bessel(order: int) -> Any:
    scaled = bessel_scaled(order)
    return lambda x: scaled(x) * mp.exp(abs(x)) if abs(x) < 800 else mp.inf * x


def entr(x: Any) -> Any:
    return -x * mp.log(x) if x > 0 else mp.mpf(0) if x == 0 else -mp.inf


def rel_entr(p: Any, q: Any) -> Any:
    return p * mp.log(p / q) if p > 0 and q > 0 else mp.mpf(0) if p == 0 else mp.inf


def kl_div(p: Any, q: Any) -> Any:
    return rel_entr(p, q) - p + q


def xlogy(x: Any, y: Any) -> Any:
    return x * mp.log(y) if x else mp.mpf(0)


def xlog1py(x: Any, y: Any) -> Any:
    return x * mp.log1p(y) if x else mp.mpf(0)


def boxcox(x: Any, k: Any) -> Any:
    return mp.log(x) if k == 0 else mp.expm1(k * mp.log(x)) / k


def boxcox1p(x: Any, k: Any) -> Any:
    return mp.log1p(x) if k == 0 else mp.expm1(k * mp.log1p(x)) / k


def expit(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def logit(p: Any) -> Any:
    return mp.log(p) - mp.log1p(-p)


def sinc(x: Any) -> Any:
    return mp.sincpi(x)


# ---- distributions


def log_poisson(k: Any, m: Any) -> Any:
    return (k * mp.log(m) if k else mp.mpf(0)) - m - mp.loggamma(k + 1)


def log_binomial(x: Any, y: Any, p: Any) -> Any:
    ways = mp.loggamma(x + y + 1) - mp.loggamma(x + 1) - mp.loggamma(y + 1)
    return ways + xlogy(x, p) + xlog1py(y, -p)


def norm(x: Any) -> Any:
    return -x * x / 2 - mp.log(2 * mp.pi) / 2


def gamma_density(x: Any, a: Any) -> Any:
    return xlogy(a - 1, x) - x - mp.loggamma(a)


def beta_density(x: Any, a: Any, b: Any) -> Any:
    norm = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
    return xlogy(a - 1, x) + xlog1py(b - 1, -x) - norm


def t_density(x: Any, n: Any) -> Any:
    top = mp.loggamma((n + 1) / 2) - mp.loggamma(n / 2) - mp.log(n * mp.pi) / 2
    return top - (n + 1) / 2 * mp.log1p(x * x / n)


def truncated(x: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The mass below x, that beyond, and all, of the normal distribution in [a, b]."""

    def mass(low: Any, high: Any) -> Any:
        return ndtr(high) - ndtr(low) if low < 0 else ndtr(-low) - ndtr(-high)

    return mass(a, x), mass(x, b), mass(a, b)


def betabinom(k: Any, n: Any, a: Any, b: Any) -> Any:
    def log_beta(a: Any, b: Any) -> Any:
        return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)

    ways = -mp.log1p(n) - log_beta(n - k + 1, k + 1)
    return ways + log_beta(k + a, n - k + b) - log_beta(a, b)


def nbinom(k: Any, n: Any, p: Any) -> Any:
    ways = mp.loggamma(n + k) - mp.loggamma(k + 1) - mp.loggamma(n)
    return ways + n * mp.log(p) + xlog1py(k, -p)


def vonmises(x: Any, kappa: Any) -> Any:
    i0e = bessel_scaled(0)(kappa)
    return -2 * kappa * mp.sin(x / 2) ** 2 - mp.log(2 * mp.pi * i0e)


def wrapcauchy(x: Any, c: Any) -> Any:
    below = (1 - c) ** 2 + 4 * c * mp.sin(x / 2) ** 2
    return mp.log((1 - c * c) / below / (2 * mp.pi))
