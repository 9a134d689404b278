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
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder
from curta.compiler.stablehlo.tensors import Tensor, TensorBuilder, compare_order
from curta.compiler.stablehlo.types import element_type, tensor

Shape = tuple[int, ...]
Code = Callable[..., Any]


def elementwise(
    b: BlockBuilder,
    shape: Shape,
    code: Code,
    xs: Sequence[HloValue],
    dtypes: Sequence[Any],
) -> list[HloValue]:
    """What `code(scalar builder, *elements)` gives, a scalar or several, as tensors.

    The operands have this shape and these dtypes. Raises NotImplementedError where
    there is no scalar code for them.
    """
    made = ScalarBuilder()
    emitter = _ScalarEmitter(b, shape)
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


class _ScalarEmitter:
    """The values of expressions, each computed once."""

    def __init__(self, b: BlockBuilder, shape: Shape) -> None:
        self.b = b
        self.shape = shape
        self.math = TensorBuilder(b)
        self._known: dict[Expr, Tensor] = {}

    def define(self, hole: Any, x: HloValue, dtype: Any) -> None:
        """The tensor that a placeholder stands for."""
        if not isinstance(hole, ComplexExpr):
            self._known[hole] = self._tensor(x, dtype)
            return
        for name, part in (("real", hole.re), ("imag", hole.im)):
            value = self.b.op(name, [x], self.type(part.dtype))
            self._known[part] = self._tensor(value, part.dtype)

    def _tensor(self, x: HloValue, dtype: Any) -> Tensor:
        return self.math.tensor(x, element_type(dtype), self.shape)

    def type(self, dtype: Any) -> str:
        """The type of a tensor of the common shape."""
        return tensor(self.shape, element_type(dtype))

    def scalar(self, x: Any) -> HloValue:
        """The tensor of a scalar: complex ones are put together."""
        if not isinstance(x, ComplexExpr):
            return self.value(x)
        parts = [self.value(x.re), self.value(x.im)]
        return self.b.op("complex", parts, self.type(x.dtype))

    def value(self, expr: Expr) -> HloValue:
        """The tensor of an expression."""
        for operand in walk([expr]):
            if operand not in self._known:
                self._known[operand] = self._emitted(operand)
        return self._known[expr].value

    def _emitted(self, expr: Expr) -> Tensor:
        if isinstance(expr, Const):
            return self._constant(expr)
        assert isinstance(expr, Instr) and not isinstance(expr, Placeholder)
        xs: list[Any] = [self._known[a] for a in expr.args]
        family, _, detail = expr.name.partition(".")
        if family == "math":
            function: Callable[..., Any] = FUNCTIONS[detail]
            result: Tensor = function(self.math, *xs)
            return result
        if family == "compare":
            return self.math.compare(detail, *xs)
        if family in _CONVERSIONS:
            kinds = expr.args[0].dtype.kind, expr.dtype.kind
            name = _CONVERSIONS[family if "b" not in kinds else "convert"]
            value = self.b.op(name, [x.value for x in xs], self.type(expr.dtype))
            return self._tensor(value, expr.dtype)
        made: Tensor = getattr(self.math, _METHODS.get(family, family))(*xs)
        return made

    def _constant(self, expr: Const) -> Tensor:
        scalar = self.b.constant(np.asarray(expr.value).astype(expr.dtype))
        number = self.math.tensor(scalar, element_type(expr.dtype), ())
        return self.math.splat(number, self.shape)


def compare_type(x: Any) -> str:
    """How elements of x's dtype are compared: FLOAT, SIGNED or UNSIGNED."""
    return compare_order(element_type(x.dtype))


_CONVERSIONS: Final[dict[str, str]] = {
    "convert": "convert",
    "to_int": "convert",
    "bitcast": "bitcast_convert",
}
# Methods of a tensor builder that have other names.
_METHODS: Final[dict[str, str]] = {
    "sdiv": "div",
    "udiv": "div",
    "srem": "remainder",
    "urem": "remainder",
    "sum": "add",
    "product": "mul",
}
