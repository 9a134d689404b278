"""Real and complex numbers of which every lane of a vector has one of its own.

A number is a tuple of its parts, one vector or two. Arrays of numbers lie in memory
part after part, each part a whole vector.
"""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.library.butterflies import product
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import Operand, Type, Value

Number = tuple[Value, ...]


class LaneNumbers:
    """Arithmetic on numbers of some parts, in the code of a function."""

    def __init__(self, b: Builder, vector: Type, parts: int) -> None:
        self.b = b
        self.vector = vector
        self.parts = parts

    # ------------------------------------------------------------------ memory

    def _address(self, array: Value, place: Operand) -> Value:
        element = self.vector.with_lanes(1)
        return self.b.offset(array, place * (self.parts * self.vector.lanes), element)

    def load(self, array: Value, place: Operand) -> Number:
        at, b = self._address(array, place), self.b
        element, lanes = self.vector.with_lanes(1), self.vector.lanes
        pointers = [b.offset(at, i * lanes, element) for i in range(self.parts)]
        return tuple(b.load(self.vector, p) for p in pointers)

    def store(self, x: Number, array: Value, place: Operand) -> None:
        at, b = self._address(array, place), self.b
        element, lanes = self.vector.with_lanes(1), self.vector.lanes
        for i, part in enumerate(x):
            b.store(part, b.offset(at, i * lanes, element))

    def addresses(self, array: Value, places: Value) -> list[Value]:
        """Where each lane has the parts of an element of its own, by its place."""
        b, lanes = self.b, self.vector.lanes
        index = b.mul(places, self.parts * lanes) + b.lane_index(places.type)
        element = self.vector.with_lanes(1)
        starts = [b.offset(array, i * lanes, element) for i in range(self.parts)]
        return [b.offset(start, index, element) for start in starts]

    # -------------------------------------------------------------- arithmetic

    def constant(self, number: float) -> Number:
        rest = [self.b.const(self.vector, 0)] * (self.parts - 1)
        return (self.b.const(self.vector, number), *rest)

    def of_real(self, x: Value) -> Number:
        """A real vector as a number."""
        return (x, *self.constant(0)[1:])

    def conjugate(self, x: Number) -> Number:
        return (x[0], *(self.b.neg(part) for part in x[1:]))

    def negative(self, x: Number) -> Number:
        return tuple(map(self.b.neg, x))

    def add(self, x: Number, y: Number) -> Number:
        return tuple(self.b.add(p, q) for p, q in zip(x, y, strict=True))

    def sub(self, x: Number, y: Number) -> Number:
        return tuple(self.b.sub(p, q) for p, q in zip(x, y, strict=True))

    def scaled(self, x: Number, factor: Value) -> Number:
        return tuple(self.b.mul(part, factor) for part in x)

    def mul(self, x: Number, y: Number) -> Number:
        if self.parts == 1:
            return (self.b.mul(x[0], y[0]),)
        return product(self.b, (x[0], x[1]), (y[0], y[1]))

    def muladd(self, x: Number, y: Number, z: Number) -> Number:
        """x y + z."""
        b = self.b
        if self.parts == 1:
            return (b.muladd(x[0], y[0], z[0]),)
        re = b.muladd(b.neg(x[1]), y[1], b.muladd(x[0], y[0], z[0]))
        return re, b.muladd(x[1], y[0], b.muladd(x[0], y[1], z[1]))

    def select(self, where: Value, x: Number, y: Number) -> Number:
        return tuple(self.b.select(where, p, q) for p, q in zip(x, y, strict=True))

    def square(self, x: Number, total: Value) -> Value:
        """|x|**2 added to a real number."""
        for part in x:
            total = self.b.muladd(part, part, total)
        return total

    def size(self, x: Number) -> Value:
        """|re| + |im|: what LAPACK compares to find a pivot."""
        first, *rest = map(self.b.abs, x)
        return self.b.add(first, rest[0]) if rest else first

    def is_zero(self, x: Number) -> Value:
        first, *rest = (self.b.eq(part, 0) for part in x)
        return self.b.and_(first, rest[0]) if rest else first

    def quotients(self, divisor: Number) -> Callable[[Number], Number]:
        """What divides numbers by one of them: Smith's way (1962), if it is complex."""
        b = self.b
        if self.parts == 1:
            return lambda x: (b.div(x[0], divisor[0]),)
        c, d = divisor
        steep = b.abs(c) < b.abs(d)
        large, little = b.select(steep, d, c), b.select(steep, c, d)
        ratio = b.div(little, large)
        whole = b.muladd(little, ratio, large)

        def quotient(x: Number) -> Number:
            u, v = b.select(steep, x[1], x[0]), b.select(steep, x[0], x[1])
            im = b.muladd(b.neg(u), ratio, v)
            re = b.div(b.muladd(v, ratio, u), whole)
            return re, b.div(b.select(steep, b.neg(im), im), whole)

        return quotient

    def products(self, divisor: Number) -> Callable[[Number], Number]:
        """The same by the reciprocal, as BLAS divides many numbers."""
        inverse = self.quotients(divisor)(self.constant(1))
        return lambda x: self.mul(x, inverse)
