"""Exponentials, logarithms, the logistic function and tanh."""

from __future__ import annotations

import enum
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._settings.api_version import STABLE_DERIVATIVES
from curta.dtypes import working_dtype
from curta.primitives.base import INEXACT, Elementwise, Family, const, scalar_like
from curta.primitives.elementwise.arithmetic import (
    add,
    div,
    mul,
    neg,
    one_minus_square,
    sub,
)


class AccuracyMode(enum.Enum):
    """How exact a function is to be.

    >>> from curta import lax
    >>> lax.exp(0.0, accuracy=lax.AccuracyMode.HIGHEST)
    Array(1., dtype=float32, weak_type=True)
    """

    HIGHEST = 1
    DEFAULT = 2


class Tolerance:
    """The error that a function may have: absolute, and relative or in ULPs.

    Raises ValueError if one is negative or none is given.

    >>> from curta import lax
    >>> lax.exp(0.0, accuracy=lax.Tolerance(rtol=1e-5))
    Array(1., dtype=float32, weak_type=True)
    >>> lax.Tolerance(atol=-1.0)
    Traceback (most recent call last):
        ...
    ValueError: Tolerances must be non-negative.
    """

    atol: float
    rtol: float
    ulps: int

    def __init__(self, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0):
        if atol < 0.0 or rtol < 0.0 or ulps < 0.0:
            raise ValueError("Tolerances must be non-negative.")
        if not (atol or rtol or ulps):
            raise ValueError("At least one of atol, rtol, or ulps must be set.")
        self.atol, self.rtol, self.ulps = atol, rtol, ulps


@dataclass(frozen=True)
class Accurate(Elementwise):
    """A function of which one can ask for an accuracy.

    There is one implementation of each, a few units in the last place from exact,
    whatever `accuracy` says; HIGHEST also takes the more exact of two formulas for
    the derivative.
    """

    accepts: ClassVar[Family] = INEXACT
    accuracy: Any = None

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        return {} if self.accuracy is None else self.params()

    @property
    def highest(self) -> bool:
        """Whether the highest accuracy is asked for."""
        return self.accuracy is AccuracyMode.HIGHEST


class Exp(Accurate):
    """e to the power x."""

    name: ClassVar[str] = "exp"
    ufunc: ClassVar[Any] = np.exp

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return mul(t, out)


class Exp2(Accurate):
    """2 to the power x."""

    name: ClassVar[str] = "exp2"
    ufunc: ClassVar[Any] = np.exp2

    def scalar(self, b: Any, *xs: Any) -> Any:
        (x,) = xs
        if x.dtype.kind != "c":
            return b.math("exp2", x)
        re, im = b.real(x), b.imag(x)
        factor = b.const(np.log(2), re.dtype)
        return b.math("exp", b.complex(b.mul(factor, re), b.mul(factor, im)))

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(log(const(x, 2)), mul(t, out))


class Expm1(Accurate):
    """exp(x) - 1, exact for small x too."""

    name: ClassVar[str] = "expm1"

    def eval(self, *args: Any) -> Any:
        (x,) = args
        return _complex_expm1(x) if x.dtype.kind == "c" else np.expm1(x)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return mul(t, Exp(self.accuracy)(*primals))  # out + 1 is 0 far below 0


class Log(Accurate):
    """The natural logarithm."""

    name: ClassVar[str] = "log"
    domain: ClassVar[dict[str, Any]] = {"low": 0.1, "high": 4.0}
    ufunc: ClassVar[Any] = np.log

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return div(t, *primals)


class Log2(Accurate):
    """The logarithm to base 2."""

    name: ClassVar[str] = "log2"
    domain: ClassVar[dict[str, Any]] = {"low": 0.1, "high": 4.0}

    def eval(self, *args: Any) -> Any:
        (x,) = args
        if x.dtype.kind != "c":
            return np.log2(x)
        whole = np.log(x)
        scale = whole.real.dtype.type(1 / np.log(2))
        return _joined(whole.real * scale, whole.imag * scale)

    def scalar(self, b: Any, *xs: Any) -> Any:
        (x,) = xs
        if x.dtype.kind != "c":
            return b.math("log2", x)
        whole = b.math("log", x)
        re, im = b.real(whole), b.imag(whole)
        scale = b.const(1 / np.log(2), re.dtype)
        return b.complex(b.mul(re, scale), b.mul(im, scale))

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return div(t, mul(x, log(const(x, 2))))


