"""Sums along columns in the order of blocks (loops/summation.py).

The accumulators of a block are the rows of a tile in memory: row `i` of the block is
added to row `i % lanes` of the tile, whose rows are then added up in pairs. Vectors go
along the columns. Few rows are added up in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.expressions import Evaluator
from curta.compiler.llvm.nest_body import NestLoops, Values, by_fold, wide
from curta.compiler.llvm.scalar_instructions import kind
from curta.compiler.llvm.types import I64, Type, Value
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Fold, LoopNest
from curta.compiler.loops.schedule import Schedule, has_few_rows, is_light, order_of
from curta.compiler.loops.summation import BLOCKED, SumOrder, count_of, sum_order
from curta.config import config
from curta.core.dim import is_multiple

Bounds = tuple[Value, Value]


class SummingColumns(NestLoops):
    """Writes the nests whose folds add up in blocks, for a piece of the columns."""

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
        self.order: SumOrder = sum_order(b.module.vector_bytes)

    def _sum_columns(self, nest: LoopNest, dims: Sequence[LoopVar], lanes: int) -> None:
        count = count_of([v.extent for v in dims])
        self.order = order_of(nest, self.b.module.vector_bytes)
        inside = [self.column, *dims, *(s.buffer for s in nest.stores)]
        self.values.hoist(nest.body, inside, 1)
        if has_few_rows(nest):
            return self._sum_few(nest, dims, count, lanes)
        columns = self.column.extent
        if self.plan.split == self.column:
            columns = self.plan.piece
        pitch = -(-columns // lanes) * lanes
        rows = self.order.accumulators(count)
        strips = self.order.in_strips
        tiles = {
            f: Tile(self, f, rows, pitch, wide=strips)
            if f.order in BLOCKED
            else Tile(self, f, 1, pitch)
            for f in nest.folds
        }
        if self.order.is_one_block(count):
            self._clear([*tiles.values()], lanes)
            self._add_block(nest, dims, tiles, (0, count), lanes)
        else:
            self._add_blocks(nest, dims, tiles, count, lanes)
            tiles.update((f, t.total) for f, t in tiles.items() if t.total is not None)
        for fold, tile in tiles.items():
            with self._each_vector(lanes):
                self._store_results(fold, tile.load(0))

    def _rounded(self, fold: Fold, sums: Values) -> Values:
        """Sums in the dtype of the fold."""
        kinds = [kind(c.dtype) for c in fold.initial]
        return [self.b.convert(x, k) for x, k in zip(sums, kinds, strict=True)]

    def _add_blocks(
        self,
        nest: LoopNest,
        dims: Sequence[LoopVar],
        tiles: dict[Fold, Tile],
        count: int,
        lanes: int,
    ) -> None:
        """All blocks of many rows: each is joined to those before it."""
        b, size = self.b, self.order.block
        blocked = [t for f, t in tiles.items() if f.order in BLOCKED]
        for tile in blocked:
            tile.total = Tile(self, tile.fold, 1, tile.pitch, wide=True)
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
                    # Sums of strips are rounded at the end of a block.
                    sums = self._rounded(tile.fold, tile.load(0))
                    total.store(0, self._joined(tile.fold, total.load(0), sums))

    def _add_block(
        self,
        nest: LoopNest,
        dims: Sequence[LoopVar],
        tiles: dict[Fold, Tile],
        bounds: tuple[Value | int, Value | int],
        lanes: int,
    ) -> None:
        """Add rows up in their tiles; the sums are then in the first row of each."""
        if self.order.in_strips:
            return self._add_strips(nest, dims, tiles, bounds, lanes)
        b, height = self.b, self.order.lanes
        first, last = (b.operand(x, I64) for x in bounds)
        # Some rows to each of two rows of a tile.
        most = config.tuning.rows_at_once // (2 if is_light(nest) else 4)
        deep = max(1, most)
        group = deep * height
        tail = b.urem(b.sub(last, first), group)
        whole = b.sub(last, tail)
        with b.loop(first, whole, group) as start:
            with b.loop(0, height, 2) as row:
                at = [b.add(row.index, i) if i else row.index for i in range(2)]
                rows = [
                    (x, [b.add(b.add(start.index, x), k * height) for k in range(deep)])
                    for x in at
                ]
                self._add_rows_to_tiles(nest, dims, tiles, rows, lanes)
        with b.loop(whole, last) as rest:
            at_row = b.urem(b.sub(rest.index, first), height)
            rows = [(at_row, [rest.index])]
            self._add_rows_to_tiles(nest, dims, tiles, rows, lanes)
        for tile in tiles.values():
            self._add_up(tile, lanes)

    def _add_rows_to_tiles(
        self,
        nest: LoopNest,
        dims: Sequence[LoopVar],
        tiles: dict[Fold, Tile],
        rows: Sequence[tuple[Value, Sequence[Value]]],
        lanes: int,
    ) -> None:
        """Add rows to rows of the tiles, several to each."""

        def add() -> None:
            for at, numbers in rows:
                kept = {f: t.load(at) for f, t in tiles.items()}
                for number in numbers:
                    with self.values.scope():
                        self._at_row(dims, number)
                        self._store_all(nest.stores)
                        for f in tiles:
                            inputs = [self.values.compute_lanes(x) for x in f.inputs]
                            kept[f] = self.combine(f, kept[f], inputs, in_order=True)
                for f, t in tiles.items():
                    t.store(at, kept[f])

        self._over_columns(lanes, add)

    def _add_strips(
        self,
        nest: LoopNest,
        dims: Sequence[LoopVar],
        tiles: dict[Fold, Tile],
        bounds: tuple[Value | int, Value | int],
        lanes: int,
    ) -> None:
        """Add rows up, strip by strip.

        A light body adds some rows along all columns, and then those that are left of
        the strip: more at once would compete for few sets of the cache.
        """
        b, steps = self.b, self.order.steps
        first, last = (b.operand(x, I64) for x in bounds)
        tail = b.urem(b.sub(last, first), steps)
        together = config.tuning.rows_at_once if is_light(nest) else 1
        if steps % together:
            together = 1
        rows = [Tile(self, f, 1, t.pitch) for f, t in tiles.items()]
        with b.loop(first, b.sub(last, tail), steps) as strip:
            end = b.add(strip.index, steps)
            parts = max(1, steps // together) if together > 1 else 1
            for i in range(parts):
                start = b.add(strip.index, i * together) if i else strip.index
                stop = b.add(start, together) if parts > 1 else end
                memory = rows if parts > 1 else None
                ends = i == 0, i == parts - 1

                def add(
                    bounds: Bounds = (start, stop),
                    memory: list[Tile] | None = memory,
                    ends: tuple[bool, bool] = ends,
                ) -> None:
                    self._add_strip(nest, dims, tiles, bounds, together, memory, ends)

                self._over_columns(lanes, add, rest=False)
            bounds_of_strip = strip.index, end
            self._over_rest(
                lanes,
                lambda: self._add_strip(nest, dims, tiles, bounds_of_strip, together),
            )
        left = b.sub(last, tail), last
        with b.when(tail > 0):
            self._over_columns(
                lanes, lambda: self._add_strip(nest, dims, tiles, left, 1)
            )

    def _add_strip(
        self,
        nest: LoopNest,
        dims: Sequence[LoopVar],
        tiles: dict[Fold, Tile],
        bounds: Bounds,
        together: int,
        memory: Sequence[Tile] | None = None,
        ends: tuple[bool, bool] = (True, True),
    ) -> None:
        """Add rows of a strip, several at once; at its end to the strips before it.

        A part that is not both the first and the last is kept in `memory` between.
        """
        b, lanes = self.b, self.values.lanes
        begins, is_last = ends
        sums = []
        for i, (f, t) in enumerate(tiles.items()):
            if f.order not in BLOCKED:
                sums.append(t.load(0))
            elif begins or memory is None:
                sums.append(self._start(f, lanes))
            else:
                sums.append(memory[i].load(0))
        with b.loop(*bounds, together, sum(sums, [])) as loop:
            kept = by_fold([*tiles], loop.carried)
            for i in range(together):
                with self.values.scope():
                    self._at_row(dims, b.add(loop.index, i) if i else loop.index)
                    self._store_all(nest.stores)
                    for k, f in enumerate(tiles):
                        inputs = [self.values.compute_lanes(x) for x in f.inputs]
                        kept[k] = self.combine(f, kept[k], inputs, in_order=True)
            loop.next(*sum(kept, []))
        found = by_fold([*tiles], loop.results)
        for i, ((f, t), own) in enumerate(zip(tiles.items(), found, strict=True)):
            if f.order not in BLOCKED:
                t.store(0, own)
            elif is_last or memory is None:
                t.store(0, self._joined(f, t.load(0), own))
            else:
                memory[i].store(0, own)

    def _at_row(self, dims: Sequence[LoopVar], number: Value) -> None:
        """Bind the variables of a row, by its number along all dims."""
        for variable in reversed(dims[1:]):
            self.values.bind(variable, self.b.urem(number, variable.extent))
            number = self.b.udiv(number, variable.extent)
        self.values.bind(dims[0], number)

    def _add_up(self, tile: Tile, lanes: int) -> None:
        """The rows of a tile as one: halves, then neighbours."""
        b, order, rows = self.b, self.order, tile.rows
        halves = max(0, rows.bit_length() - order.register.bit_length())
        left = b.const(I64, rows)
        with b.loop(0, halves, carried=[left]) as level:
            half = b.udiv(level.carried[0], 2)
            with b.loop(0, half) as row:
                self._pair(tile, row.index, row.index, b.add(row.index, half), lanes)
            level.next(half)
        left = level.results[0]
        pairs = min(rows, order.register).bit_length() - 1
        with b.loop(0, pairs, carried=[left]) as level:
            half = b.udiv(level.carried[0], 2)
            with b.loop(0, half) as row:
                even = b.mul(row.index, 2)
                self._pair(tile, row.index, even, b.add(even, 1), lanes)
            level.next(half)

    def _pair(self, tile: Tile, to: Value, x: Value, y: Value, lanes: int) -> None:
        with self._whole_vectors(lanes):
            tile.store(to, self.combine(tile.fold, tile.load(x), tile.load(y)))

    def _clear(self, tiles: Sequence[Tile], lanes: int) -> None:
        for tile in tiles:
            with self.b.loop(0, tile.rows) as row, self._whole_vectors(lanes):
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

    def _over_columns(
        self, lanes: int, body: Callable[[], None], rest: bool = True
    ) -> None:
        """The body for whole vectors, and for the columns left, if `rest`."""
        begin, end = self._bounds(self.column)
        with self._vectors_between((begin, self._whole(lanes)), lanes, False):
            body()
        if rest:
            self._over_rest(lanes, body)

    def _over_rest(self, lanes: int, body: Callable[[], None]) -> None:
        """The body under a mask, for the columns left after whole vectors."""
        if lanes > 1 and not is_multiple(self.column.extent, lanes):
            _, end = self._bounds(self.column)
            with self._vectors_between((self._whole(lanes), end), lanes, True):
                body()

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
    """Rows of accumulators of a piece of the columns, or their `wide` totals."""

    def __init__(
        self,
        nests: SummingColumns,
        fold: Fold,
        rows: int,
        pitch: int,
        wide: bool = False,
    ) -> None:
        self.nests, self.fold, self.rows, self.pitch = nests, fold, rows, pitch
        self.wide = wide
        kinds = ["f64" if wide else _memory(kind(c.dtype)) for c in fold.initial]
        self.types: list[Type] = [Type(k) for k in kinds]
        scratch = nests.b.scratch
        self.pointers: Values = [scratch(rows * pitch * t.size) for t in self.types]
        self.total: Tile | None = None

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
        """A vector of accumulators of a row, at the current columns."""
        b, lanes = self.nests.b, self.nests.values.lanes
        vectors = [b.load(t.with_lanes(lanes), p) for p, t in self._addresses(row)]
        if self.wide:
            return vectors
        kinds = [kind(c.dtype) for c in self.fold.initial]
        return [b.convert(x, k) for x, k in zip(vectors, kinds, strict=True)]

    def store(self, row: Value | int, values: Values) -> None:
        """Store a vector of accumulators of a row."""
        for (pointer, t), x in zip(self._addresses(row), values, strict=True):
            value = self.nests.b.convert(self.nests.values.spread(x), t.kind)
            self.nests.b.store(value, pointer)


def _memory(name: str) -> str:
    return "i8" if name == "i1" else name
