"""Rounding, remainders, neighbours among the floats."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.trace import typeof
from curta.primitives.base import (
    FLOAT,
    REAL,
    Elementwise,
    Family,
    FlatElementwise,
    LinearElementwise,
    broadcast_to,
    wrapped,
)
from curta.primitives.elementwise.arithmetic import div, mul, neg
from curta.primitives.elementwise.magnitude import abs_, sign


class RoundingMethod(enum.IntEnum):
    """Where `round` takes a value halfway between two integers.

    >>> from curta import lax
    >>> lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN)
    Array(2., dtype=float32, weak_type=True)
    >>> lax.round(2.5, lax.RoundingMethod.AWAY_FROM_ZERO)
    Array(3., dtype=float32, weak_type=True)
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class Floor(FlatElementwise):
    """The greatest integer not above x."""

    name: ClassVar[str] = "floor"
    method: ClassVar[str] = "floor"
    accepts: ClassVar[Family] = FLOAT
    ufunc: ClassVar[Any] = np.floor


class Ceil(FlatElementwise):
    """The least integer not below x."""

    name: ClassVar[str] = "ceil"
    method: ClassVar[str] = "ceil"
    accepts: ClassVar[Family] = FLOAT
    ufunc: ClassVar[Any] = np.ceil


@dataclass(frozen=True)
class Round(FlatElementwise):
    """The nearest integer."""

    name: ClassVar[str] = "round"
    accepts: ClassVar[Family] = FLOAT
    rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO

    def eval(self, *args: Any) -> Any:
        (x,) = args
        if self.rounding_method == RoundingMethod.TO_NEAREST_EVEN:
            return np.rint(x)
        whole = np.trunc(x)
        one, half = np.ones((), x.dtype), np.asarray(0.5, x.dtype)
        up = np.absolute(np.subtract(x, whole)) >= half
        return np.where(up, np.add(whole, np.copysign(one, x)), whole)

    def scalar(self, b: Any, *xs: Any) -> Any:
        (x,) = xs
        if self.rounding_method == RoundingMethod.TO_NEAREST_EVEN:
            return b.round_even(x)
        whole = b.trunc(x)
        one, half = b.const(1, x.dtype), b.const(0.5, x.dtype)
        up = b.compare("ge", b.abs(b.sub(x, whole)), half)
        return b.select(up, b.add(whole, b.copysign(one, x)), whole)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        halves = {"values": [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4, -0.0], "rough": True}
        for method in RoundingMethod:
            yield cls(method), [((8,), "float", halves)]
            yield cls(method), [((), "float")]
            yield cls(method), [((0, 2), "float")]


class IsFinite(FlatElementwise):
    """Whether x is neither infinite nor NaN."""

    name: ClassVar[str] = "is_finite"
    method: ClassVar[str] = "is_finite"
    accepts: ClassVar[Family] = FLOAT
    domain: ClassVar[dict[str, Any]] = {"special": True}
    ufunc: ClassVar[Any] = np.isfinite

    def out_dtype(self, *dtypes: Any) -> Any:
        super().out_dtype(*dtypes)
        return np.dtype(bool)


class Rem(Elementwise):
    """The remainder of truncated division: it has the sign of x.

    That of an integer and 0 is the integer.
    """

    name: ClassVar[str] = "rem"
    method: ClassVar[str] = "rem"
    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = REAL

    def eval(self, *args: Any) -> Any:
        x, y = args
        if dtypes.issubdtype(x.dtype, np.floating):
            return np.fmod(x, y)
        divisor = np.where(y == 0, np.ones((), y.dtype), y)
        return wrapped(np.where(y == 0, x, np.fmod(x, divisor)), x.dtype)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        x, y = primals
        if i == 0:
            return broadcast_to(t, typeof(out).shape)
        return mul(neg(t), mul(sign(div(x, y)), floor(abs_(div(x, y)))))

    @classmethod
    def samples(cls) -> Iterator[Any]:
        apart = {"low": 2.1, "high": 2.9}
        for shape in (2, 3), (), (0, 2):
            yield cls(), [(shape, "float", apart), (shape, "float", apart)]
        yield cls(), [((2, 1), "int"), ((1, 3), "int")]
        yield cls(), [((4,), "float", {"low": 3.1, "high": 3.9}), ((), "float", apart)]


