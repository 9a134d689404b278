"""Register code to LLVM IR: one function, whose loops carry values as phis.

`void name(ptr arguments, i64 chunk)`, as kernels are; `arguments` has the addresses of
the arrays in the order of `RegisterCode.reads`, then `writes`, and of the cancellation
token. What the steps compute with is in register_values.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.polls import (
    iterations_between,
    poll,
    polled_loop,
    polled_while,
)
from curta.compiler.llvm.register_values import RegisterValues
from curta.compiler.llvm.types import I8, I64, PTR, Value
from curta.compiler.loops.nodes import Buffer
from curta.compiler.loops.registers import (
    Choice,
    Compute,
    CountedLoop,
    RegisterCode,
    Rename,
    Rows,
    Save,
    Step,
    Table,
    Update,
    WhileLoop,
    Write,
    blocks,
    code_cost,
    is_long,
    is_polled,
)
from curta.config import config

Values = list[Value]
Numbers = np.ndarray[Any, Any]


def emit_registers(module: Module, name: str, code: RegisterCode) -> Builder:
    """Add the code to the module as a function."""
    b = module.function(name, [PTR, I64], None, exported=False)
    arrays = [*code.reads, *code.writes]
    pointers = {
        array: b.load(PTR, b.offset(b.arguments[0], i, PTR))
        for i, array in enumerate(arrays)
    }
    emitter = _Emitter(b, pointers)
    if is_long(code):
        emitter.token = b.load(PTR, b.offset(b.arguments[0], len(arrays), PTR))
    if code.lane is None:
        for array in code.reads:
            if array.size <= 2 * config.tuning.register_elements:
                emitter.read(array, pointers[array])
        emitter.run(code.steps)
    else:
        emitter.run_blocks(code, b.arguments[1])
    b.ret()
    return b


class _Emitter:
    """Steps, in order."""

    def __init__(self, b: Builder, pointers: dict[Buffer, Value]) -> None:
        self.b = b
        self.values = RegisterValues(b, pointers)
        self.pointers = pointers
        self.token: Value | None = None

    def read(self, buffer: Buffer, pointer: Value) -> None:
        self.values.get(buffer, pointer)

    def run(self, steps: Sequence[Step]) -> None:
        """Emit a block."""
        for step in steps:
            if isinstance(step, Compute):
                self._compute(step)
            elif isinstance(step, Table):
                numbers = np.array(step.numbers, step.result.dtype)
                self.values.hold_table(step.result, numbers)
            elif isinstance(step, Write):
                self._write(step.value, step.array)
            elif isinstance(step, Save):
                self._save(step)
            elif isinstance(step, Rename):
                self._rename(step.array, step.result)
            elif isinstance(step, Update):
                self._update(step)
            elif isinstance(step, CountedLoop):
                self._counted(step)
            elif isinstance(step, WhileLoop):
                self._while(step)
            else:
                self._choice(step)

    def run_blocks(self, code: RegisterCode, chunk: Value) -> None:
        """The steps for every block of a chunk of the examples."""
        b, values, lane = self.b, self.values, code.lane
        assert lane is not None
        plan = blocks(code, b.module.vector_bytes)
        values.in_lanes = True
        count = -(-lane.extent // plan.lanes)
        first = b.mul(chunk, plan.grain)
        iterations = iterations_between(code_cost(code.steps))
        with b.loop(first, b.min(b.add(first, plan.grain), count)) as loop:
            if self.token is not None:
                with b.when(b.eq(b.and_(loop.index, iterations - 1), 0)):
                    b.return_when(poll(b, self.token))
            start = b.mul(loop.index, plan.lanes)
            mask = None
            if lane.extent % plan.lanes:
                mask = b.first_lanes(b.sub(lane.extent, start), plan.lanes)
            with values.vectorised(lane, start, plan.lanes, mask):
                self.run(code.steps)

    def _save(self, step: Save) -> None:
        numbers = self.values.held(step.value)
        for number, offset in zip(numbers, step.offsets, strict=True):
            self.values.store(step.array, offset, number, step.value.dtype)

    def _compute(self, step: Compute) -> None:
        values = self.values
        values.over(step.lane)
        if values.in_lanes:
            compute = values.compute if step.lane is None else values.compute_lanes
            return values.hold(step.result, [compute(e) for e in step.values])
        result = [values.compute_lanes(e) for e in step.values]
        if step.lane is not None and len(result) > 1:  # the parts, side by side
            size = step.lane.extent
            order = [i + part * size for i in range(size) for part in (0, 1)]
            result = [self.b.shuffle(result[0], result[1], order)]
        return values.hold(step.result, result)

    def _rename(self, array: Buffer, result: Buffer) -> None:
        pointer = self.pointers[array]
        self.pointers[result] = pointer
        self.values.locate(result, pointer)

    def _update(self, step: Update) -> None:
        values, condition = self.values, step.where
        values.over(None)
        holds = None if condition is None else values.compute(condition)
        if condition is None or holds is None:
            self._store(step)
        else:
            with self.b.when(holds), values.scope(), values.assumed(condition):
                self._store(step)
        self._rename(step.array, step.result)

    def _store(self, step: Update) -> None:
        numbers = [self.values.compute(e) for e in step.values]
        for i, (number, e) in enumerate(zip(numbers, step.values, strict=True)):
            self.values.store(step.array, step.offset + i, number, e.dtype)

    def _write(self, value: Buffer, array: Buffer) -> None:
        if self.values.holds(value):
            self.values.put(value, self.pointers[array])
        else:
            self.b.copy(self.pointers[array], self.pointers[value], array.nbytes)

    # ------------------------------------------------------------------- loops

    def _flat(self, buffers: Sequence[Buffer]) -> Values:
        return [v for x in buffers for v in self.values.held(x)]

    def _hold(self, buffers: Sequence[Buffer], values: Sequence[Value]) -> None:
        """Take values apart again that `_flat` has joined."""
        rest = list(values)
        for buffer in buffers:
            count = buffer.size if self.values.is_apart(buffer) else 1
            self.values.hold(buffer, rest[:count])
            rest = rest[count:]

    def _counted(self, loop: CountedLoop) -> None:
        b, carries = self.b, loop.carries
        reads = [self._address(rows.array) for rows in loop.reads]
        writes = [self._array(rows.array) for rows in loop.writes]
        last = self._flat([c.first for c in carries])

        def body(index: Value, carried: Values) -> Values:
            with self.values.scope():
                self._hold([c.now for c in carries], carried)
                at = b.sub(loop.length - 1, index) if loop.reverse else index
                if loop.iteration is not None:
                    self.values.bind(loop.iteration, at)
                for rows, array in zip(loop.reads, reads, strict=True):
                    self._read_row(rows, self._row(rows, array, at))
                self.run(loop.body)
                for rows, array in zip(loop.writes, writes, strict=True):
                    self.values.put(rows.row, self._row(rows, array, at))
                return self._flat([c.then for c in carries])

        iterations = iterations_between(code_cost(loop.body))
        if self.token is not None and is_polled(loop) and iterations < loop.length:
            last = polled_loop(b, loop.length, last, body, self.token, iterations)
        elif loop.length:
            with b.loop(0, loop.length, carried=last) as iteration:
                iteration.next(*body(iteration.index, iteration.carried))
            last = iteration.results
        self._hold([c.last for c in carries], last)
        for rows, array in zip(loop.writes, writes, strict=True):
            if rows.array not in self.pointers:
                self.read(rows.array, array)

    def _row(self, rows: Rows, array: Value, iteration: Value) -> Value:
        return self.b.offset(array, self.b.mul(iteration, rows.row.nbytes), I8)

    def _read_row(self, rows: Rows, pointer: Value) -> None:
        if rows.row.size <= 2 * config.tuning.register_elements:
            self.read(rows.row, pointer)
        else:
            self.pointers[rows.row] = pointer
        self.values.locate(rows.row, pointer)

    def _address(self, array: Buffer) -> Value:
        return self.pointers.get(array) or self.values.spill(array)

    def _array(self, array: Buffer) -> Value:
        """Where a loop writes rows: memory, or the stack for a small value."""
        return self.pointers.get(array) or self.b.scratch(max(array.nbytes, 1))

    def _while(self, loop: WhileLoop) -> None:
        carries, scope = loop.carries, self.values.scope()

        def condition(carried: Values) -> Value:
            scope.__enter__()
            self._hold([c.now for c in carries], carried)
            self.run(loop.condition)
            return self._any(loop.goes_on)

        def body(_: Values) -> Values:
            self.run(loop.body)
            then = self._flat([c.then for c in carries])
            scope.__exit__(None, None, None)
            return then

        first = self._flat([c.first for c in carries])
        if self.token is None:  # not from a program
            last = self.b.while_loop(first, condition, body)
        else:
            iterations = iterations_between(code_cost(loop.condition + loop.body))
            last = polled_while(self.b, first, condition, body, self.token, iterations)
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

    def _choice(self, step: Choice) -> None:
        index = self.values.number(step.index, 0)
        unsigned = step.index.dtype.kind in "ub"
        index = self.b.convert(index, "i64", unsigned=unsigned)
        self._hold(step.results, self._cases(step, index, 0))

    def _cases(self, step: Choice, index: Value, first: int) -> Values:
        """The values of the case with the index, which is `first` or more."""
        if first == len(step.blocks) - 1:
            return self._case(step, first)
        return self.b.if_(
            self.b.compare("le", index, first),
            lambda: self._case(step, first),
            lambda: self._cases(step, index, first + 1),
        )

    def _case(self, step: Choice, which: int) -> Values:
        with self.values.scope():
            self.run(step.blocks[which])
            return self._flat(step.found[which])
