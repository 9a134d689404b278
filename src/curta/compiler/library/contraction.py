"""Products summed over several dims, of arrays in any layout: convolutions.

A tile is some rows of the result by a few vectors of columns. Its sums stay in
registers through all steps, which are loops in loops: each array is walked by strides
that are constants of the code, so that windows which overlap need no copies. (M. Cho,
D. Brand, "MEC: Memory-efficient Convolution for Deep Neural Network", 2017, multiplies
from windows where they lie; tiles are those of gemm.py.)

    block   the leading steps, outside of tiles: each adds to the sums of the one before
    chunk   a panel of columns, and some of the outer indices
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.compiler.library.packing import even_parts
from curta.compiler.library.product import Word
from curta.compiler.library.product_plan import (
    Axis,
    Part,
    ProductPlan,
    Ranges,
    TileList,
    Tiles,
)
from curta.compiler.library.tile_shape import TILED, Tile
from curta.compiler.llvm.types import Type
from curta.compiler.targets import Tuning


@dataclass(frozen=True)
class Contraction:
    """c[outer, rows, j] = sum over steps of a[outer, rows, steps] * b[outer, steps, j].

    Columns j lie side by side in c and b; panels of them lie `panel` apart in b, where
    each has all its lanes if it is `packed`. `start` is where it begins in c, a and b.
    """

    kind: str
    outer: tuple[Axis, ...]
    rows: Axis
    columns: int
    steps: tuple[Axis, ...]
    panel: int
    packed: bool
    start: tuple[int, int, int] = (0, 0, 0)

    @property
    def work(self) -> int:
        """The number of multiplications."""
        axes = (*self.outer, self.rows, *self.steps)
        return math.prod(x.extent for x in axes) * self.columns


def panel_width(kind: str, columns: int, vector_bytes: int) -> int:
    """The columns of a panel."""
    lanes = vector_bytes // Type(kind).size
    return lanes if columns <= lanes else 2 * lanes


def merged(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The axes, outermost first, with mergeable neighbors joined."""
    result: list[Axis] = []
    for axis in axes:
        if axis.extent == 1:
            continue
        last = result[-1] if result else None
        n = axis.extent
        if last and (last.c, last.a, last.b) == (n * axis.c, n * axis.a, n * axis.b):
            result[-1] = Axis(last.extent * n, axis.c, axis.a, axis.b)
        else:
            result.append(axis)
    return tuple(result)


def contraction_plan(
    product: Contraction, vector_bytes: int, tuning: Tuning
) -> ProductPlan:
    """How `product` (product.py) computes a contraction."""
    if product.kind not in TILED or not product.work:
        raise ValueError(f"no tiles for {product}")
    return _Planner(product, vector_bytes, tuning).plan()


