"""A builder of vector math that computes at once, with NumPy, in float32.

The functions of `llvm/vector_math` are written against an interface. With
this builder they are tested without code: a value is an array, an operation a ufunc.
Fused operations go through float64, in which products of float32 are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from curta.compiler.llvm.types import Arithmetic, Type

KINDS = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


class Array(Arithmetic["Array"]):
    """An array with the type that the functions ask for."""

    def __init__(self, builder: NumPyMath, array: Any) -> None:
        self.builder, self.array = builder, np.asarray(array)
        kind = next(k for k, t in KINDS.items() if self.array.dtype == t)
        self.type = Type(kind, self.array.size)

    @property
    def lanes(self) -> int:
        return self.type.lanes


class NumPyMath:
    """The builder; `own` is empty, as for a machine with nothing but arithmetic."""

    flags = ""
    vector_bytes = 0
    own: dict[str, Callable[..., Any]] = {}

    def call(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """The results of a function of vector math."""
        with np.errstate(all="ignore"):
            return function(self, *(Array(self, x) for x in arrays)).array

    def _pair(self, x: Any, y: Any) -> tuple[Any, Any]:
        like = x if isinstance(x, Array) else y
        return tuple(
            v.array if isinstance(v, Array) else _number(v, like.type) for v in (x, y)
        )

    def const(self, type_: Type, number: float) -> Array:
        return Array(self, np.full(type_.lanes, _number(number, type_)))

    def splat(self, x: Any, lanes: Any) -> Array:
        return Array(self, np.broadcast_to(x.array, lanes))

    def fma(self, x: Any, y: Any, z: Any) -> Array:
        like = next(v for v in (x, y, z) if isinstance(v, Array))
        wide = [
            np.float64(v.array if isinstance(v, Array) else _number(v, like.type))
            for v in (x, y, z)
        ]
        result = wide[0] * wide[1] + wide[2]
        return Array(self, result.astype(like.array.dtype))

    muladd = fma

    def horner(self, x: Any, coefficients: Sequence[Any]) -> Any:
        result, *rest = coefficients
        if not isinstance(result, Array):
            result = self.const(x.type, result)
        for c in rest:
            result = self.fma(result, x, c)
        return result

    def neg(self, x: Array) -> Array:
        return Array(self, -x.array)

    def not_(self, x: Array) -> Array:
        return Array(self, ~x.array)

    def bits(self, x: Array) -> Array:
        return self.bitcast(x, x.type.as_int)

    def bitcast(self, x: Array, type_: Type) -> Array:
        return Array(self, x.array.view(KINDS[type_.kind]))

    def copysign(self, x: Any, y: Any) -> Array:
        return Array(self, np.copysign(*self._pair(x, y)))

    def lshr(self, x: Any, y: Any) -> Array:
        x, y = self._pair(x, y)
        unsigned = x.view(f"u{x.dtype.itemsize}") >> np.asarray(y).astype(
            f"u{x.dtype.itemsize}"
        )
        return Array(self, unsigned.view(x.dtype))

    def compare(self, predicate: str, x: Any, y: Any) -> Array:
        names = {"lt": "less", "le": "less_equal", "gt": "greater"}
        names |= {"ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
        return Array(self, getattr(np, names[predicate])(*self._pair(x, y)))

    def eq(self, x: Any, y: Any) -> Array:
        return self.compare("eq", x, y)

    def ne(self, x: Any, y: Any) -> Array:
        return self.compare("ne", x, y)

    def is_nan(self, x: Array) -> Array:
        return Array(self, np.isnan(x.array))

    def select(self, condition: Array, x: Any, y: Any) -> Array:
        x, y = self._pair(x, y)
        return Array(self, np.where(condition.array, x, y))

    def convert(self, x: Array, kind: str, unsigned: bool = False) -> Array:
        array = x.array.view(f"u{x.array.dtype.itemsize}") if unsigned else x.array
        return Array(self, array.astype(KINDS[kind]))

    def to_int(self, x: Array) -> Array:
        return self.convert(x, x.type.as_int.kind)

    def to_float(self, x: Array) -> Array:
        return self.convert(x, f"f{x.type.bits}")

    def any_lane(self, mask: Array) -> Array:
        return Array(self, mask.array.any())

    def if_(self, condition: Any, then: Any, otherwise: Any) -> list[Any]:
        return then() if condition.array.any() else otherwise()

    def while_loop(self, initial: Any, condition: Any, body: Any) -> list[Any]:
        state = list(initial)
        while condition(state).array.any():
            state = body(state)
        return state

    @contextmanager
    def loop(self, start: Any, stop: Any, *, carried: Sequence[Any] = ()) -> Iterator:
        raise NotImplementedError("loops with a count")
        yield SimpleNamespace()


def _number(x: Any, type_: Type) -> Any:
    kind = KINDS[type_.kind]
    if isinstance(x, Array):
        return x.array
    if type_.is_int:
        bits = type_.bits
        x = int(x) & ((1 << bits) - 1)
        return kind(x - (1 << bits) if bits > 1 and x >> (bits - 1) else x)
    return kind(x)


def _of_two(ufunc: Callable[..., Any]) -> Callable[..., Array]:
    return lambda self, x, y: Array(self, ufunc(*self._pair(x, y)))


def _of_one(ufunc: Callable[..., Any]) -> Callable[..., Array]:
    return lambda self, x: Array(self, ufunc(x.array))


for _name, _ufunc in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "and_": np.bitwise_and, "or_": np.bitwise_or, "xor": np.bitwise_xor,
    "shl": np.left_shift, "ashr": np.right_shift, "max": np.maximum, "min": np.minimum,
}.items():  # fmt: skip
    setattr(NumPyMath, _name, _of_two(_ufunc))
for _name, _ufunc in {
    "abs": np.abs, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "round_even": np.rint,
}.items():  # fmt: skip
    setattr(NumPyMath, _name, _of_one(_ufunc))
