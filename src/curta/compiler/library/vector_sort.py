"""Rows of words sorted by vectors: of keys, or of keys with indices below them.

Keys alone lie where the result is to be, and become what they stand for in the end.
"""

from __future__ import annotations

from curta.compiler.library.quicksort import Quicksort
from curta.compiler.library.radix import (
    COUNTS,
    KEYS,
    NEW_KEYS,
    RESULT,
    SOURCE,
    RadixSort,
    walk,
)
from curta.compiler.library.sort_keys import decode
from curta.compiler.llvm.types import I8, I32, I64, PTR, Type, Value
from curta.config import config

_SEGMENTS = COUNTS  # where the bounds of segments are kept


class VectorSort(RadixSort):
    """Short rows by insertion, others by quicksort; a long row by several threads."""

    @property
    def word(self) -> Type:
        """What is sorted: a key, or a key above its index."""
        return I64 if self.sort.gives_order else self.types[0]

    def _long_rows(self) -> str:
        sort = self.sort
        quicksort = Quicksort.tuned(self.word, sort.gives_order)
        quick, spread = quicksort.names
        self.module.library[quick] = quicksort
        begin, finish, restore = self._words(), self._results(), self.restore()
        segment = self._segment(quick)
        b = self.module.function("long_rows", [PTR, I64], exported=False)
        table, chunk = b.arguments
        scratch, launcher = (b.load(PTR, b.offset(table, i, PTR)) for i in (2, 3))
        memory = b.offset(scratch, chunk * sort.offsets[-1], I8)
        context = b.scratch(64, align=8)
        parts = [sort.offsets[i] for i in (0, 1, 4)]
        words, spare, segments = (b.offset(memory, at, I8) for at in parts)
        for word, value in ((NEW_KEYS, spare), (_SEGMENTS, segments)):
            b.store(value, b.offset(context, word, PTR))
        size = b.const(I64, sort.size)

        def run(function: str, count: Value) -> None:
            b.call(launcher, None, b.function_address(function), context, count)

        def row(result: Value, sources: list[Value]) -> None:
            keys = words if sort.gives_order else result
            b.store(keys, b.offset(context, KEYS, PTR))
            b.store(result, b.offset(context, RESULT, PTR))
            b.store(sources[0], b.offset(context, SOURCE, PTR))
            if sort.pieces == 1:
                first = b.const(I64, 0)
                b.call(begin, None, context, first)
                b.call(quick, None, keys, spare, first, size)
                b.call(finish, None, context, first)
            else:
                pieces = b.const(I64, sort.pieces)
                limit = b.const(I64, sort.size // config.tuning.sort_share)
                run(begin, pieces)
                b.call(spread, None, keys, spare, size, limit, segments)
                most = config.tuning.sort_segments
                run(segment, b.load(I64, b.offset(segments, 2 * most, I64)))
                run(finish, pieces)
            if restore:
                b.call(restore, None, context)

        self.rows_of_chunk(b, row)
        b.ret()
        return b.name

    def _segment(self, quick: str) -> str:
        """`void segment(ptr context, i64 number)`: sort one of the segments."""
        b = self.module.function("segment", [PTR, I64], exported=False)
        context, number = b.arguments
        segments = self.word_of(b, context, _SEGMENTS)
        bounds = (b.load(I64, b.offset(segments, number * 2 + i, I64)) for i in (0, 1))
        arrays = (self.word_of(b, context, at) for at in (KEYS, NEW_KEYS))
        b.call(quick, None, *arrays, *bounds)
        b.ret()
        return b.name

    def _words(self) -> str:
        """The words of the elements."""
        t, word = self.types[0], self.word
        b, context, _, first, last = self.piece("begin")
        source, keys = (self.word_of(b, context, at) for at in (SOURCE, KEYS))

        def encode_at(lanes: int, index: Value) -> None:
            x = b.load(t.with_lanes(lanes), b.offset(source, index, t))
            key = self.encoded(b, x, 0)
            if self.sort.gives_order:
                wide = b.convert(key, "i64", unsigned=True)
                number = b.splat(index, lanes) + b.lane_index(wide.type)
                key = b.or_(b.shl(wide, 32), number)
            b.store(key, b.offset(keys, index, word))

        walk(b, first, last, word, encode_at)
        b.ret()
        return b.name

    def _results(self) -> str:
        """The indices in the words, or what the keys stand for."""
        t, word = self.types[0], self.word
        b, context, _, first, last = self.piece("finish")
        result, keys = (self.word_of(b, context, at) for at in (RESULT, KEYS))

        def decode_at(lanes: int, index: Value) -> None:
            x = b.load(word.with_lanes(lanes), b.offset(keys, index, word))
            if self.sort.gives_order:
                b.store(b.convert(x, "i32"), b.offset(result, index, I32))
            else:
                number = decode(b, x, self.sort.kinds[0])
                b.store(number, b.offset(result, index, t))

        walk(b, first, last, word, decode_at)
        b.ret()
        return b.name
