"""Fourier transforms along one dim, with a transform in every lane of the vectors.

A transform is a series of passes, each of which reads one array and writes another, so
that the results come in order (stockham.py; C. Van Loan, Computational Frameworks for
the Fast Fourier Transform, 1992, 1.7). Lanes never meet in it. What they are:

    columns    neighbours along the dims after the transformed one
    rows       as many rows, transposed into columns and back
    split      columns of the row itself, seen as a matrix (Van Loan, 3.3): its columns
               are transformed, multiplied by roots of unity and transposed, then its
               rows

A last block of columns that is not full overlaps the one before it.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.compiler.library.fourier_code import FourierCode
from curta.compiler.library.routine import Routine
from curta.compiler.library.stockham import pass_roots, passes, roots
from curta.compiler.llvm.builder import Module
from curta.compiler.targets import Tuning

NDArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class FourierRoutine(Routine):
    """c[o,k,i] = sum over j of x[o,j,i] * exp(sign * 2 pi i j k / size).

    Arrays are contiguous, of pairs of numbers of a kind, f32 or f64. An inverse has the
    positive sign and is divided by `size`.
    """

    # Butterflies are straight-line code, whose values level 0 keeps in registers, too.
    slower_at_level_0: ClassVar[float] = 0.05

    outer: int
    size: int
    inner: int
    kind: str
    inverse: bool
    vector_bytes: int
    tuning: Tuning = field(repr=False, kw_only=True)

    @property
    def work(self) -> int:
        """Roughly how many operations it takes."""
        return 5 * self.outer * self.inner * self.size * self.size.bit_length()

    @property
    def element(self) -> int:
        """The bytes of a number."""
        return 4 if self.kind == "f32" else 8

    @cached_property
    def layout(self) -> tuple[str, int, tuple[int, int]]:
        """What lanes are, how many there are, and the sides of the split."""
        most = self.vector_bytes // self.element
        whole = (self.size, 1)
        if self.inner > 1:
            return "columns", _power(min(most, self.inner)), whole
        rows = _power(min(most, self.outer, self.size))
        lanes, sides = _split(self.size, most)
        fits = 4 * rows * self.size * self.element <= self.tuning.fourier_rows_bytes
        if rows >= lanes and (fits or lanes == 1):
            return "rows", rows, whole
        return "split", lanes, sides

    @property
    def lanes(self) -> int:
        return self.layout[1]

    @property
    def units(self) -> int:
        """The pieces into which the work is cut: blocks of columns, or rows."""
        how, lanes, _ = self.layout
        if how == "columns":
            return self.outer * -(-self.inner // lanes)
        return -(-self.outer // lanes) if how == "rows" else self.outer

    def _chunks(self, units: int, work: int) -> int:
        tuning = self.tuning
        if work <= tuning.fourier_serial_work:
            return 1
        return max(
            1, min(units, tuning.fourier_chunks, work // tuning.fourier_chunk_work)
        )

    @property
    def chunks(self) -> int:
        """How many units are done at a time, in memory of their own."""
        return self._chunks(self.units, self.work)

    @property
    def steps(self) -> int:
        """How many parts of one split row are done at a time."""
        if self.chunks > 1 or self.layout[0] != "split":
            return 1
        blocks = min(-(-side // self.lanes) for side in self.layout[2])
        return self._chunks(blocks, self.work // self.outer)

    @property
    def block(self) -> int:
        """The bytes of the two arrays that a block of columns takes alternately."""
        longest = max(self.layout[2])
        return _aligned(4 * longest * self.lanes * self.element)

    @property
    def columns(self) -> int:
        """The bytes of the columns of a split row after they are transformed."""
        how, lanes, (width, rows) = self.layout
        points = -(-width // lanes) * rows
        return _aligned(2 * points * lanes * self.element) if how == "split" else 0

    @property
    def scratch(self) -> int:
        """The bytes of memory it needs."""
        return self.chunks * (self.columns + self.steps * self.block)

    @property
    def table_starts(self) -> tuple[int, ...]:
        """Where, in the table, the roots for passes begin, and those for rows."""
        starts = [0]
        for part in self._tables():
            starts.append(starts[-1] + part)
        return tuple(starts)

    def _tables(self) -> list[int]:
        how, lanes, sides = self.layout
        own = [2 * sum(p.roots for p in passes(side)) for side in sides]
        if how != "split":
            return own[:1]
        pair = 2 * lanes * -(-sides[0] // lanes)
        return [*own, pair * lanes, pair * -(-sides[1] // lanes)]

    def table(self) -> NDArray:
        """The roots of unity that it reads, for `emit`'s operand."""
        how, lanes, (first, second) = self.layout
        sign = 1 if self.inverse else -1
        parts = [pass_roots(first, sign)]
        if how == "split":
            starts = np.arange(0, first, lanes).clip(max=first - lanes)
            column = starts[:, None, None] + np.arange(lanes)
            fine, coarse = np.arange(lanes), np.arange(0, second, lanes)
            parts.append(pass_roots(second, sign))
            for row in (fine, coarse):
                result = roots(row[:, None] * column, self.size, sign)
                parts.append(np.stack([result.real, result.imag], -2).ravel())
        dtype = np.float32 if self.kind == "f32" else np.float64
        return np.concatenate(parts).astype(dtype)

    def emit(self, module: Module, name: str) -> None:
        """Add `void name(ptr c, ptr x, ptr table, ptr scratch, ptr parallel_for)`."""
        FourierCode(self).emit(module, name)


def _power(number: int) -> int:
    """The greatest power of two up to a number."""
    return 1 << (number.bit_length() - 1)


def _aligned(size: int) -> int:
    return -(-size // 64) * 64


def _split(size: int, most: int) -> tuple[int, tuple[int, int]]:
    """The lanes and the sides of a matrix of so many elements that suits them best."""

    def waste(sides: tuple[int, int]) -> tuple[int, int, int]:
        low, high = sides
        lanes = _power(min(most, low))
        blocks = -(-low // lanes) * high + -(-high // lanes) * low
        return -lanes, blocks, high

    pairs = [(d, size // d) for d in range(1, math.isqrt(size) + 1) if size % d == 0]
    low, high = min(pairs, key=waste)
    return _power(min(most, low)), (low, high)
