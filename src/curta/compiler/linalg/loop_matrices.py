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
from curta.compiler.loops.index import ZERO, Affine, as_index
from curta.compiler.loops.nodes import Buffer, Copy, Pack, Store, View

Value = tuple[Scalar, Index, Index]
"""An element, with its row and column."""


class LoopMatrix(Matrix):
    """A matrix whose elements lie row after row, and are seen as the view says."""

    def __init__(
        self, p: LoopMachine, shape: tuple[int, int], dtype: Any, view: MatrixView
    ) -> None:
        self.p, self.dtype, self.view = p, dtype, view
        self.shape = shape[::-1] if view.transposed else shape
        self._strides = (1, shape[1]) if view.transposed else (shape[1], 1)
        self.count: int = 2 if dtype.kind == "c" else 1

    @abstractmethod
    def now(self) -> Callable[[Affine], Scalar]:
        """What gives elements as they are now, by where they lie."""

    @abstractmethod
    def stores(self, *values: Value) -> list[Store]:
        """What sets elements, if they are in memory; others are set."""

    @abstractmethod
    def read(self, rows: Buffer) -> None:
        """Take the matrices that lie in memory one after the other."""

    @abstractmethod
    def write(self, rows: Buffer) -> None:
        """Put the matrices in memory, one after the other."""

    @abstractmethod
    def exchange(self, k: Index, other: Scalar) -> None:
        """Exchange row k with another one, which is read from data."""

    def offset(self, row: Index, column: Index) -> Affine:
        """Where an element lies."""
        offset = ZERO
        for axis, index in enumerate((row, column)):
            index = as_index(index)
            if self.view.reversed[axis]:
                index = self.shape[axis] - 1 - index
            offset = offset + index * self._strides[axis]
        return offset

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
            place = i if rows else row, j.index if columns else column
            x = now(self.offset(*place))
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

    def clear_above_diagonal(self) -> None:
        for i in self.p.each(self._selected(0, slice(None))):
            for j in self.p.each(self._selected(1, slice(i + 1, None))):
                self.p.put(self.stores((self.p.b.const(0, self.dtype), i, j)))

    def set_where(self, condition: Part, number: float) -> None:
        p, mask = self.p, self.p.part(condition).number
        new = p.b.const(number, self.dtype)
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

    def _name(self) -> Buffer:
        """A further name of the memory, for what it holds at one time."""
        memory = self.memory
        name = f"{memory.name}.{self.p.b.fresh()}"
        return Buffer(name, memory.dtype, memory.size, View(memory, ZERO))

    def _places(self, offset: Affine) -> list[Affine]:
        p, count = self.p, self.count
        return [(offset * count + i) * p.lanes + p.lane for i in range(count)]

    def now(self) -> Callable[[Affine], Scalar]:
        memory, b = self._name(), self.p.b
        return lambda offset: _loaded(b, memory, self._places(offset))

    def stores(self, *values: Value) -> list[Store]:
        memory, b = self._name(), self.p.b
        stores: list[Store] = []
        for x, *at in values:
            places = self._places(self.offset(*at))
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

    def exchange(self, k: Index, other: Scalar) -> None:
        b, now = self.p.b, self.now()
        # Whatever it is, only rows are touched.
        low, high = b.const(0, INT32), b.const(self.shape[0] - 1, INT32)
        there = b.min(b.max(other, low), high).as_index()
        for j in self.each_column():
            x, y = (now(self.offset(i, j)) for i in (k, there))
            self.p.put(self.stores((y, k, j), (x, there, j)), ordered=True)


class RegisterMatrix(LoopMatrix):
    """A matrix of few elements, all of whose indices are known."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        zero = self.p.b.const(0, self.dtype)
        self.elements: list[Scalar] = [zero] * (self.shape[0] * self.shape[1])

    def now(self) -> Callable[[Affine], Scalar]:
        return lambda offset: self.elements[offset.const]

    def stores(self, *values: Value) -> list[Store]:
        new = [self.p.b.convert(x, self.dtype) for x, *_ in values]
        places = [self.offset(*at).const for _, *at in values]
        for place, x in zip(places, self.p.registers(new), strict=True):
            self.elements[place] = x
        return []

    def _places(self) -> list[list[Affine]]:
        """Where elements lie among matrices in memory, one after the other."""
        count, size = self.count, len(self.elements)
        start = self.p.lane * (size * count)
        return [[start + (i * count + k) for k in range(count)] for i in range(size)]

    def read(self, rows: Buffer) -> None:
        values = [_loaded(self.p.b, rows, at) for at in self._places()]
        self.elements = self.p.registers(values)

    def write(self, rows: Buffer) -> None:
        pairs = zip(self._places(), self.elements, strict=True)
        self.p.put([s for at, x in pairs for s in _stores(rows, at, x)])

    def exchange(self, k: Index, other: Scalar) -> None:
        b, now, row = self.p.b, self.now(), as_index(k).const
        hits = [b.compare("eq", other, i) for i in range(self.shape[0])]
        for j in self.each_column():
            here, chosen = now(self.offset(k, j)), now(self.offset(k, j))
            values: list[Value] = []
            for i, hit in enumerate(hits):
                old = now(self.offset(i, j))
                chosen = b.select(hit, old, chosen)
                values.append((b.select(hit, here, old), i, j))
            values[row] = chosen, k, j
            self.stores(*values)


def _loaded(b: ScalarBuilder, memory: Buffer, at: Sequence[Affine]) -> Scalar:
    """The number whose parts lie somewhere."""
    found = [b.load_where(memory, i, None, memory.dtype) for i in at]
    return b.complex(*found) if len(found) == 2 else found[0]


def _stores(memory: Buffer, at: Sequence[Affine], x: Scalar) -> list[Store]:
    """What puts the parts of a number somewhere."""
    return [Store(memory, i, n) for i, n in zip(at, parts(x), strict=True)]
