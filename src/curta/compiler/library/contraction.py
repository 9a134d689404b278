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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import groupby

from curta.compiler.library.gemm import TILED, by_part
from curta.compiler.library.packing import even_parts
from curta.compiler.library.routine import emit_chunks
from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I64, PTR, Type, Value
from curta.config import config
from curta.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Axis:
    """A dim that is walked, and how far apart that is in the result and operands."""

    extent: int
    c: int = 0
    a: int = 0
    b: int = 0


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
    """The axes, outermost first, with neighbours that can be walked as one joined."""
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


def emit_contraction(module: Module, name: str, product: Contraction) -> None:
    """Add `void name(ptr c, ptr a, ptr b, ptr parallel_for)` to the module.

    It wants the code generator's GOOD level: sums that spill to memory are useless.
    """
    if product.kind not in TILED or not product.work:
        raise ValueError(f"no code for {product}")
    _Emitter(module, name, product).emit()


class _Emitter:
    """Writes the functions of one product."""

    def __init__(self, module: Module, name: str, product: Contraction) -> None:
        self.module, self.name, self.product = module, name, product
        self.lanes = module.vector_bytes // Type(product.kind).size
        self.width = panel_width(product.kind, product.columns, module.vector_bytes)
        self.sums = 24 if module.vector_bytes == 64 else 12
        self.element = Type(product.kind)
        self.vector = Type(product.kind, self.lanes)
        self.blocks, self.steps = _parted(product.steps)

    @cached_property
    def panels(self) -> int:
        return -(-self.product.columns // self.width)

    @cached_property
    def count(self) -> int:
        """How many outer indices there are."""
        return math.prod(x.extent for x in self.product.outer)

    @cached_property
    def per_chunk(self) -> int:
        """The outer indices of a chunk."""
        work = self.product.work
        if work <= config.tuning.contraction_serial_work:
            return self.count
        each = max(1, work // (self.count * self.panels))
        return max(1, min(self.count, config.tuning.contraction_chunk_work // each))

    def emit(self) -> None:
        chunk = f"{self.name}.chunk"
        self._emit_chunk(chunk)
        chunks = self.panels * -(-self.count // self.per_chunk)
        emit_chunks(self.module, self.name, chunk, 3, chunks)

    def _emit_chunk(self, name: str) -> None:
        """`void chunk(ptr table, i64 index)`."""
        b = self.module.function(name, [PTR, I64], exported=False)
        table, index = b.arguments
        c, a, right = (
            self._at(b, b.load(PTR, b.offset(table, i, PTR)), start)
            for i, start in enumerate(self.product.start)
        )
        ranges = -(-self.count // self.per_chunk)
        panel, place = b.udiv(index, ranges), b.urem(index, ranges)
        first = b.mul(place, self.per_chunk)
        last = b.min(b.add(first, self.per_chunk), self.count)
        c = self._at(b, c, b.mul(panel, self.width))
        right = self._at(b, right, b.mul(panel, self.product.panel))

        def with_columns(columns: int) -> None:
            with self._each_block(b) as (begun, a_block, b_block):
                starts = [c, self._at(b, a, a_block), self._at(b, right, b_block)]
                with b.loop(first, last) as loop:
                    places = self._outer(b, loop.index)
                    here = [
                        self._at(b, x, p) for x, p in zip(starts, places, strict=True)
                    ]
                    self._emit_rows(b, here, columns, begun)

        total = self.product.columns
        by_part(b, panel, self.panels, total, self.width, with_columns)
        b.ret()

    @contextmanager
    def _each_block(self, b: Builder) -> Iterator[tuple[Value, Value, Value]]:
        """Loops over the blocks: whether there was one before, and offsets in a and b.

        Without blocks the first is None.
        """
        zero = b.const(I64, 0)
        with _nested(b, self.blocks, (zero, zero, zero)) as offsets:
            yield offsets

    def _outer(self, b: Builder, index: Value) -> tuple[Value, Value, Value]:
        """The offsets in the three arrays of an outer index."""
        offsets = [b.const(I64, 0)] * 3
        for axis in reversed(self.product.outer):
            i = b.urem(index, axis.extent)
            index = b.udiv(index, axis.extent)
            strides = (axis.c, axis.a, axis.b)
            offsets = [
                b.add(o, b.mul(i, s)) if s else o
                for o, s in zip(offsets, strides, strict=True)
            ]
        c, a, right = offsets
        return c, a, right

    def _emit_rows(
        self, b: Builder, arrays: Sequence[Value], columns: int, begun: Value
    ) -> None:
        """All tiles of a panel, those of equal height in a loop."""
        c, a, right = arrays
        rows, row = self.product.rows, 0
        most = self.sums // -(-columns // self.lanes)
        for height, group in groupby(_heights(rows.extent, most)):
            end = row + height * len(list(group))
            with b.loop(row, end, height) as loop:
                here = self._at(b, c, b.mul(loop.index, rows.c))
                left = self._at(b, a, b.mul(loop.index, rows.a))
                self._emit_tile(b, [here, left, right], (height, columns), begun)
            row = end

    def _emit_tile(
        self, b: Builder, arrays: Sequence[Value], size: tuple[int, int], begun: Value
    ) -> None:
        """One tile; its sums go on from the result after the first block."""
        c, a, right = arrays
        height, columns = size
        places = [
            (self._at(b, c, i * self.product.rows.c + j), columns - j)
            for i in range(height)
            for j in range(0, columns, self.lanes)
        ]

        def zeros() -> Values:
            return [b.const(self.vector, 0) for _ in places]

        def so_far() -> Values:
            return [self._load(b, place, left) for place, left in places]

        sums = zeros()
        if self.blocks:
            sums = b.if_(b.eq(begun, 0), zeros, so_far)
        add = partial(self._add, b, size)
        for (place, left), total in zip(
            places, self._summed(b, self.steps, (a, right), sums, add), strict=True
        ):
            self._store(b, total, place, left)

    def _summed(
        self,
        b: Builder,
        axes: Sequence[Axis],
        starts: tuple[Value, Value],
        sums: Values,
        add: Callable[[Value, Value, Values], Values],
    ) -> Values:
        """The sums after all steps of `axes`, innermost ones written out."""
        a, right = starts
        if not axes:
            return add(a, right, sums)
        first, *rest = axes
        if math.prod(x.extent for x in axes) <= config.tuning.contraction_written_out:
            for i in range(first.extent):
                here = self._at(b, a, i * first.a), self._at(b, right, i * first.b)
                sums = self._summed(b, rest, here, sums, add)
            return sums
        with b.loop(0, first.extent, carried=sums) as loop:
            here = (
                self._at(b, a, b.mul(loop.index, first.a)),
                self._at(b, right, b.mul(loop.index, first.b)),
            )
            loop.next(*self._summed(b, rest, here, loop.carried, add))
        return loop.results

    def _add(
        self, b: Builder, size: tuple[int, int], a: Value, right: Value, sums: Values
    ) -> Values:
        """The sums after one step."""
        height, columns = size
        width = self.width if self.product.packed else columns
        vectors = [
            self._load(b, self._at(b, right, j), width - j)
            for j in range(0, columns, self.lanes)
        ]
        following: Values = []
        for i in range(height):
            x = b.load(self.element, self._at(b, a, i * self.product.rows.a))
            spread = b.splat(x, self.lanes)
            for vector in vectors:
                following.append(b.muladd(spread, vector, sums[len(following)]))
        return following

    def _at(self, b: Builder, base: Value, index: Value | int) -> Value:
        return b.offset(base, index, self.element)

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
        lanes = range(self.lanes)
        return b.vector(self.vector.as_mask, [i < left for i in lanes])


@contextmanager
def _nested(
    b: Builder, axes: Sequence[Axis], so_far: tuple[Value, Value, Value]
) -> Iterator[tuple[Value, Value, Value]]:
    """Loops over `axes`: the sum of their indices, and offsets in a and b."""
    if not axes:
        yield so_far
        return
    first, *rest = axes
    count, a, right = so_far
    with b.loop(0, first.extent) as loop:
        here = (
            b.add(count, loop.index),
            b.add(a, b.mul(loop.index, first.a)),
            b.add(right, b.mul(loop.index, first.b)),
        )
        with _nested(b, rest, here) as offsets:
            yield offsets


def _parted(steps: Sequence[Axis]) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """The steps around tiles and those inside, where there are not too many."""
    inner: list[Axis] = []
    room = config.tuning.contraction_steps
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
