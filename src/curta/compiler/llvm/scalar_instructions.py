"""The LLVM IR of each instruction of the loop IR, for any number of lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import Type, Value
from curta.compiler.loops.element_types import BFLOAT16
from curta.compiler.loops.nodes import Const, Instr


def kind(dtype: Any) -> str:
    """The LLVM element kind of values of a dtype.

    Floats that LLVM has no instructions for (bfloat16, those of a byte) are their bits.
    """
    if dtype.kind == "b":
        return "i1"
    letter = "f" if dtype.kind == "f" and dtype.itemsize > 1 else "i"
    return f"{letter}{8 * dtype.itemsize}"


def memory_kind(dtype: Any) -> str:
    """The element kind in memory, where a bool is a byte."""
    return "i8" if dtype.kind == "b" else kind(dtype)


def constant(b: Builder, expr: Const, lanes: int) -> Value:
    """A constant in as many lanes."""
    value, type_ = expr.value, Type(kind(expr.dtype), lanes)
    if type_.is_int and isinstance(value, float):
        value = int(np.asarray(value, expr.dtype).view(f"u{expr.dtype.itemsize}"))
    return b.const(type_, value)


Rule = Callable[..., Value]


def _plain(name: str) -> Rule:
    def rule(b: Builder, expr: Instr, *args: Value) -> Value:
        result: Value = getattr(b, name)(*args)
        return result

    return rule


def _extremum(name: str) -> Rule:
    def rule(b: Builder, expr: Instr, x: Value, y: Value) -> Value:
        if not x.type.is_float:
            unsigned = expr.dtype.kind == "u"
            return b.max(x, y, unsigned) if name == "max" else b.min(x, y, unsigned)
        # One instruction where y is taken if either is NaN, and one to put x's NaN
        # back; LLVM's own maximum also orders the zeros, which takes four.
        first = b.compare("gt" if name == "max" else "lt", x, y)
        return b.select(b.is_nan(x), x, b.select(first, x, y))

    return rule


def _convert(b: Builder, expr: Instr, x: Value) -> Value:
    source, to = expr.args[0].dtype, expr.dtype
    if source == BFLOAT16:
        wide = b.shl(b.convert(x, "i32", unsigned=True), 16)
        return b.bitcast(wide, wide.type.with_kind("f32"))
    if to == BFLOAT16:
        return _round_to_bfloat16(b, x)
    floats_to_int = source.kind == "f" and to.kind in "iu"
    unsigned = (to if floats_to_int else source).kind in "ub"
    return b.convert(x, kind(to), unsigned=unsigned)


def _round_to_bfloat16(b: Builder, x: Value) -> Value:
    """To nearest, ties to even, in integers; a NaN becomes a quiet NaN."""
    bits = b.bits(x)
    odd = b.and_(b.lshr(bits, 16), 1)
    rounded = b.lshr(b.add(b.add(bits, 0x7FFF), odd), 16)
    quiet = b.or_(b.and_(b.lshr(bits, 16), 0x8000), 0x7FC0)
    return b.convert(b.select(b.is_nan(x), quiet, rounded), "i16")


def _bitcast(b: Builder, expr: Instr, x: Value) -> Value:
    to = x.type.with_kind(kind(expr.dtype))
    if to.kind == "i1":
        return b.convert(x, "i1")
    if x.type.kind == "i1":
        return b.convert(x, to.kind)
    return x if to == x.type else b.bitcast(x, to)


def _to_int(b: Builder, expr: Instr, x: Value) -> Value:
    return b.to_int(x, kind(expr.dtype))


def _sdiv(b: Builder, expr: Instr, x: Value, y: Value) -> Value:
    return b.div(x, y)


def _apart(name: str) -> Rule:
    """An operation that is contracted with no other."""

    def rule(b: Builder, expr: Instr, x: Value, y: Value) -> Value:
        before, b.flags = b.flags, ""
        result: Value = getattr(b, name)(x, y)
        b.flags = before
        return result

    return rule


INSTRUCTIONS: Final[dict[str, Rule]] = {
    **{
        name: _plain(name)
        for name in (
            "add", "sub", "mul", "div", "neg", "abs", "floor", "ceil", "trunc",
            "round_even", "sqrt", "copysign", "and_", "or_", "xor", "not_", "shl",
            "lshr", "ashr", "udiv", "urem", "srem", "select", "population_count",
            "leading_zeros", "muladd",
        )
    },
    "sum": _apart("add"),
    "product": _apart("mul"),
    "sdiv": _sdiv,
    "max": _extremum("max"),
    "min": _extremum("min"),
    "convert": _convert,
    "bitcast": _bitcast,
    "to_int": _to_int,
}  # fmt: skip
