"""Arithmetic of integers that is more than an instruction, as methods of a builder.

Functions take the `ScalarBuilder` first, as those of complexes.py do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curta.compiler.loops.element_types import FLOAT64, INT64
from curta.compiler.loops.nodes import Const, Expr

Scalar = Any


def division(b: Any, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """The quotient, truncated, and the rest; of a division by 0, -1 and x."""
    dtype, unsigned = x.dtype, x.dtype.kind == "u"
    names = ("udiv", "urem") if unsigned else ("sdiv", "srem")
    if isinstance(y, Const) and y.value not in (0, -1):
        q, r = (b.instruction(n, dtype, x, y) for n in names)
        return q, r
    zero = b.compare("eq", y, b.const(0, dtype))
    if dtype.itemsize <= 4:  # float64 divides them exactly, many at a time
        wide = b.instruction("div", FLOAT64, *(b.convert(v, FLOAT64) for v in (x, y)))
        q = b.convert(b.instruction("to_int", INT64, wide), dtype)
        q = b.select(zero, b.const(0, dtype), q)
        r = b.sub(x, b.mul(q, y))
    else:
        unsafe = zero
        if not unsigned:  # the least integer over -1 traps
            least = b.const(np.iinfo(dtype).min, dtype)
            overflow = b.and_(
                b.compare("eq", x, least),
                b.compare("eq", y, b.const(-1, dtype)),
            )
            unsafe = b.or_(zero, overflow)
        divisor = b.select(unsafe, b.const(1, dtype), y)
        q, r = (b.instruction(n, dtype, x, divisor) for n in names)
        r = b.select(zero, x, r)
    all_set = b.const(np.iinfo(dtype).max if unsigned else -1, dtype)
    return b.select(zero, all_set, q), r


def power(b: Any, x: Scalar, y: Scalar) -> Scalar:
    """x to a power >= 0, which wraps around."""
    result = one = b.const(1, x.dtype)
    for bit in range(8 * y.dtype.itemsize):
        mask = b.const(np.array(1 << bit, "u8").astype(y.dtype), y.dtype)
        there = b.compare("ne", b.and_(y, mask), b.const(0, y.dtype))
        result = b.mul(result, b.select(there, x, one))
        x = b.mul(x, x)
    return result


def shift(b: Any, name: str, x: Scalar, y: Scalar, outside: Scalar) -> Scalar:
    """A shift; `outside` where the count is negative or too large."""
    bits = 8 * x.dtype.itemsize
    if isinstance(y, Const):
        inside = 0 <= y.value < bits
        return b.instruction(name, x.dtype, x, y) if inside else outside
    unsigned = b.bitcast(y, np.dtype(f"uint{bits}"))
    legal = b.compare("lt", unsigned, b.const(bits, unsigned.dtype))
    return b.select(legal, b.instruction(name, x.dtype, x, y), outside)
