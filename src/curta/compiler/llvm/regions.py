"""A region to LLVM IR: one function, whose loops carry values as phis.

`void name(ptr arguments, i64 chunk)`, as kernels are; what follows the addresses of the
arrays in `arguments` are those of the programs that it calls, with their constants, and
of the cancellation token. One that calls programs in order is part of the entry. Values
in registers are in register_values.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from curta.compiler.callee import Callee
from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.nest_body import NestBody, chunk_bounds
from curta.compiler.llvm.polls import poll, polled_loop, polled_while
from curta.compiler.llvm.program_calls import CallTarget, ProgramCall
from curta.compiler.llvm.register_values import RegisterValues
from curta.compiler.llvm.scalar_instructions import memory_kind
from curta.compiler.llvm.transposes import transpose_columns, transpose_rows
from curta.compiler.llvm.types import I64, PTR, Type, Value
from curta.compiler.loops.nodes import (
    Block,
    Buffer,
    Call,
    Copy,
    For,
    If,
    LoopNest,
    Pack,
    Region,
    Store,
    While,
    statements_in,
)
from curta.compiler.loops.schedule import Schedule

Values = list[Value]


def emit_region(
    module: Module,
    name: str,
    region: Region,
    plan: Schedule,
    arrays: Sequence[Buffer],
    constants: Mapping[Callee, int],
) -> Builder:
    """Add the region to the module as a function.

    `constants` has the number of constant words of each callee.
    """
    b = module.function(name, [PTR, I64], None, exported=False)
    arguments, chunk = b.arguments
    count, programs = len(arrays), region.programs
    wanted = count + 2 * len(programs) + plan.takes_token
    words = [b.load(PTR, b.offset(arguments, i, PTR)) for i in range(wanted)]
    b.sizes_word = wanted
    token = words.pop() if plan.takes_token else None
    targets = {
        p: CallTarget(code, own, constants[p])
        for p, code, own in zip(
            programs, words[count::2], words[count + 1 :: 2], strict=True
        )
    }
    address = dict(zip(arrays, words, strict=False))
    run_region(b, region, plan, address, targets, token, chunk)
    b.ret()
    return b


def run_region(
    b: Builder,
    region: Region,
    plan: Schedule,
    address: Mapping[Buffer, Value],
    code: Mapping[Callee, CallTarget],
    token: Value | None,
    chunk: Value | None = None,
) -> None:
    """Add the code of a chunk of a region, with the programs that it calls."""
    emitter = _RegionEmitter(b, RegisterValues(b, address, plan), plan, token)
    for s in statements_in(region.body):
        if isinstance(s, Call):
            call = ProgramCall(emitter.values, s, code[s.program], token)
            emitter.calls[s] = call
    if chunk is not None and region.chunk is not None:
        emitter.values.bind(region.chunk, chunk)
    emitter.settle(region.body)
    if chunk is None or (region.lane is None and region.parts is None):
        emitter.run(region.body)
    else:
        emitter.run_all(region, chunk)


class _RegionEmitter(NestBody):
    """Statements, in order."""

    values: RegisterValues

    def __init__(
        self, b: Builder, values: RegisterValues, plan: Schedule, token: Value | None
    ) -> None:
        super().__init__(b, values)
        self.plan = plan
        self.polls: dict[For | While, int] = dict(plan.polls)
        self.token = token
        self.calls: dict[Call, ProgramCall] = {}

    def run(self, block: Block) -> None:
        """Emit a block."""
        for statement in block:
            if isinstance(statement, LoopNest):
                self.values.over(statement.dims)
                self._body(statement, [])
            elif isinstance(statement, Copy):
                self._copy(statement)
            elif isinstance(statement, Pack):
                self._pack(statement)
            elif isinstance(statement, Call):
                self.calls[statement].run()
            elif isinstance(statement, For):
                self._for(statement)
            elif isinstance(statement, While):
                self._while(statement)
            else:
                self._if(statement)

    def _copy(self, copy: Copy) -> None:
        to, source = map(self.values.pointer, (copy.to, copy.source))
        if not copy.unless_same:
            return self.b.copy(to, source, copy.to.nbytes)
        with self.b.when(self.b.ne(to, source)):
            self.b.copy(to, source, copy.to.nbytes)
        return None

    def _store(self, store: Store) -> None:
        self._put(store, self.values.compute_lanes(store.value))

    def run_all(self, region: Region, chunk: Value) -> None:
        """The body for every vector of examples, or every part, of a chunk."""
        b, plan = self.b, self.plan
        with b.loop(*chunk_bounds(b, plan, chunk)) as loop:
            if plan.polls_between and self.token is not None:
                with b.when(b.eq(b.and_(loop.index, plan.polls_between - 1), 0)):
                    b.return_when(poll(b, self.token))
            if plan.block is None:
                with self.values.scope():
                    self.values.bind(plan.outer[0], loop.index)
                    self.settle(region.body)
                    self.run(region.body)
                return
            lane, lanes = plan.block.var, plan.block.factor
            start = b.mul(loop.index, lanes)
            mask = None
            if plan.block.tail == "masked":
                mask = b.first_lanes(b.sub(lane.extent, start), lanes)
            with self.values.of_examples(lane, start, lanes, mask):
                self.run(region.body)

    def settle(self, block: Block) -> None:
        """Let calls of a block store the addresses that are known by now."""
        for statement in statements_in(block):
            if isinstance(statement, Call):
                self.calls[statement].settle()

    def _pack(self, pack: Pack) -> None:
        """Rows to columns or back, by functions that all programs share."""
        rows, columns = map(self.values.pointer, (pack.rows, pack.columns))
        size, vector = pack.size, Type(memory_kind(pack.rows.dtype), pack.lanes)
        if pack.back:
            return transpose_columns(self.b, vector, rows, columns, size)
        to = columns, pack.lanes
        return transpose_rows(self.b, vector, to, (rows, size), size)

    # ------------------------------------------------------------------- loops

    def _flat(self, buffers: Sequence[Buffer]) -> Values:
        return [v for x in buffers for v in self.values.held(x)]

    def _hold(self, buffers: Sequence[Buffer], values: Sequence[Value]) -> None:
        """Take values apart again that `_flat` has joined."""
        rest = list(values)
        for buffer in buffers:
            apart = not buffer.in_memory and self.values.is_apart(buffer)
            count = buffer.size if apart else 1
            self.values.hold(buffer, rest[:count])
            rest = rest[count:]

    def _for(self, loop: For) -> None:
        b, carries, length = self.b, loop.carries, loop.var.extent
        bounds: tuple[Value | int, Value | int] = 0, length
        both: Value | int = length - 1  # the first index and the last one
        if loop.bounds is not None:
            first, stop = map(self.values.index, loop.bounds)
            bounds, both = (first, stop), b.sub(b.add(first, stop), 1)
        if loop.independent:
            self._hoist(loop)
        last = self._flat([c.first for c in carries])

        def body(index: Value, carried: Values) -> Values:
            with self.values.scope():
                self._hold([c.now for c in carries], carried)
                at = b.sub(both, index) if loop.reverse else index
                self.values.bind(loop.var, at)
                self.settle(loop.body)
                self.run(loop.body)
                return self._flat([c.then for c in carries])

        if self.token is not None and loop in self.polls:
            between = self.polls[loop]
            last = polled_loop(b, length, last, body, self.token, between)
        elif length:
            with b.loop(*bounds, loop.step, last) as iteration:
                iteration.next(*body(iteration.index, iteration.carried))
            last = iteration.results
        self._hold([c.last for c in carries], last)

    def _hoist(self, loop: For) -> None:
        """Compute what no iteration changes before the loop."""
        nests = [s for s in statements_in((loop,)) if isinstance(s, LoopNest)]
        loops = [s for s in statements_in((loop,)) if isinstance(s, For)]
        inside: list[Any] = [s.var for s in loops]
        inside += [x for s in loops for c in s.carries for x in (c.now, c.last)]
        inside += [x.buffer for nest in nests for x in nest.stores]
        for nest in nests:
            self.values.over(nest.dims)
            self.values.hoist(nest.body, inside, self.values.lanes)
            for x in nest.stores:
                self.values.hoist_row(x.buffer, x.offset, frozenset(inside))

    def _while(self, loop: While) -> None:
        carries, scope = loop.carries, self.values.scope()

        def condition(carried: Values) -> Value:
            scope.__enter__()
            self._hold([c.now for c in carries], carried)
            self.settle(loop.condition + loop.body)
            self.run(loop.condition)
            return self._any(loop.goes_on)

        def body(_: Values) -> Values:
            self.run(loop.body)
            then = self._flat([c.then for c in carries])
            scope.__exit__(None, None, None)
            return then

        first = self._flat([c.first for c in carries])
        if self.token is None or loop not in self.polls:
            last = self.b.while_loop(first, condition, body)
        else:
            between = self.polls[loop]
            last = polled_while(self.b, first, condition, body, self.token, between)
        self._hold([c.last for c in carries], last)

    def _any(self, flags: Buffer) -> Value:
        """Whether some flag is set, of the examples that there are."""
        values = self.values.held(flags)
        result = values[0]
        for value in values[1:]:
            result = self.b.or_(result, value)
        if result.lanes > 1 and self.values.mask is not None:
            result = self.b.and_(result, self.values.mask)
        return self.b.any_lane(result)

    # ---------------------------------------------------------------- branches

    def _if(self, branch: If) -> None:
        if branch.index.size > 1:
            index = self._any(branch.index)
        else:
            index = self.values.number(branch.index, 0)
        unsigned = branch.index.dtype.kind in "ub"
        index = self.b.convert(index, "i64", unsigned=unsigned)
        last = len(branch.blocks) - 1
        self._hold(branch.results, self._cases(branch, index, 0, last))

    def _cases(self, branch: If, index: Value, first: int, last: int) -> Values:
        """The values of the case with the index, one from `first` to `last`."""
        if first == last:
            with self.values.scope():
                self.run(branch.blocks[first])
                return self._flat(branch.yields[first])
        middle = (first + last) // 2
        return self.b.if_(
            self.b.compare("le", index, middle),
            lambda: self._cases(branch, index, first, middle),
            lambda: self._cases(branch, index, middle + 1, last),
        )
