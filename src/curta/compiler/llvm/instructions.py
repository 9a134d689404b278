"""The instructions of LLVM IR as methods: values in, a value out.

`Instructions` knows nothing of lanes in memory (`vectors.py`), nor of functions and
blocks (`builder.py`). An operand
is a `Value` or a Python number, which takes the type of the other operand. Float
arithmetic carries `flags`, which is `contract` (a product may fuse with a sum) or
nothing at all; no other fast-math flag is ever used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar

from curta.compiler.llvm import half
from curta.compiler.llvm.folding import HOLDS, compared, folded
from curta.compiler.llvm.types import I1, I64, PTR, Operand, Type, Value, literal
from curta.core.dim import SymbolicDim

_FLOAT_PREDICATE = {
    "eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"
}  # fmt: skip


_Binary = Callable[["Instructions", Operand, Operand], Value]
_Unary = Callable[["Instructions", Value], Value]


def _of_bits(opcode: str) -> _Binary:
    return lambda b, x, y: b._binary(opcode, x, y)


def _of_numbers(name: str) -> _Binary:
    return lambda b, x, y: b._arithmetic(name, x, y)


def _comparison(predicate: str) -> _Binary:
    return lambda b, x, y: b.compare(predicate, x, y)


def _intrinsic(name: str) -> _Unary:
    return lambda b, x: b.intrinsic(name, x.type, x)


class Instructions(ABC):
    """Constants, arithmetic, bits, comparisons, intrinsics and conversions."""

    flags = "contract"
    own: Mapping[str, Callable[..., Any]] = {}
    """Functions of vector math that the machine has itself."""

    def __init__(self) -> None:
        self._constants: dict[tuple[Type, float], Value] = {}

    @abstractmethod
    def emit(self, text: str) -> None:
        """Add a line to the current block."""

    @abstractmethod
    def instruction(self, text: str, type_: Type) -> Value:
        """Add `%new = text`; the new value has this type."""

    @abstractmethod
    def splat(self, x: Value, lanes: int) -> Value:
        """A scalar in every lane."""

    @abstractmethod
    def size(self, x: SymbolicDim) -> Value:
        """A number that depends on the sizes of a program, as an i64."""

    @abstractmethod
    def call(
        self, function: str | Value, result: Type | None, *arguments: Value
    ) -> Value:
        """Call a function by name or address; a name is declared as needed."""

    @property
    @abstractmethod
    def has_fma(self) -> bool:
        """Whether the machine has fused multiply-add instructions."""

    @property
    @abstractmethod
    def pointer_bytes(self) -> int:
        """The size of an address."""

    @property
    @abstractmethod
    def has_f16(self) -> bool:
        """Whether the machine converts between f16 and f32."""

    # ---------------------------------------------------------------- constants

    def const(self, type_: Type, number: float) -> Value:
        """A constant; with many lanes, the same number in each.

        One that depends on the sizes of a program is read from its table.
        """
        if isinstance(number, SymbolicDim):
            size = self.size(number)
            return self.splat(self.convert(size, type_.kind), type_.lanes)
        if number == 0:  # 0 and -0.0 are equal
            return Value(literal(type_, number), type_, self)
        key = type_, number
        result = self._constants.get(key)
        if result is None:
            result = Value(literal(type_, number), type_, self)
            self._constants[key] = result
        return result

    def vector(self, type_: Type, numbers: Sequence[float]) -> Value:
        """A constant with a number for each lane."""
        one = type_.with_lanes(1)
        body = ", ".join(f"{one} {literal(one, x)}" for x in numbers)
        return Value(f"<{body}>", type_, self)

    def lane_index(self, type_: Type) -> Value:
        """The vector 0, 1, 2, ... (a scalar gives 0)."""
        if type_.lanes == 1:
            return self.const(type_, 0)
        return self.vector(type_, range(type_.lanes))

    @property
    def null(self) -> Value:
        """The address of nothing."""
        return Value("null", PTR, self)

    def is_null(self, x: Value) -> Value:
        """Whether an address is null."""
        return self.eq(x, self.null)

    def operand(self, x: Operand, type_: Type) -> Value:
        """A value of a type, which a number takes."""
        if isinstance(x, Value):
            if x.type != type_:
                raise TypeError(f"operand is {x.type}, expected {type_}")
            return x
        return self.const(type_, x)

    def _pair(self, x: Operand, y: Operand) -> tuple[Value, Value]:
        if isinstance(x, Value):
            return x, self.operand(y, x.type)
        if isinstance(y, Value):
            return self.operand(x, y.type), y
        raise TypeError("one of the two operands must be a Value")

    # --------------------------------------------------------------- arithmetic

    def _binary(self, opcode: str, x: Operand, y: Operand) -> Value:
        a, b = self._pair(x, y)
        if a.type is I64 and (result := folded(opcode, a, b)) is not None:
            return self.operand(result, I64)
        return self.instruction(f"{opcode} {a.type.text} {a.text}, {b.text}", a.type)

    def _arithmetic(self, name: str, x: Operand, y: Operand) -> Value:
        a, b = self._pair(x, y)
        if not a.type.is_float:
            return self._binary(name, a, b)
        opcode = f"f{name} {self.flags}"
        return self.instruction(f"{opcode} {a.type.text} {a.text}, {b.text}", a.type)

    add: ClassVar[_Binary] = _of_numbers("add")
    sub: ClassVar[_Binary] = _of_numbers("sub")
    mul: ClassVar[_Binary] = _of_numbers("mul")
    udiv: ClassVar[_Binary] = _of_bits("udiv")
    srem: ClassVar[_Binary] = _of_bits("srem")
    urem: ClassVar[_Binary] = _of_bits("urem")

    def div(self, x: Operand, y: Operand) -> Value:
        """Float quotient, or the signed integer one (undefined for a zero divisor)."""
        a, b = self._pair(x, y)
        return self._arithmetic("div" if a.type.is_float else "sdiv", a, b)

    def neg(self, x: Value) -> Value:
        if x.type.is_float:
            return self.instruction(f"fneg {x.type} {x.text}", x.type)
        return self.sub(0, x)

    def fma(self, x: Operand, y: Operand, z: Operand) -> Value:
        """x * y + z rounded once, on every machine (slowly where it has no FMA)."""
        a, b, c = self._triple(x, y, z)
        if self.has_fma or a.type.kind == "f64":
            return self.intrinsic("fma", a.type, a, b, c)
        a, b, c = (self.convert(v, "f64") for v in (a, b, c))
        return self.convert(self.add(self.mul(a, b), c), "f32")

    def muladd(self, x: Operand, y: Operand, z: Operand) -> Value:
        """x * y + z; of floats rounded once, or twice where there is no FMA."""
        a, b, c = self._triple(x, y, z)
        if self.has_fma and a.type.is_float:
            return self.intrinsic("fma", a.type, a, b, c)
        return self.add(self.mul(a, b), c)

    def _triple(self, *operands: Operand) -> list[Value]:
        type_ = next(v.type for v in operands if isinstance(v, Value))
        return [self.operand(v, type_) for v in operands]

    def horner(self, x: Value, coefficients: Sequence[Operand]) -> Value:
        """A polynomial of x; coefficients from the highest degree to the constant."""
        first = self.operand(coefficients[0], x.type)
        return reduce(lambda p, c: self.muladd(p, x, c), coefficients[1:], first)

    # -------------------------------------------------------------------- bits

    and_: ClassVar[_Binary] = _of_bits("and")
    or_: ClassVar[_Binary] = _of_bits("or")
    xor: ClassVar[_Binary] = _of_bits("xor")
    shl: ClassVar[_Binary] = _of_bits("shl")
    ashr: ClassVar[_Binary] = _of_bits("ashr")
    lshr: ClassVar[_Binary] = _of_bits("lshr")

    def not_(self, x: Value) -> Value:
        return self.xor(x, 1 if x.type.kind == "i1" else -1)

    def bitcast(self, x: Value, type_: Type) -> Value:
        return self.instruction(f"bitcast {x.type} {x.text} to {type_}", type_)

    def bits(self, x: Value) -> Value:
        """The bits of a float as an integer."""
        return self.bitcast(x, x.type.as_int)

    # ------------------------------------------------------------- comparisons

    def compare(
        self, predicate: str, x: Operand, y: Operand, unsigned: bool = False
    ) -> Value:
        """eq ne lt le gt ge. With a NaN, `ne` is true and the others are false."""
        a, b = self._pair(x, y)
        if not unsigned and (holds := compared(predicate, a, b)) is not None:
            return self.const(I1, holds)
        if a.type.is_float:
            opcode = f"fcmp {_FLOAT_PREDICATE[predicate]}"
        elif predicate in ("eq", "ne"):
            opcode = f"icmp {predicate}"
        else:
            opcode = f"icmp {'u' if unsigned else 's'}{predicate}"
        text = f"{opcode} {a.type} {a.text}, {b.text}"
        return self.instruction(text, a.type.as_mask)

    eq: ClassVar[_Binary] = _comparison("eq")
    ne: ClassVar[_Binary] = _comparison("ne")

    def is_nan(self, x: Value) -> Value:
        text = f"fcmp uno {x.type} {x.text}, {x.text}"
        return self.instruction(text, x.type.as_mask)

    def select(self, condition: Value, x: Operand, y: Operand) -> Value:
        """x where the condition holds, y elsewhere; the condition may be one lane."""
        a, b = self._pair(x, y)
        if condition.text in HOLDS:
            return a if HOLDS[condition.text] else b
        text = f"select {condition.type} {condition.text}, "
        return self.instruction(f"{text}{a.type} {a.text}, {b.type} {b.text}", a.type)

    # -------------------------------------------------------------- intrinsics

    def intrinsic(self, name: str, result: Type, *arguments: Value) -> Value:
        """A call of `llvm.<name>.<type of the result>`."""
        return self.call(f"llvm.{name}.{result.suffix}", result, *arguments)

    def abs(self, x: Value) -> Value:
        if x.type.is_float:
            return self.intrinsic("fabs", x.type, x)
        return self.intrinsic("abs", x.type, x, self.const(I1, 0))

    sqrt: ClassVar[_Unary] = _intrinsic("sqrt")
    floor: ClassVar[_Unary] = _intrinsic("floor")
    ceil: ClassVar[_Unary] = _intrinsic("ceil")
    trunc: ClassVar[_Unary] = _intrinsic("trunc")
    round_even: ClassVar[_Unary] = _intrinsic("roundeven")
    population_count: ClassVar[_Unary] = _intrinsic("ctpop")

    def copysign(self, magnitude: Operand, sign: Value) -> Value:
        x = self.operand(magnitude, sign.type)
        return self.intrinsic("copysign", sign.type, x, sign)

    def max(self, x: Operand, y: Operand, unsigned: bool = False) -> Value:
        """The larger; a NaN wins, and +0 is larger than -0."""
        return self._extremum("max", x, y, unsigned)

    def min(self, x: Operand, y: Operand, unsigned: bool = False) -> Value:
        """The smaller; a NaN wins, and -0 is smaller than +0."""
        return self._extremum("min", x, y, unsigned)

    def _extremum(self, name: str, x: Operand, y: Operand, unsigned: bool) -> Value:
        a, b = self._pair(x, y)
        if a.type.is_float:
            return self.intrinsic(f"{name}imum", a.type, a, b)
        opcode = ("u" if unsigned else "s") + name
        if (result := folded(opcode, a, b)) is not None:
            return self.operand(result, I64)
        return self.intrinsic(opcode, a.type, a, b)

    def ldexp(self, x: Value, exponent: Value) -> Value:
        """x * 2**exponent with one rounding; the exponent is i32."""
        name = f"llvm.ldexp.{x.type.suffix}.{exponent.type.suffix}"
        return self.call(name, x.type, x, exponent)

    def leading_zeros(self, x: Value) -> Value:
        return self.intrinsic("ctlz", x.type, x, self.const(I1, 0))

    # ------------------------------------------------------------- conversions

    def convert(self, x: Value, kind: str, unsigned: bool = False) -> Value:
        """To another element kind, as array libraries mean it.

        Float to integer truncates, saturates, and sends NaN to 0; anything to `i1` is
        `x != 0`; `unsigned` says how the integer side is read.
        """
        to = x.type.with_kind(kind)
        if x.type == to:
            return x
        if kind == "i1":
            return self.ne(x, 0)
        if x.type.is_float and to.is_float:
            return self._between_floats(x, to)
        if "f16" in (x.type.kind, kind):  # exact on the way, or infinite in the end
            return self.convert(self.convert(x, "f32", unsigned), kind, unsigned)
        if to.is_float:
            signed = not unsigned and x.type.kind != "i1"
            return self.cast("sitofp" if signed else "uitofp", x, to)
        if x.type.is_float:
            return self._saturate(x, to, unsigned)
        if to.bits < x.type.bits:
            return self.cast("trunc", x, to)
        extend = "zext" if unsigned or x.type.kind == "i1" else "sext"
        return self.cast(extend, x, to)

    def _between_floats(self, x: Value, to: Type) -> Value:
        if to.kind == "f16":
            single = half.f32_to_odd(self, x) if x.type.kind == "f64" else x
            # One number is narrowed in bits: LLVM narrows the sign of a copysign on its
            # own, from f64 by a function of a library that need not be there.
            return (
                self.cast("fptrunc", single, to)
                if self.has_f16 and to.lanes > 1
                else half.narrow(self, single)
            )
        if x.type.kind == "f16" and not self.has_f16:
            return self.convert(half.widen(self, x), to.kind)
        return self.cast("fpext" if to.bits > x.type.bits else "fptrunc", x, to)

    def _saturate(self, x: Value, to: Type, unsigned: bool) -> Value:
        # LLVM's own fptosi.sat converts lane by lane on x86.
        low = 0 if unsigned else -(2 ** (to.bits - 1))
        high = 2**to.bits if unsigned else -low
        below, above = x < low, x >= high
        inside = self.select(self.or_(below, above) | self.is_nan(x), 0, x)
        result = self.cast("fptoui" if unsigned else "fptosi", inside, to)
        result = self.select(above, self.const(to, high - 1), result)
        return self.select(below, self.const(to, low), result)

    def to_int(self, x: Value, kind: str | None = None) -> Value:
        """Float to signed integer, truncating; poison when it does not fit."""
        to = x.type.with_kind(kind) if kind else x.type.as_int
        return self.cast("fptosi", x, to)

    def to_float(self, x: Value, kind: str | None = None) -> Value:
        """Signed integer to the float of the same width (or of the given kind)."""
        to = x.type.with_kind(kind or f"f{x.type.bits}")
        return self.cast("sitofp", x, to)

    def cast(self, opcode: str, x: Value, to: Type) -> Value:
        """A conversion instruction by its name in LLVM."""
        return self.instruction(f"{opcode} {x.type} {x.text} to {to}", to)
