"""A scheduled kernel to LLVM IR.

`void name(ptr arguments, i64 chunk)` runs one chunk of a kernel: `arguments` is an
array of the addresses of the buffers in memory, in the order of
`BufferPlacement.arguments`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial, reduce

from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.expressions import Evaluator, Streams
from curta.compiler.llvm.nest_body import NestBody, chunk_bounds
from curta.compiler.llvm.outer_vectors import OuterVectors
from curta.compiler.llvm.scalar_instructions import constant, kind, memory_kind
from curta.compiler.llvm.streams import streamed, unaligned_head
from curta.compiler.llvm.tiles import transposable, transposed_rows
from curta.compiler.llvm.types import I64, PTR, Type, Value
from curta.compiler.llvm.updates import (
    choose,
    decides,
    slot_for_choice,
    worth_unrolling,
)
from curta.compiler.loops.bufferize import BufferPlacement
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Fold, Kernel, LoopNest
from curta.compiler.loops.schedule import Schedule, Vectors, weight
from curta.compiler.loops.split import piece_index
from curta.config import config
from curta.core.dim import is_multiple, is_same, is_symbolic_dim, typical

WIDEST = 256  # lanes of the widest vector: rows of memory are as long or longer

Values = list[Value]


def emit_kernel(
    module: Module,
    name: str,
    kernel: Kernel,
    plan: Schedule,
    placement: BufferPlacement,
) -> Builder:
    """Add the kernel to the module as a function."""
    b = module.function(name, [PTR, I64], None, exported=False)
    arguments, chunk = b.arguments
    b.sizes_word = len(placement.arguments)
    pointers = {
        buffer: b.load(PTR, b.offset(arguments, i, PTR))
        for i, buffer in enumerate(placement.arguments)
    }
    values = Evaluator(b, pointers)
    for buffer, (size, origin) in placement.scratch.items():
        values.locate(buffer, b.scratch(size), origin)
    emitter = _KernelEmitter(b, values, kernel, plan)
    emitter.emit(chunk)
    if emitter.streams:
        b.publish()
    b.ret()
    return b


class _KernelEmitter(NestBody):
    def __init__(
        self,
        b: Builder,
        values: Evaluator,
        kernel: Kernel,
        plan: Schedule,
    ) -> None:
        super().__init__(b, values)
        self.kernel = kernel
        self.plan = plan
        self.piece: tuple[Value, Value] | None = None
        self.rows: dict[Fold, list[Value]] = {}
        self.streams = False

    # ----------------------------------------------------------------- iterations

    def emit(self, chunk: Value) -> None:
        """The loop over the iterations of a chunk."""
        b, plan = self.b, self.plan
        self._hoist_kernel()
        if is_same(plan.iterations, 1):
            return self._iteration(b.const(I64, 0))
        with b.loop(*chunk_bounds(b, plan, chunk)) as loop, self.values.scope():
            self._iteration(loop.index)
        return None

    def _hoist_kernel(self) -> None:
        inside: list[object] = [*self.kernel.dims, *self.kernel.stored()]
        inside += [v for s in self.kernel.nests for v in s.dims]
        for nest in self.kernel.nests:
            self.values.hoist(nest.body, [*inside, *self._piece_vars()], 1)

    def _piece_vars(self) -> list[LoopVar]:
        return [piece_index(self.plan.pieces)] if self.plan.split else []

    def _iteration(self, iteration: Value) -> None:
        b, plan = self.b, self.plan
        if plan.split is not None:
            which = b.urem(iteration, plan.pieces)
            iteration = b.udiv(iteration, plan.pieces)
            self.values.bind(piece_index(plan.pieces), which)
            first = b.mul(which, plan.piece)
            last = b.min(b.add(first, plan.piece), plan.split.extent)
            self.piece = first, last
        if plan.block == 1:
            self._bind_outer(plan.outer, iteration)
            return self._nests()
        blocks = -(-plan.outer[-1].extent // plan.block)
        self._bind_outer(plan.outer[:-1], b.udiv(iteration, blocks))
        first = b.mul(b.urem(iteration, blocks), plan.block)
        if plan.outer_lanes:
            return OuterVectors(b, self.values, self.kernel, plan).emit(first)
        return self._tile(first)

    def _tile(self, first_row: Value) -> None:
        """A tile of a transpose: all at once, or row by row if it is no square."""
        b, size, (nest,) = self.b, self.plan.block, self.kernel.nests
        row, lane = self.plan.outer[-1], nest.dims[0]
        end = b.min(b.add(first_row, size), row.extent)
        if self.plan.piece != size:
            return self._rows_of_tile(row, first_row, end)
        first, last = self._bounds(lane)
        if self.plan.vectors[0].repeats:
            first = b.min(first, lane.extent - size)
            return self._square(row, b.min(first_row, row.extent - size), lane, first)
        whole = b.eq(b.add(b.sub(last, first), b.sub(end, first_row)), 2 * size)
        with b.when(whole):
            self._square(row, first_row, lane, first)
        with b.when(b.not_(whole)):
            return self._rows_of_tile(row, first_row, end)

    def _square(
        self, row: LoopVar, first_row: Value, lane: LoopVar, first: Value
    ) -> None:
        """A tile with all of its rows and columns."""
        (nest,) = self.kernel.nests
        loads = transposable(nest, row, lane)
        with self.values.vectorised(lane, first, self.plan.block, None):
            for values in transposed_rows(self.values, loads, (row, first_row), lane):
                with values:
                    self._body(nest, [])

    def _rows_of_tile(self, row: LoopVar, first: Value, end: Value) -> None:
        with self.b.loop(first, end) as loop, self.values.scope():
            self.values.bind(row, loop.index)
            self._nests()

    def _bind_outer(self, outer: Sequence[LoopVar], iteration: Value) -> None:
        """The indices of the outer dims: the digits of the iteration's number."""
        for variable in reversed(outer[1:]):
            self.values.bind(variable, self.b.urem(iteration, variable.extent))
            iteration = self.b.udiv(iteration, variable.extent)
        if outer:
            self.values.bind(outer[0], iteration)

    def _nests(self) -> None:
        plan = self.plan
        if plan.column:
            self._start_rows()
        for nest, vectors in zip(self.kernel.nests, plan.vectors, strict=True):
            if plan.column:
                self._columns(nest, vectors.lanes)
            else:
                self._rows(nest, vectors)

    def _bounds(self, variable: LoopVar) -> tuple[Value, Value]:
        if variable == self.plan.split and self.piece is not None:
            return self.piece
        return self.b.const(I64, 0), self.b.const(I64, variable.extent)

    # ------------------------------------------------------------ rows: lanes
    # are the last inner dim

    def _rows(self, nest: LoopNest, vectors: Vectors) -> None:
        with ExitStack() as loops:
            self._enter_kept(nest, loops)
            initial = [
                constant(self.b, c, vectors.lanes)
                for f in nest.folds
                for c in f.initial
            ]
            final = self._nest(nest, nest.dims[nest.kept :], vectors, initial)
            for fold in nest.folds:
                count = len(fold.initial)
                if not fold.running:
                    self._finish_row(fold, final[:count])
                final = final[count:]

    def _enter_kept(self, nest: LoopNest, loops: ExitStack) -> None:
        """Begin the loops of a nest that are outside of its folds."""
        for variable in nest.dims[: nest.kept]:
            loop = loops.enter_context(self.b.loop(*_known(*self._bounds(variable))))
            loops.enter_context(self.values.scope())
            self.values.bind(variable, loop.index)

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
        with self.b.loop(*_known(first, last), carried=carried) as loop:
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
        with self.b.loop(*_known(first, last), lanes, carried) as loop:
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
        with b.loop(*_known(first, last), most) as loop:
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
            with self.b.loop(*_known(start, end), count) as loop:
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
        elif (few := self._lanes_of_rest(nest, lane, vectors)) is not None:
            whole = self.b.const(I64, lane.extent // lanes * lanes)
            yield first, whole, False, lanes
            yield whole, last, True, few
        elif vectors.short:
            yield first, last, True, lanes
        else:
            left = self.b.urem(self.b.sub(last, first), lanes)
            whole = self.b.sub(last, left)
            yield first, whole, False, lanes
            one_by_one = not vectors.repeats and _is_apart(nest, lane)
            yield whole, last, True, 1 if one_by_one else lanes

    def _lanes_of_rest(
        self, nest: LoopNest, lane: LoopVar, vectors: Vectors
    ) -> int | None:
        """The lanes of the last vector of a short row, which has as few as suffice."""
        short = not is_symbolic_dim(lane.extent) and lane.extent < 4 * vectors.lanes
        if not vectors.repeats or not short or lane == self.plan.split:
            return None
        if sum(map(weight, nest.body)) > config.tuning.light_body:
            return None
        return 1 << (lane.extent % vectors.lanes - 1).bit_length()

    # --------------------------------------------------------- columns: lanes
    # are the last outer dim

    def _start_rows(self) -> None:
        """Memory for the accumulators of a piece."""
        assert self.plan.column is not None
        columns = self.plan.column.extent
        if self.plan.split == self.plan.column:
            columns = self.plan.piece
        columns = -(-columns // WIDEST) * WIDEST
        for nest in self.kernel.nests:
            for fold in nest.folds:
                sizes = [columns * max(1, c.dtype.itemsize) for c in fold.initial]
                self.rows[fold] = [self.b.scratch(size) for size in sizes]

    def _columns(self, nest: LoopNest, lanes: int) -> None:
        with ExitStack() as loops:
            self._enter_kept(nest, loops)
            for fold in nest.folds:
                with self._each_vector(lanes):
                    self._put_row(
                        fold, [constant(self.b, c, lanes) for c in fold.initial]
                    )
            if len(nest.dims) > nest.kept:
                self._column_nest(nest, nest.dims[nest.kept :], lanes)
            else:
                with self._each_vector(lanes):
                    self._body(nest, [])
            for fold in nest.folds:
                with self._each_vector(lanes):
                    self._store_results(fold, self._row(fold))

    def _column_nest(self, nest: LoopNest, dims: Sequence[LoopVar], lanes: int) -> None:
        inside = [self.plan.column, *dims, *(s.buffer for s in nest.stores)]
        self.values.hoist(nest.body, inside, 1)
        first, last = self._bounds(dims[0])
        if len(dims) > 1:
            with self.b.loop(*_known(first, last)) as loop, self.values.scope():
                self.values.bind(dims[0], loop.index)
                self._column_nest(nest, dims[1:], lanes)
            return
        tuning, heavy = config.tuning, sum(map(weight, nest.body))
        # Several rows of a heavy body would spill.
        most = max(1, tuning.rows_at_once // (2 if heavy > tuning.light_body else 1))
        whole = self.b.sub(last, self.b.urem(self.b.sub(last, first), most))
        for begin, end, rows in ((first, whole, most), (whole, last, 1)):
            with self.b.loop(begin, end, rows) as loop:
                self._add_rows(nest, dims[0], loop.index, rows, lanes)

    def _add_rows(
        self, nest: LoopNest, dim: LoopVar, first: Value, rows: int, lanes: int
    ) -> None:
        """Some rows, by whole vectors; then the columns left, masked.

        These go row by row, which is short code, unless they are much of the columns.
        """
        indices = [first if r == 0 else self.b.add(first, r) for r in range(rows)]
        lane = self._column()
        begin, end = self._bounds(lane)
        rest = lanes > 1 and not is_multiple(lane.extent, lanes)
        whole = self.b.sub(end, self.b.urem(self.b.sub(end, begin), lanes))
        few = rest and self.plan.split != lane and lane.extent < 4 * lanes
        if few:
            whole = self.b.const(I64, lane.extent // lanes * lanes)
        with self._vectors_between((begin, whole if rest else end), lanes, False):
            self._add_to_row(nest, dim, indices)
        if few:
            with self._vectors_between((whole, end), lanes, True):
                self._add_to_row(nest, dim, indices)
        elif rest:
            with self.b.loop(first, self.b.add(first, rows)) as row:
                with self._vectors_between((whole, end), lanes, True):
                    self._add_to_row(nest, dim, [row.index])

    def _add_to_row(self, nest: LoopNest, dim: LoopVar, indices: list[Value]) -> None:
        kept = [self._row(fold) for fold in nest.folds]
        for index in indices:
            with self.values.scope():
                self.values.bind(dim, index)
                self._store_all(nest.stores)
                for i, fold in enumerate(nest.folds):
                    inputs = [self.values.compute_lanes(x) for x in fold.inputs]
                    kept[i] = self._combine(fold, kept[i], inputs, in_order=True)
        for fold, values in zip(nest.folds, kept, strict=True):
            self._put_row(fold, values)

    def _column(self) -> LoopVar:
        assert self.plan.column is not None
        return self.plan.column

    @contextmanager
    def _each_vector(self, lanes: int) -> Iterator[None]:
        """A loop over the vectors of the piece of columns."""
        lane = self._column()
        masked = lanes > 1 and not is_multiple(lane.extent, lanes)
        with self._vectors_between(self._bounds(lane), lanes, masked):
            yield

    @contextmanager
    def _vectors_between(
        self, bounds: tuple[Value, Value], lanes: int, masked: bool
    ) -> Iterator[None]:
        first, last = bounds
        with self.b.loop(*_known(first, last), lanes) as loop:
            mask = None
            if masked:
                mask = self.b.first_lanes(self.b.sub(last, loop.index), lanes)
            with self.values.vectorised(self._column(), loop.index, lanes, mask):
                yield

    def _row_addresses(self, fold: Fold) -> Iterator[tuple[Value, Type]]:
        assert self.plan.column is not None
        column = self.values.current(self.plan.column)
        if self.plan.split == self.plan.column and self.piece is not None:
            column = self.b.sub(column, self.piece[0])
        for pointer, start in zip(self.rows[fold], fold.initial, strict=True):
            type_ = Type(memory_kind(start.dtype))
            yield self.b.offset(pointer, column, type_), type_

    def _row(self, fold: Fold) -> Values:
        loaded = []
        for (pointer, type_), c in zip(
            self._row_addresses(fold), fold.initial, strict=True
        ):
            value = self.b.load(type_.with_lanes(self.values.lanes), pointer)
            loaded.append(self.b.convert(value, kind(c.dtype)))
        return loaded

    def _put_row(self, fold: Fold, accumulators: Values) -> None:
        for (pointer, type_), value in zip(
            self._row_addresses(fold), accumulators, strict=True
        ):
            self.b.store(self.b.convert(self.values.spread(value), type_.kind), pointer)


def _is_apart(nest: LoopNest, lane: LoopVar) -> bool:
    """Whether a map's neighbours lie apart: masks would take them one by one."""
    offsets = [*(x.offset for x in nest.loads), *(s.offset for s in nest.stores)]
    apart = any(typical(abs(o.coefficient(lane))) > 2 for o in offsets)
    return apart and not nest.folds


def _known(first: Value, last: Value) -> tuple[Value | int, Value | int]:
    """Bounds as plain numbers where they are constants, which makes simpler loops."""
    return tuple(  # type: ignore[return-value]
        int(v.text) if v.text.lstrip("-").isdigit() else v for v in (first, last)
    )
