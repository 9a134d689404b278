"""Algorithms of linalg/ as loops, with a matrix in every lane of vectors.

A part of a matrix that is no single element is not computed when it is written down,
but element by element in the loops of the statement that assigns it, or of a reduction.
What does not vary along the columns is computed once for a row.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curta.compiler.library.lane_numbers import FUNCTIONS, LaneNumbers, Number
from curta.compiler.linalg.parts import Index, Machine, Matrix, Part
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import Value
from curta.config import config


class Range(NamedTuple):
    """Rows or columns from one number to another; how many, if that is known."""

    start: Index
    stop: Index
    size: int | None


class Column(NamedTuple):
    """A column, and its slot in a group of columns."""

    index: Index
    slot: int = 0


Group = tuple[Column, ...]
"""Columns that are worked on at a time."""


class LanePart(Part):
    """A part that may vary along `rows`, a range, and `columns`, a range or group."""

    rows: Range | None = None
    columns: Range | Group | None = None

    def __init__(self, p: LaneMachine) -> None:
        self.p = p

    @abstractmethod
    def at(self, i: Index, j: Column) -> Number:
        """The element in a row and a column."""

    def prepare(self, i: Index) -> None:
        """Compute what all columns of a row have alike."""

    @property
    def is_complex(self) -> bool:
        return self.p.m.parts == 2

    @property
    def number(self) -> Number:
        """The one element."""
        assert self.rows is None and self.columns is None
        return self.at(0, Column(0))

    def apply(self, name: str, *others: Any) -> Part:
        operands = [self, *(self.p.part(x) for x in others)]
        if name == "over" and isinstance(self.columns, Range) and self.columns.size:
            few = self.columns.size < config.tuning.lane_quotients
            name = "div" if few else name
        return self.p.made(name, operands)

    def _fold(self, start: Number, step: Callable[..., Number]) -> Part:
        """`step(before, i, j)` over the rows, for each of a group of columns."""
        assert self.rows is not None and not isinstance(self.columns, Range)
        columns = self.columns or (Column(0),)
        size = len(start)
        with self.p.b.loop(*self.rows[:2], carried=list(start) * len(columns)) as loop:
            self.prepare(loop.index)
            parts = loop.carried
            known = [tuple(parts[i : i + size]) for i in range(0, len(parts), size)]
            pairs = zip(known, columns, strict=True)
            loop.next(*(x for old, c in pairs for x in step(old, loop.index, c)))
        parts = loop.results
        numbers = [tuple(parts[i : i + size]) for i in range(0, len(parts), size)]
        return _Numbers(self.p, numbers, self.columns)

    def sum(self) -> Part:
        m = self.p.m
        zero = m.constant(0) if self.is_complex else m.constant(0)[:1]
        factors = self.operands if isinstance(self, _Made) and _is_product(self) else ()

        def step(before: Number, i: Index, j: Column) -> Number:
            if not factors:
                return m.each("add", before, self.at(i, j))
            x, y = (factor.at(i, j) for factor in factors)
            return m.muladd(x, y, before)

        return self._fold(zero, step)

    def largest(self) -> Part:
        b = self.p.b
        zero = (b.const(self.p.m.vector, 0),)
        return self._fold(
            zero, lambda before, i, j: (b.max(self.at(i, j)[0], before[0]),)
        )

    def all(self) -> Part:
        b = self.p.b
        true = self.p.constant(True).number
        return self._fold(
            true, lambda before, i, j: (b.and_(before[0], self.at(i, j)[0]),)
        )

    def argmax(self) -> Part:
        assert self.rows is not None
        b, (start, stop, _) = self.p.b, self.rows
        (size,), here = self.at(start, Column(0)), self.p.splat(start)
        with b.loop(start + 1, stop, carried=[size, here]) as row:
            size, result = row.carried
            (other,) = self.at(row.index, Column(0))
            greater, number = b.compare("gt", other, size), self.p.splat(row.index)
            row.next(b.select(greater, other, size), b.select(greater, number, result))
        return _Numbers(self.p, [(row.results[1],)])

    @property
    def H(self) -> Part:
        return _Adjoint(self)


class _Numbers(LanePart):
    """Known elements: one, or one for each of a group of columns."""

    def __init__(
        self, p: LaneMachine, values: Sequence[Number], columns: Any = None
    ) -> None:
        super().__init__(p)
        self.values, self.columns = values, columns

    @property
    def is_complex(self) -> bool:
        return len(self.values[0]) == 2

    def at(self, i: Index, j: Column) -> Number:
        return self.values[j.slot if self.columns else 0]


class _Elements(LanePart):
    """Elements of a matrix."""

    def __init__(self, matrix: LaneMatrix, rows: Any, columns: Any) -> None:
        super().__init__(matrix.p)
        self.matrix, self._row, self._column = matrix, rows, columns
        self.rows = rows if type(rows) is Range else None
        self.columns = columns if isinstance(columns, tuple) else None
        self._start = None if self.rows else matrix.start(rows)
        self._of: Any = None
        self._known: Number | None = None  # of a column, in row `_of`

    @property
    def is_complex(self) -> bool:
        return self.matrix.numbers.parts == 2

    def prepare(self, i: Index) -> None:
        if self.rows and self._of is not i:
            self._start, self._of = self.matrix.start(i), i
            if self.columns is None:
                self._known = self.matrix.load(self._start, self._column)

    def at(self, i: Index, j: Column) -> Number:
        self.prepare(i)
        if self._known is not None:
            return self._known
        column = j.index if self.columns else self._column
        return self.matrix.load(self._start, column)


class _Adjoint(LanePart):
    """A column as a row."""

    def __init__(self, column: LanePart) -> None:
        super().__init__(column.p)
        assert column.columns is None
        self.column, self.columns = column, column.rows

    @property
    def is_complex(self) -> bool:
        return self.column.is_complex

    def at(self, i: Index, j: Column) -> Number:
        return self.p.m.conjugate(self.column.at(j.index, Column(0)))


class _Made(LanePart):
    """A function of elements."""

    def __init__(
        self, name: str, operands: Sequence[LanePart], function: Callable[..., Number]
    ) -> None:
        super().__init__(operands[0].p)
        self.name, self.operands, self.function = name, operands, function
        self.rows = next((x.rows for x in operands if x.rows), None)
        self.columns = next((x.columns for x in operands if x.columns), None)
        self._known: tuple[Any, Number] | None = None

    _REAL: ClassVar[frozenset[str]] = frozenset({"real", "imag", "abs", "sqrt"})
    _CONDITIONS: ClassVar[frozenset[str]] = frozenset({"lt", "gt", "eq", "ne", "and"})

    @property
    def is_complex(self) -> bool:
        if self.name in self._REAL or self.name in self._CONDITIONS:
            return False
        return any(x.is_complex for x in self.operands)

    def prepare(self, i: Index) -> None:
        if self.rows and self.columns is None:
            self.at(i, Column(0))
        for operand in self.operands:
            operand.prepare(i)

    def at(self, i: Index, j: Column) -> Number:
        alone = self.rows is not None and self.columns is None
        if alone and self._known is not None and self._known[0] is i:
            return self._known[1]
        result = self.function(*(x.at(i, j) for x in self.operands))
        if alone:
            self._known = i, result
        return result


class LaneMatrix(Matrix):
    """A matrix in memory, row after row, each element a vector or two.

    It may be seen transposed, from its last row and column, or conjugated.
    """

    p: LaneMachine
    array: Value
    numbers: LaneNumbers
    view: View
    shape: tuple[int, int]

    def __init__(
        self,
        p: LaneMachine,
        array: Value,
        shape: tuple[int, int],
        numbers: LaneNumbers,
        view: View,
    ) -> None:
        self.p, self.array, self.numbers, self.view = p, array, numbers, view
        self.shape = shape[::-1] if view.transposed else shape
        self._strides = (1, shape[1]) if view.transposed else (shape[1], 1)

    def start(self, row: Index) -> Index:
        """Where a row begins."""
        return self._along(0, row)

    def _along(self, axis: int, index: Index) -> Index:
        if self.view.reversed[axis]:
            last = self.shape[axis] - 1
            known = isinstance(index, int)
            index = last - index if known else self.p.b.sub(last, index)
        stride = self._strides[axis]
        return index if stride == 1 else index * stride

    def load(self, start: Index, column: Index) -> Number:
        result = self.numbers.load(self.array, self._offset(start, column))
        return self.numbers.conjugate(result) if self.view.conjugated else result

    def _offset(self, start: Index, column: Index) -> Index:
        offset = self._along(1, column)
        return offset + start if isinstance(start, int) else start + offset

    def store(self, x: Number, start: Index, column: Index) -> None:
        if len(x) < self.numbers.parts:
            x = self.numbers.of_real(x[0])
        self.numbers.store(x, self.array, self._offset(start, column))

    def _selected(self, axis: int, index: Any) -> Any:
        """An index, a range, or a group of columns."""
        if not isinstance(index, slice):
            return index
        whole = index.start is None and index.stop is None
        size = self.shape[axis]
        start = 0 if index.start is None else index.start
        stop = size if index.stop is None else index.stop
        return Range(start, stop, size if whole else None)

    def __getitem__(self, index: tuple[Any, Any]) -> Part:
        rows, columns = (self._selected(axis, x) for axis, x in enumerate(index))
        return self.p.known(_Elements(self, rows, columns))

    def __setitem__(self, index: tuple[Any, Any], part: Any) -> None:
        self._assign(index, part, None)

    def set_lower(self, index: tuple[Any, Any], part: Part) -> None:
        self._assign(index, part, lambda i: i + 1)

    def _assign(self, index: Any, part: Any, stop: Any) -> None:
        part = self.p.part(part)
        rows, columns = (self._selected(axis, x) for axis, x in enumerate(index))
        with self.p.each(rows) as i:
            part.prepare(i)
            start = self.start(i)
            if stop is not None:
                columns = columns._replace(stop=stop(i))
            if type(columns) is tuple:
                for column in columns:
                    self.store(part.at(i, column), start, column.index)
                return
            with self.p.each(columns) as j:
                self.store(part.at(i, Column(j)), start, j)

    def set_rows(self, *rows: tuple[Index, Part]) -> None:
        parts = [self.p.part(part) for _, part in rows]
        starts = [self.start(i) for i, _ in rows]
        with self.p.b.loop(0, self.shape[1]) as loop:
            values = [part.at(0, Column(loop.index)) for part in parts]
            for value, start in zip(values, starts, strict=True):
                self.store(value, start, loop.index)

    def clear_above_diagonal(self) -> None:
        n = self.shape[1]
        zero, b = self.numbers.constant(0), self.p.b
        with b.loop(0, self.shape[0]) as row, b.loop(row.index + 1, n) as column:
            self.store(zero, self.start(row.index), column.index)

    def set_where(self, condition: Part, number: float) -> None:
        (mask,) = self.p.part(condition).number
        b, given = self.p.b, self.numbers.constant(number)
        with b.when(b.any_lane(mask)), b.loop(0, self.shape[0]) as row:
            start = self.start(row.index)
            with b.loop(0, self.shape[1]) as column:
                x = self.numbers.load(self.array, self._offset(start, column.index))
                self.store(self.numbers.select(mask, given, x), start, column.index)


class View(NamedTuple):
    """How a matrix is seen."""

    transposed: bool = False
    reversed: tuple[bool, bool] = (False, False)
    conjugated: bool = False


class LaneMachine(Machine):
    """Writes loops into a function."""

    m: LaneNumbers
    b: Builder

    def __init__(self, m: LaneNumbers) -> None:
        self.m, self.b = m, m.b
        self._whole = LaneNumbers(m.b, m.vector.with_kind("i32"), 1)

    def matrix(
        self, array: Value, shape: tuple[int, int], integer: bool, view: View
    ) -> LaneMatrix:
        """A matrix that lies in memory."""
        numbers = self._whole if integer else self.m
        return LaneMatrix(self, array, shape, numbers, view)

    @property
    def limits(self) -> Any:
        return np.finfo(np.float32 if self.m.vector.kind == "f32" else np.float64)

    def part(self, x: Any) -> LanePart:
        """A number as a part."""
        return x if isinstance(x, LanePart) else self.constant(x)

    def constant(self, value: float | bool) -> LanePart:
        if isinstance(value, bool):
            return _Numbers(self, [(self.b.const(self.m.vector.as_mask, value),)])
        return _Numbers(self, [self.m.constant(value)[:1]])

    def known(self, part: LanePart) -> LanePart:
        """The part, computed at once if that takes no loop."""
        if part.rows is not None or isinstance(part.columns, Range):
            return part
        columns = part.columns or (Column(0),)
        return _Numbers(self, [part.at(0, c) for c in columns], part.columns)

    def made(self, name: str, operands: Sequence[LanePart]) -> LanePart:
        """A function of parts, by its name."""
        return self.known(_made(self, name, operands))

    def splat(self, number: Index) -> Value:
        """An index in all lanes, as 32-bit integers."""
        lanes = self.m.vector.lanes
        if isinstance(number, int):
            return self.b.const(self._whole.vector, number)
        return self.b.splat(self.b.convert(number, "i32"), lanes)

    @contextmanager
    def each(self, selected: Any) -> Iterator[Index]:
        """A loop over a range; an index as it is."""
        if type(selected) is not Range:
            yield selected
            return
        with self.b.loop(*selected[:2]) as loop:
            yield loop.index

    def repeat(
        self,
        start: int,
        stop: int,
        body: Callable[..., Any],
        *carried: Part,
        reverse: bool = False,
    ) -> Sequence[Part]:
        if start >= stop:
            return carried
        given = [x for part in carried for x in self.part(part).number]
        with self.b.loop(start, stop, carried=given) as loop:
            index = loop.index
            if reverse:
                index = self.b.sub(start + stop - 1, index)
            now = self._split(carried, loop.carried)
            following = body(index, *now) or ()
            loop.next(*(x for part in following for x in self.part(part).number))
        return self._split(carried, loop.results)

    def _split(self, like: Sequence[Part], values: Sequence[Value]) -> list[Part]:
        left = iter(values)
        sizes = [len(self.part(part).number) for part in like]
        return [_Numbers(self, [tuple(next(left) for _ in range(n))]) for n in sizes]

    def by_columns(self, a: Matrix, start: Index, body: Callable[[Any], None]) -> None:
        b, stop, size = self.b, a.shape[1], config.tuning.lane_sums
        whole = b.sub(stop, start) - b.urem(b.sub(stop, start), size)
        with b.loop(start, start + whole, size) as loop:
            body(tuple(Column(loop.index + c, c) for c in range(size)))
        with b.loop(start + whole, stop) as loop:
            body((Column(loop.index),))

    def number_rows(self, a: Matrix) -> None:
        with self.b.loop(0, a.shape[0]) as row:
            a[row.index, 0] = _Numbers(self, [(self.splat(row.index),)])

    def exchange_rows(
        self, k: Index, other: Part, *matrices: Matrix, start: Index | None = None
    ) -> None:
        b, (chosen,) = self.b, self.part(other).number
        with b.when(b.any_lane(b.ne(chosen, self.splat(k)))):
            for a in matrices:
                assert isinstance(a, LaneMatrix)
                n = a.shape[1]
                with b.loop(0, n) as column:
                    pivot = b.mul(chosen, n) + self.splat(column.index)
                    _exchange(a.numbers, a.array, a.start(k) + column.index, pivot)


def _made(p: LaneMachine, name: str, operands: Sequence[LanePart]) -> LanePart:
    """A function of parts, where a product and a sum are one, and divisors prepared."""
    m, (x, *others) = p.m, operands
    if name in ("div", "over") and others[0].rows is None and others[0].columns is None:
        divisor = others[0].number
        return _Made(name, [x], (m.quotients if name == "div" else m.products)(divisor))
    if name in ("add", "sub"):
        x, y = (x, others[0]) if _is_product(others[0]) else (others[0], x)
        if _is_product(y) and (name == "add" or y is others[0]):
            assert isinstance(y, _Made)
            factor, other = y.operands
            if name == "sub":
                factor = p.made("neg", [factor])
            return _Made("muladd", [factor, other, x], _function(m, "muladd"))
    return _Made(name, operands, _function(m, name))


def _is_product(x: LanePart) -> bool:
    return isinstance(x, _Made) and x.name == "mul"


def _function(m: LaneNumbers, name: str) -> Callable[..., Number]:
    return lambda *xs: FUNCTIONS[name](m, *xs)


def _exchange(m: LaneNumbers, array: Value, offset: Value, others: Value) -> None:
    """Exchange an element with one that may be another for every lane."""
    here = m.load(array, offset)
    pointers = m.addresses(array, others)
    m.store(tuple(m.b.gather(m.vector, p) for p in pointers), array, offset)
    for x, pointer in zip(here, pointers, strict=True):
        m.b.scatter(x, pointer)
