"""Algorithms of this package as ops on whole matrices, with masks for parts of them.

Loops are written out, so that masks are known and indices of elements are constants; or
they are loops of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta.compiler.linalg.parts import Index, Machine, Matrix, where
from curta.compiler.linalg.tensors import (
    INT,
    Iteration,
    Range,
    Tensor,
    below_diagonal,
    both,
    column_numbers,
    filled,
    inside,
    joined,
    repeat,
    row_numbers,
    scalar,
    spread,
)
from curta.primitives.elementwise.arithmetic import add, sub


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

    def __getitem__(self, index: tuple[Any, Any]) -> Any:
        rows, columns = map(_selected, index)
        strip = self._strip(rows, columns)
        return Tensor(strip.value, rows if isinstance(rows, Range) else None)

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
        new = part if isinstance(part, Tensor) else filled(1, 1, dtype, part)
        new = new if new.dtype == dtype else new.astype(dtype)
        known = self._rows(rows)
        if known is None or isinstance(columns, Iteration):
            return self._update(rows, columns, new)
        old = self._between(*known)
        if old.shape[0]:
            mask = inside(column_numbers(self.shape[1]), columns)
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
                mask = both(mask, inside(numbers, selected))
        new = spread(new, strip.shape) if mask is None else where(mask, new, strip)
        i, j = (scalar(0 if isinstance(x, Range) else x) for x in (rows, columns))
        self.value = self.value.with_part(i, j, new)

    def set_lower(self, index: tuple[Any, Any], part: Any) -> None:
        self[index] = part

    def clear_above_diagonal(self) -> None:
        self.value = where(below_diagonal(*self.shape), self.value, 0)

    def set_where(self, condition: Any, number: float) -> None:
        nan = filled(*self.shape, self.value.dtype, number)
        self.value = where(condition, nan, self.value)

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
        self[start:, :] = where(there, first, rows)
        self[k, :] = wanted


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

    def matrix(self, value: Tensor) -> OpMatrix:
        """A matrix that statements may change."""
        self._matrices.append(OpMatrix(value))
        return self._matrices[-1]

    @property
    def limits(self) -> Any:
        return np.finfo(self.dtype)

    def constant(self, value: float | bool) -> Any:
        dtype = np.dtype(bool) if isinstance(value, bool) else self.limits.dtype
        return filled(1, 1, dtype, value)

    def repeat(
        self,
        start: int,
        stop: int,
        body: Callable[..., Any],
        *carried: Any,
        reverse: bool = False,
    ) -> Sequence[Any]:
        if self.unrolled or stop - start < 2:
            now: Sequence[Any] = carried
            order = range(start, stop)
            for i in reversed(order) if reverse else order:
                now = body(i, *now) or ()
            return now
        matrices, count = self._matrices, len(carried)
        given = [*carried, *(x.value for x in matrices)]

        def assign(values: Sequence[Tensor]) -> None:
            for matrix, value in zip(matrices, values[count:], strict=True):
                matrix.value = value

        def step(i: Any, *values: Tensor) -> list[Tensor]:
            assign(values)
            number = sub(INT.type(stop - 1), i) if reverse else add(i, INT.type(start))
            following = body(Iteration(number), *values[:count]) or ()
            return [*following, *(x.value for x in matrices)]

        results = repeat(stop - start, step, given)
        assign(results)
        return results[:count]

    def set_rows(self, *rows: tuple[Matrix, Index, Any]) -> None:
        for matrix, i, part in rows:
            matrix[i, :] = part

    def by_columns(self, a: Matrix, start: Index, body: Callable[[Any], None]) -> None:
        body(slice(start, None))

    def number_rows(self, a: Matrix) -> None:
        assert isinstance(a, OpMatrix)
        a.value = row_numbers(a.shape[0])

    def exchange_rows(
        self, k: Index, other: Any, *matrices: Matrix, start: Index | None = None
    ) -> None:
        for a in matrices:
            assert isinstance(a, OpMatrix)
            a.exchange(k, other, k if start is None else start)
