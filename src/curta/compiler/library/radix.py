"""The code of sorts of rows: by insertion if they are short, else by radix.

A radix sort goes from the lowest byte of the last key to the highest of the first
(D. E. Knuth, The Art of Computer Programming, vol. 3, 5.2.5). A pass counts the bytes,
adds up the counts and moves the elements; it is left out where all bytes are equal. A
very long row is cut into pieces, which are counted and moved in parallel: what comes
first in an earlier piece comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from curta.compiler.library.routine import emit_chunks, run_chunks
from curta.compiler.library.sort_keys import (
    bits_of,
    decode,
    encode,
    encode_total,
    is_float,
    specials,
)
from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I8, I32, I64, PTR, Type, Value
from curta.config import config

if TYPE_CHECKING:
    from curta.compiler.library.sort import RowSort

DIGITS = 256

# What a row in the making is: words in memory that all functions share.
SOURCE, KEYS, NEW_KEYS, INDICES, NEW_INDICES, COUNTS, SHIFT, RESULT = range(8)


class RadixSort:
    """Adds the functions of a sort to a module."""

    def __init__(self, module: Module, sort: RowSort) -> None:
        self.module = module
        self.sort = sort
        self.types: list[Type] = [Type(f"i{bits_of(kind)}") for kind in sort.kinds]

    def emit(self, name: str) -> None:
        sort = self.sort
        short = sort.size <= config.tuning.sorted_by_insertion
        chunk = self._short_rows() if short else self._long_rows()
        emit_chunks(self.module, name, chunk, len(sort.kinds) + 2, sort.chunks)

    def encoded(self, b: Builder, x: Value, key: int) -> Value:
        kind = self.sort.kinds[key]
        if self.sort.descending:
            return b.not_(encode_total(b, x, kind))
        return encode(b, x, kind)

    def rows_of_chunk(
        self, b: Builder, body: Callable[[Value, list[Value]], None]
    ) -> None:
        """Run a body for each row of a chunk, with the addresses of its arrays."""
        sort = self.sort
        table, chunk = b.arguments
        pointers = [
            b.load(PTR, b.offset(table, i, PTR)) for i in range(len(self.types) + 1)
        ]
        first = b.udiv(chunk * sort.rows, sort.chunks)
        last = b.udiv((chunk + 1) * sort.rows, sort.chunks)
        element = I32 if sort.gives_order else self.types[0]
        with b.loop(first, last) as loop:
            start = loop.index * sort.size
            types = [element, *self.types]
            at = [b.offset(p, start, t) for p, t in zip(pointers, types, strict=True)]
            body(at[0], at[1:])

    # ------------------------------------------------------------- short rows

    def _short_rows(self) -> str:
        """By insertion into a list of indices; the keys are compared where they lie."""
        sort, types = self.sort, self.types
        b = self.module.function("short_rows", [PTR, I64], exported=False)
        memory = [b.scratch(t.size * sort.size) for t in types]
        indices = b.scratch(4 * sort.size)

        def row(result: Value, sources: list[Value]) -> None:
            with b.loop(0, sort.size) as loop:
                keys = []
                for k, (t, source) in enumerate(zip(types, sources, strict=True)):
                    key = self.encoded(b, b.load(t, b.offset(source, loop.index, t)), k)
                    b.store(key, b.offset(memory[k], loop.index, t))
                    keys.append(key)
                position = self._position_for(b, keys, memory, indices, loop.index)
                number = b.convert(loop.index, "i32")
                b.store(number, b.offset(indices, position, I32))
            with b.loop(0, sort.size) as loop:
                position = b.load(I32, b.offset(indices, loop.index, I32))
                if not sort.gives_order:
                    element = b.offset(sources[0], b.convert(position, "i64"), types[0])
                    value = b.load(types[0], element)
                    b.store(value, b.offset(result, loop.index, types[0]))
                else:
                    b.store(position, b.offset(result, loop.index, I32))

        self.rows_of_chunk(b, row)
        b.ret()
        return b.name

    def _position_for(
        self, b: Builder, keys: Values, memory: Values, indices: Value, count: Value
    ) -> Value:
        """Where in the list the next element goes; the later ones move up."""

        def before(position: Value) -> Value:
            """Whether the new element comes before the one at a position."""
            other = b.convert(b.load(I32, b.offset(indices, position, I32)), "i64")
            less = b.const(I1, 0)
            for t, key, array in list(zip(self.types, keys, memory, strict=True))[::-1]:
                there = b.load(t, b.offset(array, other, t))
                smaller = b.compare("lt", key, there, unsigned=True)
                less = b.or_(smaller, b.and_(b.eq(key, there), less))
            return less

        def goes_on(carry: Values) -> Value:
            position = carry[0]
            there = position > 0
            return b.if_(
                there, lambda: [before(position - 1)], lambda: [b.const(I1, 0)]
            )[0]

        def move(carry: Values) -> Values:
            below = carry[0] - 1
            number = b.load(I32, b.offset(indices, below, I32))
            b.store(number, b.offset(indices, carry[0], I32))
            return [below]

        return b.while_loop([count], goes_on, move)[0]

    # -------------------------------------------------------------- long rows

    def _long_rows(self) -> str:
        passes = [self._passes(k) for k in range(len(self.types))]
        finish = self._finish()
        restore = self.restore()
        sort, offsets = self.sort, self.sort.offsets
        b = self.module.function("long_rows", [PTR, I64], exported=False)
        table, chunk = b.arguments
        count = len(self.types) + 1
        scratch, launcher = (
            b.load(PTR, b.offset(table, count + i, PTR)) for i in (0, 1)
        )
        memory = b.offset(scratch, chunk * offsets[-1], I8)
        context = b.scratch(64, align=8)

        def run(function: str) -> None:
            run_chunks(b, launcher, function, context, sort.pieces)

        def row(result: Value, sources: list[Value]) -> None:
            b.store(result, b.offset(context, RESULT, PTR))
            for word, offset in zip(range(KEYS, COUNTS + 1), offsets, strict=False):
                b.store(b.offset(memory, offset, I8), b.offset(context, word, PTR))
            for k in reversed(range(len(sources))):
                begin, counts, move = passes[k]
                b.store(sources[k], b.offset(context, SOURCE, PTR))
                run(begin)
                with b.loop(0, bits_of(sort.kinds[k]), 8) as loop:
                    b.store(loop.index, b.offset(context, SHIFT, I64))
                    run(counts)
                    with b.when(self._add_up(b, context)):
                        run(move)
                        self.swap(b, context)
            run(finish)
            if restore:
                b.call(restore, None, context)

        self.rows_of_chunk(b, row)
        b.ret()
        return b.name

    def word_of(
        self, b: Builder, context: Value, word: int, type_: Type = PTR
    ) -> Value:
        return b.load(type_, b.offset(context, word, type_))

    def swap(self, b: Builder, context: Value) -> None:
        for one, other in ((KEYS, NEW_KEYS), (INDICES, NEW_INDICES)):
            x, y = self.word_of(b, context, one), self.word_of(b, context, other)
            b.store(y, b.offset(context, one, PTR))
            b.store(x, b.offset(context, other, PTR))

    def _add_up(self, b: Builder, context: Value) -> Value:
        """Counts become the offsets of the first of each; whether bytes differ."""
        pieces, size = self.sort.pieces, self.sort.size
        counts = self.word_of(b, context, COUNTS)
        vector = I32.with_lanes(16)
        start = [b.const(I32, 0), b.const(I1, 1)]

        def count_of(piece: Value, digit: Value) -> Value:
            return b.offset(counts, piece * DIGITS + digit, I32)

        with b.loop(0, DIGITS, 16, carried=start) as loop:
            before, differ = loop.carried
            with b.loop(0, pieces, carried=[b.const(vector, 0)]) as each:
                there = b.load(vector, count_of(each.index, loop.index))
                each.next(each.carried[0] + there)
            total = each.results[0]
            running = _running_sum(b, total)
            first = running - total + b.splat(before, 16)
            with b.loop(0, pieces, carried=[first]) as each:
                at = count_of(each.index, loop.index)
                there = b.load(vector, at)
                b.store(each.carried[0], at)
                each.next(each.carried[0] + there)
            all_equal = b.any_lane(b.eq(total, size))
            loop.next(before + b.extract(running, 15), b.and_(differ, ~all_equal))
        return loop.results[1]

    def piece(self, name: str) -> tuple[Builder, Value, Value, Value, Value]:
        """A function that runs on a piece of the row: its context and its bounds."""
        b = self.module.function(name, [PTR, I64], exported=False)
        context, piece = b.arguments
        width = -(-self.sort.size // self.sort.pieces)
        first = b.min(piece * width, self.sort.size)
        last = b.min(first + width, self.sort.size)
        return b, context, piece, first, last

    def _passes(self, k: int) -> Sequence[str]:
        """The functions that begin a key, count its bytes, and move it."""
        return self._begin(k), self._count(self.types[k]), self._move(self.types[k])

    def _begin(self, k: int) -> str:
        """The keys of the elements, in the order so far."""
        t, is_first = self.types[k], k == len(self.types) - 1
        b, context, _, first, last = self.piece(f"begin{k}")
        source, keys = self.word_of(b, context, SOURCE), self.word_of(b, context, KEYS)
        indices = self.word_of(b, context, INDICES)

        def encode_at(lanes: int, index: Value) -> None:
            wide = t.with_lanes(lanes)
            x = b.load(wide, b.offset(source, index, t))
            b.store(self.encoded(b, x, k), b.offset(keys, index, t))
            if self.sort.gives_order:
                number = b.splat(b.convert(index, "i32"), lanes)
                number = number + b.lane_index(number.type)
                b.store(number, b.offset(indices, index, I32))

        if is_first:
            walk(b, first, last, t, encode_at)
        else:
            with b.loop(first, last) as loop:
                at = b.load(I32, b.offset(indices, loop.index, I32))
                x = b.load(t, b.offset(source, b.convert(at, "i64"), t))
                b.store(self.encoded(b, x, k), b.offset(keys, loop.index, t))
        b.ret()
        return b.name

    def _digit(self, b: Builder, context: Value, t: Type) -> Callable[[Value], Value]:
        shift = b.convert(self.word_of(b, context, SHIFT, I64), t.kind)
        return lambda key: b.convert(
            b.and_(b.lshr(key, shift), DIGITS - 1), "i64", unsigned=True
        )

    def _counts(self, b: Builder, context: Value, piece: Value) -> Value:
        counts = self.word_of(b, context, COUNTS)
        return b.offset(counts, piece * DIGITS, I32)

    def _count(self, t: Type) -> str:
        name = f"count_{t}"
        if self.module.defines(name):
            return name
        b, context, piece, first, last = self.piece(name)
        keys, counts = self.word_of(b, context, KEYS), self._counts(b, context, piece)
        digit = self._digit(b, context, t)
        b.fill(counts, 0, 4 * DIGITS)
        with b.loop(first, last) as loop:
            key = b.load(t, b.offset(keys, loop.index, t))
            count = b.offset(counts, digit(key), I32)
            b.store(b.load(I32, count) + 1, count)
        b.ret()
        return name

    def _move(self, t: Type) -> str:
        name = f"move_{t}"
        if self.module.defines(name):
            return name
        b, context, piece, first, last = self.piece(name)
        keys, to = self.word_of(b, context, KEYS), self.word_of(b, context, NEW_KEYS)
        indices = self.word_of(b, context, INDICES)
        new_indices = self.word_of(b, context, NEW_INDICES)
        counts, digit = self._counts(b, context, piece), self._digit(b, context, t)
        with b.loop(first, last) as loop:
            key = b.load(t, b.offset(keys, loop.index, t))
            next_offset = b.offset(counts, digit(key), I32)
            position = b.load(I32, next_offset)
            b.store(position + 1, next_offset)
            at = b.convert(position, "i64", unsigned=True)
            b.store(key, b.offset(to, at, t))
            if self.sort.gives_order:
                number = b.load(I32, b.offset(indices, loop.index, I32))
                b.store(number, b.offset(new_indices, at, I32))
        b.ret()
        return name

    def _finish(self) -> str:
        """The indices, or the numbers that the keys stand for, as the result."""
        b, context, _, first, last = self.piece("finish")
        result = self.word_of(b, context, RESULT)
        if self.sort.gives_order:
            start = b.offset(self.word_of(b, context, INDICES), first, I32)
            b.copy(b.offset(result, first, I32), start, (last - first) * 4)
        else:
            t, keys = self.types[0], self.word_of(b, context, KEYS)

            def decode_at(lanes: int, index: Value) -> None:
                key = b.load(t.with_lanes(lanes), b.offset(keys, index, t))
                number = decode(b, key, self.sort.kinds[0])
                b.store(number, b.offset(result, index, t))

            walk(b, first, last, t, decode_at)
        b.ret()
        return b.name

    def restore(self) -> str | None:
        """Zeros and NaNs as they were, in the order in which they came."""
        kind = self.sort.kinds[0]
        if self.sort.gives_order or not is_float(kind):
            return None
        t, size = self.types[0], self.sort.size
        b = self.module.function("restore", [PTR], exported=False)
        (context,) = b.arguments
        source, result = (self.word_of(b, context, w) for w in (SOURCE, RESULT))
        lanes = 64 // t.size
        whole = size - size % lanes

        def counted(carry: Values, index: Value, type_: Type) -> Values:
            x = b.load(type_, b.offset(source, index, t))
            below, zero, nan = specials(b, x, kind)
            minus = b.and_(zero, b.compare("lt", x, 0))
            flags = (below, nan, b.or_(minus, nan))
            return [c + b.count_lanes(f) for c, f in zip(carry, flags, strict=True)]

        with b.loop(0, whole, lanes, carried=[b.const(I64, 0)] * 3) as loop:
            loop.next(*counted(loop.carried, loop.index, t.with_lanes(lanes)))
        with b.loop(whole, size, carried=loop.results) as loop:
            loop.next(*counted(loop.carried, loop.index, t))
        zeros, nans, needed = loop.results
        with b.when(needed > 0), b.loop(0, size, carried=[zeros, size - nans]) as loop:
            x = b.load(t, b.offset(source, loop.index, t))
            _, zero, nan = specials(b, x, kind)
            with b.when(b.or_(zero, nan)):
                offset = b.select(zero, *loop.carried)
                b.store(x, b.offset(result, offset, t))
            at_zero, at_nan = loop.carried
            loop.next(at_zero + b.convert(zero, "i64"), at_nan + b.convert(nan, "i64"))
        b.ret()
        return b.name


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


def _running_sum(b: Builder, x: Value) -> Value:
    """In each lane, the sum of the lanes up to it."""
    distance = 1
    while distance < x.lanes:
        shifted = [max(i - distance, -1) for i in range(x.lanes)]
        zeros = b.const(x.type, 0)
        x = x + b.shuffle(x, zeros, [i if i >= 0 else x.lanes for i in shifted])
        distance *= 2
    return x
