"""Rows of words sorted by vectors: of keys, or of keys with indices below them.

Keys alone lie where the result is to be, and become what they stand for in the end.
"""

from __future__ import annotations

from curta.compiler.library.quicksort import Quicksort
from curta.compiler.library.routine import share
from curta.compiler.library.sort_code import SortCode, walk
from curta.compiler.library.sort_keys import decode
from curta.compiler.llvm.builder import Builder, Values
from curta.compiler.llvm.types import I8, I32, I64, Type, Value


class VectorSort(SortCode):
    """Rows by quicksort; a long row by several threads."""

    @property
    def word(self) -> Type:
        """The sorted element: a key, or a key above its index."""
        return I64 if self.sort.gives_order else self.types[0]

    def row(
        self, b: Builder, result: Value, sources: Values, memory: Value, launcher: Value
    ) -> None:
        sort, tuning = self.sort, self.sort.tuning
        quicksort = Quicksort.tuned(self.word, sort.gives_order, tuning)
        quick, spread = quicksort.names
        b.module.library[quick] = quicksort
        parts = [sort.offsets[i] for i in (0, 1, 4)]
        words, spare, segments = (b.offset(memory, at, I8) for at in parts)
        keys = words if sort.gives_order else result
        size = b.const(I64, sort.size)
        share(b, launcher, "begin", sort.pieces, [sources[0], keys], self._begin)
        if sort.pieces == 1:
            b.call(quick, None, keys, spare, b.const(I64, 0), size)
        else:
            limit = b.const(I64, sort.size // tuning.sort_share)
            b.call(spread, None, keys, spare, size, limit, segments)
            count = b.load(I64, b.offset(segments, 2 * tuning.sort_segments, I64))

            def segment(b: Builder, number: Value, *given: Value) -> None:
                *arrays, segments = given
                at = (b.offset(segments, number * 2 + i, I64) for i in (0, 1))
                b.call(quick, None, *arrays, *(b.load(I64, x) for x in at))

            share(b, launcher, "segment", count, [keys, spare, segments], segment)
        share(b, launcher, "finish", sort.pieces, [result, keys], self._finish)

    def _begin(self, b: Builder, piece: Value, source: Value, keys: Value) -> None:
        """The words of the elements."""
        t, word = self.types[0], self.word

        def encode_at(lanes: int, index: Value) -> None:
            x = b.load(t.with_lanes(lanes), b.offset(source, index, t))
            key = self.encoded(b, x, 0)
            if self.sort.gives_order:
                wide = b.convert(key, "i64", unsigned=True)
                number = b.splat(index, lanes) + b.lane_index(wide.type)
                key = b.or_(b.shl(wide, 32), number)
            b.store(key, b.offset(keys, index, word))

        walk(b, *self.piece(b, piece), word, encode_at)

    def _finish(self, b: Builder, piece: Value, result: Value, keys: Value) -> None:
        """The indices in the words, or what the keys stand for."""
        word = self.word

        def decode_at(lanes: int, index: Value) -> None:
            x = b.load(word.with_lanes(lanes), b.offset(keys, index, word))
            if self.sort.gives_order:
                b.store(b.convert(x, "i32"), b.offset(result, index, I32))
            else:
                number = decode(b, x, self.sort.kinds[0])
                b.store(number, b.offset(result, index, word))

        walk(b, *self.piece(b, piece), word, decode_at)
