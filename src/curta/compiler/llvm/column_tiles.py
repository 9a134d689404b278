"""Loops over vectors of columns, and accumulators of columns in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.expressions import Evaluator
from curta.compiler.llvm.nest_body import NestLoops, Values
from curta.compiler.llvm.scalar_instructions import kind, memory_kind
from curta.compiler.llvm.types import I64, Type, Value
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Fold
from curta.compiler.loops.schedule import Schedule
from curta.compiler.loops.summation import WIDE
from curta.core.dim import is_multiple


class ColumnLoops(NestLoops):
    """Writes loops over a piece of the columns."""

    def __init__(
        self,
        b: Builder,
        values: Evaluator,
        plan: Schedule,
        piece: tuple[Value, Value] | None,
    ) -> None:
        super().__init__(b, values, plan, piece)
        assert plan.column is not None
        self.column: LoopVar = plan.column
        self.together = 1  # rows whose code is written out

    def _whole(self, lanes: int) -> Value:
        """The column after the last whole vector."""
        begin, end = self._bounds(self.column)
        return self.b.sub(end, self.b.urem(self.b.sub(end, begin), lanes))

    @contextmanager
    def _whole_vectors(self, lanes: int) -> Iterator[None]:
        """Vectors along the rows of tiles, which have room for whole ones."""
        with self._vectors_between(self._bounds(self.column), lanes, False):
            yield

    @contextmanager
    def _each_vector(self, lanes: int) -> Iterator[None]:
        """A loop over the vectors of the piece of columns."""
        lane = self.column
        masked = lanes > 1 and not is_multiple(lane.extent, lanes)
        with self._vectors_between(self._bounds(lane), lanes, masked):
            yield

    @contextmanager
    def _vectors_between(
        self, bounds: tuple[Value, Value], lanes: int, masked: bool
    ) -> Iterator[None]:
        first, last = bounds
        with self.b.loop(first, last, lanes) as loop:
            mask = None
            if masked:
                mask = self.b.first_lanes(self.b.sub(last, loop.index), lanes)
            with self.values.vectorised(self.column, loop.index, lanes, mask):
                yield


class Tile:
    """Rows of values of a piece of the columns, each an element of several dtypes.

    Rows are `pitch` elements apart. Beyond the last one is `room` for a vector.
    """

    def __init__(
        self,
        nests: ColumnLoops,
        dtypes: Sequence[Any],
        rows: int,
        pitch: int,
        room: int = 0,
        wide: bool = False,
    ) -> None:
        self.nests, self.rows, self.pitch = nests, rows, pitch
        self.kinds = [WIDE if wide else kind(d) for d in dtypes]
        self.types = [Type(WIDE if wide else memory_kind(d)) for d in dtypes]
        scratch, size = nests.b.scratch, rows * pitch + room
        self.pointers: Values = [scratch(size * t.size) for t in self.types]

    def _addresses(self, row: Value | int) -> Iterator[tuple[Value, Type]]:
        nests, b = self.nests, self.nests.b
        column = nests.values.current(nests.column)
        if nests.plan.split == nests.column and nests.piece is not None:
            column = b.sub(column, nests.piece[0])
        # Where the order does not matter there is one row.
        first = b.mul(b.operand(row if self.rows > 1 else 0, I64), self.pitch)
        at = b.add(first, column)
        for pointer, type_ in zip(self.pointers, self.types, strict=True):
            yield b.offset(pointer, at, type_), type_

    def load(self, row: Value | int) -> Values:
        """A vector of a row, at the current columns."""
        b, lanes = self.nests.b, self.nests.values.lanes
        vectors = [b.load(t.with_lanes(lanes), p) for p, t in self._addresses(row)]
        return [b.convert(x, k) for x, k in zip(vectors, self.kinds, strict=True)]

    def store(self, row: Value | int, values: Values) -> None:
        """Store a vector of a row."""
        for (pointer, t), x in zip(self._addresses(row), values, strict=True):
            value = self.nests.b.convert(self.nests.values.spread(x), t.kind)
            self.nests.b.store(value, pointer)


class SumTile(Tile):
    """The accumulators of a fold in blocks, and the `wide` totals of its blocks."""

    def __init__(
        self,
        nests: ColumnLoops,
        fold: Fold,
        rows: int,
        pitch: int,
        room: int = 0,
        wide: bool = False,
    ) -> None:
        dtypes = [c.dtype for c in fold.initial]
        super().__init__(nests, dtypes, rows, pitch, room, wide)
        self.fold, self.wide = fold, wide
        self.total: SumTile | None = None
