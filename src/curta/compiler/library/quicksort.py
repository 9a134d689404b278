"""Quicksort by vectors, of unsigned integers.

A vector is compared with the pivot, and its lanes are packed to either side: those
below it stay, the others go to spare memory and follow. Where a pivot of samples has
split badly, the next one is the middle of the range, so that there are at most
twice as many levels as bits. Up to 32 elements are sorted by their ranks, which are
counted. Segments that wait lie on a stack; the larger one waits.
"""

from __future__ import annotations

from collections.abc import Callable

from curta._base.lazy_dataclass import dataclass
from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.functions import Function
from curta.compiler.llvm.types import I1, I64, PTR, Operand, Type, Value
from curta.compiler.targets import Tuning

_FEW = 32  # elements that are sorted by rank
_DEPTH = 64  # of the stack of pending segments


def segments_size(tuning: Tuning) -> int:
    """The bytes of the bounds of segments that are shared out, and of their number."""
    return 16 * tuning.sort_segments + 8


@dataclass(frozen=True)
class Quicksort:
    """Functions that sort integers of a type, which all sorts of them share.

    With `unique`, no two of them are equal. At most `segments` are shared out, and a
    split of which a side has less than one in `bad_split` is a bad one.
    """

    key: Type
    unique: bool
    segments: int
    bad_split: int

    @staticmethod
    def tuned(key: Type, unique: bool, tuning: Tuning) -> Quicksort:
        """The variant for the limits of a target."""
        return Quicksort(key, unique, tuning.sort_segments, tuning.bad_split)

    @property
    def names(self) -> tuple[str, str]:
        """The names of its functions."""
        unique = "_unique" if self.unique else ""
        which = f"{self.key}{unique}_{self.segments}_{self.bad_split}"
        return f"sort_{which}", f"spread_{which}"

    def emit(self, module: Module) -> None:
        """Add the functions to the module.

            void sort(ptr keys, ptr spare, i64 first, i64 last)
            void spread(ptr keys, ptr spare, i64 size, i64 limit, ptr segments)

        `spread` splits into segments of at most `limit` elements, to be sorted one by
        one.
        """
        code = _SortCode(self)
        code.sort.export(module)
        code.spread.export(module)


