"""Integers that are affine sums of loop variables: iotas, and arithmetic on them.

What a program computes from `arange` is such a sum as long as it fits in its dtype.
Then it is kept as one, so that an element read at it has a stride, and comparisons that
the bounds decide vanish (the wrap-around of negative indices, clamps, guards).

Functions take the `ScalarBuilder` first, as those of complexes.py do.
"""

from __future__ import annotations

from typing import Any

from curta.compiler.loops.index import Affine, as_index
from curta.compiler.loops.nodes import Expr, is_within, known_index
from curta.core.dim import SymbolicDim

Scalar = Any


def known(x: Scalar) -> Affine | None:
    """The affine sum that an integer is, if it is known as one."""
    if isinstance(x, Expr):
        return known_index(x)
    return as_index(x) if isinstance(x, (int, SymbolicDim, Affine)) else None


def arithmetic(b: Any, name: str, x: Expr, y: Expr) -> Scalar:
    """The sum, difference, product, quotient or rest, if that is an affine sum."""
    if x.dtype.kind not in "iu":
        return None
    p, q = known(x), known(y)
    if p is None or q is None:
        return None
    if name in ("div", "rem"):
        if q.terms or q.const <= 0 or p.bounds[0] < 0:
            return None
        return _value(b, p // q.const if name == "div" else p % q.const, x.dtype)
    if name == "mul" and p.terms and q.terms:
        return None
    total = p + q if name == "add" else p - q if name == "sub" else p * q
    return _value(b, total, x.dtype)


def _value(b: Any, index: Affine, dtype: Any) -> Scalar:
    return b.index_value(index, dtype) if is_within(index, dtype) else None


def order(direction: str, x: Scalar, y: Scalar) -> bool | None:
    """Whether `x direction y` (eq ne lt le gt ge), where the bounds decide it."""
    p, q = known(x), known(y)
    if p is None or q is None:
        return None
    low, high = (p - q).bounds
    if direction in ("ge", "lt"):
        sure, never = low >= 0, high < 0
    elif direction in ("gt", "le"):
        sure, never = low > 0, high <= 0
    else:
        sure, never = low == high == 0, low > 0 or high < 0
    if not (sure or never):
        return None
    return sure if direction in ("ge", "gt", "eq") else never
