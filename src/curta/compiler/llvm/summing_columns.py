"""Sums along columns in the order of blocks (loops/summation.py).

The accumulators of a block are the rows of a tile in memory, one for strips. Vectors go
along the columns: `steps` rows, `lanes` apart, are added up in registers, and then to a
row of the tile. At the end of a block the rows of the tile are added up in pairs. Few
rows are added up in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from curta.compiler.llvm.column_tiles import SumTile
from curta.compiler.llvm.flat_columns import FlatColumns
from curta.compiler.llvm.nest_body import Values, by_fold, wide
from curta.compiler.llvm.types import I64, Value
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Fold, LoopNest
from curta.compiler.loops.schedule import NestSchedule
from curta.compiler.loops.summation import BLOCKED, count_of
from curta.core.dim import is_multiple

Bounds = tuple[Value, Value]


class SummingColumns(FlatColumns):
    """Writes the nests whose folds add up in blocks, for a piece of the columns."""

    def _sum_columns(
        self, nest: LoopNest, dims: Sequence[LoopVar], plan: NestSchedule
    ) -> None:
        count, lanes = count_of([v.extent for v in dims]), plan.lanes
        self.together = plan.rows
        assert plan.order is not None
        self.order = plan.order
        if plan.accumulate == "flat":
            return self._sum_flat(nest, dims, plan)
        inside = [self.column, *dims, *(s.buffer for s in nest.stores)]
        self.values.hoist(nest.body, inside, 1)
        if plan.accumulate == "registers":
            return self._sum_few(nest, dims, count, lanes)
        columns = self.column.extent
        if self.plan.split == self.column:
            columns = self.plan.piece
        pitch = -(-columns // lanes) * lanes
        rows = self.order.accumulators(count)
        tiles = {
            f: SumTile(self, f, rows if f.order in BLOCKED else 1, pitch)
            for f in nest.folds
        }
        if self.order.is_one_block(count):
            for tile in tiles.values():
                is_new = tile.fold.order in BLOCKED and self.order.is_one_group(count)
                self._clear([tile], lanes, count if is_new else 0)
            self._add_block(nest, dims, tiles, (0, count), lanes)
        else:
            self._add_blocks(nest, dims, tiles, count, lanes)
            tiles.update((f, t.total) for f, t in tiles.items() if t.total is not None)
        for fold, tile in tiles.items():
            with self._each_vector(lanes):
                self._store_results(fold, tile.load(0))

    def _add_blocks(
        self,
        nest: LoopNest,
        dims: Sequence[LoopVar],
        tiles: dict[Fold, SumTile],
        count: int,
        lanes: int,
    ) -> None:
        """All blocks of many rows: each is joined to those before it."""
        b, size = self.b, self.order.block
        blocked = [t for f, t in tiles.items() if f.order in BLOCKED]
        for tile in blocked:
            tile.total = SumTile(self, tile.fold, 1, tile.pitch, wide=True)
        self._clear([t.total for t in blocked if t.total is not None], lanes)
        self._clear([t for t in tiles.values() if t not in blocked], lanes)
        with b.loop(0, count, size) as block:
            self._clear(blocked, lanes)
            end = b.min(b.add(block.index, size), count)
            self._add_block(nest, dims, tiles, (block.index, end), lanes)
            for tile in blocked:
                total = tile.total
                assert total is not None
                with self._whole_vectors(lanes):
                    sums = self._joined(tile.fold, total.load(0), tile.load(0))
                    total.store(0, sums)

    def _add_block(
        self,
        nest: LoopNest,
        dims: Sequence[LoopVar],
        tiles: dict[Fold, SumTile],
        bounds: tuple[Value | int, Value | int],
        lanes: int,
    ) -> None:
        """Add rows up in their tiles; the sums are then in the first row of each."""
        b, steps = self.b, self.order.steps
        first, last = (b.operand(x, I64) for x in bounds)
        height = max(t.rows for t in tiles.values())
        tail = b.urem(b.sub(last, first), height * steps)
        whole = b.sub(last, tail)
        with b.loop(first, whole, height * steps) as group:
            with b.loop(0, height) as row:
                start = b.add(group.index, row.index)
                rows = start, b.add(start, height * steps)
                self._add_rows_to_tiles(nest, dims, tiles, row.index, rows, lanes)
        with b.when(tail > 0):
            with b.loop(0, b.min(tail, height)) as row:
                rows = b.add(whole, row.index), last
                self._add_rows_to_tiles(
                    nest, dims, tiles, row.index, rows, lanes, whole=False
                )
        for tile in tiles.values():
            self._add_up(tile, lanes)

    def _add_rows_to_tiles(
        self,
        nest: LoopNest,
        dims: Sequence[LoopVar],
        tiles: dict[Fold, SumTile],
        at: Value,
        bounds: Bounds,
        lanes: int,
        whole: bool = True,
    ) -> None:
        """Add rows of a group to one row of the tiles.

        Light bodies of `whole` groups are written out.
        """
        b = self.b
        height = max(t.rows for t in tiles.values())
        only = self.order.is_one_group(count_of([v.extent for v in dims]))
        together = self.together if whole else 1

        def take(number: Value, sums: list[Values]) -> list[Values]:
            with self.values.scope():
                self._at_row(dims, number)
                self._store_all(nest.stores)
                inputs = [
                    [self.values.compute_lanes(x) for x in f.inputs] for f in tiles
                ]
                return [
                    self.combine(f, x, y, in_order=True)
                    for f, x, y in zip(tiles, sums, inputs, strict=True)
                ]

        def add() -> None:
            sums = [
                self._start(f, self.values.lanes) if f.order in BLOCKED else t.load(0)
                for f, t in tiles.items()
            ]
            if together > 1:
                for k in range(together):
                    sums = take(b.add(bounds[0], k * height) if k else bounds[0], sums)
            else:
                with b.loop(*bounds, height, sum(sums, []), runs=True) as loop:
                    sums = take(loop.index, by_fold([*tiles], loop.carried))
                    loop.next(*sum(sums, []))
                sums = by_fold([*tiles], loop.results)
            for (f, t), own in zip(tiles.items(), sums, strict=True):
                if f.order in BLOCKED and not only:
                    own = self.combine(f, t.load(at), own)
                t.store(at, own)

        self._over_columns(lanes, add)

    def _at_row(self, dims: Sequence[LoopVar], number: Value) -> None:
        """Bind the variables of a row, by its number along all dims."""
        for variable in reversed(dims[1:]):
            self.values.bind(variable, self.b.urem(number, variable.extent))
            number = self.b.udiv(number, variable.extent)
        self.values.bind(dims[0], number)

    def _add_up(self, tile: SumTile, lanes: int) -> None:
        """The rows of a tile as one: halves, then neighbors."""
        b, fold = self.b, tile.fold
        few = min(tile.rows, self.order.register)
        if tile.rows > few:
            with b.loop(0, few) as row, self._whole_vectors(lanes):
                apart = range(0, tile.rows, few)
                sums = [tile.load(b.add(row.index, i)) for i in apart]
                while len(sums) > 1:
                    halves = sums[: len(sums) // 2], sums[len(sums) // 2 :]
                    sums = [self.combine(fold, *x) for x in zip(*halves, strict=True)]
                tile.store(row.index, sums[0])
        if few > 1:
            with self._whole_vectors(lanes):
                sums = [tile.load(i) for i in range(few)]
                while len(sums) > 1:
                    pairs = zip(sums[::2], sums[1::2], strict=True)
                    sums = [self.combine(fold, *x) for x in pairs]
                tile.store(0, sums[0])

    def _clear(self, tiles: Sequence[SumTile], lanes: int, first: int = 0) -> None:
        """Let the rows of tiles from the `first` one on hold no element."""
        for tile in tiles:
            with self.b.loop(first, tile.rows) as row, self._whole_vectors(lanes):
                start = self._start(tile.fold, lanes)
                tile.store(row.index, wide(start) if tile.wide else start)

    def _sum_few(
        self, nest: LoopNest, dims: Sequence[LoopVar], count: int, lanes: int
    ) -> None:
        """The sums of few rows, in registers."""
        b = self.b

        def add() -> None:
            terms: dict[Fold, list[Values]] = {f: [] for f in nest.folds}
            for number in range(count):
                with self.values.scope():
                    self._at_row(dims, b.const(I64, number))
                    self._store_all(nest.stores)
                    for fold, rows in terms.items():
                        rows.append([self.values.compute_lanes(x) for x in fold.inputs])
            for fold, rows in terms.items():
                start = self._start(fold, self.values.lanes)

                def both(x: Values, y: Values, fold: Fold = fold) -> Values:
                    return self.combine(fold, x, y, in_order=True)

                if fold.order in BLOCKED:
                    self._store_results(fold, self.order.total(rows, start, both))
                    continue
                for row in rows:
                    start = both(start, row)
                self._store_results(fold, start)

        self._over_columns(lanes, add)

    # ------------------------------------------------------------------ columns

    def _over_columns(self, lanes: int, body: Callable[[], None]) -> None:
        """The body for whole vectors, and under a mask for the columns left."""
        begin, end = self._bounds(self.column)
        masked = lanes > 1 and not is_multiple(self.column.extent, lanes)
        whole = self._whole(lanes) if masked else end
        with self._vectors_between((begin, whole), lanes, False):
            body()
        if masked:
            with self._vectors_between((whole, end), lanes, True):
                body()
