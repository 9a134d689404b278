"""The nests of a kernel whose lanes are the last inner dim of each.

Folds have an accumulator in registers, whose lanes are combined where the row ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, reduce

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.expressions import Evaluator, Streams
from curta.compiler.llvm.nest_body import Values
from curta.compiler.llvm.streams import streamed, unaligned_head
from curta.compiler.llvm.summing_rows import SummingRows
from curta.compiler.llvm.types import I64, Value
from curta.compiler.llvm.updates import (
    choose,
    decides,
    slot_for_choice,
    worth_unrolling,
)
from curta.compiler.loops.costs import weight
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Kernel, LoopNest
from curta.compiler.loops.schedule import Schedule, Vectors, in_blocks, is_running
from curta.config import config
from curta.core.dim import is_multiple, is_symbolic_dim, typical

_FEWEST = 4  # lanes: fewer take as long


class RowNests(SummingRows):
    """Writes the loops of nests, one after the other."""

    def __init__(
        self,
        b: Builder,
        values: Evaluator,
        kernel: Kernel,
        plan: Schedule,
        piece: tuple[Value, Value] | None = None,
    ) -> None:
        super().__init__(b, values, plan, piece)
        self.kernel = kernel
        self.streams = False

    def emit(self) -> None:
        """All nests, one after the other."""
        for nest, vectors in zip(self.kernel.nests, self.plan.vectors, strict=True):
            self._rows(nest, vectors)

    def _rows(self, nest: LoopNest, vectors: Vectors) -> None:
        with ExitStack() as loops:
            self._enter_kept(nest, loops)
            if in_blocks(nest):
                for fold, sums in zip(
                    nest.folds, self._sums(nest, vectors), strict=True
                ):
                    self._finish_row(fold, sums)
                return
            initial = [x for f in nest.folds for x in self._start(f, vectors.lanes)]
            final = self._nest(nest, nest.dims[nest.kept :], vectors, initial)
            for fold in nest.folds:
                count = len(fold.initial)
                if not fold.running:
                    self._finish_row(fold, final[:count])
                final = final[count:]

    def _nest(
        self, nest: LoopNest, dims: Sequence[LoopVar], vectors: Vectors, carried: Values
    ) -> Values:
        """Loops over `dims`, the last one by vectors; the folds' accumulators."""
        body = nest.body
        inside = [*dims, *(s.buffer for s in nest.stores)]
        self.values.hoist(body, inside, vectors.lanes if len(dims) <= 1 else 1)
        if nest.selective and decides(self.values, nest, dims):
            self._selected(nest, dims, vectors)
            return carried
        if not dims:
            return self._body(nest, carried)
        if len(dims) == 1:
            return self._lane_loop(nest, dims[0], vectors, carried)
        first, last = self._bounds(dims[0])
        with self.b.loop(first, last, carried=carried) as loop:
            with self.values.scope():
                self.values.bind(dims[0], loop.index)
                loop.next(*self._nest(nest, dims[1:], vectors, loop.carried))
        return loop.results

    def _lane_loop(
        self, nest: LoopNest, lane: LoopVar, vectors: Vectors, carried: Values
    ) -> Values:
        """Whole vectors, then what is left: again with others, or under a mask."""
        lanes = vectors.lanes
        if worth_unrolling(nest, lane, lanes):
            self._unrolled_updates(nest, lane)
            return carried
        width = self.b.module.vector_bytes
        streams = streamed(self.kernel, self.plan, nest, lane, width)
        for first, last, ragged, lanes in self._vector_ranges(nest, lane, vectors):
            repeats = ragged and vectors.repeats
            masked = ragged and not repeats and lanes > 1
            bounds = first, last
            each = partial(self._vectors, nest, lane, lanes, bounds, masked, repeats)
            if streams and not ragged:
                self._streamed(nest, streams, each)
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
        self.streams = True
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

    def _selected(
        self, nest: LoopNest, dims: Sequence[LoopVar], vectors: Vectors
    ) -> None:
        """First the indices for which the guard holds, then their updates."""
        b, (lane, *rest), guard = self.b, dims, nest.guard()
        first, last = self._bounds(lane)
        plain = replace(
            nest,
            stores=tuple(replace(s, where=None) for s in nest.stores),
            selective=False,
        )
        chosen = slot_for_choice(b)
        most = config.tuning.indices_at_once
        with b.loop(first, last, most) as loop:
            end = b.min(b.add(loop.index, most), last)
            count = choose(self.values, lane, guard, (loop.index, end), chosen)
            with b.loop(0, count) as each:
                index = b.load(I64, b.offset(chosen, each.index, I64))
                with self.values.vectorised(lane, index, 1, None):
                    with self.values.assumed(guard):
                        self._nest(plain, rest, vectors, [])

    def _unrolled_updates(self, nest: LoopNest, lane: LoopVar) -> None:
        """Updates one by one, several in an iteration: fewer jumps."""
        first, last = self._bounds(lane)
        most = config.tuning.updates_at_once
        whole = self.b.sub(last, self.b.urem(self.b.sub(last, first), most))
        for start, end, count in ((first, whole, most), (whole, last, 1)):
            with self.b.loop(start, end, count) as loop:
                for k in range(count):
                    index = self.b.add(loop.index, k)
                    with self.values.vectorised(lane, index, 1, None):
                        self._body(nest, [])

    def _vector_ranges(
        self, nest: LoopNest, lane: LoopVar, vectors: Vectors
    ) -> Iterator[tuple[Value, Value, bool, int]]:
        """Parts of a lane, whether they end within a vector, and its lanes."""
        first, last = self._bounds(lane)
        lanes = vectors.lanes
        if head := unaligned_head(nest, lane, self.b.module.vector_bytes):
            start = self.b.min(self.b.add(first, head), last)
            yield first, start, True, lanes
            left = self.b.urem(self.b.sub(last, start), lanes)
            yield start, self.b.sub(last, left), False, lanes
            yield self.b.sub(last, left), last, True, lanes
            return
        step = self.plan.piece if lane == self.plan.split else lane.extent
        if is_multiple(lane.extent, lanes) and is_multiple(step, lanes):
            yield first, last, False, lanes
        elif vectors.short and self._lanes_of_rest(nest, lane, vectors) is None:
            yield first, last, True, lanes
        else:
            whole = self.b.sub(last, self.b.urem(self.b.sub(last, first), lanes))
            yield first, whole, False, lanes
            few = self._lanes_of_rest(nest, lane, vectors)
            one_by_one = not vectors.repeats and _is_apart(nest, lane)
            yield whole, last, True, 1 if one_by_one else few or lanes

    def _lanes_of_rest(
        self, nest: LoopNest, lane: LoopVar, vectors: Vectors
    ) -> int | None:
        """The lanes of the last vector of a short row, which has as few as suffice."""
        short = not is_symbolic_dim(lane.extent) and lane.extent < 4 * vectors.lanes
        if not short or lane == self.plan.split:
            return None
        few = 1 << (lane.extent % vectors.lanes - 1).bit_length()
        if nest.folds and not is_running(nest):
            few = max(few, _FEWEST)
            return few if few < vectors.lanes and not vectors.short else None
        light = sum(map(weight, nest.body)) <= config.tuning.light_body
        return few if vectors.repeats and light else None


def _is_apart(nest: LoopNest, lane: LoopVar) -> bool:
    """Whether a map's neighbours lie apart: masks would take them one by one."""
    offsets = [*(x.offset for x in nest.loads), *(s.offset for s in nest.stores)]
    apart = any(typical(abs(o.coefficient(lane))) > 2 for o in offsets)
    return apart and not nest.folds
