"""Sums along rows in the order of blocks (loops/summation.py).

The lanes of a vector are the accumulators of a block. Where a body is too heavy for so
wide a vector, or goes along several dims that are not one, the elements of a block are
staged: stored on the stack in their order, by vectors of any width, and added up there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from curta._base.lazy_dataclass import dataclass
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.folding import known
from curta.compiler.llvm.nest_body import NestLoops, Stage, Values, by_fold, wide
from curta.compiler.llvm.types import I64, Value
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Fold, LoopNest
from curta.compiler.loops.schedule import Loop, NestSchedule
from curta.compiler.loops.summation import BLOCKED, SumOrder, count_of
from curta.core.dim import is_multiple, is_symbolic_dim

Bounds = tuple[Value, Value]

_FEW_GROUPS = 3  # are added up faster one element after the other


class SummingRows(NestLoops):
    """Writes the nests whose folds add up in blocks."""

    def _sums(self, nest: LoopNest, plan: NestSchedule) -> list[Values]:
        """What each fold of a nest comes to: vectors of accumulators, or numbers."""
        dims = nest.dims[nest.kept :]
        if plan.accumulate == "staged":
            return self._staged_sums(nest, dims, plan)
        if len(dims) == 1 and self.order.is_one_group(dims[0].extent):
            carried = [x for f in nest.folds for x in self._start(f, plan.lanes)]
            final = self._nest(nest, plan.loops, plan.lanes, carried)
            return by_fold(nest.folds, final)
        return self._sums_of_groups(nest, dims, plan)

    def _sums_of_groups(
        self, nest: LoopNest, dims: Sequence[LoopVar], plan: NestSchedule
    ) -> list[Values]:
        """The sums of many elements: each group begins by adding up the one before it.

        Along several dims the last one has whole vectors.
        """
        b, order, lanes, lane = self.b, self.order, plan.lanes, dims[-1]
        inside = [*dims, *(s.buffer for s in nest.stores)]
        self.values.hoist(nest.body, inside, lanes if len(dims) == 1 else 1)
        count = count_of([v.extent for v in dims])
        first, last = self._numbers(dims)
        whole = b.sub(last, b.urem(b.sub(last, first), lanes))
        now = _Sums(
            nest.folds,
            self._no_totals(nest),
            [self._start(f, lanes) for f in _blocked(nest.folds)],
            [self._start(f, lanes) for f in nest.folds],
        )

        def take(bounds: Bounds, own: Values) -> Values:
            if len(dims) > 1:
                return self._fill(nest, dims, plan, bounds, own, {})
            return self._vectors(nest, lane, lanes, bounds, False, False, own)

        def groups(bounds: Bounds, now: _Sums) -> _Sums:
            with b.loop(*bounds, order.group, now.flat) as group:
                now = self._taken(now.of(group.carried))
                end = b.min(b.add(group.index, order.group), whole)
                own = take((group.index, end), sum(now.own, []))
                group.next(*now.with_own(own).flat)
            return now.of(group.results)

        if self._is_cut or order.is_one_block(count):
            now = groups((first, last), replace(now, totals=[]))
        else:
            with b.loop(first, last, order.block, now.flat) as block:
                now = self._joined_to_totals(self._taken(now.of(block.carried)))
                end = b.min(b.add(block.index, order.block), last)
                block.next(*groups((block.index, end), now).flat)
            now = now.of(block.results)
        if plan.loops[-1].tail != "none":
            own, rest = sum(now.own, []), (whole, last)
            own = self._vectors(nest, lane, lanes, rest, True, False, own)
            now = now.with_own(own)
        now = self._taken(now)
        return now.found if not now.totals else self._joined_to_totals(now).found

    @property
    def _is_cut(self) -> bool:
        """Whether this is a piece of the elements: a block of them."""
        return self.plan.split is not None and self.piece is not None

    def _numbers(self, dims: Sequence[LoopVar]) -> Bounds:
        """The first element and the one after the last, counted along all dims."""
        if self.piece is not None and self.plan.split is not None:
            return self.piece
        count = count_of([v.extent for v in dims])
        return self.b.const(I64, 0), self.b.const(I64, count)

    def _no_totals(self, nest: LoopNest) -> list[Values]:
        """What no blocks come to, for each fold that adds up in blocks."""
        return [wide(self._start(f, 1)) for f in _blocked(nest.folds)]

    def _taken(self, now: _Sums) -> _Sums:
        """The sums of groups with one more, and accumulators for the next one."""
        groups, own, before = [], list[Values](), iter(now.groups)
        for fold, x in zip(now.folds, now.own, strict=True):
            if fold.order in BLOCKED:
                groups.append(self.combine(fold, next(before), x))
                x = self._start(fold, x[0].lanes)
            own.append(x)
        return replace(now, groups=groups, own=own)

    def _joined_to_totals(self, now: _Sums) -> _Sums:
        """The totals with one more block, and sums of groups for the next one."""
        folds = _blocked(now.folds)
        totals = [
            self._joined(f, total, self._as_one(f, x))
            for f, total, x in zip(folds, now.totals, now.groups, strict=True)
        ]
        fresh = [
            self._start(f, x[0].lanes) for f, x in zip(folds, now.groups, strict=True)
        ]
        return replace(now, totals=totals, groups=fresh)

    # ------------------------------------------------------------------- staged

    def _staged_sums(
        self, nest: LoopNest, dims: Sequence[LoopVar], plan: NestSchedule
    ) -> list[Values]:
        b, count = self.b, count_of([v.extent for v in dims])
        order = self.order
        inside = [*dims, *(s.buffer for s in nest.stores)]
        self.values.hoist(nest.body, inside, plan.lanes if len(dims) == 1 else 1)
        bounds = self._numbers(dims)
        lanes = order.accumulators(count)
        room = order.staged if is_symbolic_dim(count) else min(count, order.staged)
        room += order.lanes + plan.lanes
        folds = _blocked(nest.folds)
        stages = {f: Stage(self.values, f, dims[-1], room) for f in folds}
        others = [f for f in nest.folds if f not in stages]
        now = _Sums(
            (*folds, *others),
            self._no_totals(nest),
            [self._start(f, lanes) for f in folds],
            [*([] for _ in folds), *(self._start(f, plan.lanes) for f in others)],
        )

        def parts(bounds: Bounds, now: _Sums) -> _Sums:
            with b.loop(*bounds, order.staged, now.flat) as part:
                now = now.of(part.carried)
                end = b.min(b.add(part.index, order.staged), bounds[1])
                part_bounds, own = (part.index, end), sum(now.own, [])
                own = self._fill(nest, dims, plan, part_bounds, own, stages)
                size = b.sub(end, part.index)
                groups = [
                    self._with_stage(f, stage, size, x, order)
                    for (f, stage), x in zip(stages.items(), now.groups, strict=True)
                ]
                now = replace(now.with_own(own), groups=groups)
                part.next(*now.flat)
            return now.of(part.results)

        if self._is_cut or order.is_one_block(count):
            now = parts(bounds, replace(now, totals=[]))
        else:
            with b.loop(*bounds, order.block, now.flat) as block:
                end = b.min(b.add(block.index, order.block), bounds[1])
                now = parts((block.index, end), now.of(block.carried))
                block.next(*self._joined_to_totals(now).flat)
            now = now.of(block.results)
        found = dict(zip(now.folds, now.found, strict=True))
        return [found[f] for f in nest.folds]

    def _fill(
        self,
        nest: LoopNest,
        dims: Sequence[LoopVar],
        plan: NestSchedule,
        bounds: Bounds,
        carried: Values,
        stages: dict[Fold, Stage],
    ) -> Values:
        """Stage the elements between two numbers, counted along all dims."""
        b, (*around, lane) = self.b, dims
        self.staged = stages
        if not around:
            _begin(stages, bounds[0])
            carried = self._span(nest, lane, plan, bounds, carried)
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
            self.values.hoist(nest.body, inside, plan.lanes)
            start = b.mul(row.index, size)
            _begin(stages, b.sub(first, start))
            part = b.const(I64, 0), b.operand(size, I64)
            if stages or not is_multiple(self.order.group, size):
                part = b.max(b.sub(first, start), 0), b.min(b.sub(last, start), size)
            row.next(*self._span(nest, lane, plan, part, row.carried))
        self.staged = {}
        return row.results

    def _span(
        self,
        nest: LoopNest,
        lane: LoopVar,
        plan: NestSchedule,
        bounds: Bounds,
        carried: Values,
    ) -> Values:
        """Whole vectors along a part of a row, then what is left of a stage, masked."""
        b, (low, high), lanes = self.b, bounds, plan.lanes
        whole = b.sub(high, b.urem(b.sub(high, low), lanes))
        parts = ((low, whole), False), ((whole, high), lanes > 1)
        for part, masked in parts:
            carried = self._vectors(nest, lane, lanes, part, masked, False, carried)
            if lanes == 1 or not self.staged:
                break
        return carried

    def _with_stage(
        self, fold: Fold, stage: Stage, size: Value, sums: Values, order: SumOrder
    ) -> Values:
        """Sums of groups, with the groups that are staged."""
        if order.lanes == 1 and not _is_below(size, _FEW_GROUPS * order.steps):
            return self._with_strip(fold, stage, size, sums, order)
        b, lanes = self.b, sums[0].lanes
        start = self._start(fold, lanes)
        stage.store(size, start)
        with b.loop(0, size, order.group, sums) as group:
            end = b.min(b.add(group.index, order.group), size)
            with b.loop(group.index, end, lanes, carried=start) as loop:
                elements = stage.load(loop.index, lanes)
                loop.next(*self.combine(fold, loop.carried, elements))
            group.next(*self.combine(fold, group.carried, loop.results))
        return group.results

    def _with_strip(
        self, fold: Fold, stage: Stage, size: Value, sums: Values, order: SumOrder
    ) -> Values:
        """Sums of groups of one accumulator, with the groups that are staged.

        The groups of a block are the lanes of vectors, so that they do not wait for one
        another: vector `s` has the element `s` of each. Their sums are then added one
        by one.
        """
        b, block = self.b, order.block
        whole = b.sub(size, b.urem(size, block))
        for bounds, masked in (
            ((b.const(I64, 0), whole), False),
            ((whole, size), True),
        ):
            with b.loop(*bounds, block, sums) as part:
                count = b.sub(size, part.index) if masked else None
                groups = self._groups_of_strip(fold, stage, part.index, count, order)
                now = part.carried
                for i in range(order.groups):
                    own = [b.extract(x, i) for x in groups]
                    new = self.combine(fold, now, own)
                    if count is not None:
                        new = self._where(
                            b.compare("gt", count, i * order.steps), new, now
                        )
                    now = new
                part.next(*now)
            sums = part.results
        return sums

    def _groups_of_strip(
        self,
        fold: Fold,
        stage: Stage,
        first: Value,
        count: Value | None,
        order: SumOrder,
    ) -> Values:
        """The sums of the groups of a block, or of its first `count` elements."""
        b, lanes, steps = self.b, order.groups, order.steps
        loaded = [stage.load(b.add(first, i * lanes), lanes) for i in range(steps)]
        parts = [_every(b, steps, vectors) for vectors in zip(*loaded, strict=True)]
        sums = self._start(fold, lanes)
        for step, elements in enumerate(zip(*parts, strict=True)):
            new = self.combine(fold, sums, [*elements])
            if count is not None:
                there = b.udiv(b.add(count, steps - 1 - step), steps)
                new = self._where(b.first_lanes(there, lanes), new, sums)
            sums = new
        return sums

    def _where(self, mask: Value, new: Values, old: Values) -> Values:
        """The new accumulators in the lanes of a mask, and the old ones elsewhere."""
        return [self.b.select(mask, n, o) for n, o in zip(new, old, strict=True)]

    # -------------------------------------------- what loops along rows write

    def _nest(
        self, nest: LoopNest, loops: Sequence[Loop], lanes: int, carried: Values
    ) -> Values:
        raise NotImplementedError

    def _vectors(
        self, nest: LoopNest, lane: LoopVar, lanes: int, bounds: Bounds,
        masked: bool, repeats: bool, carried: Values,
    ) -> Values:  # fmt: skip
        raise NotImplementedError


def _every(b: Builder, step: int, vectors: Sequence[Value]) -> Values:
    """Elements 0, `step`, 2 * `step`, ... of vectors in a row; 1, 1 + `step`, ...; etc.

    There are `step` vectors, a power of two.
    """
    if step == 1:
        return [*vectors]
    lanes, result = vectors[0].lanes, list[Values]()
    for odd in (0, 1):
        indices = range(odd, 2 * lanes, 2)
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        half = [b.shuffle(x, y, indices) for x, y in pairs]
        result.append(_every(b, step // 2, half))
    return [x for both in zip(*result, strict=True) for x in both]


def _is_below(count: Value, most: int) -> bool:
    """Whether a count is known to be so small."""
    return (number := known(count)) is not None and number < most


def _begin(stages: dict[Fold, Stage], origin: Value) -> None:
    """Let elements at an index of the lane be the first ones."""
    for stage in stages.values():
        stage.origin = origin


def _blocked(folds: Sequence[Fold]) -> list[Fold]:
    """The folds that add up in blocks."""
    return [f for f in folds if f.order in BLOCKED]


@dataclass(frozen=True, eq=False)
class _Sums:
    """What loops carry: of each fold in blocks, of all blocks, of the groups of one.

    And of every fold its `own` accumulators; those of folds in blocks are of a group.
    """

    folds: Sequence[Fold]
    totals: list[Values]
    groups: list[Values]
    own: list[Values]

    @property
    def flat(self) -> Values:
        return sum([*self.totals, *self.groups, *self.own], [])

    def of(self, values: Values) -> _Sums:
        """The same with other values."""
        rest = iter(values)
        parts = [
            [[next(rest) for _ in x] for x in part]
            for part in (self.totals, self.groups, self.own)
        ]
        return _Sums(self.folds, *parts)

    def with_own(self, values: Values) -> _Sums:
        """The same with other accumulators of its own."""
        rest = iter(values)
        return replace(self, own=[[next(rest) for _ in x] for x in self.own])

    @property
    def found(self) -> list[Values]:
        """The totals of folds in blocks, or the groups of one; those of others."""
        sums = iter(self.totals or self.groups)
        pairs = zip(self.folds, self.own, strict=True)
        return [next(sums) if f.order in BLOCKED else x for f, x in pairs]
