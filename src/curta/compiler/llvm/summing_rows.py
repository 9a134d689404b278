"""Sums along rows in the order of blocks (loops/summation.py).

The lanes of a vector are the accumulators of a block. Where a body is too heavy for so
wide a vector, or goes along several dims that are not one, the elements of a block are
staged: stored on the stack in their order, by vectors of any width, and added up there.
"""

from __future__ import annotations

from collections.abc import Sequence

from curta.compiler.llvm.nest_body import NestLoops, Stage, Values, by_fold, wide
from curta.compiler.llvm.scalar_instructions import constant
from curta.compiler.llvm.types import I64, Value
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Fold, LoopNest
from curta.compiler.loops.schedule import Vectors, order_of
from curta.compiler.loops.summation import BLOCKED, SumOrder, count_of, sum_order
from curta.core.dim import is_multiple, is_symbolic_dim

Bounds = tuple[Value, Value]


class SummingRows(NestLoops):
    """Writes the nests whose folds add up in blocks."""

    @property
    def order(self) -> SumOrder:
        return sum_order(self.b.module.vector_bytes)

    def _sums(self, nest: LoopNest, vectors: Vectors) -> list[Values]:
        """What each fold of a nest comes to: vectors of accumulators, or numbers."""
        dims = nest.dims[nest.kept :]
        if vectors.staged:
            return self._staged_sums(nest, dims, vectors)
        carried = [x for f in nest.folds for x in self._start(f, vectors.lanes)]
        (lane,) = dims
        if self.order.is_one_block(lane.extent):
            return by_fold(nest.folds, self._nest(nest, dims, vectors, carried))
        return self._sums_of_blocks(nest, lane, vectors, carried)

    def _sums_of_blocks(
        self, nest: LoopNest, lane: LoopVar, vectors: Vectors, carried: Values
    ) -> list[Values]:
        """The sums of a long row: each block begins by joining the one before it."""
        b, lanes = self.b, vectors.lanes
        inside = [lane, *(s.buffer for s in nest.stores)]
        self.values.hoist(nest.body, inside, lanes)
        first, last = self._bounds(lane)
        whole = b.sub(last, b.urem(b.sub(last, first), lanes))
        totals = self._no_totals(nest)
        count = len(totals)
        each = first, last, self.order.block, [*totals, *carried]
        with b.loop(*each) as block:
            totals, sums = block.carried[:count], block.carried[count:]
            totals, sums = self._flushed(nest, totals, sums)
            end = b.min(b.add(block.index, self.order.block), whole)
            bounds = block.index, end
            sums = self._vectors(nest, lane, lanes, bounds, False, False, sums)
            block.next(*totals, *sums)
        totals, sums = block.results[:count], block.results[count:]
        if not is_multiple(lane.extent, lanes):
            rest = whole, last
            sums = self._vectors(nest, lane, lanes, rest, True, False, sums)
        totals, sums = self._flushed(nest, totals, sums)
        return self._ends(nest, totals, sums)

    def _no_totals(self, nest: LoopNest) -> Values:
        """What no blocks come to, for each fold that adds up in blocks."""
        b = self.b
        return [
            b.convert(constant(b, c, 1), "f64")
            for f in nest.folds
            if f.order in BLOCKED
            for c in f.initial
        ]

    def _flushed(
        self, nest: LoopNest, totals: Values, sums: Values
    ) -> tuple[Values, Values]:
        """The totals with the sums of a block, and accumulators for the next one."""
        joined, fresh = list[Values](), list[Values]()
        for fold, own in zip(nest.folds, by_fold(nest.folds, sums), strict=True):
            if fold.order not in BLOCKED:
                fresh.append(own)
                continue
            count = len(fold.initial)
            total, totals = totals[:count], totals[count:]
            joined.append(self._joined(fold, total, self._as_one(fold, own)))
            fresh.append(self._start(fold, own[0].lanes))
        return sum(joined, []), sum(fresh, [])

    def _ends(self, nest: LoopNest, totals: Values, sums: Values) -> list[Values]:
        """The totals of folds in blocks, the accumulators of others."""
        result = []
        for fold, own in zip(nest.folds, by_fold(nest.folds, sums), strict=True):
            count = len(fold.initial)
            if fold.order in BLOCKED:
                own, totals = totals[:count], totals[count:]
            result.append(own)
        return result

    # ------------------------------------------------------------------- staged

    def _staged_sums(
        self, nest: LoopNest, dims: Sequence[LoopVar], vectors: Vectors
    ) -> list[Values]:
        b, count = self.b, count_of([v.extent for v in dims])
        order = order_of(nest, b.module.vector_bytes)
        inside = [*dims, *(s.buffer for s in nest.stores)]
        self.values.hoist(nest.body, inside, vectors.lanes if len(dims) == 1 else 1)
        cut = self.piece is not None and self.plan.split is not None
        bounds = b.const(I64, 0), b.const(I64, count)
        if cut and self.piece is not None:
            bounds = self.piece
        room = order.block if is_symbolic_dim(count) else min(count, order.block)
        room += order.lanes + vectors.lanes
        stages = {
            f: Stage(self.values, f, dims[-1], room)
            for f in nest.folds
            if f.order in BLOCKED
        }
        others = [f for f in nest.folds if f not in stages]
        carried = [x for f in others for x in self._start(f, vectors.lanes)]
        if cut or order.is_one_block(count):
            carried = self._fill(nest, dims, vectors, bounds, carried, stages)
            found = dict(zip(others, by_fold(others, carried), strict=True))
            lanes = order.accumulators(count)
            size = b.sub(bounds[1], bounds[0])
            for f, stage in stages.items():
                found[f] = self._sum_of_stage(f, stage, size, lanes, order)
            return [found[f] for f in nest.folds]
        totals = self._no_totals(nest)
        many, (first, last) = len(totals), bounds
        with b.loop(first, last, order.block, [*totals, *carried]) as block:
            totals, carried = block.carried[:many], block.carried[many:]
            end = b.min(b.add(block.index, order.block), last)
            part = block.index, end
            carried = self._fill(nest, dims, vectors, part, carried, stages)
            joined = []
            for f, stage in stages.items():
                own = len(f.initial)
                size = b.sub(end, block.index)
                lanes = order.accumulators(order.lanes)
                sums = self._sum_of_stage(f, stage, size, lanes, order)
                joined += self._joined(f, totals[:own], self._as_one(f, sums))
                totals = totals[own:]
            block.next(*joined, *carried)
        totals, carried = block.results[:many], block.results[many:]
        found = dict(zip(others, by_fold(others, carried), strict=True))
        found.update(zip(stages, by_fold([*stages], totals), strict=True))
        return [found[f] for f in nest.folds]

    def _fill(
        self,
        nest: LoopNest,
        dims: Sequence[LoopVar],
        vectors: Vectors,
        bounds: Bounds,
        carried: Values,
        stages: dict[Fold, Stage],
    ) -> Values:
        """Stage the elements between two numbers, counted along all dims."""
        b, (*around, lane) = self.b, dims
        self.staged = stages
        if not around:
            _begin(stages, bounds[0])
            carried = self._span(nest, lane, vectors, bounds, carried)
            self.staged = {}
            return carried
        (first, last), size = bounds, lane.extent
        rows = b.udiv(first, size), b.udiv(b.add(last, size - 1), size)
        with b.loop(*rows, carried=carried) as row, self.values.scope():
            number = row.index
            for variable in reversed(around[1:]):
                self.values.bind(variable, b.urem(number, variable.extent))
                number = b.udiv(number, variable.extent)
            self.values.bind(around[0], number)
            inside = [lane, *(s.buffer for s in nest.stores)]
            self.values.hoist(nest.body, inside, vectors.lanes)
            start = b.mul(row.index, size)
            low = b.max(b.sub(first, start), 0)
            high = b.min(b.sub(last, start), size)
            _begin(stages, b.sub(first, start))
            row.next(*self._span(nest, lane, vectors, (low, high), row.carried))
        self.staged = {}
        return row.results

    def _span(
        self,
        nest: LoopNest,
        lane: LoopVar,
        vectors: Vectors,
        bounds: Bounds,
        carried: Values,
    ) -> Values:
        """Whole vectors along a part of a row, then what is left, under a mask."""
        b, (low, high), lanes = self.b, bounds, vectors.lanes
        whole = b.sub(high, b.urem(b.sub(high, low), lanes))
        parts = ((low, whole), False), ((whole, high), lanes > 1)
        for part, masked in parts:
            carried = self._vectors(nest, lane, lanes, part, masked, False, carried)
            if lanes == 1:
                break
        return carried

    def _sum_of_stage(
        self, fold: Fold, stage: Stage, size: Value, lanes: int, order: SumOrder
    ) -> Values:
        """The accumulators of the staged elements."""
        if order.in_strips:
            return self._sum_of_strips(fold, stage, size, order.steps)
        stage.store(size, self._start(fold, lanes))
        start = self._start(fold, lanes)
        with self.b.loop(0, size, lanes, carried=start) as loop:
            elements = stage.load(loop.index, lanes)
            loop.next(*self.combine(fold, loop.carried, elements))
        return loop.results

    def _sum_of_strips(
        self, fold: Fold, stage: Stage, size: Value, steps: int
    ) -> Values:
        """The sum of the staged elements, in strips."""
        b, start = self.b, self._start(fold, 1)
        kinds = [x.type.kind for x in start]
        with b.loop(0, size, steps, carried=wide(start)) as strip:
            end = b.min(b.add(strip.index, steps), size)
            with b.loop(strip.index, end, carried=start) as loop:
                element = stage.load(loop.index, 1)
                loop.next(*self.combine(fold, loop.carried, element))
            strip.next(*self._joined(fold, strip.carried, loop.results))
        total = zip(strip.results, kinds, strict=True)
        return [b.convert(x, k) for x, k in total]

    # -------------------------------------------- what loops along rows write

    def _nest(
        self, nest: LoopNest, dims: Sequence[LoopVar], vectors: Vectors, carried: Values
    ) -> Values:
        raise NotImplementedError

    def _vectors(
        self, nest: LoopNest, lane: LoopVar, lanes: int, bounds: Bounds,
        masked: bool, repeats: bool, carried: Values,
    ) -> Values:  # fmt: skip
        raise NotImplementedError


def _begin(stages: dict[Fold, Stage], origin: Value) -> None:
    """Let elements at an index of the lane be the first ones."""
    for stage in stages.values():
        stage.origin = origin