class Nextafter(Elementwise):
    """The float after x on the way to y."""

    name: ClassVar[str] = "nextafter"
    makes_nan: ClassVar[bool] = False
    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = FLOAT
    ufunc: ClassVar[Any] = np.nextafter

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return None if i else t  # x plus a step that is constant between powers of two

    def scalar(self, b: Any, *xs: Any) -> Any:
        x, y = xs
        dtype = x.dtype
        word = np.dtype(f"int{8 * dtype.itemsize}")
        zero, one = b.const(0, dtype), b.const(1, word)
        bits = b.bitcast(x, word)
        # Away from 0 the pattern of bits grows with the magnitude.
        grows = b.compare("eq", b.compare("gt", y, x), b.compare("gt", x, zero))
        moved = b.bitcast(b.add(bits, b.select(grows, one, b.neg(one))), dtype)
        least = b.copysign(b.bitcast(one, dtype), y)
        moved = b.select(b.compare("eq", x, zero), least, moved)
        moved = b.select(b.compare("eq", x, y), y, moved)
        broken = b.or_(b.compare("ne", x, x), b.compare("ne", y, y))
        return b.select(broken, b.add(x, y), moved)


@dataclass(frozen=True)
class ReducePrecision(LinearElementwise):
    """x as a float with so many bits of exponent and mantissa would hold it.

    Rounded to nearest, halves to even; what is too large becomes infinite, and what
    would be subnormal becomes 0.
    """

    name: ClassVar[str] = "reduce_precision"
    makes_nan: ClassVar[bool] = False
    accepts: ClassVar[Family] = FLOAT
    exponent_bits: int
    mantissa_bits: int

    def out_dtype(self, *dtypes: Any) -> Any:
        if self.exponent_bits < 1:
            raise ValueError(
                "reduce_precision: exponent_bits must be positive; got"
                f" {self.exponent_bits}"
            )
        if self.mantissa_bits < 0:
            raise ValueError(
                "reduce_precision: mantissa_bits must be non-negative; got"
                f" {self.mantissa_bits}"
            )
        return super().out_dtype(*dtypes)

    def eval(self, *args: Any) -> Any:
        (x,) = args
        layout = _FloatBits(x.dtype, self.exponent_bits, self.mantissa_bits)
        bits = x.view(layout.word)
        if layout.dropped:
            odd = np.right_shift(bits, layout.dropped) & 1
            bits = np.bitwise_and(bits + layout.below_half + odd, layout.kept)
        rounded = bits.view(x.dtype)
        size = np.absolute(rounded)
        rounded = np.where(size > layout.largest, np.copysign(np.inf, x), rounded)
        rounded = np.where(size < layout.least, np.copysign(0, x), rounded)
        return np.where(np.isnan(x), x, rounded.astype(x.dtype))

    def scalar(self, b: Any, *xs: Any) -> Any:
        (x,) = xs
        layout = _FloatBits(x.dtype, self.exponent_bits, self.mantissa_bits)

        def word(value: int) -> Any:
            return b.const(value, layout.word)

        bits = b.bitcast(x, layout.word)
        if layout.dropped:
            odd = b.and_(b.shr_logical(bits, word(layout.dropped)), word(1))
            bits = b.add(bits, b.add(word(layout.below_half), odd))
            bits = b.and_(bits, word(layout.kept))
        rounded = b.bitcast(bits, x.dtype)
        size = b.abs(rounded)
        for direction, limit, value in (
            ("gt", layout.largest, np.inf),
            ("lt", layout.least, 0.0),
        ):
            beyond = b.compare(direction, size, b.const(limit, x.dtype))
            end = b.copysign(b.const(value, x.dtype), x)
            rounded = b.select(beyond, end, rounded)
        return b.select(b.compare("ne", x, x), x, rounded)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        return self(t)

    def cotangent(self, i: int, ct: Any, *args: Any) -> Any:
        return self(ct)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        wide = {"values": [0.0, -0.0, 1.2, -1.1875, 7e4, 1e-8, 6.1e-5, 65520.0]}
        for exponent, mantissa in (5, 10), (4, 3), (8, 7), (11, 52), (2, 0):
            yield cls(exponent, mantissa), [((8,), "float", {**wide, "rough": True})]
            yield cls(exponent, mantissa), [((), "float", {"rough": True})]


class _FloatBits:
    """The bits of a float dtype, and which of them a smaller format keeps."""

    def __init__(self, dtype: Any, exponent_bits: int, mantissa_bits: int):
        info = dtypes.finfo(dtype)
        self.word = np.dtype(f"uint{info.bits}")
        self.dropped = max(0, info.nmant - mantissa_bits)
        self.below_half = (1 << self.dropped >> 1) - 1
        self.kept = (1 << info.bits) - (1 << self.dropped)
        self.largest, self.least = np.inf, 0.0
        if exponent_bits < info.iexp:
            bias = (1 << (exponent_bits - 1)) - 1
            self.largest = 2.0 ** (bias + 1) * (1 - 2.0 ** -(info.nmant + 1))
            self.least = 2.0 ** (1 - bias)


floor: Floor = Floor()
ceil: Ceil = Ceil()
is_finite: IsFinite = IsFinite()
rem: Rem = Rem()
nextafter: Nextafter = Nextafter()
