"""Equations with tridiagonal matrices, a matrix in every lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from curta.compiler.library.lane_factors import LaneAlgorithm
from curta.compiler.library.lane_numbers import LaneNumbers, Number
from curta.compiler.llvm.types import Value
from curta.lazy_dataclass import dataclass

Arrays = Sequence[Value]


@dataclass(frozen=True)
class TridiagonalElimination(LaneAlgorithm):
    """x of a x = b by elimination with exchanges of rows, as `gtsv` of LAPACK does it.

    Where a pivot is 0, x is NaN; or if `perturb`, small pivots are made larger.
    """

    n: int
    width: int
    perturb: bool
    operands: ClassVar[tuple[int, ...]] = (0, 1, 2, 3)
    results: ClassVar[tuple[int, ...]] = (3,)

    @property
    def arrays(self) -> tuple[int, ...]:
        return self.n, self.n, self.n, self.n * self.width, self.n

    @property
    def work(self) -> int:
        return 8 * self.n * self.width

    def emit(self, m: LaneNumbers, arrays: Arrays) -> None:
        b, n = m.b, self.n
        _, first, second, x, third = arrays
        m.store(m.constant(0), second, n - 1)
        with b.loop(0, n) as row:
            m.store(m.constant(0), third, row.index)
        with b.loop(0, n - 1) as row:
            self._eliminate(m, row.index, arrays)
        if self.perturb:
            self._perturb(m, first, (second, third))
        none = b.const(m.vector.as_mask, 0)
        with b.loop(0, n, carried=[none]) as row:
            pivot = m.load(first, row.index)
            row.next(b.or_(row.carried[0], m.is_zero(pivot)))
        (bad,) = row.results
        with b.loop(0, self.width) as column:
            zero = m.constant(0)
            with b.loop(0, n, carried=[*zero, *zero]) as step:
                i = b.sub(n - 1, step.index)
                after = step.carried
                next_, far = after[: m.parts], after[m.parts :]
                value = m.load(x, i * self.width + column.index)
                value = m.muladd(m.negative(m.load(second, i)), tuple(next_), value)
                value = m.muladd(m.negative(m.load(third, i)), tuple(far), value)
                value = m.quotients(m.load(first, i))(value)
                step.next(*value, *next_)
                value = m.select(bad, m.constant(np.nan), value)
                m.store(value, x, i * self.width + column.index)

    def _eliminate(self, m: LaneNumbers, i: Value, arrays: Arrays) -> None:
        """Take row i, or the next one if that begins with more, off the other one."""
        b, after = m.b, i + 1
        lower, first, second, x, third = arrays
        pivot, below = m.load(first, i), m.load(lower, after)
        swap = b.compare("lt", m.size(pivot), m.size(below))

        def both(here: Number, there: Number) -> tuple[Number, Number]:
            return m.select(swap, there, here), m.select(swap, here, there)

        greater, smaller = both(pivot, below)
        none = m.is_zero(greater)
        divisor = m.select(none, m.constant(1), greater)
        factor = m.select(none, m.constant(0), m.quotients(divisor)(smaller))
        factor = m.negative(factor)
        kept, changed = both(m.load(second, i), m.load(first, after))
        beyond = m.load(second, after)
        m.store(greater, first, i)
        m.store(kept, second, i)
        m.store(m.select(swap, beyond, m.constant(0)), third, i)
        m.store(m.muladd(factor, kept, changed), first, after)
        m.store(m.select(swap, m.mul(factor, beyond), beyond), second, after)
        with b.loop(0, self.width) as column:
            place = i * self.width + column.index
            other = place + self.width
            kept, changed = both(m.load(x, place), m.load(x, other))
            m.store(kept, x, place)
            m.store(m.muladd(factor, kept, changed), x, other)

    def _perturb(self, m: LaneNumbers, first: Value, others: Arrays) -> None:
        """Make pivots that are almost 0 larger, keeping the sign of the real part."""
        b, kind = m.b, np.float32 if m.vector.kind == "f32" else np.float64
        limits = np.finfo(kind)
        zero = b.const(m.vector, 0)
        with b.loop(0, self.n, carried=[zero]) as row:
            (largest,) = row.carried
            for array in (first, *others):
                largest = b.max(m.size(m.load(array, row.index)), largest)
            row.next(largest)
        least = float(limits.tiny / limits.eps)
        tiny = b.max(row.results[0] * float(limits.eps), b.const(m.vector, least))
        with b.loop(0, self.n) as row:
            pivot = m.load(first, row.index)
            negative = b.compare("lt", pivot[0], 0)
            larger = m.of_real(b.select(negative, b.neg(tiny), tiny))
            small = b.compare("lt", m.size(pivot), tiny)
            m.store(m.select(small, larger, pivot), first, row.index)
