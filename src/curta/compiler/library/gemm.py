"""Matrix products in our own code: tiles of the result that stay in registers.

A tile is some rows by a few vectors of columns. All its sums are carried through one
loop over k; a step loads a row of B, broadcasts a column of A element by element,
multiplies and adds (Goto and van de Geijn, Anatomy of high-performance matrix
multiplication, 2008). Strides are constants of the code. Work is cut by shape alone:

    unit    one batch, a group of rows, one panel of columns
    chunk   some units, enough to be worth handing to a thread

A is read where it lies, either way up. So is B, unless it is transposed, or its rows
are so long that they would evict one another from the cache: then the panel of a unit
is packed first. Measured, this is as fast as OpenBLAS for large matrices and several
times faster for small, narrow and batched ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from itertools import groupby

from curta.compiler.library.packing import even_parts, pack, pack_transposed
from curta.compiler.library.routine import emit_chunks
from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I64, PTR, Type, Value
from curta.config import config
from curta.lazy_dataclass import dataclass

TILED = ("f32", "f64", "i32", "i64")
"""The kinds of which products are made here."""


@dataclass(frozen=True)
class Dot:
    """c[s,i,j] = sum over t of a[s,i,t] * b[s,t,j], each array contiguous.

    `a_transposed` means that a lies in memory as [s,t,i], `b_transposed` that b lies
    as [s,j,t]. `kind` is that of the elements: f32, f64, i32, i64; BLAS does c64, c128.
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