class _Planner:
    """The plan of one product; distances are in bytes."""

    def __init__(self, product: Contraction, vector_bytes: int, tuning: Tuning) -> None:
        self.tuning = tuning
        size = self.size = Type(product.kind).size
        self.product = product
        self.lanes = vector_bytes // size
        self.width = panel_width(product.kind, product.columns, vector_bytes)
        self.sums = 24 if vector_bytes == 64 else 12
        rows, outer = product.rows, product.outer or (Axis(1),)
        self.together = 1  # outer indices per chunk
        if self._streams():
            rows, outer = self._by_rows()
        self.rows = rows.times(size)
        blocks, steps = _parted(product.steps, tuning.contraction_steps)
        self.blocks = [x.times(size) for x in reversed(blocks)]
        self.steps = [x.times(size) for x in steps]
        self.outer = [x.times(size) for x in reversed(outer)]
        self.panels = -(-product.columns // self.width)

    def _streams(self) -> bool:
        """Whether an outer index reads more than the second-level cache keeps."""
        product = self.product
        steps = math.prod(x.extent for x in product.steps)
        read = steps * (product.rows.extent + min(self.width, product.columns))
        return read * self.size > self.tuning.contraction_cached_bytes

    def _by_rows(self) -> tuple[Axis, tuple[Axis, ...]]:
        """A few rows, and outer axes of which those that read the same come last.

        All taps of a kernel's gradient read the same two arrays: if a chunk has some
        rows and all taps, a block of steps is read once for all of them.
        """
        product = self.product
        shared = [x for x in product.outer if self._overlaps(x)]
        if not shared:
            return product.rows, product.outer or (Axis(1),)
        apart = [x for x in product.outer if x not in shared]
        rows, groups = self._row_groups()
        sums = rows.extent * self.width * self.size
        room = max(1, self.tuning.contraction_cached_bytes // sums)
        self.together = min(room, math.prod(x.extent for x in shared))
        return rows, (*apart, *groups, *shared)

    def _overlaps(self, axis: Axis) -> bool:
        """Whether neighbours along an outer axis read nearly the same."""
        span = max(x.extent * x.a for x in self.product.steps)
        return axis.b == 0 and axis.extent * axis.a < span

    def _row_groups(self) -> tuple[Axis, tuple[Axis, ...]]:
        """Some of the rows, of tiles that are high enough, and the axis of groups."""
        rows = self.product.rows
        vectors = -(-min(self.width, self.product.columns) // self.lanes)
        most = self.sums // vectors
        if rows.a == 1:  # adjacent rows share cache lines
            most = max(most, self.lanes)
        size = max(d for d in range(1, most + 1) if rows.extent % d == 0)
        if 2 * size < most or size == rows.extent:
            return rows, ()
        groups = Axis(rows.extent // size, size * rows.c, size * rows.a, 0)
        return Axis(size, rows.c, rows.a, rows.b), (groups,)

    def plan(self) -> ProductPlan:
        product, size = self.product, self.size
        c, a, b = (n * size for n in product.start)
        short = self.panels > 1 and product.columns % self.width > 0
        words = {
            Word.C_START: c,
            Word.A_START: a,
            Word.B_START: b,
            Word.C_PANEL: self.width * size,
            Word.B_PANEL: product.panel * size,
            Word.BLOCKS: math.prod(x.extent for x in self.blocks),
            Word.LAST_PANEL: self.panels - 1 if short else -1,
            Word.LAST_ROWS: -1,
            Word.LAST_BLOCK: -1,
            Word.WALKS: int(self.walks),
        }
        return ProductPlan(
            self._ranges(),
            words,
            self.blocks,
            self.outer,
            self._list,
            None,
            self.listed,
        )

    @cached_property
    def listed(self) -> list[tuple[int, int]]:
        """Where each step is in a and b, if steps go along several axes."""
        if len(self.steps) < 2:
            return []
        result = [(0, 0)]
        for axis in self.steps:
            result = [
                (a + i * axis.a, b + i * axis.b)
                for a, b in result
                for i in range(axis.extent)
            ]
        return result

    def _ranges(self) -> Ranges:
        work, tuning = self.product.work, self.tuning
        count = math.prod(x.extent for x in self.outer)
        if work <= tuning.contraction_serial_work:
            return Ranges(self.panels, self.panels, count, count, False)
        one = max(1, work // (count * self.panels))
        each = max(1, min(count, tuning.contraction_chunk_work // one))
        each = max(each, self.together)
        return Ranges(self.panels, 1, count, each, False)

    def _heights(self, columns: int) -> list[int]:
        most = self.sums // -(-columns // self.lanes)
        return _heights(self.rows.extent, most)

    @cached_property
    def walks(self) -> bool:
        """Whether one tile has all rows, and walks along the innermost axis."""
        columns = self.product.columns
        widths = {min(self.width, columns), columns % self.width or self.width}
        return all(len(self._heights(n)) == 1 for n in widths)

    def _list(self, part: Part) -> TileList:
        total = self.product.columns
        columns = min(total, self.width)
        if part[0]:
            columns = total % self.width
        tiles, row = [], 0
        for height, group in groupby(self._heights(columns)):
            count = len(list(group))
            tiles.append(self._tiles(row, height, count, columns))
            row += height * count
        return TileList(tuple(tiles))

    def _tiles(self, row: int, height: int, count: int, columns: int) -> Tiles:
        rows, vectors = self.rows, -(-columns // self.lanes)
        whole = columns % self.lanes == 0
        tile = Tile(self.product.kind, height, vectors, whole, bool(self.listed))
        following = height * rows.c, height * rows.a, 0
        if self.walks:
            axis = self.outer[0]
            following = axis.c, axis.a, axis.b
        left = columns - (vectors - 1) * self.lanes
        steps = self.steps[0] if self.steps else Axis(1)
        total = len(self.listed) or steps.extent
        numbers = (*following, rows.c, rows.a, left, total, steps.a, steps.b)
        return Tiles(tile, row * rows.c, row * rows.a, count, numbers)


def _parted(
    steps: Sequence[Axis], room: int
) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """The steps outside and inside of tiles, with `room` for so many inside."""
    inner: list[Axis] = []
    for k in range(len(steps) - 1, -1, -1):
        axis = steps[k]
        part = max(d for d in range(1, axis.extent + 1) if axis.extent % d == 0
                   and (d <= room or d == 1))  # fmt: skip
        if part == 1 and not inner:  # a prime number of steps: all of them
            part = axis.extent
        room //= max(part, 1)
        if part > 1:
            inner.insert(0, Axis(part, 0, axis.a, axis.b))
        if part < axis.extent:
            rest = axis.extent // part
            outside = Axis(rest, 0, axis.a * part, axis.b * part)
            return (*steps[:k], outside), tuple(inner)
    return (), tuple(inner)


def _heights(rows: int, most: int) -> list[int]:
    """The rows of tiles: all the same, if that is nearly as fast.

    Every height is code of its own, which takes milliseconds to compile.
    """
    for height in range(most, most // 2, -1):
        if rows % height == 0:
            return [height] * (rows // height)
    return even_parts(rows, most)
