"""A block of rows whose reductions end together (schedule/row_blocks.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.expressions import Evaluator
from curta.compiler.llvm.nest_body import Values
from curta.compiler.llvm.row_nests import RowNests
from curta.compiler.llvm.scalar_instructions import constant, kind, memory_kind
from curta.compiler.llvm.types import Type, Value
from curta.compiler.loops.bufferize import BufferPlacement
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import (
    Expr,
    Fold,
    Instr,
    LoopNest,
    operands,
)
from curta.compiler.loops.schedule import Loop, NestSchedule, Schedule

_CHUNK = 16  # the bytes of a register within which lanes are dealt out at once

Ends = list[Values]
"""Of each fold of a nest, its accumulators as they lie in memory."""


class RowBlock(RowNests):
    """Writes the nests for as many rows as a register has lanes."""

    def __init__(
        self,
        b: Builder,
        values: Evaluator,
        plan: Schedule,
        block: Loop,
        placement: BufferPlacement,
    ) -> None:
        super().__init__(b, values, plan)
        self.block = block
        self.row: LoopVar = block.var
        self.rows: int = block.factor
        self.scratch = placement.scratch
        self.ends: Ends = []  # of the row that is being written

    def emit_block(self, nests: Sequence[LoopNest], first: Value) -> None:
        """The rows from the `first` one on; the last block has fewer, or overlaps."""
        b, mask, left = self.b, None, None
        if self.block.tail == "overlap":
            first = b.min(first, self.row.extent - self.rows)
        elif self.block.tail == "masked":
            left = b.min(b.sub(self.row.extent, first), self.rows)
            mask = b.first_lanes(left, self.rows)
        written = (s for nest in nests for s in nest.written())
        apart = {s.buffer: s.offset.coefficient(self.row) for s in written}
        for buffer, (_, origin) in self.scratch.items():
            pointer, type_ = (
                self.values.pointer(buffer),
                Type(memory_kind(buffer.dtype)),
            )
            start = b.offset(pointer, b.mul(first, -apart[buffer]), type_)
            self.values.locate(buffer, start, origin)
        in_lanes = partial(self.values.vectorised, self.row, first, self.rows, mask)
        for nest, plan in zip(nests, self.plan.nests, strict=True):
            if not nest.dims:
                with in_lanes():
                    self._once(nest)
                continue
            with in_lanes():
                shared = {e: _Kept(b, [x]) for e, x in self._shared(nest)}
            ends = self._each_row(nest, plan, shared, (first, left))
            with in_lanes():
                for fold, accumulators in zip(nest.folds, ends, strict=True):
                    self._store_results(fold, accumulators)

    def _once(self, nest: LoopNest) -> None:
        """A nest that has no loops, with a row in each lane."""
        starts = [c for fold in nest.folds for c in fold.initial]
        final = self._body(nest, [constant(self.b, c, self.rows) for c in starts])
        for fold in nest.folds:
            count = len(fold.initial)
            self._store_results(fold, final[:count])
            final = final[count:]

    def _shared(self, nest: LoopNest) -> Iterator[tuple[Expr, Value]]:
        """What is computed once a row and read in its loop, with a row in each lane."""
        depends, inner = self.values.depends, {*nest.dims}
        inside = [e for e in nest.body if depends(e) & inner]
        read = [*nest.roots(), *(x for e in inside for x in operands(e))]
        for e in dict.fromkeys(read):
            of_row = self.row in depends(e) and not depends(e) & inner
            if of_row and isinstance(e, Instr):
                yield e, self.values.compute_lanes(e)

    # ------------------------------------------------------------------- rows

    def _each_row(
        self,
        nest: LoopNest,
        plan: NestSchedule,
        shared: dict[Expr, _Kept],
        bounds: tuple[Value, Value | None],
    ) -> Ends:
        """The loops of a nest, for each row; what its folds end with, a row a lane.

        Some rows are written out, which run side by side and share the first vectors.
        """
        b, (first, left) = self.b, bounds
        lanes, count = min(plan.lanes, self.rows), plan.rows
        tree = _Tree(self, nest, lanes)
        with b.loop(0, self.rows if left is None else left, count, runs=True) as loop:

            def end(i: int) -> Ends:
                number = b.add(loop.index, i) if i else loop.index
                self.ends = []
                with self.values.scope():
                    self.values.bind(self.row, b.add(first, number))
                    for expr, kept in shared.items():
                        (value,) = kept.load(number, 1)
                        self.values.define(expr, b.convert(value, kind(expr.dtype)))
                    self._rows(nest, plan)
                return self.ends

            ends = tree.combined(range(count), end)
            if count < self.rows:
                kept = [_Kept(b, x, self.rows // count) for x in ends]
                for memory, values in zip(kept, ends, strict=True):
                    memory.store(b.udiv(loop.index, count), values)
        if count < self.rows:
            ends = tree.joined(count, lambda i: [x.load(i) for x in kept])
        return [
            [b.convert(x, kind(c.dtype)) for c, x in zip(f.initial, end, strict=True)]
            for f, end in zip(nest.folds, ends, strict=True)
        ]

    def _finish_row(self, fold: Fold, accumulators: Values) -> None:
        """Leave the end of a row to be combined with those of the others."""
        self.ends.append(_stored(self._halved(fold, accumulators, self.rows)))


class _Tree:
    """Folds whose ends are combined, those of ever more rows in one vector."""

    def __init__(self, rows: RowBlock, nest: LoopNest, lanes: int) -> None:
        self.rows = rows
        self.nest = nest
        self.lanes = lanes
        sizes = [c.dtype.itemsize for f in nest.folds for c in f.initial]
        self.chunk: int = min(lanes, _CHUNK // max(sizes, default=1))
        # Neighbours come one after the other if a vector has all of a row.
        self.in_order: bool = math.prod(v.extent for v in nest.dims) <= lanes

    def joined(self, each: int, end: Callable[[int], Ends]) -> Ends:
        """The ends of all rows of a block, of which `end` gives so many `each`."""
        count, b = self.lanes // each, self.rows.b
        numbers = range(self.rows.rows // each)
        groups = [
            self.combined(numbers[i : i + count], end, each)
            for i in range(0, len(numbers), count)
        ]
        return [
            [b.joined(parts) for parts in zip(*ends, strict=True)]
            for ends in zip(*groups, strict=True)
        ]

    def combined(
        self, numbers: Sequence[int], end: Callable[[int], Ends], each: int = 1
    ) -> Ends:
        """The ends with these numbers, in one vector."""
        if len(numbers) == 1:
            return end(numbers[0])
        half = len(numbers) // 2
        order = _dealt(self.lanes, half * each, self.chunk)
        left = self.combined(numbers[:half], end, each)
        right = self.combined(numbers[half:], end, each)
        return [
            _stored(self._neighbours(fold, pair, order))
            for fold, pair in zip(self.nest.folds, zip(left, right), strict=True)
        ]

    def _neighbours(
        self,
        fold: Fold,
        pair: tuple[Values, Values],
        order: tuple[list[int], list[int]],
    ) -> Values:
        """Neighbours among the lanes of two vectors, combined."""
        b, kinds = self.rows.b, [kind(c.dtype) for c in fold.initial]
        left, right = (
            [
                b.convert(b.shuffle(x, y, side), k)
                for x, y, k in zip(*pair, kinds, strict=True)
            ]
            for side in order
        )
        return self.rows.combine(fold, left, right, self.in_order)


class _Kept:
    """Values on the stack: vectors, or one for each of so many indices."""

    def __init__(self, b: Builder, values: Values, count: int = 0) -> None:
        self.b = b
        self.types = [x.type for x in _stored(values)]
        sizes = [max(1, count) * t.lanes * t.size for t in self.types]
        self.pointers = [b.scratch(size) for size in sizes]
        if not count:
            self.store(0, values)

    def store(self, index: Value | int, values: Values) -> None:
        """Keep what there is at an index."""
        for pointer, x in zip(self.pointers, _stored(values), strict=True):
            self.b.store(x, self.b.offset(pointer, index * x.lanes, x.type))

    def load(self, index: Value | int, lanes: int | None = None) -> Values:
        """What there is at an index, or that lane of a vector."""
        types = [t.with_lanes(lanes or t.lanes) for t in self.types]
        return [
            self.b.load(t, self.b.offset(pointer, index * t.lanes, t))
            for pointer, t in zip(self.pointers, types, strict=True)
        ]


def _stored(values: Values) -> Values:
    """Values as they lie in memory, and as lanes are moved: a bool is a byte."""
    return [x.builder.convert(x, "i8") if x.type.kind == "i1" else x for x in values]


def _dealt(lanes: int, rows: int, chunk: int) -> tuple[list[int], list[int]]:
    """The even and the odd ones of the lanes of two vectors, of so many rows each.

    They are dealt out within chunks as long as these have several lanes of a row, then
    chunk by chunk.
    """
    inside = rows < chunk
    size, within = (1, chunk) if inside else (chunk, lanes)
    even = [
        vector + start + at + i
        for start in range(0, lanes, within)
        for vector in (0, lanes)
        for at in range(0, within, 2 * size)
        for i in range(size)
    ]
    return even, [i + size for i in even]
