"""Algorithms of this package as ops on whole matrices, with masks for parts of them.

Loops are written out, so that masks are known and indices of elements are constants; or
they are loops of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from curta.compiler.linalg.parts import Index, Machine, Matrix, Part
from curta.compiler.linalg.tensors import (
    INT,
    Tensor,
    below_diagonal,
    column_numbers,
    filled,
    joined,
    repeat,
    row_numbers,
    spread,
    where,
)
from curta.primitives.elementwise.arithmetic import add, sub


class Iteration:
    """The number of an iteration of a loop of the program."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __add__(self, other: int) -> Iteration:
        return Iteration(add(self.value, INT.type(other)))


class Range(NamedTuple):
    """Rows or columns from one number to another; None is the first, or beyond all."""

    start: Index | None
    stop: Index | None

    @property
    def is_known(self) -> bool:
        """Whether all bounds are."""
        return not any(isinstance(x, Iteration) for x in self)


def _scalar(index: Index) -> Any:
    return INT.type(index) if isinstance(index, int) else index.value


def _inside(numbers: Tensor, selected: Any) -> Tensor | None:
    """Which rows or columns are selected; None if all are."""
    if not isinstance(selected, Range):
        return numbers.equals(_scalar(selected))
    start, stop = selected
    above = None if start is None else numbers >= _scalar(start)
    below = None if stop is None else numbers < _scalar(stop)
    return _both(above, below)


def _both(x: Tensor | None, y: Tensor | None) -> Tensor | None:
    if x is None or y is None:
        return y if x is None else x
    return x & y


class OpPart(Part):
    """Rows and columns of a matrix, of which those in a range are meant.

    Rows of a known range are there alone; of others, and of columns, there are all.
    """

    value: Tensor
    rows: Range | None
    columns: Range | None

    def __init__(
        self, value: Tensor, rows: Range | None = None, columns: Range | None = None
    ) -> None:
        self.value, self.rows, self.columns = value, rows, columns

    @property
    def is_complex(self) -> bool:
        return self.value.is_complex

    def apply(self, name: str, *others: Any) -> Part:
        parts = [self, *(x for x in others if isinstance(x, OpPart))]
        values = [x.value if isinstance(x, OpPart) else x for x in others]
        rows = next((x.rows for x in parts if x.rows), None)
        columns = next((x.columns for x in parts if x.columns), None)
        return OpPart(self.value.apply(name, *values), rows, columns)

    def _masked(self, neutral: float | bool) -> Tensor:
        """The elements, and something else in rows that are not meant."""
        assert self.rows is not None
        if self.rows.is_known:
            return self.value
        mask = _inside(row_numbers(self.value.shape[0]), self.rows)
        return self.value if mask is None else where(mask, self.value, neutral)

    def sum(self) -> Part:
        return OpPart(self._masked(0).sum(0), None, self.columns)

    def largest(self) -> Part:
        none = not self.value.shape[0]
        return OpPart(
            filled(1, 1, self.value.dtype) if none else self._masked(0).max(0)
        )

    def all(self) -> Part:
        return OpPart(self._masked(True).all())

    def argmax(self) -> Part:
        assert self.rows is not None
        index = Tensor(self._masked(-1).argmax(0)).reshape(1, 1)
        known = self.rows.is_known and self.rows.start
        return OpPart(index + INT.type(known) if known else index)

    @property
    def H(self) -> Part:
        value = self.value.H
        if self.rows and self.rows.is_known and self.rows.start:
            value = joined(1, filled(1, self.rows.start, value.dtype), value)
        return OpPart(value, self.columns, self.rows)


