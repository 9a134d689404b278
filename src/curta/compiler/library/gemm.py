"""Matrix products in our own code: tiles of the result that stay in registers.

A tile is some rows by a few vectors of columns. All its sums are carried through one
loop over k; a step loads a row of B, broadcasts a column of A element by element,
multiplies and adds (Goto and van de Geijn, Anatomy of high-performance matrix
multiplication, 2008). Strides are constants of the code. Work is cut by shape alone:

    unit    one batch, a group of rows, a group of panels of columns
    chunk   some units, enough to be worth handing to a thread

Small matrices are read where they lie. Where the rows of one are so long that they
would evict one another from the cache, it is packed first (`packing.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby

from curta.compiler.library.packing import (
    even_parts,
    pack_columns,
    pack_rows,
    pack_transposed_columns,
    pack_transposed_rows,
)
from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I64, PTR, Type, Value

_K_BYTES = 1024  # of a row of A, after which a panel of B would leave the cache
_FAR_APART = 2048  # bytes between rows that make them share few sets of the cache
_SMALL_ROWS, _LARGE_ROWS = 192, 384  # of a unit, without and with a packed A
_PANELS = 8  # of a unit with a packed A
_WORTH_PACKING = 32  # rows (columns) that must share a packed B (A)
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


@dataclass(frozen=True)
class Blocking:
    """How a product is cut, by its shape and the width of a vector."""

    dot: Dot
    vector_bytes: int

    @property
    def size(self) -> int:
        return 4 if self.dot.kind == "f32" else 8

    @property
    def lanes(self) -> int:
        return self.vector_bytes // self.size

    @property
    def packs_a(self) -> bool:
        """Whether many columns share an A with long rows."""
        row = self.dot.m if self.dot.a_transposed else self.dot.k
        shared = self.dot.n > 4 * self.lanes * 2 and self.dot.m >= _WORTH_PACKING
        return row * self.size >= _FAR_APART and self.dot.k >= self.lanes and shared

    @property
    def packs_b(self) -> bool:
        far_apart = self.dot.n * self.size >= _FAR_APART
        return self.dot.b_transposed or (far_apart and self.dot.m >= _WORTH_PACKING)

    @property
    def width(self) -> int:
        """The columns of a panel: wide ones where A must come from afar."""
        return self.lanes * (4 if self.packs_a and self.vector_bytes == 64 else 2)

    def tile_rows(self, columns: int) -> int:
        """The rows of a tile: its sums fill three quarters of the registers."""
        sums = 24 if self.vector_bytes == 64 else 12
        return sums // -(-columns // self.lanes)

    @cached_property
    def rows(self) -> int:
        """The rows of a unit; those of the last one may be fewer."""
        most = _LARGE_ROWS if self.packs_a else _SMALL_ROWS
        tile = self.tile_rows(min(self.width, self.dot.n))
        even = even_parts(self.dot.m, most)[0]
        return min(self.dot.m, -(-even // tile) * tile)

    @cached_property
    def k_block(self) -> int:
        """The steps of a block; the last one may be shorter, but not than a vector."""
        most = _K_BYTES // self.size
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
    def panels_per_unit(self) -> int:
        return even_parts(self.panels, _PANELS)[0] if self.packs_a else 1

    @property
    def row_groups(self) -> int:
        return -(-self.dot.m // self.rows)

    @property
    def panel_groups(self) -> int:
        return -(-self.panels // self.panels_per_unit)

    @property
    def units(self) -> int:
        return self.dot.batch * self.row_groups * self.panel_groups

    @property
    def units_per_chunk(self) -> int:
        if self.dot.work <= _SERIAL_WORK:
            return self.units
        return max(1, _CHUNK_WORK * self.units // self.dot.work)


def emit_tiled(module: Module, name: str, dot: Dot) -> None:
    """Add `void name(ptr c, ptr a, ptr b, ptr parallel_for)` to the module.

    It wants the code generator's GOOD level (sums that spill to memory are useless),
    and the functions `malloc` and `free`.
    """
    if min(dot.batch, dot.m, dot.n, dot.k) < 1 or dot.kind not in ("f32", "f64"):
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
        b = self.module.function(self.name, [PTR, PTR, PTR, PTR])
        *arrays, launcher = b.arguments
        table = b.scratch(24, align=8)
        for i, array in enumerate(arrays):
            b.store(array, b.offset(table, i, PTR))
        chunks = -(-self.cut.units // self.cut.units_per_chunk)
        if chunks == 1:
            b.call(chunk, None, table, b.const(I64, 0))
        else:
            code = b.function_address(chunk)
            b.call(launcher, None, code, table, b.const(I64, chunks))
        b.ret()

    # ----------------------------------------------------------- chunks, units

    def _emit_chunk(self, name: str) -> None:
        """`void chunk(ptr table, i64 index)`: its units in turn."""
        cut = self.cut
        b = self.module.function(name, [PTR, I64], exported=False)
        table, index = b.arguments
        arrays = [b.load(PTR, b.offset(table, i, PTR)) for i in range(3)]
        first = b.mul(index, cut.units_per_chunk)
        last = b.min(b.add(first, cut.units_per_chunk), cut.units)
        scratch = self._allocate(b)
        with b.loop(first, last) as loop:
            rest = b.udiv(loop.index, cut.panel_groups)
            panels = b.urem(loop.index, cut.panel_groups)
            group, batch = b.urem(rest, cut.row_groups), b.udiv(rest, cut.row_groups)
            self._emit_unit(b, arrays, scratch, batch, group, panels)
        if cut.packs_a:
            b.call("free", None, scratch[0])
        b.ret()

    def _allocate(self, b: Builder) -> tuple[Value, Value]:
        """Places for packed A and packed B; the small one is on the stack."""
        cut = self.cut
        panel = cut.k_block * cut.width * cut.size
        if not cut.packs_a:
            place = b.scratch(panel) if cut.packs_b else Value("null", PTR, b)
            return place, place
        group = cut.rows * cut.k_block * cut.size
        place = b.call("malloc", PTR, b.const(I64, group + panel + 128))
        return place, b.offset(place, (group + 64) // cut.size, self.element)

    def _emit_unit(
        self, b: Builder, arrays: Values, scratch: tuple[Value, Value],
        batch: Value, group: Value, panels: Value,
    ) -> None:  # fmt: skip
        """Blocks of k; the last group of rows has code of its own."""
        dot, cut = self.dot, self.cut
        sizes = dot.m * dot.n, dot.m * dot.k, dot.k * dot.n
        c, left, right = (
            b.offset(array, b.mul(batch, size), self.element)
            for array, size in zip(arrays, sizes, strict=True)
        )
        row = b.mul(group, cut.rows)
        c = b.offset(c, b.mul(row, dot.n), self.element)
        place = row if dot.a_transposed else b.mul(row, dot.k)
        left = b.offset(left, place, self.element)
        first = b.mul(panels, cut.panels_per_unit)

        def with_rows(rows: int) -> None:
            with b.loop(0, dot.k, cut.k_block) as loop:
                block = _Block(self, b, (c, left, right), scratch, loop.index, rows)
                block.emit(first)

        _by_part(b, group, cut.row_groups, dot.m, cut.rows, with_rows)


class _Block:
    """Writes the part of a unit that is one block of k, for so many rows."""

    def __init__(
        self, emitter: _Emitter, b: Builder, arrays: tuple[Value, Value, Value],
        scratch: tuple[Value, Value], start: Value, rows: int,
    ) -> None:  # fmt: skip
        self.dot, self.cut = emitter.dot, emitter.cut
        self.element, self.vector = emitter.element, emitter.vector
        self.b = b
        self.c, self.left, self.right = arrays
        self.packed_a, self.packed_b = scratch
        self.start = start
        self.rows = rows
        k, block = self.dot.k, self.cut.k_block
        self.steps = b.const(I64, block)
        if k % block:
            self.steps = b.min(b.sub(k, start), block)

    def _at(self, base: Value, *indices: Value | int) -> Value:
        """The address of the element whose index is the sum of some."""
        for index in indices:
            base = self.b.offset(base, index, self.element)
        return base

    def emit(self, first: Value) -> None:
        """Pack A if need be, then the panels from the first on."""
        b, cut = self.b, self.cut
        if cut.packs_a:
            self._pack_a()
        end = b.min(b.add(first, cut.panels_per_unit), cut.panels)
        if cut.panels_per_unit == 1:
            self._emit_panel(first)
        else:
            with b.loop(first, end) as loop:
                self._emit_panel(loop.index)

    def _emit_panel(self, panel: Value) -> None:
        emit = partial(self._emit_columns, self.b.mul(panel, self.cut.width))
        _by_part(self.b, panel, self.cut.panels, self.dot.n, self.cut.width, emit)

    def _emit_columns(self, column: Value, columns: int) -> None:
        """All tiles of a panel, those of equal height in a loop."""
        b, dot = self.b, self.dot
        panel, b_row = self._panel(column, columns)
        for row, height in self._heights(columns):
            with b.loop(row[0], row[1], height) as loop:
                c = self._at(self.c, b.mul(loop.index, dot.n), column)
                self._emit_tile(c, loop.index, (panel, b_row), height, columns)

    def _heights(self, columns: int) -> list[tuple[tuple[int, int], int]]:
        """The tiles: ranges of rows, and the height of the tiles in each."""
        # Packed rows are laid out for tiles of full panels.
        columns = self.cut.width if self.cut.packs_a else columns
        found, row = [], 0
        for height, group in groupby(
            even_parts(self.rows, self.cut.tile_rows(columns))
        ):
            end = row + height * len(list(group))
            found.append(((row, end), height))
            row = end
        return found

    # -------------------------------------------------------------------- tiles

    def _emit_tile(
        self, c: Value, row: Value, panel: tuple[Value, int], height: int, columns: int
    ) -> None:
        """One tile; its sums go on from C after the first block of k."""
        b, cut = self.b, self.cut
        starts = range(0, columns, cut.lanes)
        places = [(i, j) for i in range(height) for j in starts]

        def zeros() -> Values:
            return [b.const(self.vector, 0) for _ in places]

        def so_far() -> Values:
            return [
                self._load(self._at(c, i * self.dot.n + j), columns - j)
                for i, j in places
            ]

        sums = zeros()
        if self.dot.k > cut.k_block:
            sums = b.if_(b.eq(self.start, 0), zeros, so_far)
        a, a_row, a_step = self._a_tile(row, height)
        with b.loop(0, self.steps, carried=sums) as loop:
            vectors = self._b_row(panel, loop.index, columns)
            left = self._at(a, b.mul(loop.index, a_step))
            following: Values = []
            for i in range(height):
                x = b.load(self.element, self._at(left, i * a_row))
                spread = b.splat(x, cut.lanes)
                for vector in vectors:
                    total = loop.carried[len(following)]
                    following.append(b.muladd(spread, vector, total))
            loop.next(*following)
        for (i, j), total in zip(places, loop.results, strict=True):
            self._store(total, self._at(c, i * self.dot.n + j), columns - j)

    def _a_tile(self, row: Value, height: int) -> tuple[Value, int, int]:
        """Where the tile's part of A begins, and how far its rows and steps lie."""
        b, dot = self.b, self.dot
        if self.cut.packs_a:
            return self._at(self.packed_a, b.mul(row, self.cut.k_block)), 1, height
        if dot.a_transposed:
            return self._at(self.left, b.mul(self.start, dot.m), row), 1, dot.m
        return self._at(self.left, b.mul(row, dot.k), self.start), dot.k, 1

    def _b_row(self, panel: tuple[Value, int], step: Value, columns: int) -> Values:
        base, b_row = panel
        row = self._at(base, self.b.mul(step, b_row))
        # A packed panel has all its lanes.
        width = self.cut.width if self.cut.packs_b else columns
        return [
            self._load(self._at(row, j), width - j)
            for j in range(0, columns, self.cut.lanes)
        ]

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

    # ------------------------------------------------------------------ packing

    def _pack_a(self) -> None:
        b, dot = self.b, self.dot
        for (first, end), height in self._heights(self.cut.width):
            with b.loop(first, end, height) as loop:
                row = loop.index
                to = self._at(self.packed_a, b.mul(row, self.cut.k_block))
                if dot.a_transposed:
                    source = self._at(self.left, b.mul(self.start, dot.m), row)
                    pack_transposed_rows(
                        b, self.vector, to, source, dot.m, height, self.steps
                    )
                else:
                    source = self._at(self.left, b.mul(row, dot.k), self.start)
                    pack_rows(b, self.vector, to, source, dot.k, height, self.steps)

    def _panel(self, column: Value, columns: int) -> tuple[Value, int]:
        """Where the panel begins and how far its rows lie apart; packed if need be."""
        b, dot, width = self.b, self.dot, self.cut.width
        if not self.cut.packs_b:
            return self._at(self.right, b.mul(self.start, dot.n), column), dot.n
        to = self.packed_b
        if dot.b_transposed:
            source = self._at(self.right, b.mul(column, dot.k), self.start)
            pack_transposed_columns(
                b, self.vector, (to, width), (source, dot.k), columns, self.steps
            )
        else:
            source = self._at(self.right, b.mul(self.start, dot.n), column)
            pack_columns(
                b, self.vector, (to, width), (source, dot.n), columns, self.steps
            )
        return to, width


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
