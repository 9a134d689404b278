"""Transposes: squares of rows in registers become columns."""

from __future__ import annotations

from curta._base.lazy_dataclass import dataclass
from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.transpose_assembly import has_assembly, transpose_assembly
from curta.compiler.llvm.types import I64, PTR, Type, Value

Rows = tuple[Value, int]  # where an array begins, and the elements between its rows


@dataclass(frozen=True)
class RowTranspose:
    """The function that makes columns of as many rows as a vector has lanes."""

    vector: Type

    @property
    def name(self) -> str:
        """The name of its function."""
        return f"transpose_{self.vector.suffix}"

    def call(self, b: Builder, *arguments: Value) -> None:
        """Call the function, which all programs share."""
        b.module.library[self.name] = self
        b.call(self.name, None, *arguments)

    def emit(self, module: Module) -> None:
        """Add `void name(ptr to, i64 width, ptr from, i64 row, i64 last, i64 steps)`.

        Rows 0 to `last` become as many columns. There are always as many columns as
        lanes: rows that are missing are read as the last one. Squares are transposed in
        registers; the last one may overlap the one before.
        """
        vector = self.vector
        if self._is_assembly(module):
            size, wide = vector.size, module.vector_bytes
            module.assembly += transpose_assembly(self.name, size, wide)
            return
        b = module.function(self.name, [PTR, I64, PTR, I64, I64, I64])
        to, width, source, row, last, steps = b.arguments
        element, lanes = vector.with_lanes(1), vector.lanes
        numbers = (b.min(last, i) for i in range(lanes))
        rows = [b.offset(source, b.mul(i, row), element) for i in numbers]

        def squares() -> Values:
            with b.loop(0, steps, lanes) as loop:
                first = b.min(loop.index, b.sub(steps, lanes))
                square = [b.load(vector, b.offset(r, first, element)) for r in rows]
                for i, column in enumerate(transposed(b, square)):
                    to_row = b.mul(b.add(first, i), width)
                    b.store(column, b.offset(to, to_row, element))
            return []

        def elements() -> Values:
            with b.loop(0, steps) as loop:
                to_row = b.offset(to, b.mul(loop.index, width), element)
                for i, start in enumerate(rows):
                    value = b.load(element, b.offset(start, loop.index, element))
                    b.store(value, b.offset(to_row, i, element))
            return []

        b.if_(steps >= lanes, squares, elements)
        b.ret()

    def _is_assembly(self, module: Module) -> bool:
        """Whether it is written in assembly for the module's processor."""
        size, wide = self.vector.size, module.vector_bytes
        fills = self.vector.lanes * size == wide
        return module.assembles and fills and has_assembly(size, wide)


def transpose_rows(
    b: Builder, vector: Type, to: Rows, source: Rows, steps: int
) -> None:
    """Make columns of as many rows as a vector has lanes, of so many elements."""
    widths = [b.const(I64, width) for _, width in (to, source)]
    last, count = b.const(I64, vector.lanes - 1), b.const(I64, steps)
    call = RowTranspose(vector).call
    call(b, to[0], widths[0], source[0], widths[1], last, count)


def transpose_columns(
    b: Builder, vector: Type, to: Value, source: Value, size: int
) -> None:
    """Make as many rows as a vector has lanes, of `size` elements: not fewer."""
    lanes, element = vector.lanes, vector.with_lanes(1)
    with b.loop(0, -(-size // lanes)) as loop:
        first = b.min(loop.index * lanes, size - lanes)
        square = b.offset(source, first * lanes, element)
        row = b.offset(to, first, element)
        transpose_rows(b, vector, (row, size), (square, lanes), lanes)


def transposed(b: Builder, square: Values) -> Values:
    """The columns of squares side by side in some vectors.

    A square that fills its vectors takes shuffles that are single instructions on
    x86-64: rows are zipped within parts of 16 bytes, then parts are picked.
    """
    lanes, size = square[0].lanes, len(square)
    part = 16 // square[0].type.size
    if size < lanes or size < part:
        return _swapped(b, square)
    rows, distance = list(square), 1
    while distance < size:
        if distance < part:
            low, high = (_zip(lanes, part, distance, h) for h in (0, part // 2))
        else:
            low = [i for i in range(2 * lanes) if not i & part]
            high = [i for i in range(2 * lanes) if i & part]
        rows = _butterflies(b, rows, distance, low, high)
        distance *= 2
    order = bit_reversed(part)
    return [rows[first + j] for first in range(0, size, part) for j in order]


def bit_reversed(count: int) -> list[int]:
    """The numbers below a power of two, each with its bits in reverse order."""
    bits = count.bit_length() - 1
    return [
        sum((i >> k & 1) << (bits - 1 - k) for k in range(bits)) for i in range(count)
    ]


def _butterflies(
    b: Builder, rows: Values, distance: int, low: list[int], high: list[int]
) -> Values:
    """Pairs of rows so far apart, each replaced by two shuffles of both."""
    result = list(rows)
    for i, j in ((i, i + distance) for i in range(len(rows)) if not i & distance):
        result[i] = b.shuffle(rows[i], rows[j], low)
        result[j] = b.shuffle(rows[i], rows[j], high)
    return result


def _zip(lanes: int, part: int, count: int, half: int) -> list[int]:
    """Lanes of two vectors in turns, so many at a time, of half of each part."""
    in_part = range(half, half + part // 2, count)
    both = (*range(count), *range(lanes, lanes + count))
    return [
        first + i + k for first in range(0, lanes, part) for i in in_part for k in both
    ]


def _swapped(b: Builder, square: Values) -> Values:
    """The columns of squares, by swapping blocks of half the size, a quarter, ..."""
    lanes, size = square[0].lanes, len(square)
    rows = list(square)
    distance = size // 2
    while distance:
        low = [c if not c & distance else lanes + c - distance for c in range(lanes)]
        high = [c + distance if not c & distance else lanes + c for c in range(lanes)]
        rows = _butterflies(b, rows, distance, low, high)
        distance //= 2
    return rows