@dataclass(frozen=True)
class Blocking:
    """How a product is cut, by its shape and the width of a vector."""

    dot: Dot
    vector_bytes: int

    @property
    def size(self) -> int:
        return Type(self.dot.kind).size

    @property
    def lanes(self) -> int:
        return self.vector_bytes // self.size

    @property
    def packs_b(self) -> bool:
        long_rows = self.dot.n * self.size >= config.tuning.gemm_long_row
        return self.dot.b_transposed or (
            long_rows and self.dot.m >= config.tuning.gemm_packed_rows
        )

    @property
    def is_wide(self) -> bool:
        """Whether panels are wide, so that a large A is read less often."""
        row = self.dot.m if self.dot.a_transposed else self.dot.k
        return (
            row * self.size >= config.tuning.gemm_long_row
            and self.dot.n >= 8 * self.lanes
            and self.vector_bytes == 64
        )

    @property
    def width(self) -> int:
        """The columns of a panel."""
        return self.lanes * (4 if self.is_wide else 2)

    def tile_rows(self, columns: int) -> int:
        """The rows of a tile: its sums fill three quarters of the registers."""
        sums = 24 if self.vector_bytes == 64 else 12
        return sums // -(-columns // self.lanes)

    def heights(self, rows: int, columns: int) -> list[int]:
        """The rows of the tiles of a unit: all the same, if that is nearly as fast.

        Every height is code of its own, which takes milliseconds to compile. A panel
        that does not stay in the first-level cache wants tall tiles.
        """
        most = self.tile_rows(columns)
        stays = self.k_block * self.width * self.size <= config.tuning.gemm_panel_bytes
        least = most * 2 // 3 if stays else most * 5 // 6
        for height in range(most, least - 1, -1):
            if rows % height == 0:
                return [height] * (rows // height)
        return even_parts(rows, most)

    @cached_property
    def rows(self) -> int:
        """The rows of a unit; those of the last one may be fewer."""
        tile = self.tile_rows(min(self.width, self.dot.n))
        tuning = config.tuning
        most = tuning.gemm_wide_rows if self.is_wide else tuning.gemm_rows
        even = even_parts(self.dot.m, most)[0]
        return min(self.dot.m, -(-even // tile) * tile)

    @cached_property
    def k_block(self) -> int:
        """The steps of a block; the last one may be shorter, but not than a vector."""
        most = config.tuning.gemm_step_bytes // self.size
        if self.dot.k <= most * 3 // 2:
            return self.dot.k
        block = even_parts(self.dot.k, most)[0]
        while 0 < self.dot.k % block < self.lanes:
            block -= 1
        return block

    @property
    def panels(self) -> int:
        return -(-self.dot.n // self.width)

    @property
    def row_groups(self) -> int:
        return -(-self.dot.m // self.rows)

    @property
    def units(self) -> int:
        return self.dot.batch * self.row_groups * self.panels

    @property
    def units_per_chunk(self) -> int:
        if self.dot.work <= config.tuning.gemm_serial_work:
            return self.units
        return max(1, config.tuning.gemm_chunk_work * self.units // self.dot.work)


def emit_tiled(module: Module, name: str, dot: Dot) -> None:
    """Add `void name(ptr c, ptr a, ptr b, ptr parallel_for)` to the module.

    It wants the code generator's GOOD level: sums that spill to memory are useless. A
    transposed B needs the function of `packing.emit_transpose`, to be imported.
    """
    if min(dot.batch, dot.m, dot.n, dot.k) < 1 or dot.kind not in TILED:
        raise ValueError(f"no tiled code for {dot}")
    _Emitter(module, name, Blocking(dot, module.vector_bytes)).emit()


class _Emitter:
    """Writes the functions of one product."""

    def __init__(self, module: Module, name: str, blocking: Blocking) -> None:
        self.module = module
        self.name = name
        self.dot = blocking.dot
        self.cut = blocking
        self.element = Type(self.dot.kind)
        self.vector = Type(self.dot.kind, blocking.lanes)

    def emit(self) -> None:
        chunk = f"{self.name}.chunk"
        self._emit_chunk(chunk)
        chunks = -(-self.cut.units // self.cut.units_per_chunk)
        emit_chunks(self.module, self.name, chunk, 3, chunks)

    def _emit_chunk(self, name: str) -> None:
        """`void chunk(ptr table, i64 index)`: its units in turn."""
        cut = self.cut
        b = self.module.function(name, [PTR, I64], exported=False)
        table, index = b.arguments
        arrays = [b.load(PTR, b.offset(table, i, PTR)) for i in range(3)]
        packed = b.scratch(cut.k_block * cut.width * cut.size if cut.packs_b else 1)
        first = b.mul(index, cut.units_per_chunk)
        last = b.min(b.add(first, cut.units_per_chunk), cut.units)
        with b.loop(first, last) as loop:
            rest = b.udiv(loop.index, cut.panels)
            panel = b.urem(loop.index, cut.panels)
            group, batch = b.urem(rest, cut.row_groups), b.udiv(rest, cut.row_groups)
            self._emit_unit(b, [*arrays, packed], batch, group, panel)
        b.ret()

    def _emit_unit(
        self, b: Builder, arrays: Values, batch: Value, group: Value, panel: Value
    ) -> None:
        """The last panel and the last group of rows have code of their own."""
        dot, cut = self.dot, self.cut
        row, column = b.mul(group, cut.rows), b.mul(panel, cut.width)
        places = [
            b.add(b.mul(batch, dot.m * dot.n), b.add(b.mul(row, dot.n), column)),
            b.add(
                b.mul(batch, dot.m * dot.k), row if dot.a_transposed else row * dot.k
            ),
            b.add(
                b.mul(batch, dot.k * dot.n),
                b.mul(column, dot.k if dot.b_transposed else 1),
            ),
        ]
        starts = [
            b.offset(array, place, self.element)
            for array, place in zip(arrays[:3], places, strict=True)
        ]

        def with_columns(columns: int) -> None:
            emit = partial(self._emit_blocks, b, [*starts, arrays[3]], columns)
            by_part(b, group, cut.row_groups, dot.m, cut.rows, emit)

        by_part(b, panel, cut.panels, dot.n, cut.width, with_columns)

    def _emit_blocks(self, b: Builder, arrays: Values, columns: int, rows: int) -> None:
        """The blocks of k in turn: each adds to the sums of the one before."""
        k, block = self.dot.k, self.cut.k_block
        with b.loop(0, k, block) as loop:
            _Block(self, b, arrays, loop.index, (rows, columns)).emit()


class _Block:
    """Writes the part of a unit that is one block of k."""

    def __init__(
        self, emitter: _Emitter, b: Builder, arrays: Values, start: Value,
        size: tuple[int, int],
    ) -> None:  # fmt: skip
        self.b = b
        self.dot, self.cut = emitter.dot, emitter.cut
        self.element, self.vector = emitter.element, emitter.vector
        self.c, self.left, self.right, self.packed = arrays
        self.start = start
        self.rows, self.columns = size
        k, block = self.dot.k, self.cut.k_block
        self.steps = b.const(I64, block)
        if k % block:
            self.steps = b.min(b.sub(k, start), block)

    def _at(self, base: Value, *indices: Value | int) -> Value:
        """The address of the element whose index is the sum of some."""
        for index in indices:
            base = self.b.offset(base, index, self.element)
        return base

    def emit(self) -> None:
        """All tiles, those of equal height in a loop."""
        b, dot = self.b, self.dot
        panel = self._panel()
        row = 0
        for height, group in groupby(self.cut.heights(self.rows, self.columns)):
            end = row + height * len(list(group))
            with b.loop(row, end, height) as loop:
                c = self._at(self.c, b.mul(loop.index, dot.n))
                self._emit_tile(c, self._a_tile(loop.index), panel, height)
            row = end

    def _emit_tile(
        self, c: Value, a: tuple[Value, int, int], panel: tuple[Value, int], height: int
    ) -> None:
        """One tile; its sums go on from C after the first block of k."""
        b = self.b
        places = [
            (self._at(c, i * self.dot.n + j), self.columns - j)
            for i in range(height)
            for j in range(0, self.columns, self.cut.lanes)
        ]

        def zeros() -> Values:
            return [b.const(self.vector, 0) for _ in places]

        def so_far() -> Values:
            return [self._load(place, left) for place, left in places]

        sums = zeros()
        if self.dot.k > self.cut.k_block:
            sums = b.if_(b.eq(self.start, 0), zeros, so_far)
        a_start, a_row, a_step = a
        with b.loop(0, self.steps, carried=sums) as loop:
            vectors = self._b_row(panel, loop.index)
            left = self._at(a_start, b.mul(loop.index, a_step))
            following: Values = []
            for i in range(height):
                x = b.load(self.element, self._at(left, i * a_row))
                spread = b.splat(x, self.cut.lanes)
                for vector in vectors:
                    total = loop.carried[len(following)]
                    following.append(b.muladd(spread, vector, total))
            loop.next(*following)
        for (place, lanes), total in zip(places, loop.results, strict=True):
            self._store(total, place, lanes)

    def _a_tile(self, row: Value) -> tuple[Value, int, int]:
        """Where the tile's part of A begins, and how far its rows and steps lie."""
        b, dot = self.b, self.dot
        if dot.a_transposed:
            return self._at(self.left, b.mul(self.start, dot.m), row), 1, dot.m
        return self._at(self.left, b.mul(row, dot.k), self.start), dot.k, 1

    def _b_row(self, panel: tuple[Value, int], step: Value) -> Values:
        base, b_row = panel
        row = self._at(base, self.b.mul(step, b_row))
        # A packed panel has all its lanes.
        width = self.cut.width if self.cut.packs_b else self.columns
        return [
            self._load(self._at(row, j), width - j)
            for j in range(0, self.columns, self.cut.lanes)
        ]

    def _panel(self) -> tuple[Value, int]:
        """Where the panel begins and how far its rows lie apart; packed if need be."""
        b, dot, width = self.b, self.dot, self.cut.width
        if not self.cut.packs_b:
            return self._at(self.right, b.mul(self.start, dot.n)), dot.n
        if dot.b_transposed:
            copy, source = pack_transposed, (self._at(self.right, self.start), dot.k)
        else:
            place = self._at(self.right, b.mul(self.start, dot.n))
            copy, source = pack, (place, dot.n)
        to = (self.packed, width)
        copy(b, self.vector, to, source, self.columns, self.steps)
        return to

    def _load(self, place: Value, left: int) -> Value:
        """A vector, or as many lanes as are left; zero in the others."""
        if left >= self.cut.lanes:
            return self.b.load(self.vector, place)
        return self.b.masked_load(self.vector, place, self._mask(left))

    def _store(self, value: Value, place: Value, left: int) -> None:
        if left >= self.cut.lanes:
            self.b.store(value, place)
        else:
            self.b.masked_store(value, place, self._mask(left))

    def _mask(self, left: int) -> Value:
        lanes = range(self.cut.lanes)
        return self.b.vector(self.vector.as_mask, [i < left for i in lanes])


def by_part(
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
