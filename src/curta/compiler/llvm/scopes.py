"""Scopes of values computed so far, and the loop variables expressions depend on.

One loop variable, `lane`, may stand for as many consecutive indices as a vector has
lanes. Values are cached until the loop in which they were computed ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import Value
from curta.compiler.loops.index import Affine, LoopVar
from curta.compiler.loops.nodes import (
    Buffer,
    Expr,
    IndexValue,
    Load,
    Placeholder,
    index_operands,
    operands,
    walk,
)


class Scopes:
    """The loops around the code that is being written, and the values known there."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.lane: LoopVar | None = None
        self.lanes: int = 1
        self.mask: Value | None = None
        self._variables: dict[LoopVar, Value] = {}
        self._memo: dict[Any, Any] = {}
        self._frames: list[list[Any]] = [[]]
        self._dependence: dict[Any, frozenset[Any]] = {}

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values computed inside are dropped afterwards."""
        self._frames.append([])
        yield
        for key in self._frames.pop():
            del self._memo[key]

    def bind(self, variable: LoopVar, value: Value) -> None:
        """The current index of a loop (the first one, of the lane loop)."""
        self._variables[variable] = value

    def current(self, variable: LoopVar) -> Value:
        """The current index of a loop (the first one, of the lane loop)."""
        return self._variables[variable]

    def define(self, expr: Any, value: Value) -> None:
        """Give the value of an expression, such as a placeholder."""
        self._remember(expr, value)

    def forward(self, buffer: Buffer, offset: Affine, value: Value) -> None:
        """The result of loads of this element until the scope ends."""
        self._remember((buffer, offset), value)

    @contextmanager
    def vectorised(
        self, lane: LoopVar, first: Value, lanes: int, mask: Value | None
    ) -> Iterator[None]:
        """Inside, `lane` stands for `lanes` indices from `first`."""
        before = self.lane, self.lanes, self.mask
        self.lane, self.lanes, self.mask = lane, lanes, mask
        with self.scope():
            self.bind(lane, first)
            yield
        self.lane, self.lanes, self.mask = before

    def depends(self, expr: Expr) -> frozenset[Any]:
        """The loop variables (and stored buffers) that an expression varies with."""
        result = self._dependence.get(expr)
        if result is None:
            if any(e not in self._dependence for e in operands(expr)):
                for operand in walk([expr]):  # operands first: it may be deep
                    self._find_dependence(operand)
            result = self._find_dependence(expr)
        return result

    def _find_dependence(self, expr: Expr) -> frozenset[Any]:
        result = self._dependence.get(expr)
        if result is None:
            parts = [self.depends(e) for e in operands(expr)]
            if isinstance(expr, Load):
                parts += [self._index_depends(expr.offset), frozenset([expr.buffer])]
            elif isinstance(expr, IndexValue):
                parts.append(self._index_depends(expr.index))
            elif isinstance(expr, Placeholder):
                parts.append(frozenset([expr]))
            result = frozenset().union(*parts)
            self._dependence[expr] = result
        return result

    def _index_depends(self, index: Affine) -> frozenset[Any]:
        result = self._dependence.get(index)
        if result is None:
            loops = {a for a in index.atoms() if isinstance(a, LoopVar)}
            data = [self.depends(e) for e in index_operands(index)]
            result = self._dependence[index] = frozenset(loops).union(*data)
        return result

    def spread(self, value: Value) -> Value:
        """A scalar in all lanes; a vector as it is."""
        return value if value.lanes == self.lanes else self._splat(value, self.lanes)

    def _splat(self, value: Value, lanes: int) -> Value:
        key = ("splat", value.type.kind, value.text, lanes)
        result = self._memo.get(key)
        if result is None:
            result = self.b.splat(value, lanes)
            self._remember(key, result)
        return result

    def _remember(self, key: Any, value: Any) -> None:
        if key not in self._memo:
            self._frames[-1].append(key)
        self._memo[key] = value
