"""Algorithms of this package as loop programs, with a matrix in every lane of vectors.

Matrices lie in memory element by element, each a vector with the element of as many
matrices as it has lanes. A part of a matrix that is no single element is not computed
when it is written down, but element by element in the loops of the statement that
assigns it, or of a reduction. What does not vary along them is computed before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import numpy as np

from curta.compiler.linalg.numbers import FUNCTIONS, conj
from curta.compiler.linalg.parts import Matrix, MatrixMachine, Part
from curta.compiler.loops.build import Scalar, ScalarBuilder
from curta.compiler.loops.complexes import parts
from curta.compiler.loops.element_types import INT32
from curta.compiler.loops.index import ZERO, Affine, LoopVar, as_index
from curta.compiler.loops.nodes import (
    Buffer,
    Carry,
    Const,
    For,
    If,
    LoopNest,
    Statement,
    Storage,
    Store,
)
from curta.compiler.targets import Tuning

Index = Any
"""A number, or an index of loops."""


class Range(NamedTuple):
    """Rows or columns from one number to another; how many, if that is known."""

    start: Affine
    stop: Affine
    size: int | None = None


class Column(NamedTuple):
    """A column, and its slot in a group of columns."""

    index: Index
    slot: int = 0


Group = tuple[Column, ...]
"""Columns that are worked on at a time."""


class LoopPart(Part):
    """A part that may vary along `rows`, a range, and `columns`, a range or group.

    `at` gives the element in a row and a column.
    """

    def __init__(
        self,
        p: LoopMachine,
        at: Callable[[Index, Column], Scalar],
        rows: Range | None = None,
        columns: Range | Group | None = None,
    ) -> None:
        self.p, self.at, self.rows, self.columns = p, at, rows, columns

    @property
    def number(self) -> Scalar:
        """The one element, or the first."""
        return self.at(ZERO, Column(ZERO))

    @property
    def is_complex(self) -> bool:
        return len(parts(self.number)) == 2

    def apply(self, name: str, *others: Any) -> Part:
        if name == "over":
            few, columns = self.p.tuning.lane_quotients, self.columns
            if type(columns) is not Range or not columns.size or columns.size >= few:
                return self * self.p.constant(1).apply("div", *others)
            name = "div"
        operands = [self, *(self.p.part(x) for x in others)]
        function, b = FUNCTIONS[name], self.p.b
        return self.p.known(
            lambda i, j: function(b, *(x.at(i, j) for x in operands)),
            next((x.rows for x in operands if x.rows), None),
            next((x.columns for x in operands if x.columns), None),
        )

    def _fold(self, start: Scalar, step: Callable[[Scalar, Scalar], Scalar]) -> Part:
        """`step(before, element)` over the rows, for each of a group of columns."""
        assert self.rows is not None and type(self.columns) is not Range
        columns: Any = self.columns or (Column(ZERO),)

        def following(i: Affine, now: Sequence[Scalar]) -> list[Scalar]:
            pairs = zip(now, columns, strict=True)
            return [step(before, self.at(i, column)) for before, column in pairs]

        initial = [start] * len(columns)
        results = self.p.loop(self.rows, initial, following, independent=True)
        return LoopPart(
            self.p,
            lambda i, j: results[j.slot if self.columns else 0],
            None,
            self.columns,
        )

    def sum(self) -> Part:
        b, zero = self.p.b, self.p.b.const(0, self.number.dtype)
        return self._fold(zero, lambda before, x: b.add(x, before))

    def largest(self) -> Part:
        b, zero = self.p.b, self.p.b.const(0, self.number.dtype)
        return self._fold(zero, lambda before, x: b.max(x, before))

    def all(self) -> Part:
        b = self.p.b
        return self._fold(b.const(True, bool), lambda before, x: b.and_(before, x))

    def argmax(self) -> Part:
        assert self.rows is not None
        p, b, (start, stop, _) = self.p, self.p.b, self.rows

        def greater(i: Affine, now: Sequence[Scalar]) -> list[Scalar]:
            size, other = now[0], self.at(i, Column(ZERO))
            is_greater = b.compare("gt", other, size)
            pairs = zip((other, p.row_number(i)), now, strict=True)
            return [b.select(is_greater, new, old) for new, old in pairs]

        first = [self.at(start, Column(ZERO)), p.row_number(start)]
        results = p.loop(Range(start + 1, stop), first, greater, independent=True)
        return p.single(results[1])

    @property
    def H(self) -> Part:
        b, at = self.p.b, self.at
        assert self.columns is None
        return LoopPart(
            self.p, lambda i, j: conj(b, at(j.index, Column(ZERO))), None, self.rows
        )


class LoopMachine(MatrixMachine):
    """Writes statements whose vectors have a lane for each of some matrices.

    Or `unrolled` ones, of matrices in registers. Where there is one lane, vectors go
    along columns, as many at a time as a `strip` has.
    """

    def __init__(
        self,
        b: ScalarBuilder,
        dtype: Any,
        tuning: Tuning,
        unrolled: bool,
        lanes: int = 1,
        strip: int = 1,
    ) -> None:
        self.b, self.dtype, self.unrolled, self.strip = b, dtype, unrolled, strip
        self.lanes, self.tuning = lanes, tuning
        lane = LoopVar("matrix", lanes)
        self.lane: Affine = as_index(lane if lanes > 1 else 0)
        # What nests are over, and which element of a register is that of a lane.
        self.dims: tuple[LoopVar, ...] = (lane,) if lanes > 1 else ()
        self._slot: Affine = self.lane
        self.mask: Scalar = None  # the lanes that are meant, if not all are
        self.body: list[Statement] = []

    @property
    def limits(self) -> Any:
        return np.finfo(self.dtype)

    # ------------------------------------------------------------------- values

    def row_number(self, index: Index) -> Scalar:
        return self.b.index_value(index, INT32)

    def part(self, x: Any) -> LoopPart:
        """A number as a part."""
        return x if isinstance(x, LoopPart) else self.constant(x)

    def constant(self, value: float | bool) -> LoopPart:
        dtype = np.dtype(bool) if isinstance(value, bool) else self.limits.dtype
        number = self.b.const(value, dtype)
        return LoopPart(self, lambda i, j: number)

    def single(self, value: Scalar) -> LoopPart:
        """A known element."""
        return LoopPart(self, lambda i, j: value)

    def known(
        self, at: Callable[[Index, Column], Scalar], rows: Any, columns: Any
    ) -> LoopPart:
        """A part, computed at once if that takes no loop."""
        if rows is not None or type(columns) is Range:
            return LoopPart(self, at, rows, columns)
        values = [at(ZERO, c) for c in columns or (Column(ZERO),)]
        values = self.registers(values)
        return LoopPart(
            self, lambda i, j: values[j.slot if columns else 0], None, columns
        )

    def registers(self, values: Sequence[Scalar]) -> list[Scalar]:
        """Values that are computed now."""
        stores, held = [], []
        for x in (n for value in values for n in parts(value)):
            if isinstance(x, Const):
                held.append(x)
                continue
            register = self._register(x.dtype)
            stores.append(Store(register, self._slot, x))
            held.append(self._held(register))
        self.put(stores)
        return self._together(values, held)

    def _register(self, dtype: Any) -> Buffer:
        name = f"r{self.b.fresh()}"
        size = as_index(self._slot).bounds[1] + 1
        storage: Storage = "vector" if size > 1 else "register"
        return Buffer(name, dtype, size, storage)

    def _held(self, register: Buffer) -> Scalar:
        return self.b.load_where(register, self._slot, None, register.dtype)

    def _together(
        self, like: Sequence[Scalar], numbers: Sequence[Scalar]
    ) -> list[Scalar]:
        """Values of as many parts as others have, from all their parts."""
        rest, result = iter(numbers), []
        for x in like:
            own = [next(rest) for _ in parts(x)]
            result.append(own[0] if len(own) == 1 else self.b.complex(*own))
        return result

    # --------------------------------------------------------------- statements

    def put(
        self,
        stores: Iterable[Store],
        ordered: bool = False,
        dims: tuple[LoopVar, ...] | None = None,
    ) -> None:
        """Add a nest of stores."""
        stores, dims = tuple(stores), self.dims if dims is None else dims
        if stores:
            self.body.append(LoopNest(dims, stores, (), ordered=ordered))

    @contextmanager
    def along(self, lane: LoopVar, mask: Scalar = None) -> Iterator[None]:
        """Inside, vectors go along columns."""
        before = self.dims, self._slot, self.mask
        self.dims, self._slot, self.mask = (lane,), as_index(lane), mask
        yield
        self.dims, self._slot, self.mask = before

    @contextmanager
    def block(self) -> Iterator[list[Statement]]:
        """Inside, statements go to a block of their own."""
        before, self.body = self.body, []
        yield self.body
        self.body = before

    def each(self, selected: Any, columns: bool = False) -> Iterator[Index]:
        """The index of a loop over a range, or all of them; an index as it is."""
        if type(selected) is not Range:
            yield selected
        elif self.unrolled:
            yield from _indices(selected)
        elif columns and self.lanes == 1 < self.strip <= selected.stop.bounds[1]:
            strip = LoopVar("strip", self.strip)
            steps, rest = self._in_steps(selected, self.strip)
            with self.along(strip):
                for i in steps:
                    yield i + strip
            yield from self.each(rest)
        else:
            yield from self._loop_over(selected, self._variable(selected))

    def _in_steps(self, over: Range, step: int) -> tuple[Iterator[Affine], Range]:
        """The index of a loop in steps, and the range that is left."""
        start, stop, _ = over
        whole = start + (stop - start) // step * step
        steps = self._loop_over(Range(start, whole), self._variable(over, step), step)
        return steps, Range(whole, stop)

    def _loop_over(self, over: Range, var: LoopVar, step: int = 1) -> Iterator[Affine]:
        """The index of a loop whose iterations are independent."""
        with self.block() as body:
            yield as_index(var)
        self.body.append(For(var, (), tuple(body), False, over[:2], step, True))

    def _variable(self, over: Range, step: int = 1) -> LoopVar:
        """A variable for steps that end in a range."""
        return LoopVar(f"i{self.b.fresh()}", over.stop.bounds[1] - step + 1)

    def loop(
        self,
        over: Range,
        initial: Sequence[Scalar],
        following: Callable[[Affine, list[Scalar]], Sequence[Scalar]],
        reverse: bool = False,
        independent: bool = False,
    ) -> list[Scalar]:
        """What iterations make of values."""
        if self.unrolled:
            now = [*initial]
            for i in _indices(over)[:: -1 if reverse else 1]:
                now = self.registers(following(i, now))
            return now
        var, numbers = self._variable(over), [n for x in initial for n in parts(x)]
        first, now, then, last = (
            [self._register(n.dtype) for n in numbers] for _ in range(4)
        )
        self._define(first, initial)
        with self.block() as body:
            values = self._together(initial, [*map(self._held, now)])
            self._define(then, following(as_index(var), values))
        carries = tuple(map(Carry, first, now, then, last))
        how = reverse, over[:2], 1, independent
        self.body.append(For(var, carries, tuple(body), *how))
        return self._together(initial, [*map(self._held, last)])

    def _define(self, registers: Sequence[Buffer], values: Sequence[Scalar]) -> None:
        numbers = [n for x in values for n in parts(x)]
        self.put(
            Store(r, self._slot, n) for r, n in zip(registers, numbers, strict=True)
        )

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
        over = Range(as_index(start), as_index(stop))

        def following(i: Affine, now: list[Scalar]) -> list[Scalar]:
            return [self.part(x).number for x in body(i, *map(self.single, now)) or ()]

        initial = [self.part(x).number for x in carried]
        return [*map(self.single, self.loop(over, initial, following, reverse))]

    @contextmanager
    def where_any(self, condition: Scalar) -> Iterator[None]:
        """Inside is what changes nothing unless a condition holds in some lane."""
        if self.unrolled:
            yield
            return
        flags = self._register(condition.dtype)
        self._define([flags], [condition])
        with self.block() as body:
            yield
        self.body.append(If(flags, ((), tuple(body)), ((), ()), ()))

    def by_columns(self, a: Matrix, start: Index, body: Callable[[Any], None]) -> None:
        lane: LoopVar | None = cast(Any, a).row_lane
        if lane:
            with self.along(lane, self.b.compare("ge", as_index(lane), start)):
                return body((Column(as_index(lane)),))
        size = self.tuning.lane_sums
        rest = Range(as_index(start), as_index(a.shape[1]))
        if a.shape[1] >= size and not self.unrolled:
            steps, rest = self._in_steps(rest, size)
            for j in steps:
                body(tuple(Column(j + c, c) for c in range(size)))
        for j in self.each(rest):
            body((Column(j),))

    def set_rows(self, *rows: tuple[Matrix, Index, Part]) -> None:
        given: list[tuple[Any, Index, LoopPart]]
        given = [(matrix, i, self.part(part)) for matrix, i, part in rows]
        for j in given[0][0].each_column():
            pairs = [(a, (part.at(i, Column(j)), i, j)) for a, i, part in given]
            self.put([s for a, x in pairs for s in a.stores(x)], ordered=True)

    def number_rows(self, a: Matrix) -> None:
        for i in self.each(Range(ZERO, as_index(a.shape[0]))):
            a[i, 0] = self.single(self.row_number(i))

    def exchange_rows(
        self, k: Index, other: Part, *matrices: Matrix, start: Index | None = None
    ) -> None:
        chosen = self.part(other).number
        with self.where_any(self.b.compare("ne", chosen, self.row_number(k))):
            for a in matrices:
                cast(Any, a).exchange(k, chosen, k if start is None else start)


def _indices(over: Range) -> list[Affine]:
    """All indices of a range that is known."""
    return [as_index(i) for i in range(over.start.const, over.stop.const)]
