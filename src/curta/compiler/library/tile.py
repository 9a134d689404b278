"""Tiles of products (tile_shape.py): in assembly where there is some, or LLVM IR."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from curta.compiler.library.tile_assembly import tile_assembly
from curta.compiler.library.tile_shape import (
    A_NEXT,
    A_ROW,
    A_STEP,
    B_NEXT,
    B_STEP,
    C_NEXT,
    C_ROW,
    COLUMNS,
    PACKED,
    STEPS,
    Tile,
)
from curta.compiler.llvm.builder import Module, Values
from curta.compiler.llvm.types import I8, I64, PTR, Type, Value


def emit_tile(module: Module, tile: Tile) -> None:
    """Add the function of a tile to the module.

    If it is not in assembly, it wants the code generator's GOOD level: sums that spill
    to memory are useless.
    """
    if is_assembly(module, tile):
        module.assembly += tile_assembly(tile, module.vector_bytes)
    else:
        _Emitter(module, tile).emit()


def is_assembly(module: Module, tile: Tile) -> bool:
    """Whether the tile is written in assembly for the module's processor."""
    if tile.kind in PACKED:
        return True
    floats = Type(tile.kind).is_float
    return module.assembles and floats and module.has_fma and module.vector_bytes >= 32


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

    def _number(self, word: int) -> Value:
        return self.b.load(I64, self.b.offset(self.numbers, word, I64))

    def emit(self) -> None:
        b = self.b
        c, a, right, count, *_ = b.arguments
        next_ = [self._number(word) for word in (C_NEXT, A_NEXT, B_NEXT)]
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

        # The sums of a block are added to those before: chains that go on would lose
        # more to rounding.
        own = self._steps(a, right, [b.const(self.vector, 0)] * count)

        def added() -> Values:
            pairs = zip(self._addresses(c), own, strict=True)
            return [b.add(self._load(*address), x) for address, x in pairs]

        totals = b.if_(b.ne(self.begun, 0), added, lambda: own)
        for address, total in zip(self._addresses(c), totals, strict=True):
            self._store(total, *address)

    def _addresses(self, c: Value) -> Iterator[tuple[Value, int]]:
        """The rows of the result, with the number of each vector of them."""
        return itertools.product(self._rows(c, self.c_row), range(self.tile.vectors))

    def _rows(self, first: Value, distance: Value) -> Values:
        """Where the rows of a tile begin."""
        result = [first]
        while len(result) < self.tile.rows:
            result.append(self.b.offset(result[-1], distance, I8))
        return result

    def _steps(self, a: Value, right: Value, sums: Values) -> Values:
        """The sums after all steps."""
        b, count = self.b, self._number(STEPS)
        if self.tile.listed:
            steps = b.offset(self.numbers, self._number(A_STEP), I8)
            with b.loop(0, count, carried=[steps, *sums], runs=True) as loop:
                here, *sums = loop.carried
                moved = [b.load(I64, b.offset(here, i, I64)) for i in range(2)]
                in_a, in_b = self._moved([a, right], moved)
                after = self._add(in_a, in_b, sums)
                loop.next(b.offset(here, 2, I64), *after)
            return loop.results[1:]
        distances = [self._number(A_STEP), self._number(B_STEP)]
        with b.loop(0, count, carried=[a, right, *sums], runs=True) as loop:
            a, right, *sums = loop.carried
            after = self._add(a, right, sums)
            loop.next(*self._moved([a, right], distances), *after)
        return loop.results[2:]

    def _add(self, a: Value, right: Value, sums: Values) -> Values:
        """The sums after one step."""
        b, result = self.b, list[Value]()
        vectors = [self._load(right, j) for j in range(self.tile.vectors)]
        for address in self._rows(a, self.a_row):
            spread = b.splat(b.load(self.element, address), self.lanes)
            for vector in vectors:
                result.append(b.muladd(spread, vector, sums[len(result)]))
        return result

    def _is_part(self, j: int) -> bool:
        return j == self.tile.vectors - 1 and not self.tile.whole

    def _load(self, row: Value, j: int) -> Value:
        """A vector of a row; zeros where it has no columns."""
        address = self.b.offset(row, j * self.lanes, self.element)
        if self._is_part(j):
            return self.b.masked_load(self.vector, address, self.mask)
        return self.b.load(self.vector, address)

    def _store(self, value: Value, row: Value, j: int) -> None:
        address = self.b.offset(row, j * self.lanes, self.element)
        if self._is_part(j):
            self.b.masked_store(value, address, self.mask)
        else:
            self.b.store(value, address)
