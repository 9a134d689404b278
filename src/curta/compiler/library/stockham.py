"""Fourier transforms of columns: each lane of a vector is a transform of its own.

A block holds a pair of vectors, real and imaginary parts, for each point. Passes read
one block and write another; the first may read, and the last write, something else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.compiler.library.butterflies import Complex, butterfly, product, radices
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.functions import Function, function
from curta.compiler.llvm.types import I64, PTR, Operand, Type, Value

NDArray = np.ndarray[Any, Any]
LoadPoint = Callable[[Value], Complex]
StorePoint = Callable[[Value, Complex], None]


@dataclass(frozen=True)
class ButterflyPass:
    """`count` groups of `stride` butterflies of a radix."""

    radix: int
    count: int
    stride: int

    @property
    def roots(self) -> int:
        """The number of roots of unity by which it multiplies."""
        return self.count * (self.radix - 1) if self.count > 1 else 0


def passes(size: int) -> tuple[ButterflyPass, ...]:
    """The passes of a transform of a size that `radices` knows."""
    result, stride, left = [], 1, size
    for radix in radices(size) or ():
        left //= radix
        result.append(ButterflyPass(radix, left, stride))
        stride *= radix
    return tuple(result)


def roots(step: NDArray, size: int, sign: int) -> NDArray:
    """exp(sign * 2 pi i step / size), from angles below a quarter of a turn."""
    quarter, rest = np.divmod(4 * (step % size), size)
    angle = (math.pi / 2) * (rest / size)
    result = np.array([1, 1j, -1, -1j])[quarter] * (np.cos(angle) + 1j * np.sin(angle))
    return result if sign > 0 else result.conj()


def pass_roots(size: int, sign: int) -> NDArray:
    """What passes multiply by: in each group, every result but the first."""
    parts = [np.zeros(0)]
    for p in passes(size):
        if p.roots:
            step = np.arange(p.count)[:, None] * np.arange(1, p.radix) * p.stride
            result = roots(step, size, sign)
            parts.append(np.stack([result.real, result.imag], -1).ravel())
    return np.concatenate(parts)


class ColumnTransforms:
    """Writes transforms of columns; passes between blocks are functions."""

    def __init__(self, vector: Type, sign: int) -> None:
        self.vector = vector
        self.element: Type = vector.with_lanes(1)
        self.sign = sign

    def point(self, b: Builder, block: Value, index: Value) -> Value:
        """Where the pair of a point lies in a block."""
        return b.offset(block, index * (2 * self.vector.lanes), self.element)

    def load(self, b: Builder, block: Value, index: Value) -> Complex:
        """A point of a block."""
        address = self.point(b, block, index)
        other = b.offset(address, self.vector.lanes, self.element)
        return b.load(self.vector, address), b.load(self.vector, other)

    def store(self, b: Builder, block: Value, index: Value, x: Complex) -> None:
        """Set a point of a block."""
        address = self.point(b, block, index)
        b.store(x[0], address)
        b.store(x[1], b.offset(address, self.vector.lanes, self.element))

    def transform(
        self, b: Builder, size: int, table: Value, block: Value,
        load: LoadPoint | None = None, store: StorePoint | None = None,
        scale: float | None = None,
    ) -> Value:  # fmt: skip
        """Transform columns of `size` points; the block that has them at the end.

        They are in `block`, which has room for twice as many, unless there is `load`.
        `table` has `pass_roots`. Results are multiplied by `scale`, if there is one.
        """
        steps = passes(size)
        here, there = block, self.point(b, block, b.const(I64, size))
        for i, p in enumerate(steps):
            first = load if i == 0 else None
            last = store if i == len(steps) - 1 else None
            if p.roots and first is None:
                self._function(p.radix)(b, there, here, table, p.count, p.stride)
            else:
                read = first or partial(self.load, b, here)
                write = last or partial(self.store, b, there)
                factor = None if p.roots else scale
                own = table if p.roots else None
                self._pass(b, p.radix, (p.count, p.stride), own, read, write, factor)
            table = b.offset(table, 2 * p.roots, self.element)
            here, there = there, here
        return here

    def _function(self, radix: int) -> Function:
        """A pass from one block to another, of so many groups of butterflies."""

        @function(PTR, PTR, PTR, I64, I64, name=f"pass{radix}")
        def run(
            b: Builder, to: Value, source: Value, table: Value, *sizes: Value
        ) -> None:
            read, write = partial(self.load, b, source), partial(self.store, b, to)
            self._pass(b, radix, (sizes[0], sizes[1]), table, read, write)

        return run

    def _pass(
        self, b: Builder, radix: int, sizes: tuple[Operand, Operand],
        table: Value | None, load: LoadPoint, store: StorePoint,
        scale: float | None = None,
    ) -> None:  # fmt: skip
        """All butterflies of a pass, for its count and stride."""
        count, stride = sizes
        with b.loop(0, count) as group, b.loop(0, stride) as column:
            start = b.mul(group.index, stride)
            first = b.add(start, column.index)
            distance = b.mul(b.mul(b.const(I64, 1), count), stride)
            points = [load(b.add(first, b.mul(distance, j))) for j in range(radix)]
            results = butterfly(b, points, self.sign)
            if table is not None:
                factors = b.offset(table, group.index * (2 * radix - 2), self.element)
                for k in range(1, radix):
                    results[k] = product(b, results[k], self._root(b, factors, k - 1))
            first = b.add(b.mul(start, radix), column.index)
            if scale is not None:
                results = [(b.mul(x, scale), b.mul(y, scale)) for x, y in results]
            for k, x in enumerate(results):
                store(b.add(first, b.mul(b.mul(b.const(I64, k), 1), stride)), x)

    def _root(self, b: Builder, factors: Value, k: int) -> Complex:
        parts = (b.offset(factors, 2 * k + part, self.element) for part in (0, 1))
        lanes = self.vector.lanes
        real, imag = (b.splat(b.load(self.element, p), lanes) for p in parts)
        return real, imag
