"""Lines of as many rows as a vector has lanes to columns, and back.

A line is some elements of a row that lie side by side; a column is the same element of
all rows, a vector. Squares are transposed in registers, by functions that all kernels
share: LLVM is slow with shuffles.
"""

from __future__ import annotations

from collections.abc import Sequence

from curta.compiler.library.packing import transposed
from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I64, PTR, Type, Value
from curta.lazy_dataclass import dataclass


@dataclass(frozen=True)
class LineTranspose:
    """Squares of `size` elements, a power of two, side by side in a `vector`.

    `back` is from columns to lines.
    """

    vector: Type
    size: int
    back: bool

    @property
    def name(self) -> str:
        """The name of its function."""
        way = "columns_to_lines" if self.back else "lines_to_columns"
        return f"{way}_{self.vector.suffix}_{self.size}"

    def emit(self, module: Module) -> None:
        """Add the function to the module.

            void name(ptr columns, i64 apart, ptr lines, i64 row, i64 width, i64 left)

        Columns are `apart` elements from one another, lines `row`. Lines have `width`
        elements, not more than `size`; `left` of the rows are there, or more than all.
        """
        b = module.function(self.name, [PTR, I64, PTR, I64, I64, I64])
        *_, row, width, left = b.arguments
        code = _Code(b, self)
        if self.size < self.vector.lanes:
            close = b.and_(b.eq(row, self.size), b.eq(width, self.size))
            close = b.and_(close, b.compare("ge", left, self.vector.lanes))

            def side_by_side() -> Values:
                code.side_by_side()
                return []

            def apart() -> Values:
                code.apart()
                return []

            b.if_(close, side_by_side, apart)
        else:
            code.apart()
        b.ret()


class _Code:
    def __init__(self, b: Builder, what: LineTranspose) -> None:
        self.b, self.what = b, what
        self.lanes, self.size = what.vector.lanes, what.size
        self.columns, self.step, self.lines, self.row, self.width, self.left = (
            b.arguments
        )

    def column(self, i: int) -> Value:
        """The address of a column; clamped to the last one."""
        b = self.b
        number = b.min(b.sub(self.width, 1), i) if i else b.const(I64, 0)
        return b.offset(self.columns, b.mul(number, self.step), self.what.vector)

    def side_by_side(self) -> None:
        """With nothing between the rows, of which all are there."""
        b, vector, size = self.b, self.what.vector, self.size
        addresses = [b.offset(self.lines, i * self.lanes, vector) for i in range(size)]
        if self.what.back:
            order = _dealt(self.lanes, self.lanes // size)
            columns = [b.load(vector, self.column(i)) for i in range(size)]
            dealt = [b.shuffle(x, None, order) for x in columns]
            for whole, address in zip(transposed(b, dealt), addresses, strict=True):
                b.store(whole, address)
            return
        loaded = [b.load(vector, address) for address in addresses]
        for i, column in enumerate(transposed(b, loaded)):
            order = _dealt(self.lanes, size)
            b.store(b.shuffle(column, None, order), self.column(i))

    def apart(self) -> None:
        """Row by row."""
        b, size, part = self.b, self.size, self.what.vector.with_lanes(self.size)
        rows, there = self._rows(), b.first_lanes(self.width, size)
        if self.what.back:
            columns = [b.load(self.what.vector, self.column(i)) for i in range(size)]
            for r, whole in enumerate(transposed(b, columns)):
                for i, address in enumerate(rows[r::size]):
                    piece = b.shuffle(whole, None, range(i * size, (i + 1) * size))
                    is_left = b.compare("gt", self.left, i * size + r)
                    with b.when(is_left):
                        b.masked_store(piece, address, there)
            return
        # If another row follows, reading past the end of a line stays inside the array.
        behind = b.compare("gt", self.left, self.lanes)
        fits = b.compare("ge", b.add(self.row, self.width), size)
        loaded = b.if_(
            b.and_(behind, fits),
            lambda: [b.load(part, address) for address in rows],
            lambda: [b.masked_load(part, address, there) for address in rows],
        )
        vectors = [_joined(b, loaded[r::size]) for r in range(size)]
        columns = transposed(b, vectors)
        for i in range(size - 1, -1, -1):  # missing columns first
            b.store(columns[i], self.column(i))

    def _rows(self) -> Values:
        """The addresses of the rows; missing ones repeat the last.

        Which lies before `lines` if none is left, of the second half of a block.
        """
        b, vector = self.b, self.what.vector

        def all_there() -> Values:
            numbers = range(1, self.lanes)
            others = [b.offset(self.lines, b.mul(self.row, i), vector) for i in numbers]
            return [self.lines, *others]

        def some() -> Values:
            last = b.sub(self.left, 1)
            rows = [b.min(last, i) for i in range(self.lanes)]
            return [b.offset(self.lines, b.mul(i, self.row), vector) for i in rows]

        whole = b.compare("ge", self.left, self.lanes)
        return b.if_(whole, all_there, some)


def _dealt(lanes: int, hands: int) -> list[int]:
    """Lanes 0, hands, 2 * hands, ...; then 1, hands + 1, ...: as cards are dealt."""
    return [i for hand in range(hands) for i in range(hand, lanes, hands)]


def _joined(b: Builder, parts: Sequence[Value]) -> Value:
    """Vectors concatenated into one."""
    while len(parts) > 1:
        lanes = 2 * parts[0].lanes
        parts = [
            b.shuffle(x, y, range(lanes))
            for x, y in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]
