"""Error functions, gamma functions, zeta."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from curta.primitives.base import FLOAT, Elementwise, Family, const
from curta.primitives.elementwise import special_values
from curta.primitives.elementwise.arithmetic import add, mul, neg, square
from curta.primitives.elementwise.exponential import Accurate, exp

"""Elements from which a function that takes hundreds of steps in NumPy is compiled."""


class Special(Elementwise):
    """A function of floats."""

    accepts: ClassVar[Family] = FLOAT


class Erf(Special):
    """The error function."""

    name: ClassVar[str] = "erf"
    ufunc: ClassVar[Any] = staticmethod(special_values.erf)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(const(x, 2 / np.sqrt(np.pi)), mul(t, exp(neg(square(x)))))


class Erfc(Accurate):
    """1 - erf(x), without cancellation for large x."""

    name: ClassVar[str] = "erfc"
    accepts: ClassVar[Family] = FLOAT
    ufunc: ClassVar[Any] = staticmethod(special_values.erfc)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(const(x, -2 / np.sqrt(np.pi)), mul(t, exp(neg(square(x)))))


class ErfInv(Special):
    """The inverse of the error function."""

    name: ClassVar[str] = "erf_inv"
    domain: ClassVar[dict[str, Any]] = {"low": -0.9, "high": 0.9}
    ufunc: ClassVar[Any] = staticmethod(special_values.erf_inv)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(const(x, np.sqrt(np.pi) / 2), mul(t, exp(square(out))))


class Lgamma(Special):
    """log|gamma(x)|."""

    name: ClassVar[str] = "lgamma"
    domain: ClassVar[dict[str, Any]] = {"low": 0.2, "high": 12.0}
    ufunc: ClassVar[Any] = staticmethod(special_values.lgamma)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return mul(t, digamma(*primals))


class Digamma(Special):
    """The derivative of log(gamma(x))."""

    name: ClassVar[str] = "digamma"
    domain: ClassVar[dict[str, Any]] = {"low": 0.2, "high": 12.0}
    ufunc: ClassVar[Any] = staticmethod(special_values.digamma)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(t, polygamma(const(x, 1), x))


class Polygamma(Special):
    """The m-th derivative of digamma at x."""

    name: ClassVar[str] = "polygamma"
    compiled_above: ClassVar[str] = "compiled_special"
    arity: ClassVar[int] = 2
    ufunc: ClassVar[Any] = staticmethod(special_values.polygamma)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        m, x = primals
        if i == 0:
            raise ValueError(
                "polygamma gradient with respect to m is not supported: m counts"
                " derivatives. Differentiate with respect to x only."
            )
        return mul(t, polygamma(add(m, const(m, 1)), x))

    @classmethod
    def samples(cls) -> Iterator[Any]:
        order = {"values": [0, 1, 2, 3], "constant": True}
        x = {"low": 0.3, "high": 9.0}
        yield cls(), [((4,), "float", order), ((4,), "float", x)]
        yield cls(), [((), "float", order), ((2, 3), "float", x)]
        yield cls(), [((0,), "float", order), ((0,), "float", x)]


class Zeta(Special):
    """Hurwitz's zeta function: the sum of (q + k)**-x over k >= 0."""

    name: ClassVar[str] = "zeta"
    compiled_above: ClassVar[str] = "compiled_special"
    arity: ClassVar[int] = 2
    domain: ClassVar[dict[str, Any]] = {"low": 1.5, "high": 6.0}
    ufunc: ClassVar[Any] = staticmethod(special_values.zeta)


erf: Erf = Erf()
erfc: Erfc = Erfc()
erf_inv: ErfInv = ErfInv()
lgamma: Lgamma = Lgamma()
digamma: Digamma = Digamma()
polygamma: Polygamma = Polygamma()
zeta: Zeta = Zeta()
