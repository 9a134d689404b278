"""Trigonometric and hyperbolic functions and their inverses."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from curta._settings.api_version import STABLE_DERIVATIVES
from curta.primitives.base import INEXACT, Elementwise, Family, const, scalar_like
from curta.primitives.elementwise.arithmetic import (
    add,
    div,
    integer_pow,
    mul,
    neg,
    one_minus_square,
    square,
    sub,
)
from curta.primitives.elementwise.exponential import Accurate
from curta.primitives.elementwise.powers import rsqrt
from curta.primitives.elementwise.slopes import asinh_slope

UNIT = {"low": -0.9, "high": 0.9}


class Inexact(Elementwise):
    """A function of one float or complex number."""

    accepts: ClassVar[Family] = INEXACT


class Sin(Accurate):
    """The sine, of radians."""

    name: ClassVar[str] = "sin"
    ufunc: ClassVar[Any] = np.sin

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return mul(t, Cos(self.accuracy)(*primals))


class Cos(Accurate):
    """The cosine, of radians."""

    name: ClassVar[str] = "cos"
    ufunc: ClassVar[Any] = np.cos

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return neg(mul(t, Sin(self.accuracy)(*primals)))


class Tan(Accurate):
    """The tangent, of radians."""

    name: ClassVar[str] = "tan"
    domain: ClassVar[dict[str, Any]] = {"low": -1.2, "high": 1.2}
    ufunc: ClassVar[Any] = np.tan

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(t, add(const(x, 1), square(out)))


def _one_minus_square(x: Any) -> Any:
    if STABLE_DERIVATIVES.applies():
        return one_minus_square(x)
    return sub(const(x, 1), square(x))


class Asin(Inexact):
    """The inverse sine, in radians."""

    name: ClassVar[str] = "asin"
    domain: ClassVar[dict[str, Any]] = UNIT
    ufunc: ClassVar[Any] = np.arcsin

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(t, rsqrt(_one_minus_square(x)))


class Acos(Inexact):
    """The inverse cosine, in radians."""

    name: ClassVar[str] = "acos"
    domain: ClassVar[dict[str, Any]] = UNIT
    ufunc: ClassVar[Any] = np.arccos

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(t, neg(rsqrt(_one_minus_square(x))))


class Atan(Inexact):
    """The inverse tangent, in radians."""

    name: ClassVar[str] = "atan"
    domain: ClassVar[dict[str, Any]] = UNIT
    ufunc: ClassVar[Any] = np.arctan

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return div(t, add(const(x, 1), square(x)))


class Atan2(Elementwise):
    """The angle of the point (y, x), between -pi and pi."""

    name: ClassVar[str] = "atan2"
    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = INEXACT
    domain: ClassVar[dict[str, Any]] = {"low": 0.2, "high": 3.0}

    def eval(self, *args: Any) -> Any:
        y, x = args
        if x.dtype.kind != "c":
            return np.arctan2(y, x)
        # log(e**(i a)) = i a, with e**(i a) = (x + i y) / sqrt(x**2 + y**2)
        i = np.asarray(1j, x.dtype)
        return -i * np.log((x + i * y) / np.sqrt(x * x + y * y))

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        y, x = primals
        numerator = neg(y) if i else x
        return mul(t, div(numerator, add(square(y), square(x))))


class Sinh(Inexact):
    """The hyperbolic sine."""

    name: ClassVar[str] = "sinh"
    ufunc: ClassVar[Any] = np.sinh

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return mul(t, cosh(*primals))


class Cosh(Inexact):
    """The hyperbolic cosine."""

    name: ClassVar[str] = "cosh"
    ufunc: ClassVar[Any] = np.cosh

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return mul(t, sinh(*primals))


class Asinh(Inexact):
    """The inverse hyperbolic sine."""

    name: ClassVar[str] = "asinh"
    domain: ClassVar[dict[str, Any]] = UNIT
    ufunc: ClassVar[Any] = np.arcsinh

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(t, asinh_slope(x))


class Acosh(Inexact):
    """The inverse hyperbolic cosine; NaN below 1."""

    name: ClassVar[str] = "acosh"
    domain: ClassVar[dict[str, Any]] = {"low": 1.2, "high": 4.0}
    ufunc: ClassVar[Any] = np.arccosh

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        one = scalar_like(x, 1)
        return mul(t, mul(rsqrt(sub(x, one)), rsqrt(add(x, one))))


class Atanh(Inexact):
    """The inverse hyperbolic tangent."""

    name: ClassVar[str] = "atanh"
    domain: ClassVar[dict[str, Any]] = UNIT
    ufunc: ClassVar[Any] = np.arctanh

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        if STABLE_DERIVATIVES.applies():
            return div(t, one_minus_square(x))
        one = scalar_like(x, 1)
        return mul(integer_pow(add(one, x), -1), div(t, sub(one, x)))


sin: Sin = Sin()
cos: Cos = Cos()
tan: Tan = Tan()
asin: Asin = Asin()
acos: Acos = Acos()
atan: Atan = Atan()
atan2: Atan2 = Atan2()
sinh: Sinh = Sinh()
cosh: Cosh = Cosh()
asinh: Asinh = Asinh()
acosh: Acosh = Acosh()
atanh: Atanh = Atanh()
