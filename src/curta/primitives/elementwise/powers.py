"""Powers and roots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta.core.avals import dtype_name
from curta.core.trace import typeof
from curta.primitives.base import (
    FLOAT,
    INEXACT,
    NUMBER,
    Elementwise,
    Family,
    broadcast_shapes,
    broadcast_to,
    check_dtype,
    const,
    full_like,
)
from curta.primitives.elementwise.arithmetic import div, integer_pow, mul, sub
from curta.primitives.elementwise.comparison import eq
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.elementwise.exponential import Accurate, log
from curta.primitives.elementwise.magnitude import replace_zero
from curta.primitives.elementwise.select import select

POSITIVE = {"low": 0.2, "high": 3.0}


class Sqrt(Accurate):
    """The square root; NaN of a negative float."""

    name: ClassVar[str] = "sqrt"
    method: ClassVar[str] = "sqrt"
    domain: ClassVar[dict[str, Any]] = POSITIVE
    ufunc: ClassVar[Any] = np.sqrt

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(t, div(const(x, 0.5), out))


class Rsqrt(Accurate):
    """1 / sqrt(x)."""

    name: ClassVar[str] = "rsqrt"
    domain: ClassVar[dict[str, Any]] = POSITIVE

    def eval(self, *args: Any) -> Any:
        (x,) = args
        wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
        result = np.true_divide(np.ones((), wide.dtype), np.sqrt(wide))
        if x.dtype.kind != "c":
            return result.astype(x.dtype)
        # Of infinities it is 0, where the quotient is NaN.
        zero = np.empty_like(x)
        zero.real, zero.imag = 0, np.copysign(0, -x.imag)
        return np.where(np.isinf(x), zero, result)

    def scalar(self, b: Any, *xs: Any) -> Any:
        (x,) = xs
        if x.dtype == np.float32:  # the others have rules of their own
            return b.div(b.const(1, x.dtype), b.sqrt(x))
        return b.math("rsqrt", x)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(t, mul(const(x, -0.5), div(out, x)))


class Cbrt(Accurate):
    """The real cube root."""

    name: ClassVar[str] = "cbrt"
    accepts: ClassVar[Family] = FLOAT
    domain: ClassVar[dict[str, Any]] = {"low": 0.2, "high": 3.0}
    ufunc: ClassVar[Any] = np.cbrt

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(t, mul(const(x, 1 / 3), integer_pow(out, -2)))


class Pow(Elementwise):
    """x to the power y; x is inexact, y of the same dtype or an integer."""

    name: ClassVar[str] = "pow"
    arity: ClassVar[int] = 2

    def out_dtype(self, *given: Any) -> Any:
        x, y = given
        check_dtype(self.name, x, INEXACT, " at position 0")
        check_dtype(self.name, y, NUMBER, " at position 1")
        if x == y or dtypes.issubdtype(y, np.integer):
            return x
        raise TypeError(
            "the first argument to pow must have an inexact dtype (float or complex),"
            " and the second argument must have an inexact or integer dtype, and two"
            f" inexact dtypes must match, but got {dtype_name(x)} and"
            f" {dtype_name(y)} respectively."
        )

    def eval(self, *args: Any) -> Any:
        x, y = args
        # Of 0.5 at a stride of 0 NumPy makes a square root: -0.0, and NaN of -inf.
        shape = np.broadcast_shapes(x.shape, y.shape)
        exponents = np.broadcast_to(y.astype(x.dtype, copy=False), shape or (1,))
        power = np.power(x, exponents.copy()).reshape(shape)
        if x.dtype.kind == "c":
            x, exponents = np.broadcast_arrays(x, exponents.reshape(shape))
            finite = np.isfinite(power) & np.isfinite(x) & np.isfinite(exponents)
            if not finite.all():
                power = np.where(finite, power, _complex_power(x, exponents))
        return power

    def scalar(self, b: Any, *xs: Any) -> Any:
        x, y = xs
        return b.pow(x, b.convert(y, x.dtype))

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        x, y = primals
        if i == 1:
            log_x = log(replace_zero(x))
            return convert_element_type(mul(t, mul(log_x, out)), typeof(y).dtype)
        return mul(t, _pow_slope(x, y))

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for shape in (2, 3), (), (0, 2):
            yield cls(), [(shape, "inexact", POSITIVE), (shape, "inexact")]
        yield cls(), [((2, 1), "float", POSITIVE), ((1, 3), "float")]
        powers = ((3,), "int32", {"low": -2, "high": 4})
        yield cls(), [((3,), "inexact", POSITIVE), powers]


def _pow_slope(x: Any, y: Any) -> Any:
    """y * x**(y - 1): the derivative of x**y with respect to x."""
    whole = dtypes.issubdtype(typeof(y).dtype, np.integer)
    x_aval, y_aval = typeof(x), typeof(y)
    dtype, weak = dtypes.promote_pair(
        x_aval.dtype, x_aval.weak_type, y_aval.dtype, y_aval.weak_type
    )
    x, y = convert_element_type(x, dtype), convert_element_type(y, dtype)
    if not whole:
        return mul(y, pow_(x, sub(y, full_like(y, 1))))
    shape = broadcast_shapes("pow", [x_aval.shape, y_aval.shape])
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    # At y = 0 the slope is 0 even where x**-1 is infinite.
    constant, zeros = eq(y, const(y, 0)), full_like(y, 0)
    slope = mul(replace_zero(y), pow_(x, sub(y, full_like(y, 1))))
    return select(constant, zeros, slope)


def _complex_power(z: Any, w: Any) -> Any:
    """exp(w log z), with NaN where that has it; NumPy's may be infinite instead.

    A real w scales the parts of the logarithm: infinite ones times 0 would be NaN.
    """
    log, product = np.log(z), np.empty_like(z)
    scaled = w.imag == 0
    product.real = w.real * log.real - np.where(scaled, 0, w.imag * log.imag)
    product.imag = w.real * log.imag + np.where(scaled, 0, w.imag * log.real)
    # Where the angle overflows the size may be known.
    lost = np.isinf(product.imag) & (np.abs(product.real) > 1e3)
    product.real = np.where(lost, np.copysign(np.inf, product.real), product.real)
    power = np.exp(product)
    broken = z.dtype.type(complex(np.nan, np.nan))
    power = np.where(z == 0, np.where(w.real > 0, 0, broken), power)
    return np.where(w == 0, 1, power).astype(z.dtype)


sqrt: Sqrt = Sqrt()
rsqrt: Rsqrt = Rsqrt()
cbrt: Cbrt = Cbrt()
pow_: Pow = Pow()
