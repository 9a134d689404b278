"""Rows sorted by radix.

A radix sort goes from the lowest byte of the last key to the highest of the first
(D. E. Knuth, The Art of Computer Programming, vol. 3, 5.2.5). A pass counts the bytes,
adds up the counts and moves the elements; it is left out where all bytes are equal. A
very long row is cut into pieces, which are counted and moved in parallel: what comes
first in an earlier piece comes first.
"""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.library.routine import share
from curta.compiler.library.sort_code import SortCode, walk
from curta.compiler.library.sort_keys import decode
from curta.compiler.llvm.builder import Builder, Values
from curta.compiler.llvm.types import I1, I8, I32, Type, Value

DIGITS = 256


class RadixSort(SortCode):
    """Long rows, of any keys."""

    def row(
        self, b: Builder, result: Value, sources: Values, memory: Value, launcher: Value
    ) -> None:
        pieces = self.sort.pieces
        *elements, counts = [b.offset(memory, x, I8) for x in self.sort.offsets[:5]]

        def run(name: str, given: Values, body: Callable[..., None]) -> None:
            share(b, launcher, name, pieces, given, body)

        for k, source in [*enumerate(sources)][::-1]:
            code = _Passes(self, k)
            run(f"begin{k}", [source, elements[0], elements[2]], code.begin)
            with b.loop(0, code.type.bits, 8, carried=elements) as loop:
                now, shift = loop.carried, loop.index
                run(f"count_{code.type}", [now[0], counts, shift], code.count)
                differ = self._add_up(b, counts)
                with b.when(differ):
                    run(f"move_{code.type}", [*now, counts, shift], code.move)
                swapped = zip([now[i] for i in (1, 0, 3, 2)], now, strict=True)
                loop.next(*(b.select(differ, x, y) for x, y in swapped))
            elements = loop.results
        run("finish", [result, elements[0], elements[2]], self._finish)

    def _add_up(self, b: Builder, counts: Value) -> Value:
        """Counts become the offsets of the first of each; whether bytes differ."""
        pieces, size = self.sort.pieces, self.sort.size
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

    def _finish(
        self, b: Builder, piece: Value, result: Value, keys: Value, indices: Value
    ) -> None:
        """The indices, or the numbers that the keys stand for, as the result."""
        first, last = self.piece(b, piece)
        if self.sort.gives_order:
            start = b.offset(indices, first, I32)
            b.copy(b.offset(result, first, I32), start, (last - first) * 4)
            return
        t = self.types[0]

        def decode_at(lanes: int, index: Value) -> None:
            key = b.load(t.with_lanes(lanes), b.offset(keys, index, t))
            b.store(decode(b, key, self.sort.kinds[0]), b.offset(result, index, t))

        walk(b, first, last, t, decode_at)


class _Passes:
    """What is done with a piece of a row for the key number `k`."""

    def __init__(self, sort: RadixSort, k: int) -> None:
        self.code, self.k = sort, k
        self.type: Type = sort.types[k]
        self.gives_order: bool = sort.sort.gives_order

    def begin(
        self, b: Builder, piece: Value, source: Value, keys: Value, indices: Value
    ) -> None:
        """The keys of the elements, in the order so far."""
        t, (first, last) = self.type, self.code.piece(b, piece)

        def encode_at(lanes: int, index: Value) -> None:
            x = b.load(t.with_lanes(lanes), b.offset(source, index, t))
            b.store(self.code.encoded(b, x, self.k), b.offset(keys, index, t))
            if self.gives_order:
                number = b.splat(b.convert(index, "i32"), lanes)
                number = number + b.lane_index(number.type)
                b.store(number, b.offset(indices, index, I32))

        if self.k == len(self.code.types) - 1:
            return walk(b, first, last, t, encode_at)
        with b.loop(first, last) as loop:
            at = b.load(I32, b.offset(indices, loop.index, I32))
            x = b.load(t, b.offset(source, b.convert(at, "i64"), t))
            b.store(self.code.encoded(b, x, self.k), b.offset(keys, loop.index, t))
        return None

    def count(
        self, b: Builder, piece: Value, keys: Value, counts: Value, shift: Value
    ) -> None:
        """How often there is each byte."""
        counts = b.offset(counts, piece * DIGITS, I32)
        b.fill(counts, 0, 4 * DIGITS)
        with b.loop(*self.code.piece(b, piece)) as loop:
            key = b.load(self.type, b.offset(keys, loop.index, self.type))
            count = b.offset(counts, _digit(b, key, shift), I32)
            b.store(b.load(I32, count) + 1, count)

    def move(
        self, b: Builder, piece: Value, keys: Value, new_keys: Value, indices: Value,
        new_indices: Value, counts: Value, shift: Value,
    ) -> None:  # fmt: skip
        """The elements to where those of their byte begin, or the next one goes."""
        t, counts = self.type, b.offset(counts, piece * DIGITS, I32)
        with b.loop(*self.code.piece(b, piece)) as loop:
            key = b.load(t, b.offset(keys, loop.index, t))
            next_offset = b.offset(counts, _digit(b, key, shift), I32)
            position = b.load(I32, next_offset)
            b.store(position + 1, next_offset)
            at = b.convert(position, "i64", unsigned=True)
            b.store(key, b.offset(new_keys, at, t))
            if self.gives_order:
                number = b.load(I32, b.offset(indices, loop.index, I32))
                b.store(number, b.offset(new_indices, at, I32))


def _digit(b: Builder, key: Value, shift: Value) -> Value:
    byte = b.and_(b.lshr(key, b.convert(shift, key.type.kind)), DIGITS - 1)
    return b.convert(byte, "i64", unsigned=True)


def _running_sum(b: Builder, x: Value) -> Value:
    """In each lane, the sum of the lanes up to it."""
    distance = 1
    while distance < x.lanes:
        shifted = [max(i - distance, -1) for i in range(x.lanes)]
        zeros = b.const(x.type, 0)
        x = x + b.shuffle(x, zeros, [i if i >= 0 else x.lanes for i in shifted])
        distance *= 2
    return x
