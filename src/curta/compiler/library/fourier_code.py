"""The code of a `Transform`: what its lanes read and write, and its chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from curta.compiler.library.butterflies import Complex, product
from curta.compiler.library.packing import transpose_columns, transpose_rows
from curta.compiler.library.routine import emit_chunks, run_chunks
from curta.compiler.library.stockham import Columns
from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I8, I64, PTR, Type, Value

if TYPE_CHECKING:
    from curta.compiler.library.fourier import Transform

# Words of the context that the functions share.
_RESULT, _SOURCE, _TABLE, _MEMORY, _LAUNCHER = range(5)


class FourierCode:
    """Adds the functions of a transform to a module."""

    def __init__(self, module: Module, what: Transform) -> None:
        self.module = module
        self.what = what
        self.lanes: int = what.lanes
        self.vector: Type = Type(what.kind, what.lanes)
        self.element: Type = self.vector.with_lanes(1)
        self.scale: float | None = 1 / what.size if what.inverse else None
        self.columns: Columns = Columns(module, self.vector, 1 if what.inverse else -1)

    def emit(self, name: str) -> None:
        unit = {"columns": self._block, "rows": self._rows, "split": self._split}
        chunk = self._chunk(unit[self.what.layout[0]]())
        emit_chunks(self.module, name, chunk, 4, self.what.chunks)

    def _chunk(self, unit: str) -> str:
        """`void chunk(ptr context, i64 number)`: its units, in memory of its own."""
        what = self.what
        b = self.module.function("units", [PTR, I64], exported=False)
        context, chunk = b.arguments
        own = b.scratch(40, align=8)
        pointers = [self._word(b, context, i) for i in range(5)]
        size = what.columns + what.steps * what.block
        pointers[_MEMORY] = b.offset(pointers[_MEMORY], chunk * size, I8)
        for i, pointer in enumerate(pointers):
            b.store(pointer, b.offset(own, i, PTR))
        with b.loop(*_range(b, chunk, what.units, what.chunks)) as loop:
            b.call(unit, None, own, loop.index)
        b.ret()
        return b.name

    # ---------------------------------------------------------------- columns

    def _block(self) -> str:
        """`void block(ptr context, i64 number)`: a block of neighbouring columns."""
        what = self.what
        b, (result, source, table, memory) = self._begin("block")
        number = b.arguments[1]
        blocks = -(-what.inner // self.lanes)
        start = b.min(b.urem(number, blocks) * self.lanes, what.inner - self.lanes)
        position = b.udiv(number, blocks) * (what.size * what.inner) + start
        x, c = (b.offset(p, position * 2, self.element) for p in (source, result))

        def load(index: Value) -> Complex:
            return self._read(b, x, index * what.inner)

        def store(index: Value, point: Complex) -> None:
            self._write(b, c, index * what.inner, point)

        self.columns.transform(b, what.size, table, memory, load, store, self.scale)
        b.ret()
        return b.name

    # ------------------------------------------------------------------- rows

    def _rows(self) -> str:
        """`void rows(ptr context, i64 number)`: as many rows as there are lanes.

        Turned, a row of pairs is the points of a block.
        """
        what, lanes, row = self.what, self.lanes, 2 * self.what.size
        b, (result, source, table, block) = self._begin("rows")
        start = b.min(b.arguments[1] * lanes, what.outer - lanes) * row
        x, c = (b.offset(p, start, self.element) for p in (source, result))
        transpose_rows(b, self.vector, (block, lanes), (x, row), row)
        done = self.columns.transform(b, what.size, table, block, scale=self.scale)
        transpose_columns(b, self.vector, c, done, row)
        b.ret()
        return b.name

    # ------------------------------------------------------------------ split

    def _split(self) -> str:
        """`void row(ptr context, i64 number)`: a row, as a matrix."""
        what = self.what
        steps = {"first": self._first(), "second": self._second()}
        parts = [self._part(*step) for step in steps.items()]
        b = self.module.function("row", [PTR, I64], exported=False)
        context, number = b.arguments
        own = b.scratch(40, align=8)
        for i in range(5):
            word = self._word(b, context, i)
            if i in (_RESULT, _SOURCE):
                word = b.offset(word, number * (2 * what.size), self.element)
            b.store(word, b.offset(own, i, PTR))
        for part in parts:
            launcher = self._word(b, own, _LAUNCHER)
            run_chunks(b, launcher, part, own, what.steps)
        b.ret()
        return b.name

    def _part(self, name: str, block: tuple[str, int]) -> str:
        """`void part(ptr context, i64 number)`: some of the blocks of a row."""
        what, (function, count) = self.what, block
        b = self.module.function(f"{name}_part", [PTR, I64], exported=False)
        context, number = b.arguments
        memory = self._word(b, context, _MEMORY)
        own = b.offset(memory, number * what.block + what.columns, I8)
        with b.loop(*_range(b, number, count, what.steps)) as loop:
            b.call(function, None, context, loop.index, own)
        b.ret()
        return b.name

    def _first(self) -> tuple[str, int]:
        """Columns of the matrix, transposed into blocks of columns in the memory."""
        lanes, (rows, width) = self.lanes, self.what.layout[2]
        b, (_, source, table, memory) = self._begin("first", PTR)
        _, number, block = b.arguments
        start = b.min(number * lanes, width - lanes)
        x = b.offset(source, start * 2, self.element)

        def load(index: Value) -> Complex:
            return self._read(b, x, index * width)

        done = self.columns.transform(b, rows, table, block, load)

        with b.loop(0, -(-rows // lanes)) as loop:
            first = b.min(loop.index * lanes, rows - lanes)
            for part in (0, 1):
                point = self.columns.point(b, done, first)
                position = loop.index * width + start
                to, square = (
                    b.offset(p, part * lanes, self.element)
                    for p in (self.columns.point(b, memory, position), point)
                )
                transpose_rows(
                    b, self.vector, (to, 2 * lanes), (square, 2 * lanes), lanes
                )
        b.ret()
        return b.name, -(-width // lanes)

    def _second(self) -> tuple[str, int]:
        """Blocks of columns of the transposed matrix, times roots of unity."""
        what, lanes, (width, rows) = self.what, self.lanes, self.what.layout[2]
        b, (result, _, table, memory) = self._begin("second", PTR)
        _, number, block = b.arguments
        start = b.min(number * lanes, width - lanes)
        _, own, fine, coarse, _ = (
            b.offset(table, at, self.element) for at in what.table_starts
        )
        c = b.offset(result, start * 2, self.element)
        point = self.columns.point
        transposed = point(b, memory, number * rows)
        fine = point(b, fine, number * lanes)
        coarse = point(b, coarse, number * -(-rows // lanes))

        def load(index: Value) -> Complex:
            x = self.columns.load(b, transposed, index)
            x = product(b, x, self.columns.load(b, fine, b.and_(index, lanes - 1)))
            return product(b, x, self.columns.load(b, coarse, b.udiv(index, lanes)))

        def store(index: Value, point: Complex) -> None:
            self._write(b, c, index * width, point)

        self.columns.transform(b, rows, own, block, load, store, self.scale)
        b.ret()
        return b.name, -(-width // lanes)

    # ---------------------------------------------------------------- helpers

    def _begin(self, name: str, *more: Type) -> tuple[Builder, Values]:
        """A function of a context and a number, and the first words of the context."""
        b = self.module.function(name, [PTR, I64, *more], exported=False)
        return b, [self._word(b, b.arguments[0], i) for i in range(4)]

    def _word(self, b: Builder, context: Value, position: int) -> Value:
        return b.load(PTR, b.offset(context, position, PTR))

    def _read(self, b: Builder, base: Value, position: Value) -> Complex:
        """Neighbouring complex numbers, their real parts apart."""
        twice = self.vector.with_lanes(2 * self.lanes)
        pairs = b.load(twice, b.offset(base, position * 2, self.element))
        even, odd = (range(part, twice.lanes, 2) for part in (0, 1))
        return b.shuffle(pairs, None, even), b.shuffle(pairs, None, odd)

    def _write(self, b: Builder, base: Value, position: Value, x: Complex) -> None:
        """Neighbouring complex numbers."""
        to = b.offset(base, position * 2, self.element)
        if self.lanes == 1:
            b.store(x[0], to)
            b.store(x[1], b.offset(to, 1, self.element))
        else:
            order = [
                part * self.lanes + i for i in range(self.lanes) for part in (0, 1)
            ]
            b.store(b.shuffle(*x, order), to)


def _range(b: Builder, part: Value, count: int, parts: int) -> tuple[Value, Value]:
    """The bounds of one of `parts` nearly equal parts of a range."""
    return b.udiv(part * count, parts), b.udiv((part + 1) * count, parts)
