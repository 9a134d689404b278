"""Tiles of products: the innermost code, for any sizes and strides.

A tile is some rows of a result by a few vectors of columns. All its sums stay in
registers through nested loops of steps; a step loads a row of B, broadcasts a column of
A element by element, multiplies and adds (Goto and van de Geijn, Anatomy of
high-performance matrix multiplication, 2008). A function walks a number of tiles of one
shape, along any strides, so it is compiled once for a processor.

It is given the addresses of the first tile, how many there are, and *numbers*:

    C_NEXT A_NEXT B_NEXT    from one tile to the next
    C_ROW A_ROW             from one row of a tile to the next
    COLUMNS                 the columns in the last vector, where that is not whole
    STEPS                   for each loop of steps, the outermost first: how many there
                            are, and how far apart they lie in A and in B

All distances are in bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from curta.compiler.llvm.builder import Module, Values
from curta.compiler.llvm.types import I8, I64, PTR, Type, Value
from curta.lazy_dataclass import dataclass

TILED = ("f32", "f64", "i32", "i64")
"""The kinds of which products are made here."""

C_NEXT, A_NEXT, B_NEXT, C_ROW, A_ROW, COLUMNS, STEPS = range(7)


@dataclass(frozen=True)
class Tile:
    """The shape of a tile: rows by vectors, `whole` or not, and its loops of steps."""

    kind: str
    rows: int
    vectors: int
    whole: bool
    loops: int

    @property
    def name(self) -> str:
        """What its function is called."""
        whole = "whole" if self.whole else "part"
        return f"tile_{self.kind}_{self.rows}x{self.vectors}_{whole}_{self.loops}"

    def emit(self, module: Module) -> None:
        """Add `void name(ptr c, ptr a, ptr b, i64 count, i64 begun, ptr numbers)`.

        Sums go on from those in C if `begun` is not zero. It wants the code generator's
        GOOD level: sums that spill to memory are useless.
        """
        _Emitter(module, self).emit()


class _Emitter:
    def __init__(self, module: Module, tile: Tile) -> None:
        self.tile = tile
        self.element = Type(tile.kind)
        self.lanes = module.vector_bytes // self.element.size
        self.vector = Type(tile.kind, self.lanes)
        self.b = module.function(tile.name, [PTR, PTR, PTR, I64, I64, PTR])
        *_, self.begun, self.numbers = self.b.arguments
        self.c_row, self.a_row = self._number(C_ROW), self._number(A_ROW)
        self.mask = self.b.first_lanes(self._number(COLUMNS), self.lanes)

    def _number(self, place: int) -> Value:
        return self.b.load(I64, self.b.offset(self.numbers, place, I64))

    def emit(self) -> None:
        b = self.b
        c, a, right, count, *_ = b.arguments
        next_ = [self._number(place) for place in (C_NEXT, A_NEXT, B_NEXT)]
        with b.loop(0, count, carried=[c, a, right], runs=True) as loop:
            self._emit_one(*loop.carried)
            loop.next(*self._moved(loop.carried, next_))
        b.ret()

    def _moved(self, pointers: Values, distances: Values) -> Values:
        pairs = zip(pointers, distances, strict=True)
        return [self.b.offset(p, d, I8) for p, d in pairs]

    def _emit_one(self, c: Value, a: Value, right: Value) -> None:
        b = self.b
        count = self.tile.rows * self.tile.vectors

        def zeros() -> Values:
            return [b.const(self.vector, 0)] * count

        def so_far() -> Values:
            return [self._load(*place) for place in self._places(c)]

        sums = b.if_(b.ne(self.begun, 0), so_far, zeros)
        totals = self._steps(0, a, right, sums)
        for place, total in zip(self._places(c), totals, strict=True):
            self._store(total, *place)

    def _places(self, c: Value) -> Iterator[tuple[Value, int]]:
        """The rows of the result, with the number of each vector of them."""
        return itertools.product(self._rows(c, self.c_row), range(self.tile.vectors))

    def _rows(self, first: Value, distance: Value) -> Values:
        """Where the rows of a tile begin."""
        result = [first]
        while len(result) < self.tile.rows:
            result.append(self.b.offset(result[-1], distance, I8))
        return result

    def _steps(self, depth: int, a: Value, right: Value, sums: Values) -> Values:
        """The sums after the loops of steps from a depth on."""
        if depth == self.tile.loops:
            return self._add(a, right, sums)
        b = self.b
        count, *distances = (self._number(STEPS + 3 * depth + i) for i in range(3))
        with b.loop(0, count, carried=[a, right, *sums], runs=True) as loop:
            a, right, *sums = loop.carried
            after = self._steps(depth + 1, a, right, sums)
            loop.next(*self._moved([a, right], distances), *after)
        return loop.results[2:]

    def _add(self, a: Value, right: Value, sums: Values) -> Values:
        """The sums after one step."""
        b, result = self.b, list[Value]()
        vectors = [self._load(right, j) for j in range(self.tile.vectors)]
        for place in self._rows(a, self.a_row):
            spread = b.splat(b.load(self.element, place), self.lanes)
            for vector in vectors:
                result.append(b.muladd(spread, vector, sums[len(result)]))
        return result

    def _is_part(self, j: int) -> bool:
        return j == self.tile.vectors - 1 and not self.tile.whole

    def _load(self, row: Value, j: int) -> Value:
        """A vector of a row; zeros where it has no columns."""
        place = self.b.offset(row, j * self.lanes, self.element)
        if self._is_part(j):
            return self.b.masked_load(self.vector, place, self.mask)
        return self.b.load(self.vector, place)

    def _store(self, value: Value, row: Value, j: int) -> None:
        place = self.b.offset(row, j * self.lanes, self.element)
        if self._is_part(j):
            self.b.masked_store(value, place, self.mask)
        else:
            self.b.store(value, place)
