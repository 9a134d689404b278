"""Numbers as unsigned integers of the same order: the keys of sorts and selections.

A kind is a letter and a width: `u32`, `i8`, `f16`, `b16` (bfloat16), `f64`, ...
Elements that compare equal have one key: 0 and -0, and all NaNs, which come last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import Type, Value

_INFINITY = {
    "f16": 0x7C00, "b16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000,
}  # fmt: skip


def kind_of(dtype: Any) -> str | None:
    """The kind of a dtype, None for one that has no keys."""
    bits = np.dtype(dtype).itemsize * 8
    if dtype == dtypes.bfloat16:
        return "b16"
    if dtype.kind == "b":
        return "u8"
    kind = f"{dtype.kind}{bits}"
    return kind if dtype.kind in "ui" or kind in _INFINITY else None


def bits_of(kind: str) -> int:
    """The width of a kind."""
    return int(kind[1:])


def is_float(kind: str) -> bool:
    """Whether the kind has zeros and NaNs that are equal without being the same."""
    return kind in _INFINITY


def encode(b: Builder, x: Value, kind: str) -> Value:
    """The key of a number, which comes as its bits."""
    if is_float(kind):
        size = b.and_(x, _sign(x.type) - 1)
        x = b.select(b.eq(size, 0), b.const(x.type, 0), x)
        nan = b.compare("gt", size, _INFINITY[kind], unsigned=True)
        return b.select(nan, b.const(x.type, -1), _ordered(b, x))
    return encode_total(b, x, kind)


def encode_total(b: Builder, x: Value, kind: str) -> Value:
    """A key that tells all numbers apart: -0 before 0, NaNs at the ends."""
    if is_float(kind):
        return _ordered(b, x)
    return b.xor(x, _sign(x.type)) if kind[0] == "i" else x


def decode(b: Builder, key: Value, kind: str) -> Value:
    """The bits of the number that has this key."""
    sign = _sign(key.type)
    if is_float(kind):
        negative = b.not_(b.ashr(key, key.type.bits - 1))
        return b.xor(key, b.or_(negative, sign))
    return b.xor(key, sign) if kind[0] == "i" else key


def specials(b: Builder, x: Value, kind: str) -> tuple[Value, Value, Value]:
    """Whether a float, given as bits, is below zero, a zero, a NaN."""
    size = b.and_(x, _sign(x.type) - 1)
    zero = b.eq(size, 0)
    nan = b.compare("gt", size, _INFINITY[kind], unsigned=True)
    below = b.and_(b.compare("lt", x, 0), b.not_(b.or_(zero, nan)))
    return below, zero, nan


def _ordered(b: Builder, x: Value) -> Value:
    flip = b.or_(b.ashr(x, x.type.bits - 1), _sign(x.type))
    return b.xor(x, flip)


def _sign(type_: Type) -> int:
    return 1 << (type_.bits - 1)
