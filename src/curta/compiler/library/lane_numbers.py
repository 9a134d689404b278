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

    def _address(self, array: Value, index: Operand) -> Value:
        element = self.vector.with_lanes(1)
        return self.b.offset(array, index * (self.parts * self.vector.lanes), element)

    def load(self, array: Value, index: Operand) -> Number:
        at, b = self._address(array, index), self.b
        element, lanes = self.vector.with_lanes(1), self.vector.lanes
        pointers = [b.offset(at, i * lanes, element) for i in range(self.parts)]
        return tuple(b.load(self.vector, p) for p in pointers)

    def store(self, x: Number, array: Value, index: Operand) -> None:
        at, b = self._address(array, index), self.b
        element, lanes = self.vector.with_lanes(1), self.vector.lanes
        for i, part in enumerate(x):
            b.store(part, b.offset(at, i * lanes, element))

    def addresses(self, array: Value, indices: Value) -> list[Value]:
        """Where each lane has the parts of an element of its own, by its index."""
        b, lanes = self.b, self.vector.lanes
        index = b.mul(indices, self.parts * lanes) + b.lane_index(indices.type)
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

    def alike(self, *xs: Number) -> list[Number]:
        """The numbers, all with as many parts."""
        most = max(map(len, xs))
        zero = self.b.const(self.vector, 0)
        return [(*x, zero) if len(x) < most else x for x in xs]

    def each(self, name: str, *xs: Number) -> Number:
        """An instruction on each of the parts."""
        return tuple(map(getattr(self.b, name), *self.alike(*xs)))

    def conjugate(self, x: Number) -> Number:
        return (x[0], *(self.b.neg(part) for part in x[1:]))

    def mul(self, x: Number, y: Number) -> Number:
        if len(x) == len(y) == 2:
            return product(self.b, (x[0], x[1]), (y[0], y[1]))
        (factor,), y = (x, y) if len(x) == 1 else (y, x)
        return tuple(self.b.mul(part, factor) for part in y)

    def muladd(self, x: Number, y: Number, z: Number) -> Number:
        """x y + z."""
        b = self.b
        if len(x) == len(y) == len(z) == 1:
            return (b.muladd(x[0], y[0], z[0]),)
        if len(x) != len(y) or len(x) != len(z):
            return self.each("add", self.mul(x, y), z)
        re = b.muladd(b.neg(x[1]), y[1], b.muladd(x[0], y[0], z[0]))
        return re, b.muladd(x[1], y[0], b.muladd(x[0], y[1], z[1]))

    def select(self, where: Value, x: Number, y: Number) -> Number:
        x, y = self.alike(x, y)
        return tuple(self.b.select(where, p, q) for p, q in zip(x, y, strict=True))

    def equal(self, x: Number, y: Number) -> Value:
        """Whether all parts are."""
        first, *rest = self.each("eq", x, y)
        return self.b.and_(first, rest[0]) if rest else first

    def quotients(self, divisor: Number) -> Callable[[Number], Number]:
        """A divider by one number; by Smith's algorithm (1962) if it is complex."""
        b = self.b
        if len(divisor) == 1:
            return lambda x: tuple(b.div(part, divisor[0]) for part in x)
        c, d = divisor
        steep = b.abs(c) < b.abs(d)
        large, little = b.select(steep, d, c), b.select(steep, c, d)
        ratio = b.div(little, large)
        whole = b.muladd(little, ratio, large)

        def quotient(x: Number) -> Number:
            (re, im), _ = self.alike(x, divisor)
            u, v = b.select(steep, im, re), b.select(steep, re, im)
            im = b.muladd(b.neg(u), ratio, v)
            re = b.div(b.muladd(v, ratio, u), whole)
            return re, b.div(b.select(steep, b.neg(im), im), whole)

        return quotient

    def products(self, divisor: Number) -> Callable[[Number], Number]:
        """The same by the reciprocal, as BLAS divides many numbers."""
        inverse = self.quotients(divisor)((self.b.const(self.vector, 1),))
        return lambda x: self.mul(x, inverse)


def _each(name: str) -> Callable[..., Number]:
    return lambda m, *xs: m.each(name, *xs)


def _compared(direction: str) -> Callable[..., Number]:
    return lambda m, x, y: (m.b.compare(direction, x[0], y[0]),)


FUNCTIONS: dict[str, Callable[..., Number]] = {
    **{name: _each(name) for name in ("add", "sub", "neg", "abs", "sqrt", "max")},
    **{name: _compared(name) for name in ("lt", "gt")},
    "mul": lambda m, x, y: m.mul(x, y),
    "muladd": lambda m, x, y, z: m.muladd(x, y, z),
    "div": lambda m, x, y: m.quotients(y)(x),
    "over": lambda m, x, y: m.products(y)(x),
    "eq": lambda m, x, y: (m.equal(x, y),),
    "ne": lambda m, x, y: (m.b.not_(m.equal(x, y)),),
    "and": _each("and_"),
    "not": _each("not_"),
    "select": lambda m, condition, x, y: m.select(condition[0], x, y),
    "copysign": lambda m, x, y: (m.b.copysign(x[0], y[0]),),
    "conj": lambda m, x: m.conjugate(x),
    "real": lambda m, x: x[:1],
    "imag": lambda m, x: x[1:],
}
"""Functions of numbers by the names that algorithms have for them."""
