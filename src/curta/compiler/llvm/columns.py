"""Lanes that lie a few elements apart, picked out of vectors of all between them."""

from __future__ import annotations

from collections.abc import Sequence

from curta.compiler.llvm.types import Type, Value
from curta.compiler.llvm.vectors import VectorInstructions


class Columns:
    """A few columns of as many rows as there are lanes, from the address of the first.

    The rows are read once, whichever columns are asked for; only the first one may be
    if reading `ends` with its last lane.
    """

    def __init__(
        self,
        b: VectorInstructions,
        type_: Type,
        pointer: Value,
        count: int,
        ends: bool = False,
    ) -> None:
        self.b = b
        self.ends = ends
        self.starts = [i * type_.lanes for i in range(count)]
        if ends:
            self.starts[-1] = (type_.lanes - 1) * (count - 1)
        self.vectors = [b.load(type_, b.offset(pointer, i, type_)) for i in self.starts]
        self._halves: dict[tuple[int, ...], list[Value]] = {}

    def column(self, i: int) -> Value:
        """The lanes of a column."""
        return self._column(self.vectors, i, ())

    def _column(self, vectors: list[Value], i: int, half: tuple[int, ...]) -> Value:
        """Of an even number of columns, the odd or the even ones are half as many."""
        if len(vectors) == 1:
            return vectors[0]
        if len(vectors) % 2 or self.ends:
            return self._woven(vectors, i)
        half = (*half, i % 2)
        if half not in self._halves:
            order = range(i % 2, 2 * vectors[0].lanes, 2)
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            self._halves[half] = [self.b.shuffle(x, y, order) for x, y in pairs]
        return self._column(self._halves[half], i // 2, half)

    def _woven(self, vectors: Sequence[Value], i: int) -> Value:
        """What the first vector has of a column, then the second, and so on."""
        lanes, count = vectors[0].lanes, len(vectors)
        positions = [i + count * k for k in range(lanes)]
        woven, order = vectors[0], [min(position, lanes - 1) for position in positions]
        for number in range(1, count):
            for k, position in enumerate(positions):
                if position // lanes == number:
                    order[k] = lanes + position - self.starts[number]
            woven, order = (
                self.b.shuffle(woven, vectors[number], order),
                [*range(lanes)],
            )
        return woven