class _SortCode:
    def __init__(self, what: Quicksort) -> None:
        self.what = what
        self.key: Type = what.key
        # As many keys as fill a register.
        self.vector: Type = what.key.with_lanes(64 // what.key.size)
        array, range_ = (PTR, PTR), (I64, I64)
        sort, spread = what.names
        self.sort = Function(self._sort, (*array, *range_), None, sort)
        self.spread = Function(self._spread, (*array, *range_, PTR), None, spread)
        parameters = (*array, *range_, self.key)
        self.partition = Function(self._partition, parameters, I64, "partition")
        self.middle = Function(self._middle, (PTR, *range_), self.key, "middle")
        self.ranks = Function(self._ranks, (*array, *range_), None, "ranks")

    # ------------------------------------------------------------ the segments

    def _sort(
        self, b: Builder, keys: Value, spare: Value, first: Value, last: Value
    ) -> None:
        def finish(start: Value, size: Value) -> None:
            self.ranks(b, keys, spare, start, size)

        self._segments(b, (keys, spare), (first, last), _FEW, finish)

    def _spread(
        self, b: Builder, keys: Value, spare: Value, size: Value, limit: Value,
        segments: Value,
    ) -> None:  # fmt: skip
        count = b.offset(segments, 2 * self.what.segments, I64)
        b.store(b.const(I64, 0), count)

        def finish(start: Value, size: Value) -> None:
            number, end = b.load(I64, count), start + size
            there = number < self.what.segments
            with b.when(there):
                b.store(start, b.offset(segments, number * 2, I64))
                b.store(end, b.offset(segments, number * 2 + 1, I64))
                b.store(number + 1, count)
            with b.when(~there):
                self.sort(b, keys, spare, start, end)

        self._segments(b, (keys, spare), (b.const(I64, 0), size), limit, finish)

    def _segments(
        self,
        b: Builder,
        arrays: tuple[Value, Value],
        bounds: tuple[Value, Value],
        limit: Operand,
        finish: Callable[[Value, Value], None],
    ) -> None:
        """Split segments until they have at most `limit` elements, then finish them."""
        stack = b.scratch(24 * _DEPTH, align=8)
        top = b.scratch(8, align=8)
        b.store(b.const(I64, 0), top)

        def push(first: Value, last: Value, bad: Value) -> None:
            depth = b.load(I64, top)
            for i, word in enumerate((first, last, b.convert(bad, "i64"))):
                b.store(word, b.offset(stack, depth * 3 + i, I64))
            b.store(depth + 1, top)

        push(*bounds, b.const(I1, 0))
        with b.forever():
            depth = b.load(I64, top) - 1
            b.return_when(depth < 0)
            b.store(depth, top)
            first, last, bad = (
                b.load(I64, b.offset(stack, depth * 3 + i, I64)) for i in range(3)
            )
            size = last - first
            small = size <= limit
            with b.when(small):
                finish(first, size)
            with b.when(~small):
                self._split(b, arrays, (first, last), bad, push)

    def _split(
        self,
        b: Builder,
        arrays: tuple[Value, Value],
        bounds: tuple[Value, Value],
        bad: Value,
        push: Callable[[Value, Value, Value], None],
    ) -> None:
        keys, (first, last) = arrays[0], bounds
        size = last - first
        pivot = b.choose(
            b.ne(bad, 0),
            lambda: self.middle(b, keys, first, last),
            lambda: self._sample(b, keys, first, size),
        )
        cut = self.partition(b, *arrays, first, last, pivot)
        none_below = b.eq(cut, first)
        with b.when(none_below), b.when(b.ne(pivot, -1)):
            # No key is below the pivot: keys equal to it come first.
            equal = self.partition(b, *arrays, first, last, pivot + 1)
            push(equal, last, b.const(I1, 1))
        with b.when(~none_below):
            low, high = cut - first, last - cut
            least = b.udiv(size, self.what.bad_split)
            small = b.compare("lt", b.min(low, high), least)
            swap = b.compare("gt", low, high)
            larger = b.select(swap, first, cut), b.select(swap, cut, last)
            smaller = b.select(swap, cut, first), b.select(swap, last, cut)
            push(*larger, small)
            push(*smaller, small)

    def _sample(self, b: Builder, keys: Value, first: Value, size: Value) -> Value:
        """The median of three medians of three."""
        step = b.udiv(size, 9)
        x = [
            b.load(self.key, b.offset(keys, first + step * i, self.key))
            for i in range(9)
        ]

        def median(x: Value, y: Value, z: Value) -> Value:
            low, high = b.min(x, y, True), b.max(x, y, True)
            return b.max(low, b.min(high, z, True), True)

        return median(*(median(*x[i::3]) for i in range(3)))

    # ------------------------------------------------------------ the elements

    def _partition(
        self, b: Builder, keys: Value, spare: Value, first: Value, last: Value,
        pivot: Value,
    ) -> Value:  # fmt: skip
        """Where the keys that are not below the pivot begin, once they are behind."""
        key, vector = self.key, self.vector
        limit, lanes = b.splat(pivot, vector.lanes), vector.lanes

        def step(ends: list[Value], x: Value, there: Value | None) -> list[Value]:
            below = b.compare("lt", x, limit, unsigned=True)
            above = b.not_(below)
            if there is not None:
                below, above = b.and_(below, there), b.and_(above, there)
            low, high = ends
            if there is None:  # what lies after the packed lanes was read already
                b.compress(x, b.offset(keys, low, key), below)
                b.compress(x, b.offset(spare, high, key), above)
            else:
                for end, array, mask in ((low, keys, below), (high, spare, above)):
                    packed = b.packed(x, mask)
                    kept = b.first_lanes(b.count_lanes(mask), lanes)
                    b.masked_store(packed, b.offset(array, end, key), kept)
            return [low + b.count_lanes(below), high + b.count_lanes(above)]

        whole = first + b.and_(last - first, -lanes)
        with b.loop(first, whole, lanes, carried=[first, first]) as loop:
            x = b.load(vector, b.offset(keys, loop.index, key))
            loop.next(*step(loop.carried, x, None))
        there = b.first_lanes(last - whole, lanes)
        x = b.masked_load(vector, b.offset(keys, whole, key), there)
        low, high = step(loop.results, x, there)
        source = b.offset(spare, first, key)
        b.copy(b.offset(keys, low, key), source, (high - first) * key.size)
        return low

    def _middle(self, b: Builder, keys: Value, first: Value, last: Value) -> Value:
        """Halfway from the least key to the greatest.

        All ones if they are equal, and else a number that splits them.
        """
        key = self.key
        start = b.load(key, b.offset(keys, first, key))
        ends = [b.splat(start, self.vector.lanes)] * 2
        whole = first + b.and_(last - first, -self.vector.lanes)
        with b.loop(first, whole, self.vector.lanes, carried=ends) as loop:
            x = b.load(self.vector, b.offset(keys, loop.index, key))
            least, most = loop.carried
            loop.next(b.min(least, x, True), b.max(most, x, True))
        least = b.reduce_lanes(loop.results[0], lambda x, y: b.min(x, y, True))
        most = b.reduce_lanes(loop.results[1], lambda x, y: b.max(x, y, True))
        with b.loop(whole, last, carried=[least, most]) as loop:
            x = b.load(key, b.offset(keys, loop.index, key))
            least, most = loop.carried
            loop.next(b.min(least, x, True), b.max(most, x, True))
        least, most = loop.results
        half = least + b.lshr(most - least, 1) + 1
        return b.select(b.eq(least, most), least, half)

    def _ranks(
        self, b: Builder, keys: Value, spare: Value, first: Value, size: Value
    ) -> None:
        """Sort a few elements."""
        key, many = self.key, self.key.with_lanes(_FEW)
        keys, spare = b.offset(keys, first, key), b.offset(spare, first, key)
        there = b.first_lanes(size, _FEW)
        every = b.masked_load(many, keys, there, -1)
        bits = Type(f"i{_FEW}")
        with b.loop(0, size) as loop:
            x = b.load(key, b.offset(keys, loop.index, key))
            one = b.splat(x, _FEW)
            before = b.bitcast(b.compare("lt", every, one, unsigned=True), bits)
            if not self.what.unique:
                earlier = b.shl(1, b.convert(loop.index, bits.kind)) - 1
                equal = b.bitcast(b.eq(every, one), bits)
                before = b.or_(before, b.and_(equal, earlier))
            rank = b.convert(b.population_count(before), "i64", unsigned=True)
            b.store(x, b.offset(spare, rank, key))
        b.copy(keys, spare, size * key.size)
