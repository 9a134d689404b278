"""Elementwise ops by the scalar code of their elements.

An op says one element of its result with a `ScalarBuilder` (`compiler/loops`), for
the CPU's compiler. The same expression on whole tensors is its program here: each
instruction is an operation or two, and what complex numbers, half precision or the
limits of integers mean is said once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from curta.compiler.llvm.vector_math import FUNCTIONS
from curta.compiler.loops.build import CannotLowerOp, ScalarBuilder
from curta.compiler.loops.complexes import ComplexExpr
from curta.compiler.loops.nodes import Const, Expr, Instr, Placeholder, walk
from curta.compiler.stablehlo.ir import Value
from curta.compiler.stablehlo.lowering import Builder
from curta.compiler.stablehlo.tensors import TensorBuilder
from curta.compiler.stablehlo.types import element_type, tensor

Shape = tuple[int, ...]
Code = Callable[..., Any]


def elementwise(
    b: Builder, shape: Shape, code: Code, xs: Sequence[Value], dtypes: Sequence[Any]
) -> list[Value]:
    """What `code(scalar builder, *elements)` gives, a scalar or several, as tensors.

    The operands have this shape and these dtypes. Raises NotImplementedError where
    there is no scalar code for them.
    """
    made = ScalarBuilder()
    emitter = _Emitter(b, shape)
    operands = []
    for i, (x, dtype) in enumerate(zip(xs, dtypes, strict=True)):
        hole = made.placeholder(f"x{i}", dtype)
        operands.append(hole)
        emitter.define(hole, x, dtype)
    try:
        result = code(made, *operands)
    except CannotLowerOp as error:
        raise NotImplementedError(f"StableHLO of {error}") from error
    several = result if isinstance(result, (list, tuple)) else [result]
    return [emitter.scalar(x) for x in several]


class _Emitter:
    """The values of expressions, each computed once."""

    def __init__(self, b: Builder, shape: Shape) -> None:
        self.b = b
        self.shape = shape
        self.math = TensorBuilder(b)
        self._known: dict[Expr, Value] = {}

    def define(self, hole: Any, x: Value, dtype: Any) -> None:
        """The tensor that a placeholder stands for."""
        if not isinstance(hole, ComplexExpr):
            self._known[hole] = x
            return
        part = self.type(hole.re.dtype)
        self._known[hole.re] = self.b.op("real", [x], part)
        self._known[hole.im] = self.b.op("imag", [x], part)

    def type(self, dtype: Any) -> str:
        """The type of a tensor of the common shape."""
        return tensor(self.shape, element_type(dtype))

    def scalar(self, x: Any) -> Value:
        """The tensor of a scalar: complex ones are put together."""
        if not isinstance(x, ComplexExpr):
            return self.value(x)
        parts = [self.value(x.re), self.value(x.im)]
        return self.b.op("complex", parts, self.type(x.dtype))

    def value(self, expr: Expr) -> Value:
        """The tensor of an expression."""
        for operand in walk([expr]):
            if operand not in self._known:
                self._known[operand] = self._emitted(operand)
        return self._known[expr]

    def _emitted(self, expr: Expr) -> Value:
        if isinstance(expr, Const):
            return self._constant(expr)
        assert isinstance(expr, Instr) and not isinstance(expr, Placeholder)
        xs = [self._known[a] for a in expr.args]
        family, _, detail = expr.name.partition(".")
        if family == "math":
            return self._math(detail, expr, xs)
        if family == "compare":
            return self._compare(detail, expr, xs)
        special = _SPECIAL.get(family)
        if special is not None:
            return special(self, expr, xs)
        return self.b.op(_OPERATIONS[family], xs, self.type(expr.dtype))

    def _constant(self, expr: Const) -> Value:
        scalar = self.b.constant(np.asarray(expr.value).astype(expr.dtype))
        if not self.shape:
            return scalar
        return self.b.op(
            "broadcast_in_dim", [scalar], self.type(expr.dtype), broadcast_dimensions=()
        )

    def _math(self, name: str, expr: Instr, xs: Sequence[Value]) -> Value:
        kinds = [element_type(a.dtype) for a in expr.args]
        tensors = [
            self.math.tensor(x, k, self.shape) for x, k in zip(xs, kinds, strict=True)
        ]
        result: Any = FUNCTIONS[name](self.math, *tensors)
        value: Value = result.value
        return value

    def _compare(self, direction: str, expr: Instr, xs: Sequence[Value]) -> Value:
        return self.b.op(
            "compare",
            xs,
            self.type(np.dtype(bool)),
            comparison_direction=direction.upper(),
            compare_type=compare_type(expr.args[0]),
        )


def compare_type(x: Any) -> str:
    """How elements of x's dtype are compared: FLOAT, SIGNED or UNSIGNED."""
    name = element_type(x.dtype)
    if name.startswith("i") and name != "i1":
        return "SIGNED"
    return "UNSIGNED" if name.startswith(("u", "i1")) else "FLOAT"


def _copysign(e: _Emitter, expr: Instr, xs: Sequence[Value]) -> Value:
    kind = element_type(expr.dtype)
    x, sign = (e.math.tensor(v, kind, e.shape) for v in xs)
    return e.math.copysign(x, sign).value


def _trunc(e: _Emitter, expr: Instr, xs: Sequence[Value]) -> Value:
    return e.math.trunc(e.math.tensor(xs[0], element_type(expr.dtype), e.shape)).value


def _convert(e: _Emitter, expr: Instr, xs: Sequence[Value]) -> Value:
    return e.b.op("convert", xs, e.type(expr.dtype))


def _bitcast(e: _Emitter, expr: Instr, xs: Sequence[Value]) -> Value:
    kinds = expr.args[0].dtype, expr.dtype
    name = "convert" if any(d.kind == "b" for d in kinds) else "bitcast_convert"
    return e.b.op(name, xs, e.type(expr.dtype))


_SPECIAL: Final[dict[str, Callable[..., Value]]] = {
    "copysign": _copysign,
    "trunc": _trunc,
    "convert": _convert,
    "to_int": _convert,
    "bitcast": _bitcast,
}
_OPERATIONS: Final[dict[str, str]] = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "sdiv": "divide",
    "udiv": "divide",
    "srem": "remainder",
    "urem": "remainder",
    "neg": "negate",
    "abs": "abs",
    "floor": "floor",
    "ceil": "ceil",
    "round_even": "round_nearest_even",
    "sqrt": "sqrt",
    "and_": "and",
    "or_": "or",
    "xor": "xor",
    "not_": "not",
    "shl": "shift_left",
    "lshr": "shift_right_logical",
    "ashr": "shift_right_arithmetic",
    "select": "select",
    "max": "maximum",
    "min": "minimum",
    "population_count": "popcnt",
    "leading_zeros": "count_leading_zeros",
}
