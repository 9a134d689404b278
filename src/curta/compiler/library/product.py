"""The loops around the tiles of a product, for products of any shape.

    void product(ptr c, ptr a, ptr b, ptr parallel_for, ptr plan, ptr code)

One function, compiled once for a processor, runs every product: what is walked, how far
and in which order is data, a *plan* (product_plan.py). `code` has the addresses of the
tiles (tile.py) and of the copy of panels (packing.py) that the plan speaks of.

    chunk        some panels of columns and some of the outer indices
      panel      columns of a tile
        block    the leading steps, outside of tiles: each adds to the sums before it,
                 or to those of its part
          outer  a panel is packed, if need be, and all tiles of the rows run
"""

from __future__ import annotations

from enum import IntEnum, auto

from curta._base.lazy_dataclass import dataclass
from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I8, I64, PTR, Value


@dataclass(frozen=True)
class Loops:
    """The function `product`, first among the code of every plan."""

    name: str = "product"

    def emit(self, module: Module) -> None:
        """Add the function to the module."""
        chunk = f"{self.name}_chunk"
        _Chunk(module.function(chunk, [PTR, I64], exported=False)).emit()
        b = module.function(self.name, [PTR] * 6)
        c, a, right, launcher, plan, code = b.arguments
        table = b.scratch(8 * 5, align=8)
        for i, pointer in enumerate((c, a, right, plan, code)):
            b.store(pointer, b.offset(table, i, PTR))
        chunks = _number(b, plan, Word.CHUNKS)
        address = b.function_address(chunk)

        def alone() -> Values:
            b.call(chunk, None, table, b.const(I64, 0))
            return []

        def shared() -> Values:
            b.call(launcher, None, address, table, chunks)
            return []

        b.if_(b.eq(chunks, 1), alone, shared)
        b.ret()


class Word(IntEnum):
    """The indices of the numbers of a plan, 64 bits each; distances are in bytes."""

    # Chunks are numbered by ranges of panels and of outer indices. The number of a
    # range is that of the chunk, divided by `_BY`, modulo `_RANGES`.
    CHUNKS = 0
    PANELS_BY = auto()
    PANEL_RANGES = auto()
    PANELS_OF_RANGE = auto()
    PANELS = auto()
    OUTER_BY = auto()
    OUTER_RANGES = auto()
    OUTER_OF_RANGE = auto()
    OUTER = auto()
    # Where the arrays begin, and from one panel to the next.
    C_START = auto()
    A_START = auto()
    B_START = auto()
    C_PANEL = auto()
    B_PANEL = auto()
    # How many blocks there are; how many axes blocks and outer indices have, and where
    # in the plan they are described.
    BLOCKS = auto()
    # After so many blocks there are sums of their own, elsewhere in c.
    BLOCKS_EACH = auto()
    BLOCK_AXES = auto()
    BLOCK_AXES_AT = auto()
    OUTER_AXES = auto()
    OUTER_AXES_AT = auto()
    # The numbers of the last panel, the last index of the innermost outer axis and the
    # last block, if they have tiles of their own, or -1.
    LAST_PANEL = auto()
    LAST_ROWS = auto()
    LAST_BLOCK = auto()
    # Whether an outer index has one tile, which loops over the innermost axis.
    WALKS = auto()
    # Which code copies a panel, or -1; the bytes of a copy.
    PACK = auto()
    PACKED_BYTES = auto()
    # Offsets of the lists of tiles: one for each combination of a last panel (4), last
    # rows (2) and a last block (1), which may be smaller.
    LISTS = auto()


HEAD = int(Word.LISTS) + 8
"""The words before those that have no fixed index."""


class AxisWord(IntEnum):
    """An axis: its extent, and how far apart it lies in the arrays."""

    EXTENT = 0
    C = auto()
    A = auto()
    B = auto()


class ListWord(IntEnum):
    """A list of tiles: how many, numbers for the copy of the panel, then the tiles."""

    COUNT = 0
    PACK = auto()
    TILES = 4


class TileWord(IntEnum):
    """Tiles of one shape: code, first tile, count, and numbers."""

    CODE = 0
    C = auto()
    A = auto()
    COUNT = auto()
    NUMBERS = auto()
    END = 13


def _number(b: Builder, words: Value, index: int) -> Value:
    return b.load(I64, b.offset(words, index, I64))


