"""Functions that AVX-512 has instructions for: short tables, exponents, scaling by
powers, approximate inverse roots.

Values of other numbers of lanes go through whole registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.llvm.types import F32, I8, I32, Type, Value
from curta.compiler.llvm.vector_math.common import by_parts

_BYTES = 64  # of a register
_SUFFIX = {"f32": "ps", "f64": "pd"}
_AS_ROUNDING_IS_SET = 4


def available(b: Any) -> bool:
    """Whether the machine has these instructions."""
    return bool(b.vector_bytes == _BYTES)


def lookup(b: Any, row: Sequence[float], index: Value) -> Value:
    """The elements of a row of 16 singles at the last four bits of the indices."""
    type_ = F32.with_lanes(len(row))
    table = b.load(type_, b.table(F32, row))
    name = "llvm.x86.avx512.permvar.sf.512"
    return by_parts(b, len(row), lambda i: b.call(name, type_, table, i), index)


def exponent(b: Any, x: Value) -> Value:
    """The exponent of x as a float, also of subnormal numbers; -inf of 0."""
    return _instruction(b, "getexp", [x], lambda type_: [b.const(type_, 0)])


def mantissa(b: Any, x: Value) -> Value:
    """x without its exponent, in [3/4, 3/2); 1 of 0 and infinity, NaN below 0."""
    last: _Operands = lambda type_: [b.const(I32, 15), b.const(type_, 0)]  # noqa: E731
    return _instruction(b, "getmant", [x], last)


def scaled(b: Any, x: Value, n: Value) -> Value:
    """x * 2**n rounded once, for a float n that is an integer."""
    return _instruction(b, "scalef", [x, n], lambda type_: [b.const(type_, 0)])


def inverse_root(b: Any, x: Value) -> Value:
    """1/sqrt(x) of doubles to 14 bits; of 0 and infinity exactly."""
    register = Type("f64", _BYTES // 8)
    name = "llvm.x86.avx512.rsqrt14.pd.512"
    rest = b.const(register, 0), b.const(I8, -1)
    return by_parts(
        b, register.lanes, lambda part: b.call(name, register, part, *rest), x
    )


# What becomes of numbers of each class: a digit for positive and negative ones,
# infinity, -infinity, 1, 0, and two kinds of NaN. 0 keeps the result, 2 is the NaN of
# the other operand, 3 is NaN, 4 is -infinity, 5 infinity.
POLES_OF_LOG = 0x03530422


def fixed(b: Any, result: Value, x: Value, classes: int) -> Value:
    """The result, replaced where x is of some classes of numbers."""

    def last(type_: Type) -> list[Value]:
        return [b.const(type_.as_int, classes), b.const(I32, 0)]

    return _instruction(b, "fixupimm", [result, x], last)


_Operands = Callable[[Type], list[Value]]


def _instruction(b: Any, name: str, xs: Sequence[Value], operands: _Operands) -> Value:
    """An instruction on all lanes, with more operands for each register of a type."""
    kind = xs[0].type.kind
    register = Type(kind, _BYTES // xs[0].type.size)
    function = f"llvm.x86.avx512.mask.{name}.{_SUFFIX[kind]}.512"
    mask = b.const(Type(f"i{register.lanes}"), -1)
    last = [*operands(register), mask, b.const(I32, _AS_ROUNDING_IS_SET)]
    return by_parts(
        b, register.lanes, lambda *part: b.call(function, register, *part, *last), *xs
    )
