"""A scheduled kernel to LLVM IR.

`void name(ptr arguments, i64 chunk)` runs one chunk of a kernel: `arguments` is an
array of the addresses of the buffers in memory, in the order of
`BufferPlacement.arguments`.
"""

from __future__ import annotations

from collections.abc import Sequence

from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.column_nests import ColumnNests
from curta.compiler.llvm.expressions import Evaluator
from curta.compiler.llvm.nest_body import NestLoops, chunk_bounds
from curta.compiler.llvm.row_blocks import RowBlock
from curta.compiler.llvm.row_nests import RowNests
from curta.compiler.llvm.tiles import transposable, transposed_rows
from curta.compiler.llvm.types import I64, PTR, Value
from curta.compiler.loops.bufferize import BufferPlacement
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Kernel
from curta.compiler.loops.schedule import Loop, Schedule
from curta.compiler.loops.split import piece_index
from curta.core.dim import is_same

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
    _KernelEmitter(b, values, kernel, plan, placement).emit(chunk)
    if any(nest.streamed for nest in plan.nests):
        b.publish()
    b.ret()
    return b


class _KernelEmitter(NestLoops):
    def __init__(
        self,
        b: Builder,
        values: Evaluator,
        kernel: Kernel,
        plan: Schedule,
        placement: BufferPlacement,
    ) -> None:
        super().__init__(b, values, plan)
        self.kernel = kernel
        self.placement = placement

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
        if plan.block is not None:
            extents[0] = -(-extents[0] // plan.block.factor)
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
        block = plan.block
        if block is not None:
            outer, (number, *digits) = plan.outer[:-1], digits
        for variable, digit in zip(outer, reversed(digits), strict=True):
            self.values.bind(variable, digit)
        if block is None:
            return self._nests()
        first = b.mul(number, block.factor)
        if block.how == "together":
            rows = RowBlock(b, self.values, plan, block, self.placement)
            return rows.emit_block(self.kernel.nests, first)
        end = b.min(b.add(first, block.factor), block.var.extent)
        if block.how == "serial":
            return self._rows_of_tile(block.var, first, end)
        return self._tile(block, first, end)

    def _tile(self, block: Loop, first_row: Value, end: Value) -> None:
        """A tile of a transpose: all at once, or row by row if it is no square."""
        b, row, size, (nest,) = self.b, block.var, block.factor, self.kernel.nests
        lane = nest.dims[0]
        first, last = self._bounds(lane)
        if block.tail == "overlap":
            first = b.min(first, lane.extent - size)
            return self._square(block, b.min(first_row, row.extent - size), lane, first)
        whole = b.eq(b.add(b.sub(last, first), b.sub(end, first_row)), 2 * size)
        with b.when(whole):
            self._square(block, first_row, lane, first)
        with b.when(b.not_(whole)):
            return self._rows_of_tile(row, first_row, end)

    def _square(
        self, block: Loop, first_row: Value, lane: LoopVar, first: Value
    ) -> None:
        """A tile with all of its rows and columns."""
        (nest,), row = self.kernel.nests, block.var
        loads = transposable(nest, row, lane)
        with self.values.vectorised(lane, first, block.factor, None):
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
        return RowNests(self.b, self.values, plan, self.piece).emit(nests)


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
