"""The code of a `FourierRoutine`: what its lanes read and write, and its chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from curta.compiler.library.butterflies import Complex, product
from curta.compiler.library.routine import part, share
from curta.compiler.library.stockham import ColumnTransforms, LoadPoint, StorePoint
from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.transposes import transpose_columns, transpose_rows
from curta.compiler.llvm.types import I8, PTR, Type, Value

if TYPE_CHECKING:
    from curta.compiler.library.fourier import FourierRoutine


class FourierCode:
    """Writes the functions of a transform."""

    def __init__(self, what: FourierRoutine) -> None:
        self.what = what
        self.lanes: int = what.lanes
        self.vector: Type = Type(what.kind, what.lanes)
        self.element: Type = self.vector.with_lanes(1)
        self.scale: float | None = 1 / what.size if what.inverse else None
        self.columns: ColumnTransforms = ColumnTransforms(
            self.vector, 1 if what.inverse else -1
        )

    def emit(self, module: Module, name: str) -> None:
        b = module.function(name, [PTR] * 5)
        share(b, b.arguments[-1], "units", self.what.chunks, b.arguments, self._units)
        b.ret()

    def _units(
        self, b: Builder, chunk: Value, result: Value, source: Value, table: Value,
        scratch: Value, launcher: Value,
    ) -> None:  # fmt: skip
        """The units of a chunk, in memory of its own."""
        what = self.what
        how = what.layout[0]
        memory = b.offset(scratch, chunk * (what.columns + what.steps * what.block), I8)
        with b.loop(*part(chunk, what.units, what.chunks)) as loop:
            if how == "columns":
                self._block(b, loop.index, result, source, table, memory)
            elif how == "rows":
                self._rows(b, loop.index, result, source, table, memory)
            else:
                self._split(b, loop.index, result, source, table, memory, launcher)

    # ---------------------------------------------------------------- columns

    def _block(
        self, b: Builder, number: Value, result: Value, source: Value, table: Value,
        memory: Value,
    ) -> None:  # fmt: skip
        """A block of neighbouring columns."""
        what = self.what
        blocks = -(-what.inner // self.lanes)
        start = b.min(b.urem(number, blocks) * self.lanes, what.inner - self.lanes)
        position = b.udiv(number, blocks) * (what.size * what.inner) + start
        x, c = (b.offset(p, position * 2, self.element) for p in (source, result))
        load, store = self._reads(b, x, what.inner), self._writes(b, c, what.inner)
        self.columns.transform(b, what.size, table, memory, load, store, self.scale)

    # ------------------------------------------------------------------- rows

    def _rows(
        self, b: Builder, number: Value, result: Value, source: Value, table: Value,
        block: Value,
    ) -> None:  # fmt: skip
        """As many rows as there are lanes.

        Turned, a row of pairs is the points of a block.
        """
        what, lanes, row = self.what, self.lanes, 2 * self.what.size
        start = b.min(number * lanes, what.outer - lanes) * row
        x, c = (b.offset(p, start, self.element) for p in (source, result))
        transpose_rows(b, self.vector, (block, lanes), (x, row), row)
        done = self.columns.transform(b, what.size, table, block, scale=self.scale)
        transpose_columns(b, self.vector, c, done, row)

    # ------------------------------------------------------------------ split

    def _split(
        self, b: Builder, number: Value, result: Value, source: Value, table: Value,
        memory: Value, launcher: Value,
    ) -> None:  # fmt: skip
        """A row, as a matrix: its columns, then those of the transposed one."""
        what = self.what
        row = number * (2 * what.size)
        x, c = (b.offset(p, row, self.element) for p in (source, result))
        share(b, launcher, "first", what.steps, [x, table, memory], self._first)
        share(b, launcher, "second", what.steps, [c, table, memory], self._second)

    def _own(self, b: Builder, step: Value, memory: Value) -> Value:
        """The memory of a step, for a block."""
        return b.offset(memory, step * self.what.block + self.what.columns, I8)

    def _first(
        self, b: Builder, step: Value, source: Value, table: Value, memory: Value
    ) -> None:
        """Columns of the matrix, transposed into blocks of columns in the memory."""
        lanes, (rows, width) = self.lanes, self.what.layout[2]
        block, point = self._own(b, step, memory), self.columns.point
        with b.loop(*part(step, -(-width // lanes), self.what.steps)) as number:
            start = b.min(number.index * lanes, width - lanes)
            x = b.offset(source, start * 2, self.element)
            load = self._reads(b, x, width)
            done = self.columns.transform(b, rows, table, block, load)
            with b.loop(0, -(-rows // lanes)) as loop:
                first = b.min(loop.index * lanes, rows - lanes)
                ends = (
                    point(b, memory, loop.index * width + start),
                    point(b, done, first),
                )
                for real in (0, lanes):
                    to, square = (b.offset(p, real, self.element) for p in ends)
                    pair = (to, 2 * lanes), (square, 2 * lanes)
                    transpose_rows(b, self.vector, *pair, lanes)

    def _second(
        self, b: Builder, step: Value, result: Value, table: Value, memory: Value
    ) -> None:
        """Blocks of columns of the transposed matrix, times roots of unity."""
        what, lanes, (width, rows) = self.what, self.lanes, self.what.layout[2]
        block, point = self._own(b, step, memory), self.columns.point
        _, own, fine, coarse, _ = (
            b.offset(table, at, self.element) for at in what.table_starts
        )
        with b.loop(*part(step, -(-width // lanes), what.steps)) as loop:
            number = loop.index
            start = b.min(number * lanes, width - lanes)
            c = b.offset(result, start * 2, self.element)
            x = point(b, memory, number * rows)
            fines = point(b, fine, number * lanes)
            coarses = point(b, coarse, number * -(-rows // lanes))

            def load(index: Value) -> Complex:
                get = self.columns.load
                fine_root = get(b, fines, b.and_(index, lanes - 1))
                turned = product(b, get(b, x, index), fine_root)
                return product(b, turned, get(b, coarses, b.udiv(index, lanes)))

            store = self._writes(b, c, width)
            self.columns.transform(b, rows, own, block, load, store, self.scale)

    # ---------------------------------------------------------------- helpers

    def _reads(self, b: Builder, base: Value, apart: int) -> LoadPoint:
        """Neighbouring complex numbers, so far from those of the point before.

        Their real parts are apart.
        """
        twice = self.vector.with_lanes(2 * self.lanes)
        even, odd = (range(i, twice.lanes, 2) for i in (0, 1))

        def load(index: Value) -> Complex:
            pairs = b.load(twice, b.offset(base, index * apart * 2, self.element))
            return b.shuffle(pairs, None, even), b.shuffle(pairs, None, odd)

        return load

    def _writes(self, b: Builder, base: Value, apart: int) -> StorePoint:
        """The same the other way round."""
        lanes = self.lanes
        order = [i + real for i in range(lanes) for real in (0, lanes)]

        def store(index: Value, x: Complex) -> None:
            to = b.offset(base, index * apart * 2, self.element)
            if lanes > 1:
                return b.store(b.shuffle(*x, order), to)
            b.store(x[0], to)
            return b.store(x[1], b.offset(to, 1, self.element))

        return store
