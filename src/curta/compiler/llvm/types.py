"""Types and SSA values of the LLVM IR that Curta writes.

A `Type` is an element kind and a number of lanes; one lane is a scalar. A `Value` is
a name (or a literal) with a type. Values know the builder that made them, so that
arithmetic on them reads as arithmetic.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from curta.compiler.llvm.instructions import Instructions

_LLVM_NAME = {"f16": "half", "f32": "float", "f64": "double"}
_BITS = {
    "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64,
    "f16": 16, "f32": 32, "f64": 64, "ptr": 64,
}  # fmt: skip


class Type:
    """An element kind (`i1 i8 i16 i32 i64 f16 f32 f64 ptr`) and a number of lanes.

    Equal types are one object. `text` is how LLVM writes the type, `suffix` how the
    names of intrinsics do (`f32`, `v16f32`, `p0`); `bits` is the width of one element,
    `size` its bytes in memory.
    """

    __slots__ = ("bits", "is_float", "kind", "lanes", "size", "suffix", "text")

    kind: str
    lanes: int
    text: str
    suffix: str
    bits: int
    size: int
    is_float: bool

    def __new__(cls, kind: str, lanes: int = 1) -> Type:
        return _types.get((kind, lanes)) or _new_type(kind, lanes)

    @property
    def is_int(self) -> bool:
        return self.kind[0] == "i"

    def with_kind(self, kind: str) -> Type:
        return Type(kind, self.lanes)

    def with_lanes(self, lanes: int) -> Type:
        return Type(self.kind, lanes)

    @property
    def as_int(self) -> Type:
        """The integer type of the same width and lanes."""
        return Type(f"i{self.bits}", self.lanes)

    @property
    def as_mask(self) -> Type:
        """The type of a comparison of two values of this type."""
        return Type("i1", self.lanes)

    def __repr__(self) -> str:
        return self.text


_types: dict[tuple[str, int], Type] = {}


def _new_type(kind: str, lanes: int) -> Type:
    made = object.__new__(Type)
    made.kind, made.lanes = kind, lanes
    made.bits = _BITS.get(kind, 0)
    made.size = max(1, made.bits // 8)
    made.is_float = kind[0] == "f"
    element = _LLVM_NAME.get(kind, kind)
    made.text = element if lanes == 1 else f"<{lanes} x {element}>"
    short = "p0" if kind == "ptr" else kind
    made.suffix = short if lanes == 1 else f"v{lanes}{short}"
    return _types.setdefault((kind, lanes), made)


I1, I8, I16, I32, I64 = (Type(f"i{n}") for n in (1, 8, 16, 32, 64))
F32, F64, PTR = Type("f32"), Type("f64"), Type("ptr")


def literal(type_: Type, number: float) -> str:
    """The text of a constant; every lane has the same number.

    Floats are printed as the bits of a double, which LLVM demands for `float` too,
    so that inf, nan and -0.0 need no care. An `i1` is `true` or `false`.
    """
    if type_.is_float:
        if type_.kind == "f32":
            number = round_to_f32(number)
        bits = struct.unpack("<Q", struct.pack("<d", number))[0]
        text = f"0x{bits:016X}"
        if type_.kind == "f16":
            text = f"0xH{_f16_bits(number):04X}"
    elif type_.kind == "i1":
        text = "true" if number else "false"
    else:
        text = str(wrap(int(number), type_.bits))
    if type_.lanes == 1:
        return text
    return f"splat ({_LLVM_NAME.get(type_.kind, type_.kind)} {text})"


def _f16_bits(number: float) -> int:
    try:
        packed = struct.pack("<e", number)
    except OverflowError:
        packed = struct.pack("<e", float("inf") if number > 0 else float("-inf"))
    return int.from_bytes(packed, "little")


def wrap(number: int, bits: int) -> int:
    """`number` modulo 2**bits, as a signed integer."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def round_to_f32(number: float) -> float:
    """The float32 nearest to a Python float (overflow gives an infinity)."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


V = TypeVar("V")


class Arithmetic(Generic[V]):
    """Operators that call the methods of the builder that made a value.

    Integers are signed here; unsigned division, comparison and shifts have their own
    methods on the builder.
    """

    __slots__ = ()
    builder: Any

    def __add__(self, other: V | float) -> V:
        return self.builder.add(self, other)

    def __radd__(self, other: V | float) -> V:
        return self.builder.add(other, self)

    def __sub__(self, other: V | float) -> V:
        return self.builder.sub(self, other)

    def __rsub__(self, other: V | float) -> V:
        return self.builder.sub(other, self)

    def __mul__(self, other: V | float) -> V:
        return self.builder.mul(self, other)

    def __rmul__(self, other: V | float) -> V:
        return self.builder.mul(other, self)

    def __truediv__(self, other: V | float) -> V:
        return self.builder.div(self, other)

    def __rtruediv__(self, other: V | float) -> V:
        return self.builder.div(other, self)

    def __neg__(self) -> V:
        return self.builder.neg(self)

    def __and__(self, other: V | float) -> V:
        return self.builder.and_(self, other)

    def __or__(self, other: V | float) -> V:
        return self.builder.or_(self, other)

    def __xor__(self, other: V | float) -> V:
        return self.builder.xor(self, other)

    def __invert__(self) -> V:
        return self.builder.not_(self)

    def __lshift__(self, other: V | float) -> V:
        return self.builder.shl(self, other)

    def __rshift__(self, other: V | float) -> V:
        return self.builder.ashr(self, other)

    def __lt__(self, other: V | float) -> V:
        return self.builder.compare("lt", self, other)

    def __le__(self, other: V | float) -> V:
        return self.builder.compare("le", self, other)

    def __gt__(self, other: V | float) -> V:
        return self.builder.compare("gt", self, other)

    def __ge__(self, other: V | float) -> V:
        return self.builder.compare("ge", self, other)


class Value(Arithmetic["Value"]):
    """An SSA value: its text (`%7`, `0x3FF0000000000000`), its type and its builder.

    The operators emit instructions.
    """

    __slots__ = ("builder", "text", "type")

    def __init__(self, text: str, type_: Type, builder: Instructions) -> None:
        self.text: str = text
        self.type: Type = type_
        self.builder: Any = builder

    def __repr__(self) -> str:
        return f"{self.type} {self.text}"

    def __str__(self) -> str:
        return self.text

    @property
    def lanes(self) -> int:
        return self.type.lanes


Operand = Value | float | int
