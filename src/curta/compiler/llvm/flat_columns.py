"""Sums of few columns, whose rows follow each other in memory (loops/flat_rows.py).

The accumulators of a block, `order.lanes` for each column, are one *wide row*; so are
the elements that they take in at once. Vectors go along wide rows, whatever the number
of columns. The accumulators of a column are `columns` elements apart, so that halves of
a wide row are added up as wholes, and only the last few row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

from curta._base.lazy_dataclass import dataclass
from curta.compiler.llvm.column_tiles import ColumnLoops, SumTile, Tile
from curta.compiler.llvm.folding import known
from curta.compiler.llvm.nest_body import Values
from curta.compiler.llvm.types import I64, Value
from curta.compiler.loops.flat_rows import repeated_values, shared_values
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Expr, LoopNest
from curta.compiler.loops.schedule import NestSchedule


@dataclass(frozen=True, eq=False)
class _WideRows:
    """What the loops over wide rows share.

    Fields:
        nest: what is computed.
        row: the dim that is reduced.
        height: the rows of a wide row: accumulators of each column.
        size: the elements of a wide row, a multiple of `lanes`.
        lanes: the width of vectors along wide rows.
        narrow: the width of vectors along columns.
        unrolled: the wide rows whose code is written out, or 1.
        only: True if there is one group, whose sums are those of the block.
        tiles: the accumulators of each fold.
        repeated: a wide row of each value that all rows share.
    """

    nest: LoopNest
    row: LoopVar
    height: int
    size: int
    lanes: int
    narrow: int
    unrolled: int
    only: bool
    tiles: Sequence[SumTile]
    repeated: dict[Expr, Tile]


class FlatColumns(ColumnLoops):
    """Writes the sums of columns along wide rows."""

    def _sum_flat(
        self, nest: LoopNest, dims: Sequence[LoopVar], plan: NestSchedule
    ) -> None:
        b, (row,) = self.b, dims
        wide = self._wide_rows(nest, row, plan)
        self.values.hoist(nest.body, [self.column, row], 1)
        for value, tile in wide.repeated.items():
            self._repeat(wide, value, tile)
        if self.order.is_one_block(row.extent):
            self._flat_block(wide, (b.const(I64, 0), b.const(I64, row.extent)))
            found = wide.tiles
        else:
            found = [self._total(wide, tile) for tile in wide.tiles]
            with b.loop(0, row.extent, self.order.block) as block:
                end = b.min(b.add(block.index, self.order.block), row.extent)
                self._flat_block(wide, (block.index, end))
                for total, tile in zip(found, wide.tiles, strict=True):
                    with self._whole_vectors(wide.narrow):
                        sums = self._joined(tile.fold, total.load(0), tile.load(0))
                        total.store(0, sums)
        for tile in found:
            with self._each_vector(wide.narrow):
                self._store_results(tile.fold, tile.load(0))

    def _wide_rows(self, nest: LoopNest, row: LoopVar, plan: NestSchedule) -> _WideRows:
        columns, height = self.column.extent, self.order.accumulators(row.extent)
        lanes = min(plan.lanes, height)
        narrow = min(self.order.register, 1 << (columns - 1).bit_length())
        room = max(lanes, narrow)
        shared = shared_values(nest, self.column, [row])
        return _WideRows(
            nest,
            row,
            height,
            height * columns,
            lanes,
            narrow,
            plan.rows,
            self.order.is_one_group(row.extent),
            [SumTile(self, f, height, columns, room) for f in nest.folds],
            {
                e: Tile(self, [e.dtype], height, columns, room)
                for e in repeated_values(nest, shared)
            },
        )

    def _total(self, wide: _WideRows, tile: SumTile) -> SumTile:
        """Memory for the results of blocks, which are 0 so far."""
        total = SumTile(self, tile.fold, 1, tile.pitch, wide.narrow, wide=True)
        with self._whole_vectors(wide.narrow):
            total.store(0, self._start(tile.fold, wide.narrow))
        return total

    def _repeat(self, wide: _WideRows, value: Expr, tile: Tile) -> None:
        """Write a value of each column into all rows of a tile.

        The last vector of a row reaches into the next one, which is written after it.
        """
        with self._each_vector(wide.narrow):
            tile.store(0, [self.values.compute_lanes(value)])
        with self.b.loop(1, tile.rows) as row, self._whole_vectors(wide.narrow):
            tile.store(row.index, tile.load(0))

    def _flat_block(self, wide: _WideRows, rows: tuple[Value, Value]) -> None:
        """Add up the rows of a block: the sums are in the first row of each tile."""
        b, height, (first, last) = self.b, wide.height, rows
        group, size = height * self.order.steps, b.const(I64, wide.size)
        left = b.urem(b.sub(last, first), group)
        whole, zero = b.sub(last, left), b.const(I64, 0)
        count, more = b.udiv(left, height), b.urem(left, height)
        if not wide.only or known(count) == 0:
            self._clear_flat(wide)
        with b.loop(first, whole, group) as at:
            steps = b.const(I64, self.order.steps)
            self._add_wide(wide, at.index, steps, (zero, size))
        more = b.mul(more, self.column.extent)
        ragged = b.mul(b.udiv(b.add(more, wide.lanes - 1), wide.lanes), wide.lanes)
        self._add_wide(wide, whole, count, (zero, ragged), more)
        with b.when(b.compare("gt", count, 0)):
            self._add_wide(wide, whole, count, (ragged, size))
        for tile in wide.tiles:
            self._combine_flat(wide, tile)

    def _clear_flat(self, wide: _WideRows) -> None:
        span = self.b.const(I64, 0), self.b.const(I64, wide.size)
        for tile in wide.tiles:
            with self._vectors_between(span, wide.lanes, False):
                tile.store(0, self._start(tile.fold, wide.lanes))

    def _add_wide(
        self,
        wide: _WideRows,
        first: Value,
        count: Value,
        span: tuple[Value, Value],
        more: Value | None = None,
    ) -> None:
        """Add `count` wide rows to the accumulators of a span of a wide row.

        They begin with the row `first`. There are `more` elements of the wide row after
        them.
        """
        b, folds = self.b, wide.nest.folds
        with b.loop(*span, wide.lanes) as at:
            sums = [self._start(f, wide.lanes) for f in folds]
            with self.values.vectorised(self.column, at.index, wide.lanes, None):
                sums = self._wide_rows_added(wide, first, count, sums)
            if more is not None:
                mask = b.first_lanes(b.sub(more, at.index), wide.lanes)
                row = b.add(first, b.mul(count, wide.height))
                with self.values.vectorised(self.column, at.index, wide.lanes, mask):
                    new = self._wide_row_added(wide, row, sums)
                sums = [
                    [b.select(mask, n, o) for n, o in zip(*both, strict=True)]
                    for both in zip(new, sums, strict=True)
                ]
            with self.values.vectorised(self.column, at.index, wide.lanes, None):
                for tile, own in zip(wide.tiles, sums, strict=True):
                    if not wide.only:
                        own = self.combine(tile.fold, tile.load(0), own)
                    tile.store(0, own)

    def _wide_rows_added(
        self, wide: _WideRows, first: Value, count: Value, sums: list[Values]
    ) -> list[Values]:
        """The accumulators with so many wide rows; light bodies are written out."""
        b, number = self.b, known(count)
        if number is not None and number <= wide.unrolled:
            for k in range(number):
                row = b.add(first, k * wide.height)
                sums = self._wide_row_added(wide, row, sums)
            return sums
        end = b.add(first, b.mul(count, wide.height))
        with b.loop(first, end, wide.height, sum(sums, [])) as loop:
            rest = iter(loop.carried)
            sums = [[next(rest) for _ in own] for own in sums]
            loop.next(*sum(self._wide_row_added(wide, loop.index, sums), []))
        rest = iter(loop.results)
        return [[next(rest) for _ in own] for own in sums]

    def _wide_row_added(
        self, wide: _WideRows, row: Value, sums: list[Values]
    ) -> list[Values]:
        """The accumulators with one more wide row."""
        with self.values.scope():
            self.values.bind(wide.row, row)
            for value, tile in wide.repeated.items():
                self.values.define(value, tile.load(0)[0])
            return [
                self.combine(
                    f, own, [self.values.compute_lanes(x) for x in f.inputs], True
                )
                for f, own in zip(wide.nest.folds, sums, strict=True)
            ]

    def _combine_flat(self, wide: _WideRows, tile: SumTile) -> None:
        """The accumulators of each column as one: halves, then neighbors.

        What a vector writes beyond the end is not read again.
        """
        b, few = self.b, min(tile.rows, self.order.register)
        if tile.rows > few:
            end = b.const(I64, few * tile.pitch)
            with self._vectors_between((b.const(I64, 0), end), few, False):
                sums = [tile.load(i) for i in range(0, tile.rows, few)]
                while len(sums) > 1:
                    halves = sums[: len(sums) // 2], sums[len(sums) // 2 :]
                    pairs = zip(*halves, strict=True)
                    sums = [self.combine(tile.fold, *x) for x in pairs]
                tile.store(0, sums[0])
        if few > 1:
            with self._whole_vectors(wide.narrow):
                sums = [tile.load(i) for i in range(few)]
                while len(sums) > 1:
                    pairs = zip(sums[::2], sums[1::2], strict=True)
                    sums = [self.combine(tile.fold, *x) for x in pairs]
                tile.store(0, sums[0])
