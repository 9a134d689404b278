"""The nests of a kernel whose lanes are the last inner dim of each.

Reductions have an accumulator in registers, whose lanes are combined at the end of the
row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, reduce

from curta.compiler.llvm.expressions import Streams
from curta.compiler.llvm.nest_body import Values
from curta.compiler.llvm.selection import choose, slot_for_choice
from curta.compiler.llvm.summing_rows import SummingRows
from curta.compiler.llvm.types import I64, Value
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import LoopNest
from curta.compiler.loops.schedule import Loop, NestSchedule


class RowNests(SummingRows):
    """Writes the loops of nests, one after the other."""

    streams: Streams = frozenset()  # the stores of the nest that bypass the caches

    def emit(self, nests: Sequence[LoopNest]) -> None:
        """All nests, one after the other."""
        for nest, plan in zip(nests, self.plan.nests, strict=True):
            self._rows(nest, plan)

    def _rows(self, nest: LoopNest, plan: NestSchedule) -> None:
        with ExitStack() as loops:
            self._enter_kept(nest, loops)
            if plan.order is not None:
                self.order = plan.order
                found = self._sums(nest, plan)
                for fold, sums in zip(nest.folds, found, strict=True):
                    if not fold.running:
                        self._finish_row(fold, sums)
                return
            self.streams = frozenset(
                (nest.stores[i].buffer, nest.stores[i].offset) for i in plan.streamed
            )
            initial = [x for f in nest.folds for x in self._start(f, plan.lanes)]
            final = self._nest(nest, plan.loops, plan.lanes, initial)
            for fold in nest.folds:
                count = len(fold.initial)
                if not fold.running:
                    self._finish_row(fold, final[:count])
                final = final[count:]

    def _nest(
        self, nest: LoopNest, loops: Sequence[Loop], lanes: int, carried: Values
    ) -> Values:
        """The loops of a nest; the accumulators of its folds."""
        inside = [*(x.var for x in loops), *(s.buffer for s in nest.stores)]
        self.values.hoist(nest.body, inside, lanes if len(loops) <= 1 else 1)
        if not loops:
            return self._body(nest, carried)
        loop, *inner = loops
        if loop.how == "selected":
            self._selected(nest, loop, inner)
        elif loop.how == "unrolled":
            self._unrolled_updates(nest, loop)
        elif not inner:
            carried = self._lane_loop(nest, loop, carried)
        else:
            first, last = self._bounds(loop.var)
            with self.b.loop(first, last, carried=carried) as around:
                with self.values.scope():
                    self.values.bind(loop.var, around.index)
                    around.next(*self._nest(nest, inner, lanes, around.carried))
            return around.results
        return carried

    def _lane_loop(self, nest: LoopNest, loop: Loop, carried: Values) -> Values:
        """Whole vectors, and the head and tail: overlapping others, or under a mask."""
        for first, last, ragged, lanes in self._vector_ranges(loop):
            repeats = ragged and loop.tail == "overlap"
            masked = ragged and not repeats and lanes > 1
            bounds = first, last
            each = partial(
                self._vectors, nest, loop.var, lanes, bounds, masked, repeats
            )
            if self.streams and not ragged:
                self._streamed(nest, self.streams, each)
            else:
                carried = each(carried)
        return carried

    def _streamed(
        self, nest: LoopNest, streams: Streams, loop: Callable[[Values], Values]
    ) -> None:
        """A loop whose stores go past the caches if their buffers are aligned."""
        b, targets = self.b, [(s.buffer, s.offset) for s in nest.stores]
        buffers = dict.fromkeys(p[0] for p in targets if p in streams)
        aligned = reduce(b.and_, map(self.values.is_aligned, buffers))
        with b.when(aligned), self.values.streamed(streams):
            loop([])
        with b.when(b.not_(aligned)):
            loop([])

    def _vectors(
        self,
        nest: LoopNest,
        lane: LoopVar,
        lanes: int,
        bounds: tuple[Value, Value],
        masked: bool,
        repeats: bool,
        carried: Values,
    ) -> Values:
        """A loop over vectors along `lane`, none of which goes beyond its end."""
        first, last = bounds
        with self.b.loop(first, last, lanes, carried) as loop:
            mask, index = None, loop.index
            if masked:
                left = self.b.sub(last, loop.index)
                mask = self.b.first_lanes(left, lanes)
            if repeats:
                _, end = self._bounds(lane)
                index = self.b.min(index, self.b.sub(end, lanes))
            with self.values.vectorised(lane, index, lanes, mask):
                loop.next(*self._body(nest, loop.carried))
        return loop.results

    def _selected(self, nest: LoopNest, loop: Loop, inner: Sequence[Loop]) -> None:
        """First the indices for which the guard holds, then their updates."""
        b, lane, most, guard = self.b, loop.var, loop.factor, nest.guard()
        first, last = self._bounds(lane)
        plain = replace(
            nest,
            stores=tuple(replace(s, where=None) for s in nest.stores),
            selective=False,
        )
        chosen = slot_for_choice(b, most)
        with b.loop(first, last, most) as block:
            end = b.min(b.add(block.index, most), last)
            count = choose(self.values, lane, guard, (block.index, end), chosen)
            with b.loop(0, count) as each:
                index = b.load(I64, b.offset(chosen, each.index, I64))
                with self.values.vectorised(lane, index, 1, None):
                    with self.values.assumed(guard):
                        self._nest(plain, inner, 1, [])

    def _unrolled_updates(self, nest: LoopNest, loop: Loop) -> None:
        """Updates one by one, several in an iteration: fewer jumps."""
        first, last = self._bounds(loop.var)
        most = loop.factor
        whole = self.b.sub(last, self.b.urem(self.b.sub(last, first), most))
        for start, end, count in ((first, whole, most), (whole, last, 1)):
            with self.b.loop(start, end, count) as each:
                for k in range(count):
                    index = self.b.add(each.index, k)
                    with self.values.vectorised(loop.var, index, 1, None):
                        self._body(nest, [])

    def _vector_ranges(self, loop: Loop) -> Iterator[tuple[Value, Value, bool, int]]:
        """Parts of a loop, whether they end within a vector, and their lanes."""
        b, lanes, (first, last) = self.b, loop.factor, self._bounds(loop.var)
        if loop.head:
            start = b.min(b.add(first, loop.head), last)
            yield first, start, True, lanes
            left = b.urem(b.sub(last, start), lanes)
            yield start, b.sub(last, left), False, lanes
            yield b.sub(last, left), last, True, lanes
        elif loop.tail == "none" or loop.joined:
            yield first, last, loop.joined, lanes
        else:
            whole = b.sub(last, b.urem(b.sub(last, first), lanes))
            yield first, whole, False, lanes
            yield whole, last, True, loop.tail_factor
