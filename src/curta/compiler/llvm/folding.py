"""Arithmetic of i64 constants, which LLVM's code generator would do at run time.

Bounds of loops are often constants: what follows from them (a loop that never runs, one
that runs once, the mask of a last vector) is decided before any code is written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from curta.compiler.llvm.types import I64, Value, wrap

_OF_CONSTANTS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "smin": min,
    "smax": max,
    "udiv": operator.floordiv,
    "urem": operator.mod,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
HOLDS = {"true": True, "false": False}  # whether a condition that is a constant holds
# The operand on the right that changes nothing, and what may be on either side.
_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "udiv": 1}
_COMMUTE = frozenset({"add", "mul"})


def known(x: Value) -> int | None:
    """The number that a value of type i64 is; None if it is no constant."""
    if x.type is not I64 or not x.text.lstrip("-").isdigit():
        return None
    return int(x.text)


def folded(opcode: str, x: Value, y: Value) -> Value | int | None:
    """The known result of an instruction: one of its operands or a number."""
    a, b = known(x), known(y)
    if a is not None and b is not None:
        fold = _OF_CONSTANTS.get(opcode)
        if fold is None or (opcode in ("udiv", "urem") and (a < 0 or b <= 0)):
            return None
        return wrap(fold(a, b), 64)
    neutral = _NEUTRAL.get(opcode)
    if neutral is None:
        return None
    if b == neutral:
        return x
    return y if a == neutral and opcode in _COMMUTE else None


def compared(predicate: str, x: Value, y: Value) -> bool | None:
    """Whether a comparison of signed numbers holds; None if that is not known."""
    a, b = known(x), known(y)
    return None if a is None or b is None else _COMPARISONS[predicate](a, b)
