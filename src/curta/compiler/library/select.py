"""The indices of the greatest elements of rows, without sorting the rows.

A row is read once. Elements that beat the worst of those kept so far are collected, in
the order in which they come, and a whole vector is passed over when none does. When
the list is full, the best are kept: their bound is found bit by bit, by counting.
A long row is cut into pieces, read in parallel, whose lists are joined. In the end
the list, which has no more than is asked for, is sorted (sort.py).
"""

from __future__ import annotations

import functools
from dataclasses import field

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.compiler.library.routine import Routine, part, share
from curta.compiler.library.sort import RowSort
from curta.compiler.library.sort_keys import bits_of, encode_total
from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.functions import Function
from curta.compiler.llvm.types import I8, I32, I64, PTR, Type, Value
from curta.compiler.targets import Tuning


@dataclass(frozen=True)
class FirstIndices(Routine):
    """The indices of the `count` greatest of the `size` elements of each row.

    They are in order, and of equal elements the first comes first; -0 is less than 0,
    and NaN is greatest. Indices are 32-bit integers.
    """

    rows: int
    size: int
    count: int
    kind: str
    tuning: Tuning = field(repr=False, kw_only=True)

    @property
    def work(self) -> int:
        """Roughly how many operations it takes."""
        return self.rows * (self.size + 16 * self.room)

    @property
    def room(self) -> int:
        """The elements that a list has room for, before it is cut."""
        return self.count + max(self.count, self.tuning.select_room)

    @property
    def pieces(self) -> int:
        """Into how many pieces a row is cut."""
        tuning = self.tuning
        if self.rows > tuning.select_rows:
            return 1
        most = min(self.size // (4 * self.room), tuning.select_pieces)
        return max(1, min(self.size // tuning.select_piece, most))

    @property
    def chunks(self) -> int:
        """How many rows are read at a time, in memory of their own."""
        return 1 if self.pieces > 1 else min(self.rows, self.tuning.select_chunks)

    @cached_property
    def sort(self) -> RowSort:
        """What sorts the lists of all rows."""
        return RowSort(
            self.rows, self.count, (f"u{self.key.bits}",), tuning=self.tuning
        )

    @property
    def key(self) -> Type:
        """The type of a key."""
        return Type(f"i{bits_of(self.kind)}")

    @property
    def list_parts(self) -> tuple[int, int, int, int]:
        """Where in a list its keys, its indices and its length begin, and it ends.

        After the length stands the bound.
        """
        room = self.room + 64
        indices = _aligned(self.key.size * room)
        length = indices + _aligned(4 * room)
        return 0, indices, length, length + 64

    @property
    def parts(self) -> tuple[int, int, int, int]:
        """Where keys, indices and order of all rows begin, and the lists."""
        total = self.rows * self.count
        keys, indices = _aligned(total * self.key.size), _aligned(4 * total)
        return 0, keys, keys + indices, keys + 2 * indices

    @property
    def scratch(self) -> int:
        """The bytes of memory it needs."""
        lists = self.chunks * self.pieces * self.list_parts[-1]
        return self.parts[-1] + max(lists, self.sort.scratch)

    def emit(self, module: Module, name: str) -> None:
        """Add `void name(ptr indices, ptr keys, ptr scratch, ptr parallel_for)`."""
        _SelectCode(self, module).emit(module, name)


def _aligned(size: int) -> int:
    return -(-size // 64) * 64


class _SelectCode:
    def __init__(self, what: FirstIndices, module: Module) -> None:
        self.what = what
        self.key: Type = what.key
        self.vector: Type = self.key.with_lanes(min(64 // self.key.size, 16))
        # Candidates are collected by vectors where registers can compress lanes.
        self.packs: Type = self.vector if module.vector_bytes == 64 else self.key
        self.cut = Function(self._cut, (PTR,), None, "cut")

    def emit(self, module: Module, name: str) -> None:
        what, sorter = self.what, f"{name}.sort"
        what.sort.emit(module, sorter)
        b = module.function(name, [PTR] * 4)
        result, source, scratch, launcher = b.arguments
        keys, indices, order, lists = (b.offset(scratch, x, I8) for x in what.parts)
        given = [source, lists, keys, indices, launcher]
        share(b, launcher, "chunk", what.chunks, given, self._chunk)
        b.call(sorter, None, order, keys, lists, launcher)
        with b.loop(0, what.rows) as row, b.loop(0, what.count) as loop:
            first = row.index * what.count
            number = b.load(I32, b.offset(order, first + loop.index, I32))
            chosen = b.offset(indices, first + b.convert(number, "i64"), I32)
            b.store(b.load(I32, chosen), b.offset(result, first + loop.index, I32))
        b.ret()

    def _list(self, b: Builder, lists: Value, number: Value) -> Values:
        """The keys, the indices and the length of a list."""
        *parts, size = self.what.list_parts
        start = b.offset(lists, number * size, I8)
        return [b.offset(start, x, I8) for x in parts]

    def _chunk(
        self, b: Builder, chunk: Value, source: Value, lists: Value, all_keys: Value,
        all_indices: Value, launcher: Value,
    ) -> None:  # fmt: skip
        """One row after the other."""
        what, key = self.what, self.key
        keys, indices, length = self._list(b, lists, chunk * what.pieces)
        with b.loop(*part(chunk, what.rows, what.chunks)) as row:
            here = b.offset(source, row.index * what.size, key)
            share(b, launcher, "piece", what.pieces, [here, keys], self._piece)
            if what.pieces > 1:
                self._join(b, keys, indices, length)
            at = row.index * what.count
            b.copy(b.offset(all_keys, at, key), keys, what.count * key.size)
            b.copy(b.offset(all_indices, at, I32), indices, what.count * 4)

    def _join(self, b: Builder, keys: Value, indices: Value, length: Value) -> None:
        """Add the lists of all pieces to that of the first, and cut it."""
        with b.loop(1, self.what.pieces) as loop:
            others, their_indices, their_length = self._list(b, keys, loop.index)
            count, more = b.load(I64, length), b.load(I64, their_length)
            b.copy(b.offset(keys, count, self.key), others, more * self.key.size)
            b.copy(b.offset(indices, count, I32), their_indices, more * 4)
            b.store(count + more, length)
            self.cut(b, keys)

    def _piece(self, b: Builder, number: Value, source: Value, lists: Value) -> None:
        """Collect from a piece of a row, to a list of its own."""
        what, lanes = self.what, self.vector.lanes
        collector = _Collector(b, self, source, self._list(b, lists, number))
        width = -(-what.size // what.pieces)
        first = b.const(I64, 0) if what.pieces == 1 else number * width
        last = b.min(first + width, what.size)
        whole = first + b.and_(last - first, -4 * lanes)
        with b.loop(first, whole, 4 * lanes) as loop:
            result = collector.any_collected(self.vector, loop.index, 4)
            with b.when(result), b.loop(0, 4 * lanes, self.packs.lanes) as inner:
                collector.collect(self.packs, loop.index + inner.index)
        with b.loop(whole, last) as rest:
            collector.collect(self.key, rest.index)
        self.cut(b, collector.keys)

    def _cut(self, b: Builder, keys: Value) -> None:
        """Keep the least keys of a list, the first ones of equals."""
        what, key = self.what, self.key
        _, indices, length = self._list(b, keys, b.const(I64, 0))
        count = b.load(I64, length)
        b.return_unless(count > what.count)
        # Pad the last vector with the largest key, which is never among the least.
        b.store(b.const(self.vector, -1), b.offset(keys, count, key))
        bound, equals = self._bound(b, keys, count)
        b.store(bound, b.offset(length, 1, I64))
        _Keeper(b, (keys, indices), bound, count).emit(self.packs, equals)
        b.store(b.const(I64, what.count), length)

    def _bound(self, b: Builder, keys: Value, count: Value) -> tuple[Value, Value]:
        """The key that stands last among the least, and how many of it are kept.

        It is the greatest key that fewer keys are less than are kept: its bits are
        tried one by one, from the highest.
        """
        key = self.key
        highest = b.const(key, 1 << (key.bits - 1))
        start = [b.const(key, 0), highest, b.const(I64, self.what.count)]
        with b.loop(0, key.bits, carried=start) as loop:
            bound, bit, equals = loop.carried
            tried = b.or_(bound, bit)
            left = self.what.count - self._below(b, keys, count, tried)
            fits = left > 0
            loop.next(
                b.select(fits, tried, bound),
                b.lshr(bit, 1),
                b.select(fits, left, equals),
            )
        bound, _, equals = loop.results
        return bound, equals

    def _below(self, b: Builder, keys: Value, count: Value, bound: Value) -> Value:
        """How many keys of a list are less than `bound`."""
        limit = b.splat(bound, self.vector.lanes)
        with b.loop(0, count, self.vector.lanes, [b.const(I64, 0)]) as loop:
            x = b.load(self.vector, b.offset(keys, loop.index, self.key))
            less = b.compare("lt", x, limit, unsigned=True)
            loop.next(loop.carried[0] + b.count_lanes(less))
        return loop.results[0]


class _Keeper:
    """Code that moves what is kept of a list to its beginning, in order."""

    def __init__(
        self, b: Builder, lists: tuple[Value, Value], bound: Value, count: Value
    ) -> None:
        self.b, (self.keys, self.indices) = b, lists
        self.bound, self.count = bound, count
        self.key: Type = bound.type

    def emit(self, type_: Type, equals: Value) -> None:
        """Keep what is less than the bound, and the first `equals` that equal it."""
        b, lanes = self.b, type_.lanes
        start = [b.const(I64, 0), equals]
        with b.loop(0, self.count, lanes, start) as loop:
            x = b.load(type_, b.offset(self.keys, loop.index, self.key))
            limit = b.splat(self.bound, lanes)
            loop.next(
                *b.if_(
                    b.any_lane(b.eq(x, limit)),
                    lambda: self._each(loop.index, lanes, loop.carried),
                    lambda: self._packed(x, limit, loop.index, loop.carried),
                )
            )

    def _each(self, first: Value, lanes: int, carried: Values) -> Values:
        b = self.b
        with b.loop(first, b.min(first + lanes, self.count), carried=carried) as loop:
            kept, equals = loop.carried
            x = b.load(self.key, b.offset(self.keys, loop.index, self.key))
            equal = b.and_(b.eq(x, self.bound), equals > 0)
            keep = b.or_(b.compare("lt", x, self.bound, unsigned=True), equal)
            index = b.load(I32, b.offset(self.indices, loop.index, I32))
            b.store(x, b.offset(self.keys, kept, self.key))
            b.store(index, b.offset(self.indices, kept, I32))
            loop.next(kept + b.convert(keep, "i64"), equals - b.convert(equal, "i64"))
        return loop.results

    def _packed(self, x: Value, limit: Value, first: Value, carried: Values) -> Values:
        """What is kept of a vector without equals; without lanes, of an element."""
        b, (kept, equals) = self.b, carried
        less = b.compare("lt", x, limit, unsigned=True)
        numbers = I32.with_lanes(x.lanes)
        position = b.load(numbers, b.offset(self.indices, first, I32))
        b.compress(x, b.offset(self.keys, kept, self.key), less)
        b.compress(position, b.offset(self.indices, kept, I32), less)
        return [kept + b.count_lanes(less), equals]


class _Collector:
    """Code that adds to a list what beats its bound, the least key that is too great.

    There is no bound until the list is full for the first time.
    """

    def __init__(
        self, b: Builder, code: _SelectCode, source: Value, parts: Values
    ) -> None:
        self.b, self.code, self.source = b, code, source
        self.keys, self.indices, self.length = parts
        self.bound, self.bounded = b.scratch(8), b.scratch(1)
        b.store(b.const(code.key, -1), self.bound)
        b.store(b.const(I8, 0), self.bounded)
        b.store(b.const(I64, 0), self.length)

    def _read(self, type_: Type, index: Value) -> Value:
        b = self.b
        x = b.load(type_, b.offset(self.source, index, type_))
        return b.not_(encode_total(b, x, self.code.what.kind))

    def _beats(self, new: Value) -> Value:
        b = self.b
        limit = b.splat(b.load(self.code.key, self.bound), new.lanes)
        free = b.splat(b.eq(b.load(I8, self.bounded), 0), new.lanes)
        return b.or_(b.compare("lt", new, limit, unsigned=True), free)

    def any_collected(self, vector: Type, index: Value, count: int) -> Value:
        """Whether any element of some vectors goes to the list."""
        masks = [
            self._beats(self._read(vector, index + i * vector.lanes))
            for i in range(count)
        ]
        return self.b.any_lane(functools.reduce(self.b.or_, masks))

    def collect(self, type_: Type, index: Value) -> None:
        """Add the elements of a vector that beat the bound, in order."""
        b, key = self.b, self.code.key
        new = self._read(type_, index)
        mask = self._beats(new)
        with b.when(b.any_lane(mask)):
            count = b.load(I64, self.length)
            number = b.splat(b.convert(index, "i32"), new.lanes)
            number = number + b.lane_index(number.type)
            b.compress(new, b.offset(self.keys, count, key), mask)
            b.compress(number, b.offset(self.indices, count, I32), mask)
            count = count + b.count_lanes(mask)
            b.store(count, self.length)
            with b.when(count >= self.code.what.room):
                self.code.cut(b, self.keys)
                bound = b.load(key, b.offset(self.length, 1, I64))
                b.store(bound, self.bound)
                b.store(b.const(I8, 1), self.bounded)
