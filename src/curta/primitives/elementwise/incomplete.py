"""Incomplete gamma and beta functions, and Bessel functions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.trace import typeof
from curta.primitives.base import (
    broadcast_shapes,
    broadcast_to,
    full_like,
    scalar_like,
)
from curta.primitives.elementwise import bessel_values, incomplete_values
from curta.primitives.elementwise.arithmetic import (
    add,
    div,
    integer_pow,
    mul,
    neg,
    sub,
)
from curta.primitives.elementwise.bitwise import and_
from curta.primitives.elementwise.comparison import eq, gt
from curta.primitives.elementwise.exponential import exp, log, log1p
from curta.primitives.elementwise.magnitude import abs_, sign
from curta.primitives.elementwise.select import select
from curta.primitives.elementwise.special import Special, digamma


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
        return mul(t, gamma_density(a, x) if i else igamma_grad_a(a, x))


@dataclass(frozen=True)
class Igammac(OfGamma):
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""

    name: ClassVar[str] = "igammac"
    ufunc: ClassVar[Any] = staticmethod(incomplete_values.igammac)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        a, x = primals
        return neg(mul(t, gamma_density(a, x) if i else igamma_grad_a(a, x)))


@dataclass(frozen=True)
class GammaDensity(OfGamma):
    """The derivative of P(a, x) with respect to x, x**(a - 1) exp(-x) / gamma(a)."""

    name: ClassVar[str] = "gamma_density"
    ufunc: ClassVar[Any] = staticmethod(incomplete_values.gamma_density)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        a, x, out = _alike(*primals, out)
        zero = full_like(a, 0)
        if i == 0:
            slope = mul(out, sub(log(x), digamma(a)))
            return mul(t, select(eq(out, zero), zero, slope))
        return mul(t, sub(_step_down(a, x, out, lambda c: gamma_density(c, x)), out))


def _alike(*xs: Any) -> list[Any]:
    """The operands in one shape."""
    shape = broadcast_shapes("density", [typeof(x).shape for x in xs])
    return [broadcast_to(x, shape) for x in xs]


def _step_down(a: Any, x: Any, out: Any, below: Any) -> Any:
    """(a - 1) / x times a density `out`; where x is 0, for a > 1, its limit.

    That is `below`, the density of a - 1 times a factor.
    """
    one = full_like(a, 1)
    safe = select(gt(a, one), sub(a, one), one)
    direct = div(mul(out, sub(a, one)), x)
    at_end = select(gt(a, one), below(safe), direct)
    slope = select(eq(x, full_like(x, 0)), at_end, direct)
    return select(eq(a, one), full_like(a, 0), slope)


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


class OfBeta(Special):
    """A function of the parameters a and b and the bound x of a beta integral."""

    arity: ClassVar[int] = 3
    compiled_above: ClassVar[str] = "compiled_special"
    domain: ClassVar[dict[str, Any]] = {"low": 0.1, "high": 0.9}

    @classmethod
    def samples(cls) -> Any:
        parameter = {"low": 0.5, "high": 4.0, "constant": True}
        for shape in (2, 3), (), (0, 2):
            operands = [(shape, "float", parameter)] * 2
            yield cls(), [*operands, (shape, "float", cls.domain)]


def _by_bound(i: int, t: Any, a: Any, b: Any, x: Any) -> Any:
    """The tangent of I_x(a, b) for the tangent t of x, operand 2."""
    if i < 2:
        raise ValueError(
            "Betainc gradient with respect to a and b not supported. Differentiate"
            " with respect to x only."
        )
    return mul(beta_density(a, b, x), t)


@dataclass(frozen=True)
class BetaDensity(OfBeta):
    """The derivative of I_x(a, b), x**(a - 1) (1 - x)**(b - 1) / B(a, b)."""

    name: ClassVar[str] = "beta_density"
    ufunc: ClassVar[Any] = staticmethod(incomplete_values.beta_density)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        a, b, x, out = _alike(*primals, out)
        zero, one, both = full_like(a, 0), full_like(a, 1), add(a, b)
        if i < 2:
            part = log(x) if i == 0 else log1p(neg(x))
            change = add(part, sub(digamma(both), digamma((a, b)[i])))
            return mul(t, select(eq(out, zero), zero, mul(out, change)))
        scale = sub(both, one)
        left = _step_down(a, x, out, lambda c: mul(scale, beta_density(c, b, x)))
        right = _step_down(
            b, sub(one, x), out, lambda c: mul(scale, beta_density(a, c, x))
        )
        # At an end where it is infinite, by the factor of that end alone.
        endless = eq(out, full_like(out, np.inf))
        left = select(and_(endless, eq(x, one)), zero, left)
        right = select(and_(endless, eq(x, zero)), zero, right)
        return mul(t, sub(left, right))


@dataclass(frozen=True)
class Betainc(OfBeta):
    """The regularised incomplete beta function I_x(a, b)."""

    name: ClassVar[str] = "regularized_incomplete_beta"
    ufunc: ClassVar[Any] = staticmethod(incomplete_values.betainc)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return _by_bound(i, t, *primals)


@dataclass(frozen=True)
class Betaincc(OfBeta):
    """Its complement 1 - I_x(a, b), accurate for small x."""

    name: ClassVar[str] = "regularized_incomplete_beta_complement"
    ufunc: ClassVar[Any] = staticmethod(incomplete_values.betaincc)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return neg(_by_bound(i, t, *primals))


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
betaincc: Betaincc = Betaincc()
gamma_density: GammaDensity = GammaDensity()
beta_density: BetaDensity = BetaDensity()
bessel_i0e: BesselI0e = BesselI0e()
bessel_i1e: BesselI1e = BesselI1e()
