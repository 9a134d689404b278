"""The base of the row sorts, and the sort of short rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from curta.compiler.library.routine import part, share
from curta.compiler.library.sort_keys import (
    bits_of,
    encode,
    encode_total,
    is_float,
    specials,
)
from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.functions import Function, function
from curta.compiler.llvm.types import I1, I8, I32, I64, PTR, Type, Value

if TYPE_CHECKING:
    from curta.compiler.library.sort import RowSort


class SortCode(ABC):
    """The code of a sort, of one row after the other of a chunk."""

    def __init__(self, sort: RowSort) -> None:
        self.sort = sort
        self.types: list[Type] = [Type(f"i{bits_of(kind)}") for kind in sort.kinds]

    def emit(self, module: Module, name: str) -> None:
        """Add `void name(ptr result, ptr keys.., ptr scratch, ptr parallel_for)`."""
        b = module.function(name, [PTR] * (len(self.types) + 3))
        share(b, b.arguments[-1], "rows", self.sort.chunks, b.arguments, self._chunk)
        b.ret()

    def _chunk(self, b: Builder, chunk: Value, *given: Value) -> None:
        *arrays, scratch, launcher = given
        sort, kind = self.sort, self.sort.kinds[0]
        memory = b.offset(scratch, chunk * sort.offsets[-1], I8)
        types = [I32 if sort.gives_order else self.types[0], *self.types]
        with b.loop(*part(chunk, sort.rows, sort.chunks)) as loop:
            start = loop.index * sort.size
            at = [b.offset(p, start, t) for p, t in zip(arrays, types, strict=True)]
            result, *sources = at
            self.row(b, result, sources, memory, launcher)
            if self.loses_specials and not sort.gives_order and is_float(kind):
                _restoring(sort.size, kind)(b, sources[0], result)

    loses_specials = True
    """Whether zeros and NaNs come out as one of their kind."""

    @abstractmethod
    def row(
        self, b: Builder, result: Value, sources: Values, memory: Value, launcher: Value
    ) -> None:
        """Sort a row, given the memory of its chunk."""

    def encoded(self, b: Builder, x: Value, key: int) -> Value:
        """The unsigned number that stands for an element of a key."""
        kind = self.sort.kinds[key]
        if self.sort.descending:
            return b.not_(encode_total(b, x, kind))
        return encode(b, x, kind)

    def piece(self, b: Builder, number: Value) -> tuple[Value, Value]:
        """The bounds of a piece of a row."""
        width = -(-self.sort.size // self.sort.pieces)
        first = b.min(number * width, self.sort.size)
        return first, b.min(first + width, self.sort.size)


class InsertionSort(SortCode):
    """Short rows: into a list of indices; the keys are compared where they lie."""

    loses_specials = False

    def row(
        self, b: Builder, result: Value, sources: Values, memory: Value, launcher: Value
    ) -> None:
        sort, types = self.sort, self.types
        encoded = [b.scratch(t.size * sort.size) for t in types]
        indices = b.scratch(4 * sort.size)
        with b.loop(0, sort.size) as loop:
            keys = []
            for k, (t, source) in enumerate(zip(types, sources, strict=True)):
                key = self.encoded(b, b.load(t, b.offset(source, loop.index, t)), k)
                b.store(key, b.offset(encoded[k], loop.index, t))
                keys.append(key)
            position = self._position_for(b, keys, encoded, indices, loop.index)
            number = b.convert(loop.index, "i32")
            b.store(number, b.offset(indices, position, I32))
        if sort.gives_order:
            return b.copy(result, indices, 4 * sort.size)
        with b.loop(0, sort.size) as loop:
            position = b.load(I32, b.offset(indices, loop.index, I32))
            element = b.offset(sources[0], b.convert(position, "i64"), types[0])
            to = b.offset(result, loop.index, types[0])
            b.store(b.load(types[0], element), to)
        return None

    def _position_for(
        self, b: Builder, keys: Values, encoded: Values, indices: Value, count: Value
    ) -> Value:
        """Where in the list the next element goes; the later ones move up."""

        def before(position: Value) -> Value:
            """Whether the new element comes before the one at a position."""
            other = b.convert(b.load(I32, b.offset(indices, position, I32)), "i64")
            less = b.const(I1, 0)
            arrays = list(zip(self.types, keys, encoded, strict=True))
            for t, key, array in arrays[::-1]:
                there = b.load(t, b.offset(array, other, t))
                smaller = b.compare("lt", key, there, unsigned=True)
                less = b.or_(smaller, b.and_(b.eq(key, there), less))
            return less

        def goes_on(carry: Values) -> Value:
            (position,) = carry
            no = b.const(I1, 0)
            return b.choose(position > 0, lambda: before(position - 1), lambda: no)

        def move(carry: Values) -> Values:
            below = carry[0] - 1
            number = b.load(I32, b.offset(indices, below, I32))
            b.store(number, b.offset(indices, carry[0], I32))
            return [below]

        return b.while_loop([count], goes_on, move)[0]


def _restoring(size: int, kind: str) -> Function:
    """Zeros and NaNs as they were, in the order in which they came."""
    t = Type(f"i{bits_of(kind)}")

    @function(PTR, PTR)
    def restore(b: Builder, source: Value, result: Value) -> None:
        counts = [b.const(I64, 0)] * 3
        whole = size - size % (64 // t.size)
        for lanes, first, last in ((64 // t.size, 0, whole), (1, whole, size)):
            with b.loop(first, last, lanes, carried=counts) as loop:
                wide = t.with_lanes(lanes)
                x = b.load(wide, b.offset(source, loop.index, t))
                below, zero, nan = specials(b, x, kind)
                minus = b.and_(zero, b.compare("lt", x, 0))
                flags = zip(loop.carried, (below, nan, b.or_(minus, nan)), strict=True)
                loop.next(*(c + b.count_lanes(f) for c, f in flags))
            counts = loop.results
        zeros, nans, needed = counts
        b.return_unless(needed > 0)
        with b.loop(0, size, carried=[zeros, size - nans]) as loop:
            x = b.load(t, b.offset(source, loop.index, t))
            _, zero, nan = specials(b, x, kind)
            with b.when(b.or_(zero, nan)):
                offset = b.select(zero, *loop.carried)
                b.store(x, b.offset(result, offset, t))
            at_zero, at_nan = loop.carried
            loop.next(at_zero + b.convert(zero, "i64"), at_nan + b.convert(nan, "i64"))

    return restore


def walk(
    b: Builder, first: Value, last: Value, t: Type, body: Callable[[int, Value], None]
) -> None:
    """Run the body on vectors of elements, then on what is left of them."""
    lanes = 64 // t.size
    whole = first + b.and_(last - first, -lanes)
    with b.loop(first, whole, lanes) as loop:
        body(lanes, loop.index)
    with b.loop(whole, last) as loop:
        body(1, loop.index)
