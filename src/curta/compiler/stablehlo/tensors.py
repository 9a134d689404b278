"""A builder of tensors with the interface that the functions of vector math use.

Those are written once (`compiler/llvm/vector_math`), for LLVM's vectors; here the same
functions make tensors, all elements at once. What StableHLO has itself (`own`) is used
instead: exp, log, sin, ... are the device's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from curta.compiler.llvm.builder import Builder as VectorBuilder
from curta.compiler.llvm.types import Arithmetic, wrap
from curta.compiler.llvm.vector_math.common import BIAS, MANTISSA
from curta.compiler.llvm.vector_math.interface import MathBuilder
from curta.compiler.stablehlo.ir import HloBlock, HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder
from curta.compiler.stablehlo.types import tensor

_DTYPES = {
    "i1": np.dtype(bool),
    **{f"i{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    "f32": np.dtype("float32"),
    "f64": np.dtype("float64"),
}
Shape = tuple[int, ...]


def compare_order(kind: str) -> str:
    """How elements of a kind are compared: FLOAT, SIGNED or UNSIGNED."""
    if kind.startswith("i") and kind != "i1":
        return "SIGNED"
    return "UNSIGNED" if kind.startswith(("u", "i1")) else "FLOAT"


class TensorType:
    """An element kind (`i1 i8 i16 i32 i64 f32 f64`) and a shape."""

    __slots__ = ("kind", "lanes")

    def __init__(self, kind: str, shape: Shape) -> None:
        self.kind: str = kind
        self.lanes: Any = shape

    @property
    def bits(self) -> int:
        return int(self.kind[1:])

    @property
    def is_float(self) -> bool:
        return self.kind[0] == "f"

    def with_kind(self, kind: str) -> TensorType:
        return TensorType(kind, self.lanes)

    @property
    def text(self) -> str:
        return tensor(self.lanes, self.kind)


class Tensor(Arithmetic["Tensor"]):
    """A value of the program with a type; its operators emit operations."""

    __slots__ = ("builder", "type", "value")

    def __init__(
        self, value: HloValue, type_: TensorType, builder: TensorBuilder
    ) -> None:
        self.value: HloValue = value
        self.type: TensorType = type_
        self.builder: Any = builder

    @property
    def lanes(self) -> Shape:
        return self.type.lanes


Operand = Tensor | float
Tensors = list[Tensor]


class TensorLoop:
    """A counted loop in the making: what its body reads and hands on."""

    following: Any

    def __init__(self, index: Tensor, carried: Tensors) -> None:
        self.index = index
        self.carried = carried
        self.results: Tensors = []
        self.following = carried

    def next(self, *values: Tensor) -> None:
        """The carried values of the next iteration."""
        self.following = list(values)


_Method = Callable[..., Tensor]


def _operation(name: str) -> _Method:
    """A method: an operation whose operands and result have one type."""
    return lambda self, *xs: self._same(name, *xs)


class TensorBuilder:
    """Emits to a builder; constants are there once in each of its blocks."""

    b: BlockBuilder

    vector_bytes = 0  # there are no registers
    flags = ""  # products and sums fuse as the device's compiler likes

    def __init__(self, b: BlockBuilder) -> None:
        self.b = b
        self._constants: dict[Any, Tensor] = {}
        self.own: Mapping[str, Callable[..., Any]] = {
            **{name: self._function(op) for name, op in _OWN.items()},
            "atan": lambda x: self._same("atan2", x, 1.0),
            "logistic": self._logistic,
            "log1p": self._log1p,
            "log2": self._log2,
            "exp2": self._exp2,
            "scaled_exp": self._scaled_exp,
            "square_error": self._square_error,
            "nearest_multiple": self._nearest_multiple,
            "nearest_power": self._nearest_power,
        }

    def tensor(self, value: HloValue, kind: str, shape: Shape) -> Tensor:
        """A value of the program, to compute with."""
        return Tensor(value, TensorType(kind, shape), self)

    # -------------------------------------------------------------- operations

    def _emit(
        self, name: str, type_: TensorType, *xs: Tensor, **attributes: Any
    ) -> Tensor:
        value = self.b.op(name, [x.value for x in xs], type_.text, **attributes)
        return Tensor(value, type_, self)

    def const(self, type_: Any, number: float) -> Tensor:
        """A constant in every element."""
        shape = () if type_.lanes == 1 else type_.lanes
        dtype = _DTYPES[type_.kind]
        if dtype.kind == "i":
            number = wrap(int(number), type_.bits)
        element = np.asarray(number, dtype)
        key = dtype, element.tobytes(), shape
        result = self._constants.get(key)
        if result is None:
            scalar = self.tensor(self.b.constant(element), type_.kind, ())
            result = self._constants[key] = self.splat(scalar, shape)
        return result

    def splat(self, x: Tensor, lanes: Shape) -> Tensor:
        """A scalar in every element."""
        if x.lanes == lanes:
            return x
        type_ = TensorType(x.type.kind, lanes)
        return self._emit("broadcast_in_dim", type_, x, broadcast_dimensions=())

    def _operands(self, *xs: Operand) -> Tensors:
        type_ = next(x.type for x in xs if isinstance(x, Tensor))
        return [x if isinstance(x, Tensor) else self.const(type_, x) for x in xs]

    def _same(self, name: str, *xs: Operand) -> Tensor:
        operands = self._operands(*xs)
        return self._emit(name, operands[0].type, *operands)

    add: ClassVar[_Method] = _operation("add")
    sub: ClassVar[_Method] = _operation("subtract")
    mul: ClassVar[_Method] = _operation("multiply")
    div: ClassVar[_Method] = _operation("divide")
    neg: ClassVar[_Method] = _operation("negate")
    and_: ClassVar[_Method] = _operation("and")
    or_: ClassVar[_Method] = _operation("or")
    xor: ClassVar[_Method] = _operation("xor")
    not_: ClassVar[_Method] = _operation("not")
    shl: ClassVar[_Method] = _operation("shift_left")
    ashr: ClassVar[_Method] = _operation("shift_right_arithmetic")
    lshr: ClassVar[_Method] = _operation("shift_right_logical")
    abs: ClassVar[_Method] = _operation("abs")
    sqrt: ClassVar[_Method] = _operation("sqrt")
    floor: ClassVar[_Method] = _operation("floor")
    ceil: ClassVar[_Method] = _operation("ceil")
    round_even: ClassVar[_Method] = _operation("round_nearest_even")
    max: ClassVar[_Method] = _operation("maximum")
    min: ClassVar[_Method] = _operation("minimum")
    remainder: ClassVar[_Method] = _operation("remainder")
    population_count: ClassVar[_Method] = _operation("popcnt")
    leading_zeros: ClassVar[_Method] = _operation("count_leading_zeros")

    def fma(self, x: Operand, y: Operand, z: Operand) -> Tensor:
        """x * y + z, rounded once where the device fuses them.

        Where the difference counts, there is a function of `own` for it.
        """
        a, b, c = self._operands(x, y, z)
        return self.add(self.mul(a, b), c)

    muladd = fma

    def horner(self, x: Tensor, coefficients: Sequence[Operand]) -> Tensor:
        first = self._operands(x, coefficients[0])[1]
        return reduce(lambda p, c: self.muladd(p, x, c), coefficients[1:], first)

    def trunc(self, x: Tensor) -> Tensor:
        return self.select(x < 0.0, self.ceil(x), self.floor(x))

    def copysign(self, magnitude: Operand, sign: Tensor) -> Tensor:
        x, _ = self._operands(magnitude, sign)
        highest = 1 << (x.type.bits - 1)
        bits = (self.bits(x) & (highest - 1)) | (self.bits(sign) & highest)
        return self.bitcast(bits, x.type)

    def compare(self, predicate: str, x: Operand, y: Operand) -> Tensor:
        """eq ne lt le gt ge. With a NaN, `ne` is true and the others are false."""
        operands = self._operands(x, y)
        return self._emit(
            "compare",
            operands[0].type.with_kind("i1"),
            *operands,
            comparison_direction=predicate.upper(),
            compare_type=compare_order(operands[0].type.kind),
        )

    def eq(self, x: Operand, y: Operand) -> Tensor:
        return self.compare("eq", x, y)

    def ne(self, x: Operand, y: Operand) -> Tensor:
        return self.compare("ne", x, y)

    def is_nan(self, x: Tensor) -> Tensor:
        return self.ne(x, x)

    def select(self, condition: Tensor, x: Operand, y: Operand) -> Tensor:
        a, b = self._operands(x, y)
        return self._emit("select", a.type, condition, a, b)

    # ------------------------------------------------------------- conversions

    def bitcast(self, x: Tensor, type_: TensorType) -> Tensor:
        return self._emit("bitcast_convert", type_, x)

    def bits(self, x: Tensor) -> Tensor:
        return self.bitcast(x, x.type.with_kind(f"i{x.type.bits}"))

    def convert(self, x: Tensor, kind: str) -> Tensor:
        if x.type.kind == kind:
            return x
        return self._emit("convert", x.type.with_kind(kind), x)

    def to_int(self, x: Tensor) -> Tensor:
        return self.convert(x, f"i{x.type.bits}")

    def to_float(self, x: Tensor) -> Tensor:
        return self.convert(x, f"f{x.type.bits}")

    # ------------------------------------------------------------ control flow

    @contextmanager
    def _within(self, types: Sequence[TensorType]) -> Iterator[Tensors]:
        """Emit to a new region; its arguments."""
        outer, constants = self.b, self._constants
        with outer.region([t.text for t in types]) as inner:
            self.b, self._constants = inner, {}
            pairs = zip(inner.block.arguments, types, strict=True)
            yield [Tensor(v, t, self) for v, t in pairs]
            self.b, self._constants = outer, constants

    def _end(self, values: Sequence[Tensor]) -> HloBlock:
        return self.b.finish(*[x.value for x in values])

    def any_lane(self, mask: Tensor) -> Tensor:
        """Whether a condition holds in some element."""
        if not mask.lanes:
            return mask
        scalar = TensorType("i1", ())
        start = self.const(scalar, False)
        with self._within([scalar, scalar]) as (x, y):
            block = self._end([x | y])
        (value,) = self.b.emit(
            "stablehlo.reduce",
            [mask.value, start.value],
            [scalar.text],
            [block],
            dimensions=tuple(range(len(mask.lanes))),
        )
        return Tensor(value, scalar, self)

    def if_(
        self,
        condition: Tensor,
        then: Callable[[], Tensors],
        otherwise: Callable[[], Tensors],
    ) -> Tensors:
        """Run one of two bodies; they give values of the same types."""
        blocks = []
        types: Sequence[TensorType] = ()
        for body in (then, otherwise):
            with self._within([]):
                result = body()
                types = [x.type for x in result]
                blocks.append(self._end(result))
        return self._structured("stablehlo.if", [condition], types, blocks)

    def _structured(
        self,
        name: str,
        operands: Sequence[Tensor],
        types: Sequence[TensorType],
        blocks: Sequence[HloBlock],
    ) -> Tensors:
        texts = [t.text for t in types]
        values = self.b.emit(name, [x.value for x in operands], texts, blocks)
        return [Tensor(v, t, self) for v, t in zip(values, types, strict=True)]

    def while_loop(
        self,
        initial: Sequence[Tensor],
        condition: Callable[[Tensors], Tensor],
        body: Callable[[Tensors], Tensors],
    ) -> Tensors:
        """Repeat the body on the carried values while the condition holds."""
        types = [x.type for x in initial]
        with self._within(types) as carried:
            test = self._end([condition(carried)])
        with self._within(types) as carried:
            iteration = self._end(body(carried))
        return self._structured("stablehlo.while", initial, types, [test, iteration])

    @contextmanager
    def loop(
        self, start: int, stop: int, carried: Sequence[Tensor] = ()
    ) -> Iterator[TensorLoop]:
        """Run the `with` body for index = start, ... while below stop."""
        count = TensorType("i64", ())
        initial = [self.const(count, start), *carried]
        types = [x.type for x in initial]
        with self._within(types) as inside:
            test = self._end([inside[0] < stop])
        with self._within(types) as inside:
            loop = TensorLoop(inside[0], inside[1:])
            yield loop
            iteration = self._end([inside[0] + 1, *loop.following])
        result = self._structured("stablehlo.while", initial, types, [test, iteration])
        loop.results = result[1:]

    def apart(self, name: str, rule: Callable[..., Tensor], xs: Tensors) -> Tensor:
        """A long rule for doubles, as a function of the module."""
        wide = TensorType("f64", xs[0].lanes)
        types = [wide.text] * len(xs)

        def body(inner: BlockBuilder, *arguments: HloValue) -> list[HloValue]:
            b = TensorBuilder(inner)
            return [rule(b, *[Tensor(v, wide, b) for v in arguments]).value]

        function = self.b.program.helper(name, types, body)
        given = [self.convert(x, "f64").value for x in xs]
        (value,) = self.b.call_helper(function, given)
        return self.convert(Tensor(value, wide, self), xs[0].type.kind)

    # ------------------------------------------------- what StableHLO has itself

    def _function(self, op: str) -> Callable[..., Tensor]:
        return lambda *xs: self._same(op, *xs)

    def _logistic(self, x: Tensor) -> Tensor:
        return 1.0 / (self.own["exp"](-x) + 1.0)

    def _log1p(self, x: Tensor, low: Tensor | None = None) -> Tensor:
        result = self._same("log_plus_one", x)
        return result if low is None else result + low / (x + 1.0)

    def _log2(self, x: Tensor) -> Tensor:
        return self._same("log", x) * float(1 / np.log(2))

    def _exp2(self, x: Tensor) -> Tensor:
        return self._same("exponential", x * float(np.log(2)))

    def _scaled_exp(self, x: Tensor, power: int = 0) -> Tensor:
        """2**power * e**x, which overflows no sooner than that."""
        root = self._same("exponential", x * 0.5)
        return (root * 2.0**power) * root

    # XLA takes the sum of a number and a large one less that one for the number.

    def _nearest_multiple(self, x: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        n = self.round_even(x * scale)
        return n, self.to_int(n)

    def _nearest_power(self, x: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        n, integer = self._nearest_multiple(x, scale)
        kind = x.type.kind
        power = (integer + BIAS[kind]) << MANTISSA[kind]
        return n, self.bitcast(power, x.type)

    def _square_error(self, x: Tensor, square: Tensor) -> Tensor:
        """x * x - square: x in two halves, whose products are exact.

        T. J. Dekker, A floating-point technique for extending the available precision
        (1971).
        """
        low_bits = 12 if x.type.kind == "f32" else 27
        high = self.bitcast(self.bits(x) & -(1 << low_bits), x.type)
        low = x - high
        return ((high * high - square) + (high + high) * low) + low * low


# Rules of vector math that are one operation.
_OWN = {
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log": "log",
    "sin": "sine",
    "cos": "cosine",
    "tan": "tan",
    "tanh": "tanh",
    "atan2": "atan2",
    "power": "power",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "cbrt": "cbrt",
    "floor": "floor",
    "ceil": "ceil",
    "round_away": "round_nearest_afz",
    "round_to_even": "round_nearest_even",
    "remainder": "remainder",
}

if TYPE_CHECKING:
    _builders: tuple[type[MathBuilder], ...] = (VectorBuilder, TensorBuilder)
