"""The canonical form of a scheduled kernel, in which equal layers of a net are equal.

Two kernels of one form are the same code: they differ in which buffers they touch, not
in how. Buffers and expressions are numbered in the order in which they are met.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from curta.compiler.loops.bufferize import BufferPlacement
from curta.compiler.loops.index import Affine, IndexAtom, LoopVar, Quotient, Remainder
from curta.compiler.loops.nodes import (
    Buffer,
    Const,
    DataIndex,
    Expr,
    Fold,
    IndexValue,
    Instr,
    Kernel,
    Load,
    LoopNest,
    Placeholder,
    Store,
    walk,
)
from curta.compiler.loops.schedule import Schedule


def outline(kernel: Kernel, plan: Schedule) -> Hashable:
    """A key that is equal for equal canonical forms, with a cached hash."""
    nests = tuple((n.dims, len(n.body), len(n.folds)) for n in kernel.nests)
    return kernel.dims, nests, plan


def canonical_form(
    kernel: Kernel, plan: Schedule, placement: BufferPlacement
) -> Hashable:
    """All that the code of a kernel follows from."""
    return tuple(_Form().kernel(kernel, plan, placement))


class _Form:
    def __init__(self) -> None:
        self.exprs: dict[Expr, int] = {}
        self.buffers: dict[Buffer, int] = {}

    def kernel(
        self, kernel: Kernel, plan: Schedule, placement: BufferPlacement
    ) -> Iterator[Hashable]:
        yield from (kernel.dims, kernel.piece, plan)
        for nest in kernel.nests:
            yield from self._nest(nest)
        yield tuple(map(self._buffer, placement.arguments))
        yield frozenset(map(self._buffer, placement.registers))
        for buffer, (size, origin) in placement.scratch.items():
            yield from (self._buffer(buffer), size, origin)
        for buffer in self.buffers:
            yield from (buffer.dtype.num, buffer.size, buffer.storage)

    def _nest(self, nest: LoopNest) -> Iterator[Hashable]:
        yield from (nest.dims, nest.kept, nest.ordered, nest.selective)
        yield from self._new(nest.body)
        for store in nest.stores:
            yield self._store(store)
        for fold in nest.folds:
            yield from self._fold(fold)

    def _fold(self, fold: Fold) -> Iterator[Hashable]:
        results = [s.value for s in fold.stores]
        yield from (fold.running, fold.order, len(fold.inputs), len(fold.stores))
        yield from self._new(walk([*fold.initial, *fold.left, *fold.right]))
        yield from self._new(walk([*fold.combined, *fold.in_order, *results]))
        groups = fold.inputs, fold.initial, fold.left, fold.right
        for group in (*groups, fold.combined, fold.in_order):
            yield tuple(self.exprs[e] for e in group)
        for store in fold.stores:
            yield from self._new(walk(store.operands()))
            yield self._store(store)

    def _store(self, store: Store) -> Hashable:
        value, guard = self.exprs[store.value], self._guard(store.where)
        return self._buffer(store.buffer), self._index(store.offset), value, guard

    def _guard(self, where: Expr | None) -> int | None:
        return None if where is None else self.exprs[where]

    def _new(self, exprs: Any) -> Iterator[Hashable]:
        """Expressions, operands first, those that were not met before."""
        for expr in exprs:
            if expr not in self.exprs:
                yield self._expr(expr)
                self.exprs[expr] = len(self.exprs)

    def _expr(self, expr: Expr) -> Hashable:
        if isinstance(expr, Instr):
            args = tuple(self.exprs[e] for e in expr.args)
            return expr.name, args, expr.dtype.num, expr.limits
        if isinstance(expr, Load):
            place = self._buffer(expr.buffer), self._index(expr.offset)
            return "load", place, self._guard(expr.where), expr.dtype.num
        if isinstance(expr, Const):  # not every 0.0 and NaN is the same, or equal
            return "const", repr(expr.value), expr.dtype.num
        if isinstance(expr, Placeholder):
            return "placeholder", expr.name, expr.dtype.num
        assert isinstance(expr, IndexValue)
        return "index", self._index(expr.index)

    def _index(self, index: Affine) -> Hashable:
        terms = tuple((self._atom(a), k) for a, k in index.terms.items())
        return terms, index.const

    def _atom(self, atom: IndexAtom) -> Hashable:
        if isinstance(atom, LoopVar):
            return atom
        if isinstance(atom, DataIndex):
            return "data", self.exprs[atom.value]
        assert isinstance(atom, (Quotient, Remainder))
        return type(atom), self._index(atom.of), atom.by

    def _buffer(self, buffer: Buffer) -> int:
        return self.buffers.setdefault(buffer, len(self.buffers))
