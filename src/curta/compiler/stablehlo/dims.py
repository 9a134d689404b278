"""Symbolic dims: numbers that a program gets, and operations whose shapes they are in.

A function of a program with symbolic dims gets the values of the dimension variables
first. `Number` computes with them: the arithmetic of dims is evaluated on it, each step
an operation on scalars. Operations with attributes of shape are then written as their
dynamic forms, which take shapes as operands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.types import Dynamic, element_of
from curta.core.dim import SymbolicDim, is_symbolic_dim

if TYPE_CHECKING:
    from curta.compiler.stablehlo.lowering import BlockBuilder


class Ledger:
    """What was asked of numbers: comparisons, and those whose text was shown.

    In the text, marks stand for them.
    """

    MARK = re.compile("\0(\\d+)\0")

    def __init__(self) -> None:
        self.noted: list[HloValue] = []
        self.shown: list[HloValue] = []


class Condition:
    """A comparison of numbers; it is noted, and taken for true, where it is asked."""

    def __init__(self, ledger: Ledger, value: HloValue) -> None:
        self.ledger = ledger
        self.value = value

    def __bool__(self) -> bool:
        self.ledger.noted.append(self.value)
        return True


class Number(SymbolicDim):
    """A scalar that a program computes, as what a dim is evaluated to."""

    __slots__ = ("b", "ledger", "value")

    def __init__(self, b: BlockBuilder, value: HloValue, ledger: Ledger) -> None:
        self.b: BlockBuilder = b
        self.value: HloValue = value
        self.ledger: Ledger = ledger

    def _made(self, value: HloValue) -> Number:
        return Number(self.b, value, self.ledger)

    def _value(self, other: Any) -> HloValue:
        if isinstance(other, Number):
            return other.value
        return number_constant(self.b, other, self.value.type)

    def _op(self, name: str, x: Any, y: Any) -> Number:
        operands = [self._value(x), self._value(y)]
        return self._made(self.b.op(name, operands, self.value.type))

    def _compared(self, direction: str, x: Any, y: Any) -> HloValue:
        return self.b.op(
            "compare",
            [self._value(x), self._value(y)],
            "tensor<i1>",
            comparison_direction=direction,
            compare_type="SIGNED",
        )

    def __str__(self) -> str:
        """A mark, instead of which a message shows the number."""
        self.ledger.shown.append(self.value)
        return f"\0{len(self.ledger.shown) - 1}\0"

    def __add__(self, other: Any) -> Number:
        return self._op("add", self, other)

    def __radd__(self, other: Any) -> Number:
        return self if isinstance(other, int) and other == 0 else self + other

    def __sub__(self, other: Any) -> Number:
        return self._op("subtract", self, other)

    def __rsub__(self, other: Any) -> Number:
        return self._op("subtract", other, self)

    def __neg__(self) -> Number:
        return 0 - self

    def __mul__(self, other: Any) -> Number:
        return (
            self
            if isinstance(other, int) and other == 1
            else self._op("multiply", self, other)
        )

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Number:
        result = self
        for _ in range(power - 1):
            result = result * self
        return result

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        if isinstance(other, int) and other == 1:
            return self, 0
        quotient = self._op("divide", self, other)
        rest = self._op("remainder", self, other)
        # Both go toward zero, and are to go down.
        divisor = self._made(self._value(other))
        # (These ops are among those that are folded where sizes become known.)
        signs = [self.b.op("sign", [x.value], x.value.type) for x in (rest, divisor)]
        differ = self._compared("NE", *map(self._made, signs))
        some = self._compared("NE", rest, 0)
        wrong = self.b.op("and", [differ, some], "tensor<i1>")
        choose = [(quotient - 1, quotient), (rest + other, rest)]
        down, up = (
            self._made(self.b.op("select", [wrong, x.value, y.value], self.value.type))
            for x, y in choose
        )
        return down, up

    def __floordiv__(self, other: Any) -> Any:
        return divmod(self, other)[0]

    def __mod__(self, other: Any) -> Any:
        return divmod(self, other)[1]

    def __rfloordiv__(self, other: Any) -> Any:
        return divmod(self._made(self._value(other)), self)[0]

    def __rmod__(self, other: Any) -> Any:
        return divmod(self._made(self._value(other)), self)[1]

    def max(self, other: Any) -> Number:
        return self._op("maximum", self, other)

    def min(self, other: Any) -> Number:
        return self._op("minimum", self, other)

    def __eq__(self, other: object) -> Any:
        return Condition(self.ledger, self._compared("EQ", self, other))

    def __ge__(self, other: Any) -> Any:
        return Condition(self.ledger, self._compared("GE", self, other))

    __hash__: ClassVar[None] = None  # type: ignore[assignment]


def number_constant(b: BlockBuilder, value: int, type_: str) -> HloValue:
    """An integer as a number of the program."""
    return b.constant(np.asarray(value, "i8" if type_ == "tensor<i64>" else "i4"))


def number(b: BlockBuilder, dim: Any, type_: str) -> HloValue:
    """The value of a dim."""
    if not is_symbolic_dim(dim):
        return number_constant(b, dim, type_)
    values = {k: Number(b, x, Ledger()) for k, x in b.numbers.items()}
    result = dim._evaluate(values)
    return (
        result.value
        if isinstance(result, Number)
        else number_constant(b, result, type_)
    )


def vector(b: BlockBuilder, dims: Sequence[Any]) -> HloValue:
    """Dims as a tensor of rank 1."""
    type_ = next(iter(b.numbers.values())).type
    element = element_of(type_)
    if not any(map(is_symbolic_dim, dims)):
        dtype = "i8" if element == "i64" else "i4"
        return b.constant(np.asarray([*dims], dtype))
    one = f"tensor<1x{element}>"
    parts = [b.op("reshape", [number(b, d, type_)], one) for d in dims]
    if len(parts) == 1:
        return parts[0]
    whole = f"tensor<{len(parts)}x{element}>"
    return b.op("concatenate", parts, whole, dimension=0)


# ---------------------------------------------------------------- dynamic forms

# The form of an operation that takes its shapes as operands, and which of its
# attributes they are; where there are none, it takes the shape of the result.
_DYNAMIC: dict[str, tuple[str, Sequence[str]]] = {
    "broadcast_in_dim": ("dynamic_broadcast_in_dim", ()),
    "reshape": ("dynamic_reshape", ()),
    "iota": ("dynamic_iota", ()),
    "slice": ("real_dynamic_slice", ("start_indices", "limit_indices", "strides")),
    "pad": (
        "dynamic_pad",
        ("edge_padding_low", "edge_padding_high", "interior_padding"),
    ),
    "gather": ("dynamic_gather", ("slice_sizes",)),
}


def dynamic_op(
    b: BlockBuilder,
    name: str,
    xs: Sequence[HloValue],
    type_: str,
    attributes: Mapping[str, Any],
) -> HloValue | None:
    """An operation in the form that takes its shapes as operands; None without one."""
    if name not in _DYNAMIC:
        return None
    form, keys = _DYNAMIC[name]
    shapes = [attributes[key] for key in keys]
    if not shapes:
        assert isinstance(type_, Dynamic)
        shapes = [type_.shape]
    operands = [*xs, *[vector(b, shape) for shape in shapes]]
    rest = {k: v for k, v in attributes.items() if k not in keys}
    return b.emit(f"stablehlo.{form}", operands, [type_], **rest)[0]
