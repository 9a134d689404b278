"""Bitwise logic, shifts and counts of bits."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta.primitives.base import BOOL_OR_INT, INT, Family, FlatElementwise, wrapped


class Not(FlatElementwise):
    """Every bit flipped."""

    name: ClassVar[str] = "not"
    method: ClassVar[str] = "not_"
    accepts: ClassVar[Family] = BOOL_OR_INT

    def eval(self, *args: Any) -> Any:
        (x,) = args
        if x.dtype.kind in "iub":
            return np.bitwise_not(x)
        # In the integers of ml_dtypes, which are parts of a byte, it flips all eight.
        every = -1 if dtypes.iinfo(x.dtype).min < 0 else dtypes.iinfo(x.dtype).max
        return wrapped(np.bitwise_xor(x, x.dtype.type(every)), x.dtype)


class And(FlatElementwise):
    """Bits set in both."""

    name: ClassVar[str] = "and"
    method: ClassVar[str] = "and_"
    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = BOOL_OR_INT
    ufunc: ClassVar[Any] = np.bitwise_and


class Or(FlatElementwise):
    """Bits set in either."""

    name: ClassVar[str] = "or"
    method: ClassVar[str] = "or_"
    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = BOOL_OR_INT
    ufunc: ClassVar[Any] = np.bitwise_or


class Xor(FlatElementwise):
    """Bits set in one of the two."""

    name: ClassVar[str] = "xor"
    method: ClassVar[str] = "xor"
    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = BOOL_OR_INT
    ufunc: ClassVar[Any] = np.bitwise_xor


class Shift(FlatElementwise):
    """x shifted by y bits; a y outside 0 .. bits - 1 shifts every bit out."""

    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = INT
    domain: ClassVar[dict[str, Any]] = {"low": -2, "high": 70}


class ShiftLeft(Shift):
    """x * 2**y, without the bits that leave."""

    name: ClassVar[str] = "shift_left"
    method: ClassVar[str] = "shl"

    def eval(self, *args: Any) -> Any:
        x, y = args
        legal, count = _shift_count(y)
        # NumPy shifts integers smaller than a byte in a byte.
        shifted = np.left_shift(x, count).astype(x.dtype, copy=False)
        return np.where(legal, wrapped(shifted), np.zeros((), x.dtype))


class ShiftRightLogical(Shift):
    """Zeros come in at the top."""

    name: ClassVar[str] = "shift_right_logical"
    method: ClassVar[str] = "shr_logical"

    def eval(self, *args: Any) -> Any:
        x, y = args
        legal, count = _shift_count(y)
        shifted = np.right_shift(_unsigned(x), _unsigned(count)).astype(x.dtype)
        return np.where(legal, shifted, np.zeros((), x.dtype))


class ShiftRightArithmetic(Shift):
    """Copies of the first bit come in at the top, in unsigned integers too."""

    name: ClassVar[str] = "shift_right_arithmetic"
    method: ClassVar[str] = "shr_arith"

    def eval(self, *args: Any) -> Any:
        x, y = args
        legal, count = _shift_count(y)
        last = np.asarray(dtypes.itemsize_bits(x.dtype) - 1, x.dtype)
        signed = np.dtype(x.dtype.name.removeprefix("u"))
        count = np.where(legal, count, last).view(signed)
        return np.right_shift(x.view(signed), count).view(x.dtype)


def _shift_count(y: Any) -> tuple[Any, Any]:
    """Which counts are in range, and the counts with 0 in place of the others."""
    legal = (y >= 0) & (y < dtypes.itemsize_bits(y.dtype))
    return legal, np.where(legal, y, np.zeros((), y.dtype))


class Count(FlatElementwise):
    """A count of bits, in the dtype of x."""

    accepts: ClassVar[Family] = INT


class PopulationCount(Count):
    """How many bits are set."""

    name: ClassVar[str] = "population_count"
    method: ClassVar[str] = "population_count"

    def eval(self, *args: Any) -> Any:
        (x,) = args
        return np.bitwise_count(_unsigned(x)).astype(x.dtype)


class Clz(Count):
    """How many zeros stand before the first bit that is set."""

    name: ClassVar[str] = "clz"
    method: ClassVar[str] = "clz"

    def eval(self, *args: Any) -> Any:
        (x,) = args
        word = _unsigned(x).astype(np.uint64)
        # The exponent of a float64 tells the length of a number of 32 bits exactly.
        high, low = word >> np.uint64(32), word & np.uint64(0xFFFFFFFF)
        long, short = (np.frexp(part.astype(np.float64))[1] for part in (high, low))
        length = np.where(high > 0, long + 32, short)
        return np.subtract(dtypes.itemsize_bits(x.dtype), length).astype(x.dtype)


def _unsigned(x: Any) -> Any:
    """The bits of integers as unsigned integers."""
    name = x.dtype.name
    return x if name.startswith("u") else x.view(np.dtype(f"u{name}"))


population_count: PopulationCount = PopulationCount()
clz: Clz = Clz()
not_: Not = Not()
and_: And = And()
or_: Or = Or()
xor: Xor = Xor()
shift_left: ShiftLeft = ShiftLeft()
shift_right_logical: ShiftRightLogical = ShiftRightLogical()
shift_right_arithmetic: ShiftRightArithmetic = ShiftRightArithmetic()