class OpMatrix(Matrix):
    """A value that statements replace.

    It is kept in blocks of rows, so that known ranges of rows are changed alone.
    """

    shape: tuple[int, int]

    def __init__(self, value: Tensor) -> None:
        m, n = value.shape
        self.shape = m, n
        self._blocks = [value]

    @property
    def value(self) -> Tensor:
        if len(self._blocks) > 1:
            self._blocks = [joined(0, *self._blocks)]
        return self._blocks[0]

    @value.setter
    def value(self, value: Tensor) -> None:
        self._blocks = [value]

    def _split(self, row: int) -> int:
        """The number of the block that begins with a row."""
        for number, block in enumerate(self._blocks):
            size = block.shape[0]
            if row <= 0:
                return number
            if row < size:
                parts = block.part(0, 0, row), block.part(0, row, size)
                self._blocks[number : number + 1] = parts
            row -= size
        return len(self._blocks)

    def _between(self, start: int, stop: int) -> Tensor:
        """Rows, as one block."""
        blocks = slice(self._split(start), self._split(stop))
        whole = self._blocks[blocks]
        if len(whole) == 1:
            return whole[0]
        self._blocks[blocks] = [result := self._joined(whole)]
        return result

    def _joined(self, blocks: Sequence[Tensor]) -> Tensor:
        if not blocks:
            return filled(0, self.shape[1], self._blocks[0].dtype)
        return joined(0, *blocks)

    def _rows(self, rows: Any) -> tuple[int, int] | None:
        """The bounds of known rows."""
        if isinstance(rows, int):
            return rows, rows + 1
        if isinstance(rows, Range) and rows.is_known:
            return rows.start or 0, self.shape[0] if rows.stop is None else rows.stop
        return None

    def __getitem__(self, index: tuple[Any, Any]) -> Part:
        rows, columns = map(_selected, index)
        ranges = (x if isinstance(x, Range) else None for x in (rows, columns))
        return OpPart(self._strip(rows, columns), *ranges)

    def _strip(self, rows: Any, columns: Any) -> Tensor:
        """The rows, and the column if one is selected."""
        known = self._rows(rows)
        value = self._between(*known) if known else self.value
        if isinstance(rows, Iteration):
            value = value.row(rows.value)
        if isinstance(columns, int):
            value = value.part(1, columns, columns + 1)
        elif isinstance(columns, Iteration):
            value = value.column(columns.value)
        return value

    def __setitem__(self, index: tuple[Any, Any], part: Any) -> None:
        rows, columns = map(_selected, index)
        dtype = self._blocks[0].dtype
        new = part.value if isinstance(part, OpPart) else filled(1, 1, dtype, part)
        new = new if new.dtype == dtype else new.astype(dtype)
        known = self._rows(rows)
        if known is None or isinstance(columns, Iteration):
            return self._update(rows, columns, new)
        old = self._between(*known)
        if old.shape[0]:
            mask = _inside(column_numbers(self.shape[1]), columns)
            new = spread(new, old.shape) if mask is None else where(mask, new, old)
            self._blocks[self._split(known[0])] = new
        return None

    def _update(self, rows: Any, columns: Any, new: Tensor) -> None:
        """Replace elements whose index is a loop variable."""
        strip = self._strip(rows, columns) if isinstance(rows, Iteration) else None
        strip = self._strip(Range(None, None), columns) if strip is None else strip
        mask = None
        for axis, selected in enumerate((rows, columns)):
            if isinstance(selected, Range):
                numbers = (column_numbers if axis else row_numbers)(self.shape[axis])
                mask = _both(mask, _inside(numbers, selected))
        new = spread(new, strip.shape) if mask is None else where(mask, new, strip)
        i, j = (_scalar(0 if isinstance(x, Range) else x) for x in (rows, columns))
        self.value = self.value.with_part(i, j, new)

    def set_lower(self, index: tuple[Any, Any], part: Part) -> None:
        self[index] = part

    def set_rows(self, *rows: tuple[Index, Part]) -> None:
        for i, part in rows:
            self[i, :] = part

    def clear_above_diagonal(self) -> None:
        self.value = where(below_diagonal(*self.shape), self.value, 0)

    def set_where(self, condition: Part, number: float) -> None:
        assert isinstance(condition, OpPart)
        nan = filled(*self.shape, self.value.dtype, number)
        self.value = where(condition.value, nan, self.value)

    def exchange(self, k: Index, other: Tensor, start: Index) -> None:
        """Exchange row `k` with one that does not precede row `start`."""
        if isinstance(k, Iteration):
            index = other.reshape().value
            self.value = self.value.with_rows_swapped(k.value, index)
            return
        assert not isinstance(start, Iteration)
        m, _ = self.shape
        first = wanted = self._between(k, k + 1)
        rows = self._between(start, m)
        for r in range(start, m):
            if r != k:
                row = rows.part(0, r - start, r - start + 1)
                wanted = where(other.equals(r), row, wanted)
        there = row_numbers(m - start).equals(other - start)
        self[start:, :] = OpPart(where(there, first, rows))
        self[k, :] = OpPart(wanted)


