"""Matrix products in our own code: tiles of the result that stay in registers.

A tile is some rows by a few vectors of columns. All its sums are carried through one
loop over k; a step loads a row of B, broadcasts a column of A element by element,
multiplies and adds (Goto and van de Geijn, Anatomy of high-performance matrix
multiplication, 2008). Strides are constants of the code. Work is cut by shape alone:

    unit    one batch, a group of rows, one panel of columns
    chunk   some units, enough to be worth handing to a thread

B is packed into a contiguous panel for each unit when it is transposed, or so wide that
its rows would evict one another from the cache. A is read where it lies, either way up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I64, PTR, Type, Value

_PANEL_VECTORS = 2
# Steps over k after which a panel of B would leave the first-level cache.
_K_BLOCK = 256
# Rows of B that are so many bytes apart share few sets of the cache.
_WIDE_ROW = 2048
_ROWS_PER_UNIT = 192
_ROWS_WORTH_PACKING = 24
_CHUNK_WORK = 1 << 20  # multiplications that are worth a chunk
_SERIAL_WORK = 1 << 20  # up to which no thread is woken


@dataclass(frozen=True)
class Dot:
    """c[s,i,j] = sum over t of a[s,i,t] * b[s,t,j], each array contiguous.

    `a_transposed` means that a lies in memory as [s,t,i], `b_transposed` that b lies
    as [s,j,t]. `kind` is that of the elements: f32, f64 (BLAS also does c64, c128).
    """

    batch: int
    m: int
    n: int
    k: int
    kind: str
    a_transposed: bool = False
    b_transposed: bool = False

    @property
    def work(self) -> int:
        """The number of multiplications."""
        return self.batch * self.m * self.n * self.k


def emit_tiled(module: Module, name: str, dot: Dot) -> None:
    """Add `void name(ptr c, ptr a, ptr b, ptr parallel_for)` to the module.

    It wants the code generator's GOOD level: sums that spill to memory are useless.
    """
    if min(dot.batch, dot.m, dot.n, dot.k) < 1 or dot.kind not in ("f32", "f64"):
        raise ValueError(f"no tiled code for {dot}")
    _Emitter(module, name, dot).emit()


class _Emitter:
    """Writes the functions of one product."""

    def __init__(self, module: Module, name: str, dot: Dot) -> None:
        self.module = module
        self.name = name
        self.dot = dot
        self.element = Type(dot.kind)
        self.lanes = module.vector_bytes // self.element.size
        self.vector = Type(dot.kind, self.lanes)
        self.a_row, self.a_step = (1, dot.m) if dot.a_transposed else (dot.k, 1)
        self.width = _PANEL_VECTORS * self.lanes
        self.panels = -(-dot.n // self.width)
        tile = self._tile_rows(min(_PANEL_VECTORS, -(-dot.n // self.lanes)))
        self.rows = min(dot.m, _ROWS_PER_UNIT // tile * tile)
        self.groups = -(-dot.m // self.rows)
        self.k_block = dot.k if dot.k <= _K_BLOCK * 3 // 2 else _K_BLOCK
        far_apart = dot.n * self.element.size >= _WIDE_ROW
        worth_it = dot.m > _ROWS_WORTH_PACKING
        self.packed = dot.b_transposed or (far_apart and worth_it)
        self.units = dot.batch * self.panels * self.groups
        grain = max(1, _CHUNK_WORK * self.units // dot.work)
        self.grain = self.units if dot.work <= _SERIAL_WORK else grain

    def _tile_rows(self, vectors: int) -> int:
        """The rows of a tile: the sums fill three quarters of the registers."""
        return (24 if self.module.vector_bytes == 64 else 12) // vectors

    # ----------------------------------------------------------- chunks, units

    def emit(self) -> None:
        chunk = f"{self.name}.chunk"
        self._emit_chunk(chunk)
        b = self.module.function(self.name, [PTR, PTR, PTR, PTR])
        *arrays, launcher = b.arguments
        table = b.scratch(24, align=8)
        for i, array in enumerate(arrays):
            b.store(array, b.offset(table, i, PTR))
        chunks = -(-self.units // self.grain)
        if chunks == 1:
            b.call(chunk, None, table, b.const(I64, 0))
        else:
            code = b.function_address(chunk)
            b.call(launcher, None, code, table, b.const(I64, chunks))
        b.ret()

    def _emit_chunk(self, name: str) -> None:
        """`void chunk(ptr table, i64 index)`: its units in turn."""
        b = self.module.function(name, [PTR, I64], exported=False)
        table, index = b.arguments
        arrays = [b.load(PTR, b.offset(table, i, PTR)) for i in range(3)]
        first = b.mul(index, self.grain)
        last = b.min(b.add(first, self.grain), self.units)
        with b.loop(first, last) as loop:
            rest = b.udiv(loop.index, self.panels)
            panel = b.urem(loop.index, self.panels)
            group = b.urem(rest, self.groups)
            batch = b.udiv(rest, self.groups)
            self._emit_unit(b, arrays, batch, group, panel)
        b.ret()

    def _emit_unit(
        self, b: Builder, arrays: Values, batch: Value, group: Value, panel: Value
    ) -> None:
        """The last panel and the last group of rows have code of their own."""
        dot = self.dot
        c, left, right = arrays
        row, column = b.mul(group, self.rows), b.mul(panel, self.width)
        place = b.add(b.mul(batch, dot.m * dot.n), b.add(b.mul(row, dot.n), column))
        c = b.offset(c, place, self.element)
        place = b.add(b.mul(batch, dot.m * dot.k), b.mul(row, self.a_row))
        left = b.offset(left, place, self.element)
        step = dot.k if dot.b_transposed else 1
        place = b.add(b.mul(batch, dot.k * dot.n), b.mul(column, step))
        right = b.offset(right, place, self.element)

        def with_columns(columns: int) -> None:
            emit = partial(self._emit_case, b, (c, left, right), columns)
            _by_part(b, group, self.groups, dot.m, self.rows, emit)

        _by_part(b, panel, self.panels, dot.n, self.width, with_columns)

    def _emit_case(
        self, b: Builder, arrays: tuple[Value, Value, Value], columns: int, rows: int
    ) -> None:
        """A unit of so many columns and rows: blocks of k, and the tiles of each."""
        c, left, right = arrays
        k, block = self.dot.k, self.k_block
        packed = b.scratch(block * self.width * self.element.size)
        with b.loop(0, k, block) as loop:
            start = loop.index
            steps = b.min(b.sub(k, start), block) if k % block else b.const(I64, block)
            a = b.offset(left, b.mul(start, self.a_step), self.element)
            if self.packed:
                self._pack(b, packed, right, start, steps, columns)
                panel, row = packed, self.width
            else:
                place = b.mul(start, self.dot.n)
                panel, row = b.offset(right, place, self.element), self.dot.n
            first = b.eq(start, 0) if k > block else None
            self._emit_tiles(b, (c, a, panel), row, steps, first, (rows, columns))

    def _emit_tiles(
        self, b: Builder, arrays: tuple[Value, Value, Value], b_row: int,
        steps: Value, first: Value | None, size: tuple[int, int],
    ) -> None:  # fmt: skip
        """All tiles of a panel, those of equal height in a loop."""
        c, a, panel = arrays
        rows, columns = size
        done = 0
        heights = _even_parts(rows, self._tile_rows(-(-columns // self.lanes)))
        for height, group in groupby(heights):
            count = len(list(group))
            with b.loop(0, count) as loop:
                row = b.add(b.mul(loop.index, height), done)
                tile_c = b.offset(c, b.mul(row, self.dot.n), self.element)
                tile_a = b.offset(a, b.mul(row, self.a_row), self.element)
                tile = tile_c, tile_a, panel
                self._emit_tile(b, tile, b_row, steps, first, (height, columns))
            done += count * height

    # ------------------------------------------------------------------- tiles

    def _emit_tile(
        self, b: Builder, arrays: tuple[Value, Value, Value], b_row: int,
        steps: Value, first: Value | None, size: tuple[int, int],
    ) -> None:  # fmt: skip
        """One tile over one block of k; its sums go on from C after the first."""
        c, a, panel = arrays
        height, columns = size
        starts = range(0, columns, self.lanes)
        places = [(i, j) for i in range(height) for j in starts]

        def at(i: int, j: int) -> Value:
            return b.offset(c, i * self.dot.n + j, self.element)

        def zeros() -> Values:
            return [b.const(self.vector, 0) for _ in places]

        def so_far() -> Values:
            return [self._load(b, at(i, j), columns - j) for i, j in places]

        sums = zeros() if first is None else b.if_(first, zeros, so_far)
        with b.loop(0, steps, carried=sums) as loop:
            right = b.offset(panel, b.mul(loop.index, b_row), self.element)
            left = b.offset(a, b.mul(loop.index, self.a_step), self.element)
            full = columns if b_row == self.dot.n else self.width
            vectors = [
                self._load(b, b.offset(right, j, self.element), full - j)
                for j in starts
            ]
            following: Values = []
            for i in range(height):
                x = b.load(self.element, b.offset(left, i * self.a_row, self.element))
                spread = b.splat(x, self.lanes)
                for vector in vectors:
                    total = loop.carried[len(following)]
                    following.append(b.muladd(spread, vector, total))
            loop.next(*following)
        for (i, j), total in zip(places, loop.results, strict=True):
            self._store(b, total, at(i, j), columns - j)

    def _load(self, b: Builder, place: Value, left: int) -> Value:
        """A vector, or as many lanes as are left; zero in the others."""
        if left >= self.lanes:
            return b.load(self.vector, place)
        return b.masked_load(self.vector, place, self._mask(b, left))

    def _store(self, b: Builder, value: Value, place: Value, left: int) -> None:
        if left >= self.lanes:
            b.store(value, place)
        else:
            b.masked_store(value, place, self._mask(b, left))

    def _mask(self, b: Builder, left: int) -> Value:
        return b.vector(self.vector.as_mask, [i < left for i in range(self.lanes)])

    # ----------------------------------------------------------------- packing

    def _pack(
        self, b: Builder, packed: Value, right: Value, start: Value, steps: Value,
        columns: int,
    ) -> None:  # fmt: skip
        """Copy a block of a panel to rows of `width` elements."""
        if self.dot.b_transposed:
            right = b.offset(right, start, self.element)
            for j in range(0, columns, self.lanes):
                to = b.offset(packed, j, self.element)
                rows = b.offset(right, j * self.dot.k, self.element)
                self._pack_transposed(b, to, rows, steps, min(columns - j, self.lanes))
            return
        with b.loop(0, steps) as loop:
            place = b.mul(b.add(start, loop.index), self.dot.n)
            row = b.offset(right, place, self.element)
            to = b.offset(packed, b.mul(loop.index, self.width), self.element)
            for j in range(0, columns, self.lanes):
                value = self._load(b, b.offset(row, j, self.element), columns - j)
                b.store(value, b.offset(to, j, self.element))

    def _pack_transposed(
        self, b: Builder, to: Value, rows: Value, steps: Value, count: int
    ) -> None:
        """Turn squares; the last one may overlap the one before.

        Missing rows are read as the last one: their columns of C are not stored.
        """
        lanes, k = self.lanes, self.dot.k
        offsets = [min(i, count - 1) * k for i in range(lanes)]
        if k < lanes or (k % self.k_block and k % self.k_block < lanes):
            index = b.vector(I64.with_lanes(lanes), offsets)
            with b.loop(0, steps) as loop:
                place = b.offset(rows, loop.index, self.element)
                row = b.gather(self.vector, b.offset(place, index, self.element))
                step = b.mul(loop.index, self.width)
                b.store(row, b.offset(to, step, self.element))
            return
        with b.loop(0, steps, lanes) as loop:
            start = b.min(loop.index, b.sub(steps, lanes))
            place = b.offset(rows, start, self.element)
            square = [
                b.load(self.vector, b.offset(place, o, self.element)) for o in offsets
            ]
            for i, row in enumerate(_transposed(b, square)):
                step = b.mul(b.add(start, i), self.width)
                b.store(row, b.offset(to, step, self.element))


def _by_part(
    b: Builder, index: Value, count: int, total: int, size: int,
    emit: Callable[[int], None],
) -> None:  # fmt: skip
    """Emit code for parts of a size and, if it is smaller, for the last one."""
    last = total - (count - 1) * size
    if count == 1 or last == size:
        emit(last)
        return

    def branch(part: int) -> Values:
        emit(part)
        return []

    b.if_(b.eq(index, count - 1), lambda: branch(last), lambda: branch(size))


def _even_parts(total: int, most: int) -> list[int]:
    """`total` in as few parts as can be, of almost equal size, the larger first."""
    count = -(-total // most)
    size, larger = divmod(total, count)
    return [size + 1] * larger + [size] * (count - larger)


def _transposed(b: Builder, square: Values) -> Values:
    """The columns of as many vectors as they have lanes, by swapping blocks."""
    lanes = len(square)
    rows = list(square)
    distance = lanes // 2
    while distance:
        for i in range(lanes):
            if i & distance:
                continue
            x, y = rows[i], rows[i + distance]
            low = [
                c if not c & distance else lanes + c - distance for c in range(lanes)
            ]
            high = [
                c + distance if not c & distance else lanes + c for c in range(lanes)
            ]
            rows[i] = b.shuffle(x, y, low)
            rows[i + distance] = b.shuffle(x, y, high)
        distance //= 2
    return rows
