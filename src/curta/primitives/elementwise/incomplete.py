"""Incomplete gamma and beta functions, and Bessel functions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.primitives.base import full_like, scalar_like
from curta.primitives.elementwise import bessel_values, incomplete_values
from curta.primitives.elementwise.arithmetic import add, integer_pow, mul, neg, sub
from curta.primitives.elementwise.comparison import gt
from curta.primitives.elementwise.exponential import exp, log, log1p
from curta.primitives.elementwise.magnitude import abs_, sign
from curta.primitives.elementwise.select import select
from curta.primitives.elementwise.special import Special, lgamma


class OfGamma(Special):
    """A function of the shape a and the bound x of an incomplete gamma integral."""

    arity: ClassVar[int] = 2
    compiled_above: ClassVar[str] = "compiled_special"
    domain: ClassVar[dict[str, Any]] = {"low": 0.3, "high": 6.0}


@dataclass(frozen=True)
class Igamma(OfGamma):
    """The regularised lower incomplete gamma function P(a, x)."""

    name: ClassVar[str] = "igamma"
    ufunc: ClassVar[Any] = staticmethod(incomplete_values.igamma)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        a, x = primals
        return mul(t, _gamma_density(a, x) if i else igamma_grad_a(a, x))


@dataclass(frozen=True)
class Igammac(OfGamma):
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""

    name: ClassVar[str] = "igammac"
    ufunc: ClassVar[Any] = staticmethod(incomplete_values.igammac)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        a, x = primals
        return neg(mul(t, _gamma_density(a, x) if i else igamma_grad_a(a, x)))


def _gamma_density(a: Any, x: Any) -> Any:
    """exp(-x) x**(a - 1) / gamma(a)."""
    power = mul(sub(a, full_like(a, 1)), log(x))
    return exp(sub(add(neg(x), power), lgamma(a)))


@dataclass(frozen=True)
class IgammaGradA(OfGamma):
    """The derivative of P(a, x) with respect to a."""

    name: ClassVar[str] = "igamma_grad_a"
    ufunc: ClassVar[Any] = staticmethod(incomplete_values.igamma_grad_a)


@dataclass(frozen=True)
class RandomGammaGrad(OfGamma):
    """The derivative of a sample x of Gamma(a, 1) with respect to a."""

    name: ClassVar[str] = "random_gamma_grad"
    ufunc: ClassVar[Any] = staticmethod(incomplete_values.random_gamma_grad)


@dataclass(frozen=True)
class Betainc(Special):
    """The regularised incomplete beta function I_x(a, b)."""

    name: ClassVar[str] = "regularized_incomplete_beta"
    arity: ClassVar[int] = 3
    compiled_above: ClassVar[str] = "compiled_special"
    domain: ClassVar[dict[str, Any]] = {"low": 0.1, "high": 0.9}
    ufunc: ClassVar[Any] = staticmethod(incomplete_values.betainc)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        if i < 2:
            raise ValueError(
                "Betainc gradient with respect to a and b not supported. Differentiate"
                " with respect to x only."
            )
        a, b, x = primals
        log_beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
        right = mul(sub(b, scalar_like(b, 1)), log1p(neg(x)))
        left = mul(sub(a, scalar_like(a, 1)), log(x))
        return mul(exp(sub(add(right, left), log_beta)), t)

    @classmethod
    def samples(cls) -> Any:
        parameter = {"low": 0.5, "high": 4.0, "constant": True}
        for shape in (2, 3), (), (0, 2):
            operands = [(shape, "float", parameter)] * 2
            yield cls(), [*operands, (shape, "float", cls.domain)]


class Bessel(Special):
    """A modified Bessel function, scaled by exp(-|x|)."""

    domain: ClassVar[dict[str, Any]] = {"low": -12.0, "high": 12.0}


@dataclass(frozen=True)
class BesselI0e(Bessel):
    """exp(-|x|) I0(x)."""

    name: ClassVar[str] = "bessel_i0e"
    ufunc: ClassVar[Any] = staticmethod(bessel_values.bessel_i0e)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(t, sub(bessel_i1e(x), mul(sign(x), out)))


@dataclass(frozen=True)
class BesselI1e(Bessel):
    """exp(-|x|) I1(x)."""

    name: ClassVar[str] = "bessel_i1e"
    ufunc: ClassVar[Any] = staticmethod(bessel_values.bessel_i1e)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        # Near 0 the two terms of I0 - I1 / x cancel, and 1 / x is no number at 0: its
        # series is taken there, whose derivatives are right, too.
        away = gt(abs_(x), scalar_like(x, _NEAR_ZERO))
        far = select(away, x, full_like(x, _NEAR_ZERO))
        correction = mul(out, add(sign(far), integer_pow(far, -1)))
        slope = sub(bessel_i0e(far), correction)
        near = select(away, full_like(x, 0), x)
        squared, series = mul(near, near), scalar_like(x, _I1_SLOPE[-1])
        for coefficient in reversed(_I1_SLOPE[:-1]):
            series = add(mul(series, squared), scalar_like(x, coefficient))
        decay = exp(mul(near, neg(sign(near))))  # abs has the derivative 1 at 0
        slope_near = sub(mul(decay, series), mul(sign(near), out))
        return mul(t, select(away, slope, slope_near))


_NEAR_ZERO = 0.25
# I0(x) - I1(x) / x = sum of (2k + 1) / (2 k! (k + 1)!) (x / 2)^2k
_I1_SLOPE = [
    (2 * k + 1) / (2 * math.factorial(k) * math.factorial(k + 1)) / 4**k
    for k in range(7)
]


igamma: Igamma = Igamma()
igammac: Igammac = Igammac()
igamma_grad_a: IgammaGradA = IgammaGradA()
random_gamma_grad: RandomGammaGrad = RandomGammaGrad()
betainc: Betainc = Betainc()
bessel_i0e: BesselI0e = BesselI0e()
bessel_i1e: BesselI1e = BesselI1e()
