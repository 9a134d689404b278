"""The stores and folds of one index of a nest, or of a vector of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.expressions import Evaluator
from curta.compiler.llvm.scalar_instructions import constant, kind
from curta.compiler.llvm.types import I64, Type, Value
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Fold, Load, LoopNest, Store, walk
from curta.compiler.loops.schedule import Schedule
from curta.compiler.loops.summation import WIDE, SumOrder
from curta.core.dim import is_symbolic_dim

Values = list[Value]


def chunk_bounds(b: Builder, plan: Schedule, chunk: Value) -> tuple[Value, Value]:
    """The iterations of a chunk, from the first to before the last."""
    if not is_symbolic_dim(plan.chunks) and plan.chunks == 1:
        return b.const(I64, 0), b.const(I64, plan.iterations)
    first = b.mul(chunk, plan.grain)
    return first, b.min(b.add(first, plan.grain), plan.iterations)


def wide(values: Values) -> Values:
    """Sums of blocks as they are added up."""
    return [x.builder.convert(x, WIDE) for x in values]


def by_fold(folds: Sequence[Fold], values: Values) -> list[Values]:
    """The accumulators of each fold."""
    result, rest = [], iter(values)
    for fold in folds:
        result.append([next(rest) for _ in fold.initial])
    return result


class Stage:
    """Memory on the stack for the elements of a block, or of less.

    An element at index i of `lane` goes to `i - origin`; vectors may reach beyond the
    last one.
    """

    def __init__(self, values: Evaluator, fold: Fold, lane: LoopVar, room: int) -> None:
        self.values, self.lane = values, lane
        b = self.b = values.b
        self.origin: Value = b.const(I64, 0)
        self.types: list[Type] = [Type(kind(c.dtype)) for c in fold.initial]
        self.pointers: Values = [b.scratch(room * t.size) for t in self.types]

    def put(self, elements: Values) -> None:
        """Store a vector of elements at the current index."""
        at = self.b.sub(self.values.current(self.lane), self.origin)
        self.store(at, elements)

    def store(self, at: Value, elements: Values) -> None:
        """Store vectors from a position on."""
        for x, pointer, type_ in zip(elements, self.pointers, self.types, strict=True):
            self.b.store(x, self.b.offset(pointer, at, type_))

    def load(self, at: Value, lanes: int) -> Values:
        """The vectors from a position on."""
        return [
            self.b.load(type_.with_lanes(lanes), self.b.offset(pointer, at, type_))
            for pointer, type_ in zip(self.pointers, self.types, strict=True)
        ]


class NestBody:
    """The body of the loops of a nest, for every schedule."""

    def __init__(self, b: Builder, values: Evaluator) -> None:
        self.b = b
        self.values = values
        self.staged: dict[Fold, Stage] = {}
        self.order: SumOrder  # of the sums in blocks of the nest that is being written

    def _start(self, fold: Fold, lanes: int) -> Values:
        """The accumulators of a fold that has taken in nothing."""
        if fold.running and fold.order == "joined":
            lanes = 1
        start = [constant(self.b, c, lanes) for c in fold.initial]
        return wide(start) if fold.order == "joined" else start

    def _body(self, nest: LoopNest, carried: Values) -> Values:
        """The stores and the folds of one index (or of a vector of them)."""
        if nest.ordered:
            self._update(nest.stores)
        else:
            self._store_all(nest.stores)
        result: Values = []
        for fold in nest.folds:
            inputs = [self.values.compute_lanes(x) for x in fold.inputs]
            if fold in self.staged:
                self.staged[fold].put(inputs)
                continue
            count = len(fold.initial)
            old, carried = carried[:count], carried[count:]
            if fold.running:
                result += self._run(fold, old, inputs)
                continue
            result += self._masked(fold, old, inputs)
        return result

    def _masked(self, fold: Fold, old: Values, inputs: Values) -> Values:
        """Accumulators with inputs taken in, which the last vector may have less of."""
        b, mask, lanes = self.b, self.values.mask, old[0].lanes
        inputs = wide(inputs) if fold.order == "joined" else inputs
        if mask is not None and mask.lanes < lanes:
            first = [min(i, mask.lanes) for i in range(lanes)]
            inputs = [b.shuffle(x, None, first) for x in inputs]
            mask = b.shuffle(mask, b.const(mask.type, 0), first)
        new = self.combine(fold, old, inputs, in_order=True)
        if mask is None:
            return new
        return [b.select(mask, n, o) for n, o in zip(new, old, strict=True)]

    def _update(self, stores: Sequence[Store]) -> None:
        """Stores that may meet: all is read before anything is written."""
        guards = {store.where for store in stores}
        guard = guards.pop() if len(guards) == 1 else None
        holds = None if guard is None else self.values.compute(guard)
        if guard is None or holds is None or holds.lanes > 1:
            for store in stores:
                self.values.compute(store.value)
            return self._store_all(stores)
        with self.b.when(holds), self.values.scope(), self.values.assumed(guard):
            return self._update([replace(s, where=None) for s in stores])

    def _run(self, fold: Fold, before: Values, inputs: Values) -> Values:
        """Store the running results of a vector; what all elements come to.

        Each lane takes in the one before it, then two before, four, eight. If all that
        is before is wide, it is one number, else one in all lanes.
        """
        b, lanes, distance = self.b, inputs[0].lanes, 1
        running = inputs
        while distance < lanes:
            order = [*range(distance), *range(lanes - distance)]
            shifted = [b.shuffle(x, None, order) for x in running]
            both = self.combine(fold, shifted, running)
            mask = b.vector(Type("i1", lanes), [i >= distance for i in range(lanes)])
            running = [b.select(mask, n, o) for n, o in zip(both, running, strict=True)]
            distance *= 2
        last = [b.extract(x, lanes - 1) for x in running]
        if fold.order == "joined":
            kinds = [x.type.kind for x in running]
            total = [
                b.splat(b.convert(x, k), lanes)
                for x, k in zip(before, kinds, strict=True)
            ]
            self._store_results(fold, self.combine(fold, total, running))
            return self._joined(fold, before, last)
        running = self.combine(fold, before, running)
        self._store_results(fold, running)
        return self.combine(fold, before, [b.splat(x, lanes) for x in last])

    def combine(
        self, fold: Fold, left: Values, right: Values, in_order: bool = False
    ) -> Values:
        """Two accumulators of a fold as one; `in_order` if the left one comes first."""
        with self.values.scope():
            for hole, value in zip(fold.left, left, strict=True):
                self.values.define(hole, value)
            for hole, value in zip(fold.right, right, strict=True):
                self.values.define(hole, value)
            wide = self._at_width(left[0].lanes)
            with wide:
                new = fold.in_order if in_order else fold.combined
                return [self.values.compute_lanes(e) for e in new]

    @contextmanager
    def _at_width(self, lanes: int) -> Iterator[None]:
        before, self.values.lanes = self.values.lanes, lanes
        yield
        self.values.lanes = before

    def _finish_row(self, fold: Fold, accumulators: Values) -> None:
        """Reduce all lanes to one, and store the results."""
        self._store_results(fold, self._as_one(fold, accumulators))

    def _as_one(self, fold: Fold, accumulators: Values) -> Values:
        """All lanes of accumulators as one: halves, and for sums then neighbours."""
        b = self.b
        if fold.order != "blocks":
            return self._halved(fold, accumulators, 1)
        sums = self._halved(fold, accumulators, self.order.register)
        distance = 1
        lanes = sums[0].lanes
        while distance < lanes:
            order = [i ^ distance for i in range(lanes)]
            sums = self.combine(fold, sums, [b.shuffle(x, None, order) for x in sums])
            distance *= 2
        return [b.extract(x, 0) for x in sums]

    def _joined(self, fold: Fold, before: Values, sums: Values) -> Values:
        """What the blocks before come to, and one more."""
        return self.combine(fold, before, wide(sums))

    def _halved(self, fold: Fold, accumulators: Values, most: int) -> Values:
        """Accumulators of at most so many lanes: each with one half further on."""
        while accumulators[0].lanes > most:
            half = accumulators[0].lanes // 2
            low = [self.b.shuffle(a, None, range(half)) for a in accumulators]
            high = [
                self.b.shuffle(a, None, range(half, 2 * half)) for a in accumulators
            ]
            accumulators = self.combine(fold, low, high)
        return accumulators

    def _store_results(self, fold: Fold, accumulators: Values) -> None:
        with self.values.scope():
            for hole, value in zip(fold.left, accumulators, strict=True):
                self.values.define(hole, self.b.convert(value, kind(hole.dtype)))
            results = [self.values.value(s.value) for s in fold.stores]
        for store, value in zip(fold.stores, results, strict=True):
            self._put(store, value)

    def _store_all(self, stores: Sequence[Store]) -> None:
        """Stores in order; those of neighbours, say of complex parts, together."""
        if len(stores) == 1:
            return self._store(stores[0])
        done = 0
        for i, store in enumerate(stores):
            if i < done:
                continue
            count = self._side_by_side(stores[i:])
            if count > 1 and self._store_together(stores[i : i + count]):
                done = i + count
            else:
                self._store(store)
        return None

    def _side_by_side(self, stores: Sequence[Store]) -> int:
        """How many of the stores, the first ones, go to neighbours."""
        first, count = stores[0], 0
        if not self.values.in_memory(first.buffer):
            return 1
        for store in stores:
            together = store.buffer is first.buffer and store.where is None
            if not together or store.offset != first.offset + count:
                break
            count += 1
        loads = (
            e for e in walk(s.value for s in stores[:count]) if isinstance(e, Load)
        )
        # In place, real and imaginary part are both read before either is stored.
        return (
            2 if count > 2 and any(e.buffer is first.buffer for e in loads) else count
        )

    def _store_together(self, stores: Sequence[Store]) -> bool:
        first, parts = stores[0], [self.values.compute(s.value) for s in stores]
        dtype = first.value.dtype
        if not self.values.store_columns(first.buffer, first.offset, parts, dtype):
            return False
        for store, value in zip(stores, parts, strict=True):
            self.values.forward(store.buffer, store.offset, value)
        return True

    def _store(self, store: Store) -> None:
        self._put(store, self.values.compute(store.value))

    def _put(self, store: Store, value: Value) -> None:
        dtype = store.value.dtype
        if store.where is not None:
            where = self.values.compute(store.where)
            return self.values.store_where(
                where, store.buffer, store.offset, value, dtype
            )
        self.values.forward(store.buffer, store.offset, value)
        if self.values.in_memory(store.buffer):
            self.values.store(store.buffer, store.offset, value, dtype)
        return None


class NestLoops(NestBody):
    """The loops around the bodies, over a piece of a dim where the plan splits it."""

    def __init__(
        self,
        b: Builder,
        values: Evaluator,
        plan: Schedule,
        piece: tuple[Value, Value] | None = None,
    ) -> None:
        super().__init__(b, values)
        self.plan = plan
        self.piece = piece

    def _bounds(self, variable: LoopVar) -> tuple[Value, Value]:
        if variable == self.plan.split and self.piece is not None:
            return self.piece
        return self.b.const(I64, 0), self.b.const(I64, variable.extent)

    def _enter_kept(self, nest: LoopNest, loops: ExitStack) -> None:
        """Begin the loops of a nest that are outside of its folds."""
        for variable in nest.dims[: nest.kept]:
            loop = loops.enter_context(self.b.loop(*self._bounds(variable)))
            loops.enter_context(self.values.scope())
            self.values.bind(variable, loop.index)
