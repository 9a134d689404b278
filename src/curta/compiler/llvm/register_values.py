"""Expressions over values in registers: scalars, or lanes of vectors.

A value of few numbers is so many scalars, any other a vector. Whatever moves its
elements (a slice, a transpose, a concatenation) is a shuffle, because every index is
known: values read by an index from data are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from curta.compiler.llvm import vector_math
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.expressions import Evaluator
from curta.compiler.llvm.functions import Function
from curta.compiler.llvm.scalar_instructions import kind, memory_kind
from curta.compiler.llvm.types import I64, Type, Value
from curta.compiler.loops.index import ZERO, Affine, LoopVar, Quotient, Remainder
from curta.compiler.loops.nodes import (
    Buffer,
    Const,
    Expr,
    IndexValue,
    Instr,
    Load,
    Table,
    View,
)
from curta.compiler.loops.schedule import Schedule

Values = list[Value]
Numbers = np.ndarray[Any, Any]


class RegisterValues(Evaluator):
    """Expressions over values in registers."""

    def __init__(
        self, b: Builder, pointers: Mapping[Buffer, Value], plan: Schedule
    ) -> None:
        super().__init__(b, pointers)
        self._plan = plan
        self._held: dict[Buffer, Values] = {}
        self._numbers: dict[Buffer, Numbers] = {}
        self._folded: dict[Expr, Numbers | None] = {}
        self._functions = 0
        self._laned: set[Buffer] = set()
        self._examples = 0

    # ------------------------------------------------------------------ values

    def hold(self, buffer: Buffer, values: Values) -> None:
        """Say what a value is: its numbers one by one, or all in a vector.

        Of one in memory the address is carried.
        """
        if buffer.in_memory:
            (self._pointers[buffer],) = values
            return
        self._held[buffer] = values
        if self._examples and values[0].lanes > 1:
            self._laned.add(buffer)

    def forward(self, buffer: Buffer, offset: Affine, value: Value) -> None:
        """The result of a load: of a value in registers, for good.

        A vector is the whole of a value, or its real and then its imaginary parts.
        """
        if self.in_memory(buffer):
            return super().forward(buffer, offset, value)
        if offset.is_constant:
            before = self._held[buffer] if offset.const else []
            return self.hold(buffer, [*before, value])
        if offset.const:  # interleave real and imaginary parts
            (first,), size = self._held[buffer], value.lanes
            order = [i + part * size for i in range(size) for part in (0, 1)]
            value = self.b.shuffle(first, value, order)
        return self.hold(buffer, [value])

    def _values(self, buffer: Buffer) -> Values:
        """A value as it is held."""
        if isinstance(buffer.storage, Table) and buffer not in self._held:
            type_ = Type(kind(buffer.dtype))
            numbers = np.array(buffer.storage.numbers, buffer.dtype)
            self._numbers[buffer] = numbers
            if self.is_apart(buffer):
                self.hold(buffer, [self._vector(x, type_) for x in numbers])
            else:
                self.hold(buffer, [self._vector(numbers, type_)])
        return self._held[buffer]

    def _vector(self, numbers: Numbers, type_: Type) -> Value:
        if type_.is_int and numbers.dtype.kind not in "biu":  # kept as bits
            numbers = numbers.view(f"u{numbers.dtype.itemsize}")
        if numbers.ndim == 0:
            return self.b.const(type_, numbers.item())
        if (numbers == numbers[0]).all() and numbers[0] != 0:
            return self.b.const(type_.with_lanes(len(numbers)), numbers[0].item())
        return self.b.vector(type_.with_lanes(len(numbers)), numbers.tolist())

    def is_apart(self, buffer: Buffer) -> bool:
        """Whether the numbers of a value are kept one by one."""
        few = buffer.size <= self._plan.scalars
        return bool(self._examples) or (few and buffer.storage != "vector")

    def held(self, buffer: Buffer) -> Values:
        """A value in the form in which loops carry it."""
        if buffer.in_memory:
            return [self.pointer(buffer)]
        if self.is_apart(buffer):
            return [self.number(buffer, i) for i in range(buffer.size)]
        return [self.whole(buffer)]

    def number(self, buffer: Buffer, i: int) -> Value:
        """A number of a value."""
        values = self._values(buffer)
        if len(values) == buffer.size:
            return values[i]
        key = ("number", buffer, i)
        result = self._memo.get(key)
        if result is None:
            result = self.b.extract(values[0], i)
            self._remember(key, result)
        return result

    def whole(self, buffer: Buffer) -> Value:
        """All numbers of a value in one vector."""
        values = self._values(buffer)
        if len(values) < buffer.size or buffer.size == 1:
            return values[0]
        result = self._memo.get(("whole", buffer))
        if result is None:
            result = Value("poison", values[0].type.with_lanes(buffer.size), self.b)
            for i, value in enumerate(values):
                result = self.b.insert(result, value, i)
            self._remember(("whole", buffer), result)
        return result

    # ------------------------------------------------------------- expressions

    @contextmanager
    def of_examples(
        self, lane: LoopVar, first: Value, lanes: int, mask: Value | None
    ) -> Iterator[None]:
        """Inside, the lanes of all vectors are so many examples from `first`."""
        with self.vectorised(lane, first, lanes, mask):
            self._examples = lanes
            yield

    def over(self, dims: Sequence[LoopVar]) -> None:
        """From now on, the lanes of vectors are the indices of the dim, if any."""
        if self._examples:
            self.lanes = self._examples if dims else 1
        elif dims:
            (self.lane,) = dims
            self.lanes = self.lane.extent
            self.bind(self.lane, self.b.const(I64, 0))
        else:
            self.lane, self.lanes = None, 1

    def _find_dependence(self, expr: Expr) -> frozenset[Any]:
        result = super()._find_dependence(expr)
        if isinstance(expr, Load) and expr.buffer in self._laned:
            result = self._dependence[expr] = result | {self.lane}
        return result

    def index(self, index: Affine) -> Value:
        known = self._known_index(index)
        if known is not None and known.ndim:
            return self._vector(known, I64)
        return super().index(index)

    def _known_index(self, index: Affine) -> Numbers | None:
        """An index for all lanes, as a number or one for each; None if data has it."""
        total: Any = np.int64(index.const)
        for atom, k in index.terms.items():
            if atom == self.lane and not self._examples:
                term: Any = np.arange(self.lanes, dtype=np.int64)
            elif isinstance(atom, (Quotient, Remainder)):
                of = self._known_index(atom.of)
                if of is None:
                    return None
                term = of // atom.by if isinstance(atom, Quotient) else of % atom.by
            else:
                return None
            total = total + k * term
        return np.asarray(total)

    def _fold(self, expr: Expr) -> Numbers | None:
        """The numbers of an expression of indices and constants; None of any other."""
        if isinstance(expr, Const):
            return np.asarray(expr.value, expr.dtype)
        if isinstance(expr, IndexValue):
            return self._known_index(expr.index)
        if not isinstance(expr, Instr) or expr.name not in _FOLDS:
            return None
        key = expr
        if key not in self._folded:
            args = [self._fold(a) for a in expr.args]
            known = all(a is not None for a in args) and _is_whole(expr)
            result = _FOLDS[expr.name](*args) if known else None
            self._folded[key] = None if result is None else result.astype(expr.dtype)
        return self._folded[key]

    def _instruction(self, expr: Instr) -> Value:
        folded = self._fold(expr)
        if folded is not None:
            return self._vector(folded, Type(kind(expr.dtype)))
        if expr.name == "select":
            condition = self._fold(expr.args[0])
            if condition is not None:
                return self._chosen(condition, expr.args[1], expr.args[2])
        if expr.name.startswith("math."):
            wide = self.lane in self.depends(expr)
            args = [self.vector_value(a) if wide else self.value(a) for a in expr.args]
            size = args[0].lanes * args[0].type.size
            self._functions += max(1, size // self.b.module.vector_bytes)
            if self._functions > self._plan.inlined_math:
                return self._called(expr.name, args)
        return super()._instruction(expr)

    def _called(self, name: str, args: Values) -> Value:
        """A function of vector math as one of the module, so that code stays short."""
        type_, math = args[0].type, vector_math.FUNCTIONS[name.split(".")[1]]
        types, own = tuple(a.type for a in args), f"{name}.{type_.suffix}"
        return Function(math, types, type_, own)(self.b, *args)

    def _chosen(self, condition: Numbers, x: Expr, y: Expr) -> Value:
        """A choice that is known for every lane is a shuffle."""
        if condition.all() or not condition.any():
            return self.value(x if condition.all() else y)
        if isinstance(x, Const) and isinstance(y, Const):
            left, right = (np.asarray(e.value, e.dtype) for e in (x, y))
            return self._vector(np.where(condition, left, right), Type(kind(x.dtype)))
        order = [i if c else self.lanes + i for i, c in enumerate(condition)]
        return self.b.shuffle(self.vector_value(x), self.vector_value(y), order)

    # ------------------------------------------------------------------ memory

    def in_memory(self, buffer: Buffer) -> bool:
        return buffer.in_memory

    def pointer(self, buffer: Buffer) -> Value:
        storage = buffer.storage
        if storage == "stack" and buffer not in self._pointers:
            self._pointers[buffer] = self.b.scratch(max(buffer.nbytes, 1))
        if not isinstance(storage, View):
            return self._pointers[buffer]
        known = self._memo.get(storage)
        if known is None:
            known = self.pointer(storage.of)
            if storage.first != ZERO:
                first = self._scalar_index(storage.first)
                known = self.b.offset(known, first, Type(memory_kind(buffer.dtype)))
            self._remember(storage, known)
        return known

    def has_pointer(self, buffer: Buffer) -> bool:
        """Whether it is known by now where a buffer lies."""
        storage = buffer.storage
        if isinstance(storage, View):
            bound = all(v in self._variables for v in storage.first.atoms())
            return bound and self.has_pointer(storage.of)
        return storage == "stack" or buffer in self._pointers

    def _load(self, expr: Load) -> Value:
        if expr.buffer.in_memory:
            return super()._load(expr)
        known = self._known_index(expr.offset)
        assert known is not None, "what is read by an index from data lies in memory"
        last = expr.buffer.size - 1
        if known.ndim == 0:  # out of bounds only where the result is not used
            return self.number(expr.buffer, min(max(int(known), 0), last))
        known = known.clip(0, last)
        if isinstance(expr.buffer.storage, Table):
            self._values(expr.buffer)
            numbers = self._numbers[expr.buffer][known]
            return self._vector(numbers, Type(kind(expr.dtype)))
        source = self.whole(expr.buffer)
        if (known == known[0]).all():
            return self.number(expr.buffer, int(known[0]))
        if len(known) == source.lanes and (known == np.arange(len(known))).all():
            return source
        return self.b.shuffle(source, None, known.tolist())


def _is_whole(expr: Instr) -> bool:
    return all(e.dtype.kind in "biu" for e in (expr, *expr.args))


_FOLDS: dict[str, Any] = {
    "compare.eq": np.equal,
    "compare.ne": np.not_equal,
    "compare.lt": np.less,
    "compare.le": np.less_equal,
    "compare.gt": np.greater,
    "compare.ge": np.greater_equal,
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "not_": np.bitwise_not,
    "convert": lambda x: x,
}