class Log1p(Accurate):
    """log(1 + x), exact for small x too."""

    name: ClassVar[str] = "log1p"
    domain: ClassVar[dict[str, Any]] = {"low": -0.8, "high": 4.0}

    def eval(self, *args: Any) -> Any:
        (x,) = args
        return _complex_log1p(x) if x.dtype.kind == "c" else np.log1p(x)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return div(t, add(x, scalar_like(x, 1)))


def _complex_log1p(z: Any) -> Any:
    """log(1 + z), without the cancellation of NumPy's near 0."""
    x, y = z.real, z.imag
    excess = x * (2 + x) + y * y  # |1 + z|**2 - 1
    near = np.absolute(excess) < 0.5
    whole = np.log(_joined(1 + x, y))
    return _joined(np.where(near, 0.5 * np.log1p(excess), whole.real), whole.imag)


def _complex_expm1(z: Any) -> Any:
    """exp(z) - 1 = (e**x - 1) cos y - 2 sin(y/2)**2 + i e**x sin y.

    Where nothing cancels it is the difference, which NumPy's own is not at infinities.
    """
    x, y = z.real, z.imag
    whole = np.exp(z)
    near = np.expm1(x) * np.cos(y) - 2 * np.sin(y / 2) ** 2
    return _joined(np.where(np.absolute(x) < 1, near, whole.real - 1), whole.imag)


def _joined(re: Any, im: Any) -> Any:
    """re + i im, whatever is infinite."""
    out = np.empty(re.shape, np.result_type(re, np.complex64))
    out.real, out.imag = re, im
    return out


class Tanh(Accurate):
    """The hyperbolic tangent."""

    name: ClassVar[str] = "tanh"
    ufunc: ClassVar[Any] = np.tanh

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        if self.highest:
            # 4 s(2x) s(-2x) does not cancel where 1 - tanh(x)**2 does.
            up = Logistic(self.accuracy)(mul(const(x, 2), x))
            down = Logistic(self.accuracy)(mul(const(x, -2), x))
            return mul(t, mul(const(x, 4), mul(up, down)))
        if STABLE_DERIVATIVES.applies():
            return mul(t, one_minus_square(out))
        return mul(add(t, mul(t, out)), sub(scalar_like(x, 1), out))


class Logistic(Accurate):
    """1 / (1 + exp(-x))."""

    name: ClassVar[str] = "logistic"

    def eval(self, *args: Any) -> Any:
        (x,) = args
        if x.dtype.kind == "c":
            return _complex_logistic(x)
        wide = x.astype(working_dtype(x.dtype), copy=False)
        e = np.exp(-np.absolute(wide))
        one = wide.dtype.type(1)
        return (np.where(wide >= 0, one, e) / (one + e)).astype(x.dtype, copy=False)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        if self.highest:
            return mul(t, mul(out, logistic(neg(x))))
        return mul(t, mul(out, sub(scalar_like(out, 1), out)))


def _complex_logistic(z: Any) -> Any:
    """1 / (1 + e**-z), through e = e**-|x|, m = e - 1 and half the angle.

    |1 + e**-z|**2 is m**2 + 4 e cos(y/2)**2, for x >= 0.
    """
    x, half = z.real, z.imag / 2
    e, m = np.exp(-np.absolute(x)), np.expm1(-np.absolute(x))
    one_plus_cos = 2 * np.cos(half) ** 2
    divisor = m * m + 2 * e * one_plus_cos
    re = np.where(x >= 0, e * one_plus_cos - m, e * (one_plus_cos + m)) / divisor
    im = 2 * e * np.sin(half) * np.cos(half) / divisor
    infinite = np.isinf(x)
    re = np.where(infinite, x > 0, re)
    return _joined(re, np.where(infinite, np.copysign(0, z.imag), im)).astype(z.dtype)


exp: Exp = Exp()
exp2: Exp2 = Exp2()
expm1: Expm1 = Expm1()
log: Log = Log()
log2: Log2 = Log2()
log1p: Log1p = Log1p()
tanh: Tanh = Tanh()
logistic: Logistic = Logistic()
