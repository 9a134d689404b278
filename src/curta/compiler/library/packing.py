"""Copies of panels of a matrix, row after row, as the tiles of a product read them."""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I64, PTR, Type, Value

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

    Rows that are missing are read as the last one: what becomes of them is not stored
    in the result. The code is a function that is in the module once, because LLVM
    takes long over the many shuffles.
    """
    element, lanes = vector.with_lanes(1), vector.lanes
    turn = f"turn.{vector.suffix}.{to[1]}.{source[1]}"
    if not b.module.defines(turn):
        _emit_turn(b.module, turn, vector, to[1], source[1])
    for j in range(0, columns, lanes):
        first = b.offset(source[0], j * source[1], element)
        place = b.offset(to[0], j, element)
        last = b.const(I64, min(columns - j, lanes) - 1)
        b.call(turn, None, place, first, last, steps)


def _emit_turn(module: Module, name: str, vector: Type, width: int, row: int) -> None:
    """`void turn(ptr to, ptr source, i64 last, i64 steps)` for one vector of columns.

    The last square may overlap the one before.
    """
    b = module.function(name, [PTR, PTR, I64, I64], exported=False)
    to, source, last, steps = b.arguments
    element, lanes = vector.with_lanes(1), vector.lanes
    rows = [b.offset(source, b.mul(b.min(last, i), row), element) for i in range(lanes)]
    if row < lanes:
        with b.loop(0, steps) as loop:
            place = b.offset(to, b.mul(loop.index, width), element)
            for i, start in enumerate(rows):
                value = b.load(element, b.offset(start, loop.index, element))
                b.store(value, b.offset(place, i, element))
    else:
        with b.loop(0, steps, lanes) as loop:
            first = b.min(loop.index, b.sub(steps, lanes))
            square = [b.load(vector, b.offset(r, first, element)) for r in rows]
            for i, column in enumerate(transposed(b, square)):
                place = b.mul(b.add(first, i), width)
                b.store(column, b.offset(to, place, element))
    b.ret()


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