def _selected(index: Any) -> Any:
    return Range(index.start, index.stop) if isinstance(index, slice) else index


class OpMachine(Machine):
    """Records ops; `unrolled` says that loops are written out.

    `dtype` is that of the numbers.
    """

    dtype: np.dtype[Any]
    unrolled: bool

    def __init__(self, dtype: np.dtype[Any], unrolled: bool) -> None:
        self.dtype, self.unrolled = dtype, unrolled
        self._matrices: list[OpMatrix] = []
        self._constants: list[OpMatrix] = []

    def matrix(self, value: Tensor) -> OpMatrix:
        """A matrix that statements may change."""
        self._matrices.append(OpMatrix(value))
        return self._matrices[-1]

    def fixed(self, value: Tensor) -> OpMatrix:
        """A matrix that none changes."""
        self._constants.append(OpMatrix(value))
        return self._constants[-1]

    def zeros(self, m: int, n: int, dtype: Any) -> OpMatrix:
        return self.matrix(filled(m, n, dtype))

    @property
    def limits(self) -> Any:
        return np.finfo(self.dtype)

    def constant(self, value: float | bool) -> Part:
        dtype = np.dtype(bool) if isinstance(value, bool) else self.limits.dtype
        return OpPart(filled(1, 1, dtype, value))

    def repeat(
        self,
        start: int,
        stop: int,
        body: Callable[..., Any],
        *carried: Part,
        reverse: bool = False,
    ) -> Sequence[Part]:
        if self.unrolled or stop - start < 2:
            now: Sequence[Part] = carried
            order = range(start, stop)
            for i in reversed(order) if reverse else order:
                now = body(i, *now) or ()
            return now
        changing, fixed = self._matrices, self._constants
        given = [x.value for x in (*carried, *changing)]  # type: ignore[attr-defined]
        outside = [x.value for x in fixed]
        count = len(carried)

        def step(i: Any, *values: Tensor) -> list[Tensor]:
            for matrix, value in zip((*changing, *fixed), values[count:], strict=True):
                matrix.value = value
            number = sub(INT.type(stop - 1), i) if reverse else add(i, INT.type(start))
            following = body(Iteration(number), *map(OpPart, values[:count])) or ()
            return [x.value for x in (*following, *changing)]

        results = repeat(stop - start, step, given, outside)
        for matrix, value in zip(
            (*changing, *fixed), (*results[count:], *outside), strict=True
        ):
            matrix.value = value
        return [*map(OpPart, results[:count])]

    def by_columns(self, a: Matrix, start: Index, body: Callable[[Any], None]) -> None:
        body(slice(start, None))

    def number_rows(self, a: Matrix) -> None:
        assert isinstance(a, OpMatrix)
        a.value = row_numbers(a.shape[0])

    def exchange_rows(
        self, k: Index, other: Part, *matrices: Matrix, start: Index | None = None
    ) -> None:
        assert isinstance(other, OpPart)
        for a in matrices:
            assert isinstance(a, OpMatrix)
            a.exchange(k, other.value, k if start is None else start)
