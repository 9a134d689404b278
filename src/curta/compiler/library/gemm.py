"""Matrix products in our own code: tiles of the result that stay in registers.

Tiles are those of tile.py, and the loops around them those of product.py; here it is
decided how a product is cut, by its shape alone:

    unit    one batch, a group of rows, one panel of columns
    chunk   some units, enough to be worth handing to a thread

A is read where it lies, either way up. So is B, unless it is transposed, or its rows
are so long that they would evict one another from the cache: then the panel of a unit
is packed first. Measured, this is as fast as OpenBLAS for large matrices and several
times faster for small, narrow and batched ones.
"""

from __future__ import annotations

from itertools import groupby

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.compiler.library.packing import PackPanel, even_parts
from curta.compiler.library.product import Word
from curta.compiler.library.product_plan import (
    Axis,
    Part,
    ProductPlan,
    Ranges,
    TileList,
    Tiles,
)
from curta.compiler.library.tile_shape import TILED, Tile, element
from curta.compiler.targets import Tuning


@dataclass(frozen=True)
class Dot:
    """c[s,i,j] = sum over t of a[s,i,t] * b[s,t,j], each array contiguous.

    `a_transposed` means that a lies in memory as [s,t,i], `b_transposed` that b lies
    as [s,j,t]. `kind` is that of the elements (tile_shape.py). Of products `in_parts` c
    has one more dim, in front: the sums of each of `Blocking.parts` parts of the steps.
    """

    batch: int
    m: int
    n: int
    k: int
    kind: str
    a_transposed: bool = False
    b_transposed: bool = False
    in_parts: bool = False

    @property
    def work(self) -> int:
        """The number of multiplications."""
        return self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class Blocking:
    """How a product is cut, by its shape, the width of a vector and the limits."""

    dot: Dot
    vector_bytes: int
    tuning: Tuning

    @property
    def size(self) -> int:
        return element(self.dot.kind).size

    @property
    def lanes(self) -> int:
        return self.vector_bytes // self.size

    @property
    def packs_b(self) -> bool:
        long_rows = self.dot.n * self.size >= self.tuning.gemm_long_row
        return self.dot.b_transposed or (
            long_rows and self.dot.m >= self.tuning.gemm_packed_rows
        )

    @property
    def is_wide(self) -> bool:
        """Whether panels are wide, so that a large A is read less often."""
        row = self.dot.m if self.dot.a_transposed else self.dot.k
        return (
            row * self.size >= self.tuning.gemm_long_row
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
        stays = self.k_block * self.width * self.size <= self.tuning.gemm_panel_bytes
        least = most * 2 // 3 if stays else most * 5 // 6
        for height in range(most, least - 1, -1):
            if rows % height == 0:
                return [height] * (rows // height)
        return even_parts(rows, most)

    @cached_property
    def rows(self) -> int:
        """The rows of a unit; those of the last one may be fewer."""
        tile = self.tile_rows(min(self.width, self.dot.n))
        tuning = self.tuning
        most = tuning.gemm_wide_rows if self.is_wide else tuning.gemm_rows
        even = even_parts(self.dot.m, most)[0]
        return min(self.dot.m, -(-even // tile) * tile)

    @cached_property
    def k_block(self) -> int:
        """The steps of a block; the last one may be shorter, but not than a vector."""
        most = self.tuning.gemm_step_bytes // self.size
        if self.dot.k <= most * 3 // 2:
            return self.dot.k
        block = even_parts(self.dot.k, most)[0]
        while 0 < self.dot.k % block < self.lanes:
            block -= 1
        return block

    @property
    def blocks(self) -> int:
        """The blocks of steps."""
        return -(-self.dot.k // self.k_block)

    @property
    def blocks_each(self) -> int:
        """The blocks of a part, which are added up one after the other."""
        return self.tuning.sum_groups

    @property
    def parts(self) -> int:
        """Of how many parts the sums are taken apart: more lose to rounding."""
        return -(-self.blocks // self.blocks_each)

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
        if self.dot.work <= self.tuning.gemm_serial_work:
            return self.units
        return max(1, self.tuning.gemm_chunk_work * self.units // self.dot.work)


def dot_plan(dot: Dot, vector_bytes: int, tuning: Tuning) -> ProductPlan:
    """How `product` computes `dot`."""
    if min(dot.batch, dot.m, dot.n, dot.k) < 1 or dot.kind not in TILED:
        raise ValueError(f"no tiles for {dot}")
    return _DotPlanner(Blocking(dot, vector_bytes, tuning)).plan()


class _DotPlanner:
    """The plan of one product; distances are in bytes."""

    def __init__(self, cut: Blocking) -> None:
        self.dot, self.cut = cut.dot, cut
        dot, size = cut.dot, cut.size
        self.c_row = dot.n * size
        self.a_row, self.a_step = dot.k * size, size
        if dot.a_transposed:
            self.a_row, self.a_step = size, dot.m * size
        self.b_step, self.b_column = dot.n * size, size
        if dot.b_transposed:
            self.b_step, self.b_column = size, dot.k * size

    def plan(self) -> ProductPlan:
        dot, cut, blocks = self.dot, self.cut, self.cut.blocks
        panel, rows, block = (
            count - 1 if count > 1 and total % size else -1
            for count, total, size in (
                (cut.panels, dot.n, cut.width),
                (cut.row_groups, dot.m, cut.rows),
                (blocks, dot.k, cut.k_block),
            )
        )
        words = {
            Word.C_PANEL: cut.width * cut.size,
            Word.B_PANEL: cut.width * self.b_column,
            Word.BLOCKS: blocks,
            Word.LAST_PANEL: panel,
            Word.LAST_ROWS: rows,
            Word.LAST_BLOCK: block,
            Word.WALKS: int(self.walks),
            Word.PACKED_BYTES: cut.k_block * cut.width * cut.size if cut.packs_b else 0,
        }
        a_block, b_block = cut.k_block * self.a_step, cut.k_block * self.b_step
        steps = [Axis(blocks, 0, a_block, b_block)]
        if dot.in_parts:
            each = words[Word.BLOCKS_EACH] = cut.blocks_each
            result = dot.batch * dot.m * self.c_row
            parts = Axis(cut.parts, result, each * a_block, each * b_block)
            steps = [Axis(each, 0, a_block, b_block), parts]
        pack = None
        if cut.packs_b:
            vector = element(dot.kind).with_lanes(cut.lanes)
            pack = PackPanel(vector, cut.width // cut.lanes, dot.b_transposed)
        return ProductPlan(self._ranges(), words, steps, self._outer, self._list, pack)

    def _ranges(self) -> Ranges:
        cut = self.cut
        units, outer = cut.units_per_chunk, self.dot.batch * cut.row_groups
        if units >= cut.panels:
            return Ranges(cut.panels, cut.panels, outer, units // cut.panels, True)
        return Ranges(cut.panels, units, outer, 1, True)

    @cached_property
    def _outer(self) -> list[Axis]:
        """Groups of rows, and the batch."""
        dot, cut = self.dot, self.cut
        groups = Axis(cut.row_groups, cut.rows * self.c_row, cut.rows * self.a_row)
        matrices = dot.m * dot.n, dot.m * dot.k, dot.k * dot.n
        batch = Axis(dot.batch, *(n * cut.size for n in matrices))
        return [batch] if cut.row_groups == 1 else [groups, batch]

    @cached_property
    def walks(self) -> bool:
        """Whether one tile has all rows, and walks along the batch."""
        cut = self.cut
        widths = {min(cut.width, self.dot.n), self.dot.n % cut.width or cut.width}
        one = all(len(cut.heights(self.dot.m, n)) == 1 for n in widths)
        return one and cut.row_groups == 1 and not cut.packs_b

    def _list(self, part: Part) -> TileList:
        dot, cut = self.dot, self.cut
        sizes = (dot.n, cut.width), (dot.m, cut.rows), (dot.k, cut.k_block)
        columns, rows, steps = (
            (total % size or size) if is_last else min(total, size)
            for is_last, (total, size) in zip(part, sizes, strict=True)
        )
        tiles, row = [], 0
        for height, group in groupby(cut.heights(rows, columns)):
            count = len(list(group))
            tiles.append(self._tiles(row, height, count, (columns, steps)))
            row += height * count
        return TileList(tuple(tiles), (self.b_pack_row, columns, steps))

    @property
    def b_pack_row(self) -> int:
        """From a row of B as it lies in memory to the next."""
        return self.dot.k if self.dot.b_transposed else self.dot.n

    def _tiles(self, row: int, height: int, count: int, size: tuple[int, int]) -> Tiles:
        columns, steps = size
        cut = self.cut
        vectors = -(-columns // cut.lanes)
        tile = Tile(self.dot.kind, height, vectors, columns % cut.lanes == 0)
        following = height * self.c_row, height * self.a_row, 0
        if self.walks:
            (batch,) = self._outer
            following = batch.c, batch.a, batch.b
        b_step = cut.width * cut.size if cut.packs_b else self.b_step
        left = columns - (vectors - 1) * cut.lanes
        rows = self.c_row, self.a_row
        numbers = (*following, *rows, left, steps, self.a_step, b_step)
        return Tiles(tile, row * self.c_row, row * self.a_row, count, numbers)
