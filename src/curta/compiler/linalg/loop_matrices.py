"""Matrices of loop programs (loops.py): in memory, or small ones in registers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.linalg.loops import Column, Index, LoopMachine, LoopPart, Range
from curta.compiler.linalg.numbers import conj
from curta.compiler.linalg.parts import Matrix, MatrixView, Part
from curta.compiler.loops.build import Scalar, ScalarBuilder
from curta.compiler.loops.complexes import parts
from curta.compiler.loops.element_types import INT32
from curta.compiler.loops.index import ZERO, Affine, LoopVar, as_index, row_major
from curta.compiler.loops.nodes import Buffer, Copy, Pack, Store, View
from curta.primitives.linalg.family import not_a_number

Value = tuple[Scalar, Index, Index]
"""An element, with its row and column."""


class LoopMatrix(Matrix):
    """A matrix whose elements lie row after row, and are seen as the view says.

    Vectors may go along its rows; `row_lane` is the column then.
    """

    row_lane: LoopVar | None = None

    def __init__(
        self, p: LoopMachine, shape: tuple[int, int], dtype: Any, view: MatrixView
    ) -> None:
        self.p, self.dtype, self.view = p, dtype, view
        self.array, self.shape = shape, shape[::-1] if view.transposed else shape
        self.count: int = 2 if dtype.kind == "c" else 1

    @abstractmethod
    def now(self) -> Callable[[Index, Index], Scalar]:
        """Return a reader of the current elements, by row and column."""

    @abstractmethod
    def stores(self, *values: Value) -> list[Store]:
        """Return a writer of elements in memory; other elements are set."""

    @abstractmethod
    def read(self, rows: Buffer) -> None:
        """Take matrices that are contiguous in memory."""

    @abstractmethod
    def write(self, rows: Buffer) -> None:
        """Put the matrices in memory, one after the other."""

    @abstractmethod
    def exchange(self, k: Index, other: Scalar, start: Index) -> None:
        """Exchange row k with another one, which is read from data.

        It does not precede row `start`.
        """

    def placed(self, axis: int, index: Index) -> Affine:
        """The index along a dim of the matrix as it lies, not as it is seen."""
        index = as_index(index)
        return self.shape[axis] - 1 - index if self.view.reversed[axis] else index

    def each_column(self) -> Any:
        """The columns of a loop, or all of them."""
        return self.p.each(self._selected(1, slice(None)), columns=True)

    def _selected(self, axis: int, index: Any) -> Any:
        """An index, a range, or a group of columns."""
        if not isinstance(index, slice):
            return index
        start, stop, size = index.start, index.stop, self.shape[axis]
        known = size if start is None and stop is None else None
        stop = size if stop is None else stop
        return Range(as_index(start or 0), as_index(stop), known)

    def __getitem__(self, index: tuple[Any, Any]) -> Part:
        row, column = (self._selected(axis, x) for axis, x in enumerate(index))
        rows = row if type(row) is Range else None
        columns = column if isinstance(column, tuple) else None
        now, b = self.now(), self.p.b

        def at(i: Index, j: Column) -> Scalar:
            x = now(i if rows else row, j.index if columns else column)
            return conj(b, x) if self.view.conjugated else x

        return self.p.known(at, rows, columns)

    def __setitem__(self, index: tuple[Any, Any], part: Any) -> None:
        self._assign(index, self.p.part(part), lambda i: None)

    def set_lower(self, index: tuple[Any, Any], part: Part) -> None:
        self._assign(index, self.p.part(part), lambda i: i + 1)

    def _assign(self, index: Any, part: LoopPart, stop: Callable[..., Any]) -> None:
        rows, columns = (self._selected(axis, x) for axis, x in enumerate(index))
        for i in self.p.each(rows):
            if type(columns) is Range:
                columns_now = columns._replace(stop=stop(i) or columns.stop)
                for j in self.p.each(columns_now, columns=True):
                    self.p.put(self.stores((part.at(i, Column(j)), i, j)))
            else:
                group = columns if isinstance(columns, tuple) else (Column(columns),)
                values = ((part.at(i, c), i, c.index) for c in group)
                self.p.put(self.stores(*values))

    def set_nan_where(self, condition: Part) -> None:
        p, mask = self.p, self.p.part(condition).number
        new = p.b.const(not_a_number(self.dtype), self.dtype)
        with p.where_any(mask):
            old = p.part(self[:, :])

            def at(i: Index, j: Column) -> Scalar:
                return p.b.select(mask, new, old.at(i, j))

            self[:, :] = LoopPart(p, at, old.rows, old.columns)


class MemoryMatrix(LoopMatrix):
    """A matrix in memory, an element of all matrices after the other."""

    def __init__(self, memory: Buffer, *given: Any) -> None:
        super().__init__(*given)
        self.memory = memory
        _, columns = self.array
        self._strides = (1, columns) if self.view.transposed else (columns, 1)

    def _name(self) -> Buffer:
        """A further name of the memory, for what it holds at one time."""
        memory = self.memory
        name = f"{memory.name}.{self.p.b.fresh()}"
        return Buffer(name, memory.dtype, memory.size, View(memory, ZERO))

    def _places(self, row: Index, column: Index) -> list[Affine]:
        """Where the parts of an element lie."""
        p, count, offset = self.p, self.count, ZERO
        for axis, index in enumerate((row, column)):
            offset = offset + self.placed(axis, index) * self._strides[axis]
        return [(offset * count + i) * p.lanes + p.lane for i in range(count)]

    def now(self) -> Callable[[Index, Index], Scalar]:
        memory, b = self._name(), self.p.b
        return lambda i, j: _loaded(b, memory, self._places(i, j))

    def stores(self, *values: Value) -> list[Store]:
        memory, b = self._name(), self.p.b
        stores: list[Store] = []
        for x, *at in values:
            places = self._places(*at)
            stores += _stores(memory, places, b.convert(x, self.dtype))
        return stores

    def read(self, rows: Buffer) -> None:
        self._move(rows, back=False)

    def write(self, rows: Buffer) -> None:
        self._move(rows, back=True)

    def _move(self, rows: Buffer, back: bool) -> None:
        """By squares in registers or, of few elements, one by one."""
        p, lanes, columns = self.p, self.p.lanes, self._name()
        size = rows.size // lanes
        if lanes == 1:
            return p.body.append(Copy(*((rows, columns) if back else (columns, rows))))
        if size >= lanes and rows.dtype.kind == "f":
            return p.body.append(Pack(rows, columns, size, lanes, back))
        for i in p.each(Range(ZERO, as_index(size))):
            ends = (rows, i + p.lane * size), (columns, i * lanes + p.lane)
            (source, first), (to, second) = ends[::-1] if back else ends
            p.put(_stores(to, [second], _loaded(p.b, source, [first])))
        return None

    def exchange(self, k: Index, other: Scalar, start: Index) -> None:
        b, now = self.p.b, self.now()
        # Whatever it is, only rows are touched.
        low, high = b.const(0, INT32), b.const(self.shape[0] - 1, INT32)
        there = b.min(b.max(other, low), high).as_index()
        for j in self.each_column():
            x, y = (now(i, j) for i in (k, there))
            self.p.put(self.stores((y, k, j), (x, there, j)), ordered=True)


class RegisterMatrix(LoopMatrix):
    """A matrix of few elements in registers: all indices are known.

    There is one for each element, or `by_rows`, if these are not too short, a vector
    for each row as it is seen.
    """

    def __init__(self, by_rows: bool, *given: Any) -> None:
        super().__init__(*given)
        m, n = self.shape
        by_rows = by_rows and n > self.p.tuning.register_matrix
        self.row_lane = LoopVar(f"column{n}", n) if by_rows else None
        zero, count = self.p.b.const(0, self.dtype), m if self.row_lane else m * n
        # By the number of the row, or the element; from the column.
        self._held: dict[int, Callable[[Affine], Scalar]]
        self._held = dict.fromkeys(range(count), lambda _: zero)

    def each_column(self) -> list[Affine]:
        _, n = self.shape
        return (
            [as_index(self.row_lane)]
            if self.row_lane
            else [as_index(j) for j in range(n)]
        )

    def now(self) -> Callable[[Index, Index], Scalar]:
        held, b = dict(self._held), self.p.b

        def at(i: Index, j: Index) -> Scalar:
            i, j = as_index(i), as_index(j)
            place = i if self.row_lane else row_major((i, j), self.shape)
            if place.is_constant:
                return held[place.const](j)
            value, *others = (element(j) for element in held.values())
            for k, x in enumerate(others, 1):
                value = b.select(b.compare("eq", place, k), x, value)
            return value

        return at

    def stores(self, *values: Value) -> list[Store]:
        for x, i, j in values:
            self._hold(as_index(i).const, as_index(j), self.p.b.convert(x, self.dtype))
        return []

    def _hold(self, i: int, j: Affine, x: Scalar) -> None:
        """A new element, or row."""
        if self.row_lane is None:
            (x,) = self.p.registers([x])
            self._held[i * self.shape[1] + j.const] = lambda _: x
            return
        b, old, lane = self.p.b, self._held[i], as_index(self.row_lane)
        inside = b.compare("eq", lane, j) if j.is_constant else self.p.mask
        if inside is not None:
            x = b.select(inside, x, old(lane))
        numbers = parts(x)
        size = len(numbers) * self.row_lane.extent
        row = Buffer(f"r{b.fresh()}", numbers[0].dtype, size, "vector")
        places = [lane * len(numbers) + k for k in range(len(numbers))]
        self.p.put(_stores(row, places, x), dims=(self.row_lane,))
        self._held[i] = lambda j: b.load(row, j, self.dtype)

    def _assign(self, index: Any, part: LoopPart, stop: Callable[..., Any]) -> None:
        rows, columns = (self._selected(axis, x) for axis, x in enumerate(index))
        if self.row_lane is None or type(columns) is not Range:
            return super()._assign(index, part, stop)
        b, lane = self.p.b, as_index(self.row_lane)
        bounds = zip(("ge", "lt"), columns[:2], strict=True)
        inside = b.and_(*(b.compare(how, lane, end) for how, end in bounds))
        with self.p.along(self.row_lane, inside):
            for i in self.p.each(rows):
                self.stores((part.at(i, Column(lane)), i, lane))
        return None

    def exchange(self, k: Index, other: Scalar, start: Index) -> None:
        b, now = self.p.b, self.now()
        first, last = as_index(start).const, self.shape[0]
        hits = {i: b.compare("eq", other, i) for i in range(first, last)}
        for j in self.each_column():
            here = chosen = now(k, j)
            for i, hit in hits.items():
                old = now(i, j)
                chosen = b.select(hit, old, chosen)
                self.stores((b.select(hit, here, old), i, j))
            self.stores((chosen, k, j))

    # ------------------------------------------------------------- arrays

    def take(self, element: Callable[[Index, Index], Scalar]) -> None:
        """Begin with the elements that an array has at its rows and columns."""
        for i in range(self.shape[0]):
            for j in self.each_column():
                place = self.placed(0, i), self.placed(1, j)
                place = place[::-1] if self.view.transposed else place
                self.stores((element(*place), i, j))

    def given(self) -> Callable[[Index, Index], Scalar]:
        """Return a reader of the current elements of the array."""
        now, back = self.now(), self.view.transposed

        def at(*place: Index) -> Scalar:
            seen = enumerate(place[::-1] if back else place)
            return now(*(self.placed(axis, x) for axis, x in seen))

        return at

    def _places(self, row: Index, column: Index) -> list[Affine]:
        """Where an element lies among matrices in memory, one after the other."""
        m, n = self.array
        offset = self.p.lane * (m * n) + row * n + column
        return [offset * self.count + k for k in range(self.count)]

    def read(self, rows: Buffer) -> None:
        self.take(lambda i, j: _loaded(self.p.b, rows, self._places(i, j)))

    def write(self, rows: Buffer) -> None:
        element, (m, n) = self.given(), self.array
        lane = LoopVar(f"column{n}", n) if self.row_lane and n > 1 else None
        columns = [as_index(lane)] if lane else [as_index(j) for j in range(n)]
        for i in map(as_index, range(m)):
            self.p.put(
                [
                    x
                    for j in columns
                    for x in _stores(rows, self._places(i, j), element(i, j))
                ],
                dims=(lane,) if lane else None,
            )


def _loaded(b: ScalarBuilder, memory: Buffer, at: Sequence[Affine]) -> Scalar:
    """The number whose parts lie somewhere."""
    found = [b.load_where(memory, i, None, memory.dtype) for i in at]
    return b.complex(*found) if len(found) == 2 else found[0]


def _stores(memory: Buffer, at: Sequence[Affine], x: Scalar) -> list[Store]:
    """What puts the parts of a number somewhere."""
    return [Store(memory, i, n) for i, n in zip(at, parts(x), strict=True)]
