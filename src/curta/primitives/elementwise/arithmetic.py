"""Sums, products and whole powers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.tangents import Zero
from curta.core.trace import typeof
from curta.primitives.base import (
    INT,
    NUMBER,
    Elementwise,
    Family,
    FlatElementwise,
    LinearElementwise,
    broadcast_to,
    const,
    is_part_of_byte,
    wrapped,
)
from curta.primitives.taylor import product, sum_of_products, total


class Neg(LinearElementwise):
    """-x; integers wrap around."""

    name: ClassVar[str] = "neg"
    method: ClassVar[str] = "neg"
    makes_nan: ClassVar[bool] = False
    accepts: ClassVar[Family] = NUMBER

    def eval(self, *args: Any) -> Any:
        (x,) = args
        if is_part_of_byte(x.dtype):  # NumPy negates them in another dtype
            return wrapped(np.subtract(x.dtype.type(0), x))
        return np.negative(x)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return neg(t)

    def cotangent(self, i: int, ct: Any, *args: Any) -> Any:
        return neg(ct)


class Sum(LinearElementwise):
    """x + y or x - y, whose tangent is the sum or difference of the tangents."""

    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = NUMBER

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self(*primals)
        s, t = tangents
        if type(s) is not Zero and type(t) is not Zero:
            return out, self(s, t)
        one = self.tangent(1, t, out) if type(s) is Zero else s
        return out, broadcast_to(one, typeof(out).shape)

    def taylor(self, k: int, out: Sequence[Any], *series: Sequence[Any]) -> Any:
        x, y = (s[k] for s in series)
        if x is not None and y is not None:
            return self(x, y)
        if x is None and y is None:
            return None
        one = self.tangent(1, y, out[0]) if x is None else x
        return broadcast_to(one, typeof(out[0]).shape)


class Add(Sum):
    """x + y; integers wrap around."""

    name: ClassVar[str] = "add"
    method: ClassVar[str] = "add"
    ufunc: ClassVar[Any] = np.add

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return t

    def cotangent(self, i: int, ct: Any, *args: Any) -> Any:
        return ct


class Sub(Sum):
    """x - y; integers wrap around."""

    name: ClassVar[str] = "sub"
    method: ClassVar[str] = "sub"
    ufunc: ClassVar[Any] = np.subtract

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return neg(t) if i else t

    def cotangent(self, i: int, ct: Any, *args: Any) -> Any:
        return neg(ct) if i else ct


@dataclass(frozen=True)
class Mul(LinearElementwise):
    """x * y, computed in `out_dtype` if one is given; integers wrap around."""

    name: ClassVar[str] = "mul"
    param_names: ClassVar[Mapping[str, str | None]] = {"out_dtype": "out_type"}
    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = NUMBER
    ufunc: ClassVar[Any] = np.multiply
    out_type: Any = None

    def out_dtype(self, *dtypes: Any) -> Any:
        return super().out_dtype(*dtypes) if self.out_type is None else self.out_type

    def eval(self, *args: Any) -> Any:
        if self.out_type is not None:
            args = tuple(x.astype(self.out_type) for x in args)
        return self.ufunc(*args)

    def scalar(self, b: Any, *xs: Any) -> Any:
        if self.out_type is not None:
            xs = tuple(b.convert(x, self.out_type) for x in xs)
        return b.mul(*xs)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        x, y = primals
        return self(x, t) if i else self(t, y)

    def taylor(self, k: int, out: Sequence[Any], *series: Sequence[Any]) -> Any:
        return product(self, k, *series)

    def cotangent(self, i: int, ct: Any, *args: Any) -> Any:
        x, y = args
        op = mul if self.out_type is None else Mul(args[i].aval.dtype)
        return op(x, ct) if i else op(ct, y)

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        return {} if self.out_type is None else self.params()


def quotient(x: Any, y: Any) -> Any:
    """x / y by NumPy, and by C99, annex G, where that makes NaN of infinities.

    Complex numbers are scaled by powers of 2 where Smith's method, which NumPy uses,
    would overflow or lose digits in between.
    """
    if np.result_type(x, y).kind != "c":
        return np.true_divide(x, y)
    above, below = _size(x), _size(y)
    info = np.finfo(above.dtype)
    least, most = info.tiny / info.eps, info.max / 4
    # As it is where all numbers are moderate.
    if ((below > least) & (below < most) & (above < most)).all():
        return np.true_divide(x, y)
    up = np.isinf(x) & np.isfinite(y) & (y != 0)
    down = np.isinf(y) & np.isfinite(x)
    x, y = np.where(up, _direction(x), x), np.where(down, _direction(y), y)
    part = info.dtype.type
    scale = np.where((below < least) & (above < 2.0**-62 * info.max), 2.0**60, 1.0)
    large = (below > most) | ((above > most) & (below > least))
    scale = np.where(large, 0.25, scale).astype(info.dtype)
    scale = np.where(up | down, part(1), scale)
    factor = np.where(up, part(np.inf), np.where(down, part(0), part(1)))
    return _scaled(np.true_divide(_scaled(x, scale), _scaled(y, scale)), factor)


def _size(z: Any) -> Any:
    """The larger of the magnitudes of the parts."""
    return np.maximum(np.absolute(z.real), np.absolute(z.imag))


def _scaled(z: Any, factor: Any) -> Any:
    """z times real numbers, each part by itself."""
    result = np.empty(np.broadcast_shapes(z.shape, factor.shape), z.dtype)
    result.real, result.imag = z.real * factor, z.imag * factor
    return result


def _direction(z: Any) -> Any:
    """1 for the infinite parts of z and 0 for the others, with their signs."""
    result = np.empty_like(z)
    result.real = np.copysign(np.isinf(z.real), z.real)
    result.imag = np.copysign(np.isinf(z.imag), z.imag)
    return result


class Div(LinearElementwise):
    """x / y; of integers, truncated, with x / 0 = -1 (all bits set)."""

    name: ClassVar[str] = "div"
    method: ClassVar[str] = "div"
    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = NUMBER

    def eval(self, *args: Any) -> Any:
        x, y = args
        if not dtypes.issubdtype(x.dtype, np.integer):
            return quotient(x, y)
        divisor = np.where(y == 0, np.ones((), y.dtype), y)
        whole = np.floor_divide(np.subtract(x, np.fmod(x, divisor)), divisor)
        out = np.where(y == 0, np.invert(np.zeros((), x.dtype)), whole)
        return wrapped(out, x.dtype)

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        checker.divisor(args[1])
        return super().checkify(checker, args)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        x, y = primals
        if i == 0:
            return div(t, y)
        return mul(mul(neg(t), x), integer_pow(y, -2))

    def taylor(self, k: int, out: Sequence[Any], *series: Sequence[Any]) -> Any:
        x, y = series  # out * y = x
        known = sum_of_products(mul, [(out[i], y[k - i]) for i in range(k)])
        rest = total([x[k], None if known is None else neg(known)])
        return None if rest is None else div(rest, y[0])

    def cotangent(self, i: int, ct: Any, *args: Any) -> Any:
        assert i == 0, "div is linear in its first operand only"
        return div(ct, args[1])


class Square(Elementwise):
    """x * x."""

    name: ClassVar[str] = "square"
    accepts: ClassVar[Family] = NUMBER
    ufunc: ClassVar[Any] = np.square

    def eval(self, *args: Any) -> Any:
        (x,) = args
        if x.dtype.kind != "c":
            return super().eval(x)
        # (re - im) (re + im) has no infinities or roundings to cancel.
        out = np.empty_like(x)
        out.real = (x.real - x.imag) * (x.real + x.imag)
        out.imag = 2 * (x.real * x.imag)
        return out

    def scalar(self, b: Any, *xs: Any) -> Any:
        (x,) = xs
        if x.dtype.kind != "c":
            return b.mul(x, x)
        re, im = b.real(x), b.imag(x)
        # No product is contracted with a sum: twice a number is exact.
        product, squares = b.product(re, im), b.product(b.sub(re, im), b.add(re, im))
        return b.complex(squares, b.sum(product, product))

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(t, mul(const(x, 2), x))


class OneMinusSquare(Elementwise):
    """1 - x**2 as (1 + x) (1 - x), which does not cancel near 1.

    An op of its own has a derivative that does not cancel near 0 either.
    """

    name: ClassVar[str] = "one_minus_square"
    accepts: ClassVar[Family] = NUMBER

    def eval(self, *args: Any) -> Any:
        (x,) = args
        one = x.dtype.type(1)
        return wrapped(np.multiply(np.add(one, x), np.subtract(one, x)), x.dtype)

    def scalar(self, b: Any, *xs: Any) -> Any:
        (x,) = xs
        one = b.const(1, x.dtype)
        return b.mul(b.add(one, x), b.sub(one, x))

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        return mul(t, mul(const(x, -2), x))


@dataclass(frozen=True)
class IntegerPow(Elementwise):
    """x to the whole power y, by repeated multiplication."""

    name: ClassVar[str] = "integer_pow"
    accepts: ClassVar[Family] = NUMBER
    y: int

    def out_dtype(self, *given: Any) -> Any:
        dtype = super().out_dtype(*given)
        if self.y < 0 and dtypes.issubdtype(dtype, np.integer):
            raise TypeError(
                "Integers cannot be raised to negative powers, got"
                f" integer_pow({dtype.name}, {self.y}). Convert the base to a float."
            )
        return dtype

    def eval(self, *args: Any) -> Any:
        (x,) = args
        one = np.ones((), x.dtype)
        if self.y == 0:
            return np.broadcast_to(one, x.shape)
        if self.y > 0:
            return _power(x, self.y, np.multiply)
        if x.dtype.kind != "c":
            return np.true_divide(one, _power(x, -self.y, np.multiply))
        large = np.maximum(np.absolute(x.real), np.absolute(x.imag)) > 1
        power = _power(np.where(large, quotient(one, x), x), -self.y, np.multiply)
        return np.where(large, power, quotient(one, power))

    def scalar(self, b: Any, *xs: Any) -> Any:
        (x,) = xs
        one = b.const(1, x.dtype)
        if self.y == 0:
            return one
        if self.y > 0:
            return _power(x, self.y, b.mul)
        if x.dtype.kind != "c":
            return b.div(one, _power(x, -self.y, b.mul))
        # Powers of what is at most 1 do not overflow, which would end in NaN.
        re, im = b.abs(b.real(x)), b.abs(b.imag(x))
        large = b.compare("gt", b.max(re, im), b.const(1, re.dtype))
        power = _power(b.select(large, b.div(one, x), x), -self.y, b.mul)
        return b.select(large, power, b.div(one, power))

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,), y = primals, self.y
        if y == 0:
            return None
        if y == 1:
            return t
        lower = x if y == 2 else integer_pow(x, y - 1)
        return mul(t, mul(const(x, y), lower))

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for y in 0, 1, 2, 3, 7:
            yield cls(y), [((2, 3), "number")]
        for y in -1, -2, -3:
            yield cls(y), [((4,), "inexact", {"low": 0.5, "high": 2.0})]
        yield cls(3), [((), "number")]
        yield cls(2), [((0, 2), "number")]


def _power(x: Any, y: int, mul: Any) -> Any:
    """x to the power y > 0, by squaring."""
    power = None
    while True:
        if y & 1:
            power = x if power is None else mul(power, x)
        y >>= 1
        if not y:
            return power
        x = mul(x, x)


def integer_pow(x: Any, y: int) -> Any:
    """x to the whole power y."""
    return IntegerPow(y)(x)


class Mulhi(FlatElementwise):
    """The upper half of the bits of x * y."""

    name: ClassVar[str] = "mulhi"
    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = INT

    def eval(self, *args: Any) -> Any:
        x, y = args
        bits = dtypes.itemsize_bits(x.dtype)
        if bits < 64:
            wide = np.dtype(np.int64 if x.dtype.kind == "i" else np.uint64)
            product = np.multiply(x.astype(wide), y.astype(wide))
            return np.right_shift(product, wide.type(bits)).astype(x.dtype)
        high = _high_word(x.astype(np.uint64), y.astype(np.uint64)).astype(x.dtype)
        if x.dtype.kind == "u":
            return high
        return high - np.where(x < 0, y, 0) - np.where(y < 0, x, 0)

    def scalar(self, b: Any, *xs: Any) -> Any:
        dtype = xs[0].dtype
        bits, signed = 8 * dtype.itemsize, dtype.kind == "i"
        if bits < 64:
            wide = np.dtype(np.int64 if signed else np.uint64)
            product = b.mul(*[b.convert(x, wide) for x in xs])
            shift = b.shr_arith if signed else b.shr_logical
            return b.convert(shift(product, b.const(bits, wide)), dtype)
        return _scalar_high_word(b, *xs)


def _high_word(x: Any, y: Any) -> Any:
    """The upper 64 bits of a product of uint64, from products of their halves."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x_low, x_high, y_low, y_high = x & mask, x >> half, y & mask, y >> half
    middle = x_high * y_low + ((x_low * y_low) >> half)
    other = x_low * y_high + (middle & mask)
    return x_high * y_high + (middle >> half) + (other >> half)


def _scalar_high_word(b: Any, x: Any, y: Any) -> Any:
    dtype, word = x.dtype, np.dtype(np.uint64)
    mask, half = b.const(0xFFFFFFFF, word), b.const(32, word)

    def halves(value: Any) -> tuple[Any, Any]:
        value = b.bitcast(value, word)
        return b.and_(value, mask), b.shr_logical(value, half)

    (x_low, x_high), (y_low, y_high) = halves(x), halves(y)
    carry = b.shr_logical(b.mul(x_low, y_low), half)
    low, high = halves(b.add(b.mul(x_high, y_low), carry))
    _, other = halves(b.add(b.mul(x_low, y_high), low))
    result = b.bitcast(b.add(b.add(b.mul(x_high, y_high), high), other), dtype)
    if dtype.kind == "u":
        return result
    zero = b.const(0, dtype)
    for one, two in (x, y), (y, x):
        below = b.compare("lt", one, zero)
        result = b.sub(result, b.select(below, two, zero))
    return result


mulhi: Mulhi = Mulhi()
neg: Neg = Neg()
add: Add = Add()
sub: Sub = Sub()
mul: Mul = Mul()
div: Div = Div()
square: Square = Square()
one_minus_square: OneMinusSquare = OneMinusSquare()
