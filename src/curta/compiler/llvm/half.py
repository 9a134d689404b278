"""Half precision on every machine: conversions where instructions are missing.

Only f32 to f16 and back have instructions, and those not on old processors. From f64
the way goes through f32 rounded to odd, so that rounding twice gives what rounding
once would (Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from curta.compiler.llvm.types import Value

if TYPE_CHECKING:
    from curta.compiler.llvm.instructions import Instructions

_REBIAS = (127 - 15) << 23  # between the exponents of f32 and f16
_INFINITY = 0x7C00
_SMALLEST_NORMAL = 2.0**-14


def f32_to_odd(b: Instructions, x: Value) -> Value:
    """An f64 as f32: towards zero, and with the last bit set if that was inexact."""
    near = b.cast("fptrunc", x, x.type.with_kind("f32"))
    back = b.cast("fpext", near, x.type)
    bits = b.bits(near)
    too_large = b.convert(b.abs(back) > b.abs(x), "i32")
    odd = b.bitcast((bits - too_large) | 1, near.type)
    # NaN and what was exact stay; infinity may not become a finite number.
    changed = b.compare("lt", b.abs(back), float("inf")) & b.ne(back, x)
    return b.select(changed, odd, near)


def widen(b: Instructions, x: Value) -> Value:
    """f16 to f32 in integers."""
    bits = b.convert(b.bits(x), "i32", unsigned=True)
    magnitude, sign = bits & 0x7FFF, (bits & 0x8000) << 16
    normal = (magnitude << 13) + _REBIAS
    special = b.compare("ge", magnitude, _INFINITY)
    normal = b.select(special, normal + _REBIAS, normal)
    tiny = b.bits(b.to_float(magnitude) * 2.0**-24)
    subnormal = b.compare("lt", magnitude, 0x400)
    return b.bitcast(b.select(subnormal, tiny, normal) | sign, x.type.with_kind("f32"))


def narrow(b: Instructions, x: Value) -> Value:
    """f32 to f16 in integers: to nearest, ties to even."""
    size = b.abs(x)
    bits = b.bits(size)
    sign = b.lshr(b.bits(x), 16) & 0x8000
    odd = b.lshr(bits, 13) & 1
    normal = b.lshr(bits - _REBIAS + 0xFFF + odd, 13)
    # In a sum with 1/2 the last bit is worth a unit of subnormal f16.
    subnormal = b.bits(size + 0.5) - 0x3F000000
    result = b.select(size < _SMALLEST_NORMAL, subnormal, normal)
    result = b.select(size >= 65520.0, _INFINITY, result)
    result = b.select(b.is_nan(x), 0x7E00, result)
    return b.bitcast(b.convert(result | sign, "i16"), x.type.with_kind("f16"))