class _Chunk:
    """`void chunk(ptr table, i64 index)`; the table has c, a, b, plan and code."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        table, self.index = b.arguments
        self.c, self.a, self.right, self.plan, self.code = (
            b.load(PTR, b.offset(table, i, PTR)) for i in range(5)
        )

    def word(self, index: Word) -> Value:
        """A number of the plan."""
        return _number(self.b, self.plan, index)

    def emit(self) -> None:
        b = self.b
        packed = b.variable_scratch(self.word(Word.PACKED_BYTES))
        starts = [
            b.offset(x, self.word(word), I8)
            for x, word in (
                (self.c, Word.C_START), (self.a, Word.A_START),
                (self.right, Word.B_START),
            )
        ]  # fmt: skip
        panels, outer = self._range(Word.PANELS_BY), self._range(Word.OUTER_BY)
        with b.loop(*panels) as panel:
            c, a, right = starts
            c = b.offset(c, b.mul(panel.index, self.word(Word.C_PANEL)), I8)
            right = b.offset(right, b.mul(panel.index, self.word(Word.B_PANEL)), I8)
            last = self._if_last(panel.index, Word.LAST_PANEL, 4)
            with b.loop(0, self.word(Word.BLOCKS)) as block:
                axes = Word.BLOCK_AXES, Word.BLOCK_AXES_AT
                _, c_block, a_block, b_block = self._position(block.index, *axes)
                which = b.add(last, self._if_last(block.index, Word.LAST_BLOCK, 1))
                blocks = c_block, a_block, b_block
                here = tuple(map(self._moved, (c, a, right), blocks))
                begun = b.urem(block.index, self.word(Word.BLOCKS_EACH))
                self._outer(here, outer, begun, which, packed)
        b.ret()

    def _moved(self, pointer: Value, distance: Value) -> Value:
        return self.b.offset(pointer, distance, I8)

    def _range(self, by: Word) -> tuple[Value, Value]:
        """The first and the end of the panels or outer indices of this chunk."""
        b = self.b
        by_, ranges, each, total = (self.word(Word(by + i)) for i in range(4))
        first = b.mul(b.urem(b.udiv(self.index, by_), ranges), each)
        return first, b.min(b.add(first, each), total)

    def _if_last(self, index: Value, last: Word, number: int) -> Value:
        is_last = self.b.eq(index, self.word(last))
        return self.b.select(is_last, self.b.const(I64, number), 0)

    def _position(
        self, index: Value, count: Word, at: Word
    ) -> tuple[Value, Value, Value, Value]:
        """The index along the innermost of some axes, and the offsets in c, a and b."""
        b = self.b
        axes = b.offset(self.plan, self.word(at), I64)
        zero = b.const(I64, 0)
        number = self.word(count)
        with b.loop(0, number, carried=[index, *[zero] * 4]) as loop:
            rest, first, *offsets = loop.carried
            words = b.offset(axes, b.mul(loop.index, len(AxisWord)), I64)
            extent = _number(b, words, AxisWord.EXTENT)
            i = b.urem(rest, extent)
            moved = [
                b.add(o, b.mul(i, _number(b, words, word)))
                for o, word in zip(offsets, list(AxisWord)[1:], strict=True)
            ]
            innermost = b.select(b.eq(loop.index, 0), i, first)
            loop.next(b.udiv(rest, extent), innermost, *moved)
        _, first, c, a, right = loop.results
        return first, c, a, right

    def _outer(
        self, arrays: tuple[Value, ...], bounds: tuple[Value, Value], block: Value,
        which: Value, packed: Value,
    ) -> None:  # fmt: skip
        """The tiles of a range of outer indices, one or many at a time."""
        b, (first, last) = self.b, bounds
        axes = b.offset(self.plan, self.word(Word.OUTER_AXES_AT), I64)
        extent = _number(b, axes, AxisWord.EXTENT)
        walks = b.ne(self.word(Word.WALKS), 0)

        def run(carried: Values) -> Values:
            (index,) = carried
            axes_of = Word.OUTER_AXES, Word.OUTER_AXES_AT
            i, *offsets = self._position(index, *axes_of)
            here = [b.offset(x, o, I8) for x, o in zip(arrays, offsets, strict=True)]
            many = b.min(b.sub(last, index), b.sub(extent, i))
            count = b.select(walks, many, 1)
            rows = self._if_last(i, Word.LAST_ROWS, 2)
            lists = b.offset(self.plan, b.add(which, rows), I64)
            tiles = b.offset(self.plan, _number(b, lists, Word.LISTS), I64)
            self._tiles(tiles, here, count, block, packed)
            return [b.add(index, count)]

        b.while_loop([first], lambda carried: b.compare("lt", carried[0], last), run)

    def _tiles(
        self, tiles: Value, arrays: Values, many: Value, block: Value, packed: Value
    ) -> None:
        """A list of tiles; if they walk along an axis, so many times."""
        b, (c, a, right) = self.b, arrays
        pack = self.word(Word.PACK)

        def copied() -> Values:
            copy = b.load(PTR, b.offset(self.code, pack, PTR))
            b.call(copy, None, packed, right, b.offset(tiles, ListWord.PACK, I64))
            return [packed]

        (right,) = b.if_(b.compare("ge", pack, 0), copied, lambda: [right])
        first = b.offset(tiles, ListWord.TILES, I64)
        with b.loop(0, _number(b, tiles, ListWord.COUNT)) as loop:
            words = b.offset(first, b.mul(loop.index, TileWord.END), I64)
            at = b.offset(self.code, _number(b, words, TileWord.CODE), PTR)
            b.call(
                b.load(PTR, at),
                None,
                b.offset(c, _number(b, words, TileWord.C), I8),
                b.offset(a, _number(b, words, TileWord.A), I8),
                right,
                b.mul(many, _number(b, words, TileWord.COUNT)),
                block,
                b.offset(words, TileWord.NUMBERS, I64),
            )
