"""Factors of matrices, and equations, a matrix in every lane: the loops.

Each algorithm works in place on arrays of numbers (lane_numbers.py) or of integers, row
after row. The steps are those of LAPACK without blocks (`potf2`, `getf2`, `geqr2`,
`org2r`) and of BLAS (`trsm`), and so is what happens to NaN and to singular matrices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from curta.compiler.library.lane_numbers import LaneNumbers, Number
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import Value
from curta.config import config
from curta.lazy_dataclass import dataclass


class LaneAlgorithm(ABC):
    """What is done to arrays; hashable by all that the code depends on."""

    operands: ClassVar[tuple[int, ...]]
    """The array that begins as each operand."""

    results: ClassVar[tuple[int, ...]]
    """The array that ends as each result."""

    integers: ClassVar[tuple[int, ...]] = ()
    """The arrays of 32-bit integers."""

    @property
    @abstractmethod
    def arrays(self) -> tuple[int, ...]:
        """The elements of each array."""

    @property
    @abstractmethod
    def work(self) -> int:
        """Roughly how many operations it takes."""

    @abstractmethod
    def emit(self, m: LaneNumbers, arrays: Sequence[Value]) -> None:
        """Add the code."""


@dataclass(frozen=True)
class CholeskyFactor(LaneAlgorithm):
    """The lower factor of the lower triangle, zeros above; NaN where there is none."""

    n: int
    operands: ClassVar[tuple[int, ...]] = (0,)
    results: ClassVar[tuple[int, ...]] = (0,)

    @property
    def arrays(self) -> tuple[int, ...]:
        return (self.n**2,)

    @property
    def work(self) -> int:
        return self.n**3 // 3

    def emit(self, m: LaneNumbers, arrays: Sequence[Value]) -> None:
        b, n, (a,) = m.b, self.n, arrays
        bad = b.const(m.vector.as_mask, 0)
        with b.loop(0, n, carried=[bad]) as pivot:
            k = pivot.index
            square = m.load(a, k * n + k)[0]
            pivot.next(b.or_(pivot.carried[0], b.not_(b.compare("gt", square, 0))))
            root = b.sqrt(square)
            inverse = b.div(b.const(m.vector, 1), root)
            m.store(m.of_real(root), a, k * n + k)
            with b.loop(k + 1, n) as row:
                place = row.index * n + k
                m.store(m.scaled(m.load(a, place), inverse), a, place)
            with b.loop(k + 1, n) as row:
                i = row.index
                factor = m.negative(m.load(a, i * n + k))
                with b.loop(k + 1, i + 1) as column:
                    place = i * n + column.index
                    other = m.conjugate(m.load(a, column.index * n + k))
                    m.store(m.muladd(factor, other, m.load(a, place)), a, place)
        nan = m.constant(np.nan)
        (bad,) = pivot.results
        with b.loop(0, n) as row:
            i = row.index
            with b.loop(i + 1, n) as column:
                m.store(m.select(bad, nan, m.constant(0)), a, i * n + column.index)
        with b.when(b.any_lane(bad)), b.loop(0, n) as row:
            with b.loop(0, row.index + 1) as column:
                place = row.index * n + column.index
                m.store(m.select(bad, nan, m.load(a, place)), a, place)


@dataclass(frozen=True)
class LUFactors(LaneAlgorithm):
    """L and U in one matrix, the pivots and the permutation, as of `LU`."""

    m: int
    n: int
    operands: ClassVar[tuple[int, ...]] = (0,)
    results: ClassVar[tuple[int, ...]] = (0, 1, 2)
    integers: ClassVar[tuple[int, ...]] = (1, 2)

    @property
    def arrays(self) -> tuple[int, ...]:
        return self.m * self.n, min(self.m, self.n), self.m

    @property
    def work(self) -> int:
        return self.m * self.n * min(self.m, self.n)

    def emit(self, m: LaneNumbers, arrays: Sequence[Value]) -> None:
        b, n, (a, pivots, order) = m.b, self.n, arrays
        whole = LaneNumbers(b, m.vector.with_kind("i32"), 1)
        with b.loop(0, self.m) as row:
            whole.store((_splat(whole, row.index),), order, row.index)
        with b.loop(0, min(self.m, n)) as pivot:
            k = pivot.index
            here = _splat(whole, k)
            chosen = self._greatest(m, a, k, here)
            whole.store((chosen,), pivots, k)
            with b.when(b.any_lane(b.ne(chosen, here))):
                _exchange(whole, order, k, chosen)
                with b.loop(0, n) as column:
                    start = b.mul(chosen, n) + _splat(whole, column.index)
                    _exchange(m, a, k * n + column.index, start)
            self._eliminate(m, a, k)

    def _greatest(self, m: LaneNumbers, a: Value, k: Value, here: Value) -> Value:
        """The row of the first element of column k, from row k on, that is greatest."""
        b, size = m.b, m.size(m.load(a, k * self.n + k))
        with b.loop(k + 1, self.m, carried=[size, here]) as row:
            size, result = row.carried
            other = m.size(m.load(a, row.index * self.n + k))
            greater = b.compare("gt", other, size)
            number = b.splat(b.convert(row.index, "i32"), m.vector.lanes)
            row.next(b.select(greater, other, size), b.select(greater, number, result))
        return row.results[1]

    def _eliminate(self, m: LaneNumbers, a: Value, k: Value) -> None:
        b, n = m.b, self.n
        pivot = m.load(a, k * n + k)
        quotient, none = m.quotients(pivot), m.is_zero(pivot)
        with b.loop(k + 1, self.m) as row:
            start = row.index * n
            x = m.load(a, start + k)
            factor = m.select(none, x, quotient(x))
            m.store(factor, a, start + k)
            factor = m.negative(factor)
            with b.loop(k + 1, n) as column:
                place = start + column.index
                other = m.load(a, k * n + column.index)
                m.store(m.muladd(factor, other, m.load(a, place)), a, place)


@dataclass(frozen=True)
class Substitution(LaneAlgorithm):
    """x of a x = b, for a lower or upper triangle a, of which n by `width` b is left.

    `transposed` says of a and of b that they lie transposed.
    """

    n: int
    width: int
    lower: bool
    transposed: tuple[bool, bool]
    conjugate: bool
    unit: bool
    operands: ClassVar[tuple[int, ...]] = (0, 1)
    results: ClassVar[tuple[int, ...]] = (1,)

    @property
    def arrays(self) -> tuple[int, ...]:
        return self.n**2, self.n * self.width

    @property
    def work(self) -> int:
        return self.n**2 * self.width

    def emit(self, m: LaneNumbers, arrays: Sequence[Value]) -> None:
        b, n, (a, x) = m.b, self.n, arrays

        def in_order(number: Value) -> Value:
            return number if self.lower else b.sub(n - 1, number)

        def element(row: Value, column: Value) -> Number:
            row, column = (column, row) if self.transposed[0] else (row, column)
            result = m.load(a, row * n + column)
            return m.conjugate(result) if self.conjugate else result

        def place(row: Value, column: Value) -> Value:
            if self.transposed[1]:
                return column * n + row
            return row * self.width + column

        with b.loop(0, n) as step:
            i = in_order(step.index)
            if not self.unit:
                few = self.width < config.tuning.lane_quotients
                divide = m.quotients if few else m.products
                quotient = divide(element(i, i))
                with b.loop(0, self.width) as column:
                    at = place(i, column.index)
                    m.store(quotient(m.load(x, at)), x, at)
            with b.loop(step.index + 1, n) as rest:
                row = in_order(rest.index)
                factor = m.negative(element(row, i))
                with b.loop(0, self.width) as column:
                    at, other = (place(r, column.index) for r in (row, i))
                    result = m.muladd(factor, m.load(x, other), m.load(x, at))
                    m.store(result, x, at)


@dataclass(frozen=True)
class Reflections(LaneAlgorithm):
    """R and the vectors of reflections below it, and their factors: `Geqrf`."""

    m: int
    n: int
    operands: ClassVar[tuple[int, ...]] = (0,)
    results: ClassVar[tuple[int, ...]] = (0, 1)

    @property
    def arrays(self) -> tuple[int, ...]:
        return self.m * self.n, min(self.m, self.n)

    @property
    def work(self) -> int:
        return 2 * self.m * self.n * min(self.m, self.n)

    def emit(self, m: LaneNumbers, arrays: Sequence[Value]) -> None:
        b, n, (a, taus) = m.b, self.n, arrays
        with b.loop(0, min(self.m, n)) as column:
            k = column.index
            tau = self._reflection(m, a, k)
            m.store(tau, taus, k)
            _reflect(m, a, (self.m, n), k, m.conjugate(tau))

    def _reflection(self, m: LaneNumbers, a: Value, k: Value) -> Number:
        """Make the reflection of column k; its factor. As `larfg` of LAPACK does it.

        All is divided by the greatest element, so that squares are in range.
        """
        b, n, diagonal = m.b, self.n, k * self.n + k
        zero = b.const(m.vector, 0)
        alpha = m.load(a, diagonal)
        with b.loop(k + 1, self.m, carried=[zero]) as row:
            row.next(_greater(m, m.load(a, row.index * n + k), row.carried[0]))
        tail = row.results[0]
        kind = np.float32 if m.vector.kind == "f32" else np.float64
        least = b.const(m.vector, float(np.finfo(kind).tiny))
        scale = b.max(_greater(m, alpha, tail), least)
        inverse = b.div(b.const(m.vector, 1), scale)
        with b.loop(k + 1, self.m, carried=[zero]) as row:
            x = m.scaled(m.load(a, row.index * n + k), inverse)
            row.next(m.square(x, row.carried[0]))
        first = m.scaled(alpha, inverse)
        norm = b.sqrt(m.square(first, row.results[0]))
        beta = b.neg(b.copysign(norm, first[0]))
        done = b.eq(tail, 0)
        for part in alpha[1:]:
            done = b.and_(done, b.eq(part, 0))
        difference = m.sub(first, m.of_real(beta))
        tau = tuple(b.div(b.neg(part), beta) for part in difference)
        quotient = m.products(m.select(done, m.constant(1), difference))
        with b.loop(k + 1, self.m) as row:
            at = row.index * n + k
            m.store(quotient(m.scaled(m.load(a, at), inverse)), a, at)
        m.store(m.select(done, alpha, m.of_real(beta * scale)), a, diagonal)
        return m.select(done, m.constant(0), tau)


@dataclass(frozen=True)
class ProductOfReflections(LaneAlgorithm):
    """The first columns of the product of `count` reflections: `HouseholderProduct`."""

    m: int
    n: int
    count: int
    operands: ClassVar[tuple[int, ...]] = (0, 1)
    results: ClassVar[tuple[int, ...]] = (0,)

    @property
    def arrays(self) -> tuple[int, ...]:
        return self.m * self.n, self.count

    @property
    def work(self) -> int:
        return 2 * self.m * self.n * self.count

    def emit(self, m: LaneNumbers, arrays: Sequence[Value]) -> None:
        b, n, (a, taus) = m.b, self.n, arrays
        with b.loop(self.count, n) as column:
            with b.loop(0, self.m) as row:
                m.store(m.constant(0), a, row.index * n + column.index)
            m.store(m.constant(1), a, column.index * (n + 1))
        with b.loop(0, self.count) as step:
            k = b.sub(self.count - 1, step.index)
            tau = m.load(taus, k)
            _reflect(m, a, (self.m, n), k, tau)
            factor = m.negative(tau)
            with b.loop(0, k) as row:
                m.store(m.constant(0), a, row.index * n + k)
            m.store(m.add(m.constant(1), factor), a, k * (n + 1))
            with b.loop(k + 1, self.m) as row:
                at = row.index * n + k
                m.store(m.mul(factor, m.load(a, at)), a, at)


# --------------------------------------------------------------------- helpers


def _splat(whole: LaneNumbers, number: Value) -> Value:
    return whole.b.splat(whole.b.convert(number, "i32"), whole.vector.lanes)


def _greater(m: LaneNumbers, x: Number, least: Value) -> Value:
    """The greatest of |re|, |im| and a number; a NaN if there is one."""
    for part in x:
        least = m.b.max(m.b.abs(part), least)
    return least


def _exchange(m: LaneNumbers, array: Value, place: Value, others: Value) -> None:
    """Exchange an element with one that may be another for every lane."""
    here = m.load(array, place)
    pointers = m.addresses(array, others)
    m.store(tuple(m.b.gather(m.vector, p) for p in pointers), array, place)
    for x, pointer in zip(here, pointers, strict=True):
        m.b.scatter(x, pointer)


def _reflect(
    m: LaneNumbers, a: Value, shape: tuple[int, int], k: Value, tau: Number
) -> None:
    """Apply the reflection of column k to the columns after it, from row k on."""
    b, (rows, n) = m.b, shape
    factor = m.negative(tau)

    def columns(first: Value, count: int) -> None:
        starts = [m.load(a, k * n + first + c) for c in range(count)]
        flat = [part for x in starts for part in x]
        with b.loop(k + 1, rows, carried=flat) as row:
            v = m.conjugate(m.load(a, row.index * n + k))
            sums = _numbers(m, row.carried)
            places = [row.index * n + first + c for c in range(count)]
            sums = [
                m.muladd(v, m.load(a, p), s) for p, s in zip(places, sums, strict=True)
            ]
            row.next(*[part for x in sums for part in x])
        weights = [m.mul(factor, s) for s in _numbers(m, row.results)]
        for c, (x, w) in enumerate(zip(starts, weights, strict=True)):
            m.store(m.add(x, w), a, k * n + first + c)
        with b.loop(k + 1, rows) as row:
            v = m.load(a, row.index * n + k)
            for c, w in enumerate(weights):
                at = row.index * n + first + c
                m.store(m.muladd(v, w, m.load(a, at)), a, at)

    _in_groups(b, k + 1, n, columns)


def _numbers(m: LaneNumbers, parts: Sequence[Value]) -> list[Number]:
    return [tuple(parts[i : i + m.parts]) for i in range(0, len(parts), m.parts)]


def _in_groups(
    b: Builder, start: Value, stop: int, body: Callable[[Value, int], None]
) -> None:
    """A loop by several indices at a time, and over those that are left."""
    sums = config.tuning.lane_sums
    whole = b.sub(stop, start) - b.urem(b.sub(stop, start), sums)
    with b.loop(start, start + whole, sums) as loop:
        body(loop.index, sums)
    with b.loop(start + whole, stop) as loop:
        body(loop.index, 1)
