"""A scheduled kernel to LLVM IR.

`void name(ptr arguments, i64 chunk)` runs one chunk of a kernel: `arguments` is an
array of the addresses of the buffers in memory, in the order of
`BufferPlacement.arguments`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, reduce

from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.column_nests import ColumnNests
from curta.compiler.llvm.expressions import Evaluator, Streams
from curta.compiler.llvm.nest_body import NestLoops, chunk_bounds
from curta.compiler.llvm.outer_vectors import OuterVectors
from curta.compiler.llvm.scalar_instructions import constant
from curta.compiler.llvm.streams import streamed, unaligned_head
from curta.compiler.llvm.tiles import transposable, transposed_rows
from curta.compiler.llvm.types import I64, PTR, Value
from curta.compiler.llvm.updates import (
    choose,
    decides,
    slot_for_choice,
    worth_unrolling,
)
from curta.compiler.loops.bufferize import BufferPlacement
from curta.compiler.loops.costs import weight
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Kernel, LoopNest
from curta.compiler.loops.schedule import Schedule, Vectors
from curta.compiler.loops.split import piece_index
from curta.config import config
from curta.core.dim import is_multiple, is_same, is_symbolic_dim, typical

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


class _KernelEmitter(NestLoops):
    def __init__(
        self, b: Builder, values: Evaluator, kernel: Kernel, plan: Schedule
    ) -> None:
        super().__init__(b, values, plan)
        self.kernel = kernel
        self.streams = False

    # ----------------------------------------------------------------- iterations

    def emit(self, chunk: Value) -> None:
        """The loop over the iterations of a chunk."""
        b, plan, extents = self.b, self.plan, self._extents()
        self._hoist_kernel()
        if is_same(plan.iterations, 1):
            return self._iteration([b.const(I64, 0)] * len(extents))
        first, last = chunk_bounds(b, plan, chunk)
        if len(extents) == 1:
            with b.loop(first, last) as loop, self.values.scope():
                self._iteration([loop.index])
            return None
        digits = _digits(b, first, extents)
        with b.loop(first, last, carried=digits) as loop, self.values.scope():
            self._iteration(loop.carried)
            loop.next(*_counted(b, loop.carried, extents))
        return None

    def _extents(self) -> list[int]:
        """What iterations count: pieces, blocks, and the outer dims, the last first."""
        plan = self.plan
        extents = [v.extent for v in reversed(plan.outer)]
        if plan.block > 1:
            extents[0] = -(-extents[0] // plan.block)
        return extents if plan.split is None else [plan.pieces, *extents]

    def _hoist_kernel(self) -> None:
        inside: list[object] = [*self.kernel.dims, *self.kernel.stored()]
        inside += [v for s in self.kernel.nests for v in s.dims]
        for nest in self.kernel.nests:
            self.values.hoist(nest.body, [*inside, *self._piece_vars()], 1)

    def _piece_vars(self) -> list[LoopVar]:
        return [piece_index(self.plan.pieces)] if self.plan.split else []

    def _iteration(self, digits: Values) -> None:
        b, plan = self.b, self.plan
        if plan.split is not None:
            which, *digits = digits
            self.values.bind(piece_index(plan.pieces), which)
            first = b.mul(which, plan.piece)
            last = b.min(b.add(first, plan.piece), plan.split.extent)
            self.piece = first, last
        outer = plan.outer
        if plan.block > 1:
            outer, (block, *digits) = plan.outer[:-1], digits
        for variable, digit in zip(outer, reversed(digits), strict=True):
            self.values.bind(variable, digit)
        if plan.block == 1:
            return self._nests()
        first = b.mul(block, plan.block)
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

    def _nests(self) -> None:
        nests, plan = self.kernel.nests, self.plan
        if plan.column is not None:
            return ColumnNests(self.b, self.values, plan, self.piece).emit(nests)
        for nest, vectors in zip(nests, plan.vectors, strict=True):
            self._rows(nest, vectors)
        return None

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


def _digits(b: Builder, number: Value, extents: Sequence[int]) -> Values:
    """The digits of a number, the first of which counts ones, to such bases."""
    result = []
    for extent in extents[:-1]:
        result.append(b.urem(number, extent))
        number = b.udiv(number, extent)
    return [*result, number]


def _counted(b: Builder, digits: Values, extents: Sequence[int]) -> Values:
    """The digits of the next number: divisions in every iteration would take longer."""
    result, carry = list[Value](), b.const(I64, 1)
    for digit, extent in zip(digits[:-1], extents):
        digit = b.add(digit, carry)
        wraps = b.eq(digit, extent)
        result.append(b.select(wraps, 0, digit))
        carry = b.convert(wraps, "i64", unsigned=True)
    return [*result, b.add(digits[-1], carry)]


def _is_apart(nest: LoopNest, lane: LoopVar) -> bool:
    """Whether a map's neighbours lie apart: masks would take them one by one."""
    offsets = [*(x.offset for x in nest.loads), *(s.offset for s in nest.stores)]
    apart = any(typical(abs(o.coefficient(lane))) > 2 for o in offsets)
    return apart and not nest.folds
