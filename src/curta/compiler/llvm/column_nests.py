"""The nests of a kernel whose lanes are the last outer dim: sums of columns, say.

Their reductions have an accumulator for each column, in rows of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.expressions import Evaluator
from curta.compiler.llvm.nest_body import Values, wide
from curta.compiler.llvm.scalar_instructions import kind, memory_kind
from curta.compiler.llvm.summing_columns import SummingColumns
from curta.compiler.llvm.types import Type, Value
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Fold, LoopNest
from curta.compiler.loops.schedule import Loop, NestSchedule, Schedule
from curta.compiler.loops.summation import WIDE

WIDEST = 256  # maximum lanes of a vector; rows have at least as many elements


class ColumnNests(SummingColumns):
    """Writes the loops over a piece of the columns."""

    def __init__(
        self,
        b: Builder,
        values: Evaluator,
        plan: Schedule,
        piece: tuple[Value, Value] | None,
    ) -> None:
        super().__init__(b, values, plan, piece)
        self.rows: dict[Fold, list[Value]] = {}

    def emit(self, nests: Sequence[LoopNest]) -> None:
        """All nests, one after the other."""
        self._start_rows(nests)
        for nest, plan in zip(nests, self.plan.nests, strict=True):
            self._columns(nest, plan)

    def _start_rows(self, nests: Sequence[LoopNest]) -> None:
        """Memory for the accumulators of a piece."""
        columns = self.column.extent
        if self.plan.split == self.column:
            columns = self.plan.piece
        columns = -(-columns // WIDEST) * WIDEST
        for nest in nests:
            for fold in nest.folds:
                sizes = [columns * t.size for t in self._types(fold)]
                self.rows[fold] = [self.b.scratch(size) for size in sizes]

    def _types(self, fold: Fold) -> list[Type]:
        """The types of accumulators in memory."""
        if fold.order in ("joined", "blocks"):
            return [Type(WIDE) for _ in fold.initial]
        return [Type(memory_kind(c.dtype)) for c in fold.initial]

    def _columns(self, nest: LoopNest, plan: NestSchedule) -> None:
        lanes = plan.lanes
        with ExitStack() as loops:
            self._enter_kept(nest, loops)
            if plan.accumulate != "row":
                self._sum_columns(nest, nest.dims[nest.kept :], plan)
                return
            for fold in nest.folds:
                # Rows of accumulators are whole vectors: no mask.
                with self._vectors_between(self._bounds(self.column), lanes, False):
                    self._put_row(fold, self._start(fold, lanes))
            if len(nest.dims) > nest.kept:
                self._column_nest(nest, plan.loops)
            else:
                with self._each_vector(lanes):
                    self._body(nest, [])
            for fold in nest.folds:
                with self._each_vector(lanes):
                    self._store_results(fold, self._row(fold))

    def _column_nest(self, nest: LoopNest, loops: Sequence[Loop]) -> None:
        inside = [*(x.var for x in loops), *(s.buffer for s in nest.stores)]
        self.values.hoist(nest.body, inside, 1)
        down, *inner = loops
        first, last = self._bounds(down.var)
        if len(inner) > 1:
            with self.b.loop(first, last) as loop, self.values.scope():
                self.values.bind(down.var, loop.index)
                self._column_nest(nest, inner)
            return
        (across,), most = inner, down.factor
        whole = self.b.sub(last, self.b.urem(self.b.sub(last, first), most))
        for begin, end, rows in ((first, whole, most), (whole, last, 1)):
            with self.b.loop(begin, end, rows) as loop:
                self._add_rows(nest, down.var, loop.index, rows, across)

    def _add_rows(
        self, nest: LoopNest, dim: LoopVar, first: Value, rows: int, across: Loop
    ) -> None:
        """Some rows, by whole vectors; then the columns left, masked."""
        indices = [first if r == 0 else self.b.add(first, r) for r in range(rows)]
        lane, lanes = across.var, across.factor
        begin, end = self._bounds(lane)
        whole = self.b.sub(end, self.b.urem(self.b.sub(end, begin), lanes))
        main = whole if across.tail != "none" else end
        with self._vectors_between((begin, main), lanes, False):
            self._add_to_row(nest, dim, indices)
        if across.tail == "masked":
            with self._vectors_between((whole, end), lanes, True):
                self._add_to_row(nest, dim, indices)
        elif across.tail == "by row":
            with self.b.loop(first, self.b.add(first, rows), runs=True) as row:
                with self._vectors_between((whole, end), lanes, True):
                    self._add_to_row(nest, dim, [row.index])

    def _add_to_row(self, nest: LoopNest, dim: LoopVar, indices: list[Value]) -> None:
        kept = [self._row(fold) for fold in nest.folds]
        for index in indices:
            with self.values.scope():
                self.values.bind(dim, index)
                self._store_all(nest.stores)
                for i, fold in enumerate(nest.folds):
                    inputs = [self.values.compute_lanes(x) for x in fold.inputs]
                    if fold.order == "joined":
                        inputs = wide(inputs)
                    kept[i] = self.combine(fold, kept[i], inputs, in_order=True)
        for fold, values in zip(nest.folds, kept, strict=True):
            self._put_row(fold, values)

    def _row_addresses(self, fold: Fold) -> Iterator[tuple[Value, Type]]:
        column = self.values.current(self.column)
        if self.plan.split == self.column and self.piece is not None:
            column = self.b.sub(column, self.piece[0])
        for pointer, type_ in zip(self.rows[fold], self._types(fold), strict=True):
            yield self.b.offset(pointer, column, type_), type_

    def _row(self, fold: Fold) -> Values:
        loaded = []
        for (pointer, type_), c in zip(
            self._row_addresses(fold), fold.initial, strict=True
        ):
            value = self.b.load(type_.with_lanes(self.values.lanes), pointer)
            is_wide = type_.kind == WIDE
            loaded.append(value if is_wide else self.b.convert(value, kind(c.dtype)))
        return loaded

    def _put_row(self, fold: Fold, accumulators: Values) -> None:
        for (pointer, type_), value in zip(
            self._row_addresses(fold), accumulators, strict=True
        ):
            self.b.store(self.b.convert(self.values.spread(value), type_.kind), pointer)
