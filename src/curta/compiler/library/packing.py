"""Copies of matrices in the order in which the tiles of a product read them.

A packed B is the rows of a panel, one after another. A packed A is, for each step over
k, the elements of the rows of a tile side by side.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder, Values
from curta.compiler.llvm.types import I64, Type, Value

Rows = tuple[Value, int]  # where an array begins, and the elements between its rows


def even_parts(total: int, most: int) -> list[int]:
    """`total` in as few parts as can be, of almost equal size, the larger first.

    Example:
        >>> even_parts(10, 4)
        [4, 3, 3]
    """
    count = -(-total // most)
    size, larger = divmod(total, count)
    return [size + 1] * larger + [size] * (count - larger)


def pack_columns(
    b: Builder, vector: Type, to: Rows, source: Rows, columns: int, steps: Value
) -> None:
    """Copy rows of some columns; the lanes beyond become zero."""
    element, lanes = vector.with_lanes(1), vector.lanes
    with b.loop(0, steps) as loop:
        row = b.offset(source[0], b.mul(loop.index, source[1]), element)
        place = b.offset(to[0], b.mul(loop.index, to[1]), element)
        for j in range(0, columns, lanes):
            value = _load_lanes(b, vector, b.offset(row, j, element), columns - j)
            b.store(value, b.offset(place, j, element))


def pack_transposed_columns(
    b: Builder, vector: Type, to: Rows, source: Rows, columns: int, steps: Value
) -> None:
    """Turn rows of B in memory into columns, in squares.

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
            _gather_columns(b, vector, (place, to[1]), first, offsets, steps)
            continue
        with b.loop(0, steps, lanes) as loop:
            start = b.min(loop.index, b.sub(steps, lanes))
            corner = b.offset(first, start, element)
            square = [b.load(vector, b.offset(corner, o, element)) for o in offsets]
            for i, column in enumerate(transposed(b, square)):
                step = b.mul(b.add(start, i), to[1])
                b.store(column, b.offset(place, step, element))


def _gather_columns(
    b: Builder, vector: Type, to: Rows, first: Value, offsets: list[int], steps: Value
) -> None:
    """The same, element by element, where k is shorter than a vector."""
    element = vector.with_lanes(1)
    index = b.vector(I64.with_lanes(vector.lanes), offsets)
    with b.loop(0, steps) as loop:
        corner = b.offset(first, loop.index, element)
        column = b.gather(vector, b.offset(corner, index, element))
        b.store(column, b.offset(to[0], b.mul(loop.index, to[1]), element))


def pack_rows(
    b: Builder, vector: Type, to: Value, source: Value, row: int, height: int,
    steps: Value,
) -> None:  # fmt: skip
    """Interleave the rows of a tile, a vector of each at a time."""
    element, lanes = vector.with_lanes(1), vector.lanes
    with b.loop(0, steps, lanes) as loop:
        start = b.min(loop.index, b.sub(steps, lanes))
        corner = b.offset(source, start, element)
        rows = [
            b.load(vector, b.offset(corner, i * row, element)) for i in range(height)
        ]
        place = b.offset(to, b.mul(start, height), element)
        for i, value in enumerate(interleaved(b, rows)):
            b.store(value, b.offset(place, i * lanes, element))


def pack_transposed_rows(
    b: Builder, vector: Type, to: Value, source: Value, row: int, height: int,
    steps: Value,
) -> None:  # fmt: skip
    """Copy the elements of a tile's rows, which lie side by side in memory."""
    element, lanes = vector.with_lanes(1), vector.lanes
    with b.loop(0, steps) as loop:
        corner = b.offset(source, b.mul(loop.index, row), element)
        place = b.offset(to, b.mul(loop.index, height), element)
        for i in range(0, height, lanes):
            value = _load_lanes(b, vector, b.offset(corner, i, element), height - i)
            if height - i >= lanes:
                b.store(value, b.offset(place, i, element))
            else:
                mask = _first(b, vector, height - i)
                b.masked_store(value, b.offset(place, i, element), mask)


def _load_lanes(b: Builder, vector: Type, place: Value, left: int) -> Value:
    if left >= vector.lanes:
        return b.load(vector, place)
    return b.masked_load(vector, place, _first(b, vector, left))


def _first(b: Builder, vector: Type, count: int) -> Value:
    return b.vector(vector.as_mask, [i < count for i in range(vector.lanes)])


def interleaved(b: Builder, rows: Values) -> Values:
    """The first elements of all vectors, then the second ones, and so on."""
    lanes, height = rows[0].lanes, len(rows)
    if height == 1:
        return rows
    results = []
    for start in range(0, lanes * height, lanes):
        wanted = [divmod(start + lane, height) for lane in range(lanes)]
        result = rows[0]
        # Row by row, its elements join those that are in place already.
        for i in range(1, height):
            chosen = []
            for lane, (column, row) in enumerate(wanted):
                before = lane if i > 1 else column
                chosen.append(lanes + column if row == i else before)
            result = b.shuffle(result, rows[i], chosen)
        results.append(result)
    return results


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
