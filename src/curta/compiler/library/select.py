"""The indices of the greatest elements of rows, without sorting the rows.

A row is read once. Elements that beat the worst of those kept so far are collected, in
the order in which they come, and a whole vector is passed over when none does. When
the list is full, the best are kept: their bound is found bit by bit, by counting.
A long row is cut into pieces, read in parallel, whose lists are joined. In the end
the list, which has no more than is asked for, is sorted (sort.py).
"""

from __future__ import annotations

import functools

from curta.compiler.library.routine import Routine, run_chunks
from curta.compiler.library.sort import RowSort
from curta.compiler.library.sort_keys import bits_of, encode_total
from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I8, I32, I64, PTR, Type, Value
from curta.config import config
from curta.lazy_dataclass import dataclass
from curta.once import cached_property


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

    @property
    def work(self) -> int:
        """Roughly how many operations it takes."""
        return self.rows * (self.size + 16 * self.room)

    @property
    def room(self) -> int:
        """The elements that a list has room for, before it is cut."""
        return self.count + max(self.count, config.tuning.select_room)

    @property
    def pieces(self) -> int:
        """Into how many pieces a row is cut."""
        tuning = config.tuning
        if self.rows > tuning.select_rows:
            return 1
        most = min(self.size // (4 * self.room), tuning.select_pieces)
        return max(1, min(self.size // tuning.select_piece, most))

    @property
    def chunks(self) -> int:
        """How many rows are read at a time, in memory of their own."""
        return 1 if self.pieces > 1 else min(self.rows, config.tuning.select_chunks)

    @cached_property
    def sort(self) -> RowSort:
        """What sorts the lists of all rows."""
        return RowSort(self.rows, self.count, (f"u{self.key.bits}",))

    @property
    def key(self) -> Type:
        """The type of a key."""
        return Type(f"i{bits_of(self.kind)}")

    @property
    def _list(self) -> int:
        """The bytes of a list: keys, indices, and its length and bound."""
        lanes = 64
        parts = self.key.size * (self.room + lanes), 4 * (self.room + lanes), 64
        return sum(-(-p // 64) * 64 for p in parts)

    @property
    def indices_at(self) -> int:
        """Where in a list the indices begin."""
        return -(-self.key.size * (self.room + 64) // 64) * 64

    @property
    def length_at(self) -> int:
        """Where in a list its length stands, and the bound after it."""
        return self.indices_at + -(-4 * (self.room + 64) // 64) * 64

    @property
    def lists(self) -> int:
        """The number of lists."""
        return self.chunks * self.pieces

    @property
    def kept(self) -> tuple[int, int, int]:
        """The bytes of what is kept of all rows: keys, indices, and their order."""
        total = self.rows * self.count
        return tuple(-(-total * n // 64) * 64 for n in (self.key.size, 4, 4))  # type: ignore[return-value]

    @property
    def scratch(self) -> int:
        """The bytes of memory it needs."""
        return sum(self.kept) + max(self.lists * self._list, self.sort.scratch)

    def emit(self, module: Module, name: str) -> None:
        """Add `void name(ptr indices, ptr keys, ptr scratch, ptr parallel_for)`."""
        _Emitter(module, self).emit(name)


# Words of the table that the functions share.
_SOURCE, _LISTS, _KEYS, _INDICES, _LAUNCHER, _ROW = range(6)


class _Emitter:
    def __init__(self, module: Module, what: FirstIndices) -> None:
        self.module = module
        self.what = what
        self.key = what.key
        self.vector = self.key.with_lanes(min(64 // self.key.size, 16))
        # Candidates are collected by vectors where registers can compress lanes.
        self.packs = self.vector if module.vector_bytes == 64 else self.key

    def emit(self, name: str) -> None:
        what = self.what
        sorter = f"{name}.sort"
        what.sort.emit(self.module, sorter)
        cut = self._cut()
        piece = self._piece(cut)
        rows = self._rows(piece, cut)
        b = self.module.function(name, [PTR] * 4)
        result, source, scratch, launcher = b.arguments
        keys, indices, order = what.kept
        at = [b.offset(scratch, sum((keys, indices, order)[:i]), I8) for i in range(4)]
        table = b.scratch(64, align=8)
        for word, value in (
            (_SOURCE, source), (_LISTS, at[3]), (_KEYS, at[0]), (_INDICES, at[1]),
            (_LAUNCHER, launcher),
        ):  # fmt: skip
            b.store(value, b.offset(table, word, PTR))
        run_chunks(b, launcher, rows, table, what.chunks)
        b.call(sorter, None, at[2], at[0], at[3], launcher)
        with b.loop(0, what.rows) as row, b.loop(0, what.count) as loop:
            to = row.index * what.count + loop.index
            number = b.load(I32, b.offset(at[2], to, I32))
            chosen = row.index * what.count + b.convert(number, "i64")
            b.store(
                b.load(I32, b.offset(at[1], chosen, I32)),
                b.offset(result, to, I32),
            )
        b.ret()

    def _parts(self, b: Builder, lists: Value, number: Value) -> tuple[Value, ...]:
        """The keys, the indices and the length of a list."""
        what = self.what
        start = b.offset(lists, number * what._list, I8)
        offsets = what.indices_at, what.length_at
        return start, *(b.offset(start, offset, I8) for offset in offsets)

    def _rows(self, piece: str, cut: str) -> str:
        """`void rows(ptr table, i64 chunk)`: one row of a chunk after the other."""
        what = self.what
        b = self.module.function("rows", [PTR, I64], exported=False)
        table, chunk = b.arguments
        own = b.scratch(64, align=8)
        b.copy(own, table, 64)
        lists = b.load(PTR, b.offset(table, _LISTS, PTR))
        first = b.udiv(chunk * what.rows, what.chunks)
        last = b.udiv((chunk + 1) * what.rows, what.chunks)
        kept_keys, kept_indices = (
            b.load(PTR, b.offset(table, word, PTR)) for word in (_KEYS, _INDICES)
        )
        with b.loop(first, last) as row:
            b.store(row.index, b.offset(own, _ROW, I64))
            start = chunk * what.pieces
            if what.pieces == 1:
                b.call(piece, None, own, start)
            else:
                launcher = b.load(PTR, b.offset(table, _LAUNCHER, PTR))
                code, pieces = b.function_address(piece), b.const(I64, what.pieces)
                b.call(launcher, None, code, own, pieces)
                self._join(b, lists, cut)
            keys, indices, _ = self._parts(b, lists, start)
            at = row.index * what.count
            b.copy(b.offset(kept_keys, at, self.key), keys, what.count * self.key.size)
            b.copy(b.offset(kept_indices, at, I32), indices, what.count * 4)
        b.ret()
        return b.name

    def _join(self, b: Builder, lists: Value, cut: str) -> None:
        """Add the lists of all pieces to that of the first, and cut it."""
        what = self.what
        keys, indices, length = self._parts(b, lists, b.const(I64, 0))
        with b.loop(1, what.pieces) as loop:
            other = self._parts(b, lists, loop.index)
            count, more = b.load(I64, length), b.load(I64, other[2])
            b.copy(b.offset(keys, count, self.key), other[0], more * self.key.size)
            b.copy(b.offset(indices, count, I32), other[1], more * 4)
            b.store(count + more, length)
            b.call(cut, None, keys)
        return None

    def _piece(self, cut: str) -> str:
        """`void piece(ptr table, i64 list)`: collect from a piece of a row."""
        what, key = self.what, self.key
        b = self.module.function("piece", [PTR, I64], exported=False)
        table, number = b.arguments
        source = b.load(PTR, b.offset(table, _SOURCE, PTR))
        row = b.load(I64, b.offset(table, _ROW, I64))
        source = b.offset(source, row * what.size, key)
        lists = b.load(PTR, b.offset(table, _LISTS, PTR))
        parts = self._parts(b, lists, number)
        width = -(-what.size // what.pieces)
        first = b.const(I64, 0) if what.pieces == 1 else number * width
        last = b.min(first + width, what.size)
        b.store(b.const(I64, 0), parts[2])
        collector = _Collector(b, what, source, parts, cut)
        lanes = self.vector.lanes
        whole = first + b.and_(last - first, -4 * lanes)
        with b.loop(first, whole, 4 * lanes) as loop:
            result = collector.any_collected(self.vector, loop.index, 4)
            with b.when(result), b.loop(0, 4 * lanes, self.packs.lanes) as inner:
                collector.collect(self.packs, loop.index + inner.index)
        with b.loop(whole, last) as rest:
            collector.collect(key, rest.index)
        b.call(cut, None, parts[0])
        b.ret()
        return b.name

    def _cut(self) -> str:
        """`void cut(ptr list)`: keep the least keys, the first ones of equals."""
        what, key = self.what, self.key
        b = self.module.function("cut", [PTR], exported=False)
        (keys,) = b.arguments
        length = b.offset(keys, what.length_at, I8)
        count = b.load(I64, length)
        with b.when(b.compare("gt", count, what.count)):
            # Pad the last vector with the largest key, which is never among the least.
            b.store(b.const(self.vector, -1), b.offset(keys, count, key))
            bound, equals = self._bound(b, keys, count)
            b.store(bound, b.offset(length, 8, I8))
            _Keeper(b, what, keys, bound, count).emit(self.packs, equals)
            b.store(b.const(I64, what.count), length)
        b.ret()
        return b.name

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
        self, b: Builder, what: FirstIndices, keys: Value, bound: Value, count: Value
    ) -> None:
        self.b, self.key, self.keys, self.bound, self.count = (
            b, what.key, keys, bound, count,
        )  # fmt: skip
        self.indices = b.offset(keys, what.indices_at, I8)

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
        for value, to, type_ in (
            (x, self.keys, self.key),
            (position, self.indices, I32),
        ):
            at = b.offset(to, kept, type_)
            if x.lanes > 1:
                b.compress(value, at, less)
            else:
                b.store(value, at)
        return [kept + b.count_lanes(less), equals]


class _Collector:
    """Code that adds to a list what beats its bound, the least key that is too great.

    There is no bound until the list is full for the first time.
    """

    def __init__(
        self,
        b: Builder,
        what: FirstIndices,
        source: Value,
        parts: tuple[Value, ...],
        cut: str,
    ) -> None:
        self.b, self.what, self.source, self.cut = b, what, source, cut
        self.keys, self.indices, self.length = parts
        self.bound, self.bounded = b.scratch(8), b.scratch(1)
        b.store(b.const(what.key, -1), self.bound)
        b.store(b.const(I8, 0), self.bounded)

    def _read(self, type_: Type, index: Value) -> Value:
        b = self.b
        x = b.load(type_, b.offset(self.source, index, type_))
        return b.not_(encode_total(b, x, self.what.kind))

    def _beats(self, new: Value) -> Value:
        b = self.b
        limit = b.splat(b.load(self.what.key, self.bound), new.lanes)
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
        b, what = self.b, self.what
        new = self._read(type_, index)
        mask = self._beats(new)
        with b.when(b.any_lane(mask)):
            count = b.load(I64, self.length)
            number = b.splat(b.convert(index, "i32"), new.lanes)
            number = number + b.lane_index(number.type)
            keys = b.offset(self.keys, count, what.key)
            indices = b.offset(self.indices, count, I32)
            if new.lanes > 1:
                b.compress(new, keys, mask)
                b.compress(number, indices, mask)
                count = count + b.count_lanes(mask)
            else:
                b.store(new, keys)
                b.store(number, indices)
                count = count + 1
            b.store(count, self.length)
            with b.when(count >= what.room):
                b.call(self.cut, None, self.keys)
                bound = b.load(what.key, b.offset(self.length, 8, I8))
                b.store(bound, self.bound)
                b.store(b.const(I8, 1), self.bounded)
