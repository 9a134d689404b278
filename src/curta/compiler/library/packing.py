"""Copies of panels of a matrix, row after row, as the tiles of a product read them."""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder, Values
from curta.compiler.llvm.types import I64, Type, Value

Rows = tuple[Value, int]  # where an array begins, and the elements between its rows


def even_parts(total: int, most: int) -> list[int]:
    """`total` in as few parts as can be, of almost equal size, the larger first.

    Example:
        >>> from curta.compiler.library.packing import even_parts
        >>> even_parts(10, 4)
        [4, 3, 3]
    """
    count = -(-total // most)
    size, larger = divmod(total, count)
    return [size + 1] * larger + [size] * (count - larger)


def pack(
    b: Builder, vector: Type, to: Rows, source: Rows, columns: int, steps: Value
) -> None:
    """Copy some rows of so many columns; the lanes beyond become zero."""
    element, lanes = vector.with_lanes(1), vector.lanes
    with b.loop(0, steps) as loop:
        row = b.offset(source[0], b.mul(loop.index, source[1]), element)
        place = b.offset(to[0], b.mul(loop.index, to[1]), element)
        for j in range(0, columns, lanes):
            at = b.offset(row, j, element)
            if columns - j >= lanes:
                value = b.load(vector, at)
            else:
                mask = b.vector(vector.as_mask, [j + i < columns for i in range(lanes)])
                value = b.masked_load(vector, at, mask)
            b.store(value, b.offset(place, j, element))


def pack_transposed(
    b: Builder, vector: Type, to: Rows, source: Rows, columns: int, steps: Value
) -> None:
    """Turn columns that lie in memory as rows, in squares.

    The last square may overlap the one before. Rows that are missing are read as the
    last one: what becomes of them is not stored in the result.
    """
    element, lanes = vector.with_lanes(1), vector.lanes
    base, row = source
    for j in range(0, columns, lanes):
        first = b.offset(base, j * row, element)
        offsets = [min(i, columns - j - 1) * row for i in range(lanes)]
        place = b.offset(to[0], j, element)
        if row < lanes:
            _gather(b, vector, (place, to[1]), first, offsets, steps)
            continue
        with b.loop(0, steps, lanes) as loop:
            start = b.min(loop.index, b.sub(steps, lanes))
            corner = b.offset(first, start, element)
            square = [b.load(vector, b.offset(corner, o, element)) for o in offsets]
            for i, column in enumerate(transposed(b, square)):
                step = b.mul(b.add(start, i), to[1])
                b.store(column, b.offset(place, step, element))


def _gather(
    b: Builder, vector: Type, to: Rows, first: Value, offsets: list[int], steps: Value
) -> None:
    """The same, element by element, where k is shorter than a vector."""
    element = vector.with_lanes(1)
    index = b.vector(I64.with_lanes(vector.lanes), offsets)
    with b.loop(0, steps) as loop:
        corner = b.offset(first, loop.index, element)
        column = b.gather(vector, b.offset(corner, index, element))
        b.store(column, b.offset(to[0], b.mul(loop.index, to[1]), element))


def transposed(b: Builder, square: Values) -> Values:
    """The columns of as many vectors as they have lanes, by swapping blocks."""
    lanes = len(square)
    rows = list(square)
    distance = lanes // 2
    while distance:
        low = [c if not c & distance else lanes + c - distance for c in range(lanes)]
        high = [c + distance if not c & distance else lanes + c for c in range(lanes)]
        for i in range(lanes):
            if not i & distance:
                x, y = rows[i], rows[i + distance]
                rows[i] = b.shuffle(x, y, low)
                rows[i + distance] = b.shuffle(x, y, high)
        distance //= 2
    return rows
