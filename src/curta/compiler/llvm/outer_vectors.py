"""A block of rows with a row in each lane (loops/outer_vectorisation.py).

The lines that nests read are transposed to columns on the stack, a vector for each
element; then all nests run, whose loops are over these; then come the lines that are
results.
"""

from __future__ import annotations

from curta.compiler.library.lines import LineTranspose
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.expressions import Evaluator
from curta.compiler.llvm.nest_body import NestBody
from curta.compiler.llvm.scalar_instructions import constant, memory_kind
from curta.compiler.llvm.types import I64, Type, Value
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Buffer, Kernel, LoopNest, Store
from curta.compiler.loops.outer_vectorisation import (
    Line,
    lines_of,
    native_lanes,
    squares,
)
from curta.compiler.loops.schedule import Schedule
from curta.core.dim import is_multiple

Values = list[Value]


class OuterVectors(NestBody):
    """Writes the code of as many rows as a vector has lanes."""

    def __init__(
        self, b: Builder, values: Evaluator, kernel: Kernel, plan: Schedule
    ) -> None:
        super().__init__(b, values)
        self.nests: tuple[LoopNest, ...] = kernel.nests
        self.stored: list[Buffer] = kernel.stored()
        self.row: LoopVar = plan.outer[-1]
        self.lanes: int = plan.block
        # Squares are as wide as a register for the widest values.
        self.native: int = min(self.lanes, native_lanes(kernel, b.module.vector_bytes))
        lines = lines_of(kernel, self.row)
        assert lines is not None
        self.lines = lines
        self.columns: dict[Line, Value] = {}
        self.inner: Value = b.const(I64, 0)

    def emit(self, first: Value) -> None:
        """The rows from the `first` one on, fewer where they end."""
        mask, left = None, None
        if not is_multiple(self.row.extent, self.lanes):
            left = self.b.sub(self.row.extent, first)
            mask = self.b.first_lanes(left, self.lanes)
        with self.values.vectorised(self.row, first, self.lanes, mask):
            for line in dict.fromkeys(self.lines.values()):
                type_ = self._vector(line)
                self.columns[line] = self.b.scratch(
                    line.extent * self.lanes * type_.size
                )
                if line.buffer not in self.stored:
                    self._transpose(line, left, back=False)
            for nest in self.nests:
                self._nest(nest)
            for line in self.columns:
                if line.buffer in self.stored and self.values.is_argument(line.buffer):
                    self._transpose(line, left, back=True)

    def _vector(self, line: Line) -> Type:
        """A vector as it lies in memory."""
        return Type(memory_kind(line.buffer.dtype), self.lanes)

    def _nest(self, nest: LoopNest) -> None:
        if not nest.dims:
            self._body(nest, [])
            return
        b, (inner,) = self.b, nest.dims
        initial = [constant(b, c, self.lanes) for f in nest.folds for c in f.initial]
        self.values.hoist(nest.body, [inner, *self.stored], self.lanes)
        with b.loop(0, inner.extent, carried=initial) as loop, self.values.scope():
            self.values.bind(inner, loop.index)
            self.inner = loop.index
            self._load_columns(nest)
            loop.next(*self._body(nest, loop.carried))
        final = loop.results
        for fold in nest.folds:
            count = len(fold.initial)
            self._store_results(fold, final[:count])
            final = final[count:]

    def _load_columns(self, nest: LoopNest) -> None:
        for load in nest.loads:
            line = self.lines.get((load.buffer, load.offset))
            if line is not None:
                value = self.b.load(self._vector(line), self._column(line, self.inner))
                value = self.values.as_value(load, value)
                self.values.forward(load.buffer, load.offset, value)

    def _column(self, line: Line, element: Value | int) -> Value:
        """Where an element of all rows lies on the stack."""
        at = element * self.lanes
        if isinstance(element, Value):
            at = self.b.mul(element, self.lanes)
        return self.b.offset(self.columns[line], at, self._vector(line))

    def _put(self, store: Store, value: Value) -> None:
        line = self.lines.get((store.buffer, store.offset))
        if line is None:
            return super()._put(store, value)
        self.values.forward(store.buffer, store.offset, value)
        if self.values.in_memory(store.buffer):
            type_ = self._vector(line)
            spread = self.b.convert(self.values.spread(value), type_.kind)
            self.b.store(spread, self._column(line, self.inner))
        return None

    def _transpose(self, line: Line, left: Value | None, back: bool) -> None:
        """Lines in memory to columns or back, by functions that kernels share."""
        b, vector = self.b, self._vector(line).with_lanes(self.native)
        start = self.values.address(line.buffer, line.start)
        apart = line.start.coefficient(self.row)
        for first in range(0, self.lanes, self.native):
            rows = b.const(I64, self.lanes) if left is None else left
            for element, width, size in squares(line.extent, self.native):
                transpose = LineTranspose(vector, size, back)
                b.module.library[transpose.name] = transpose
                b.call(
                    transpose.name,
                    None,
                    b.offset(self._column(line, element), first, vector),
                    b.const(I64, self.lanes),
                    b.offset(start, first * apart + element, vector),
                    b.const(I64, apart),
                    b.const(I64, width),
                    b.sub(rows, first),
                )
