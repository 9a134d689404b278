"""Register code to LLVM IR: one function, whose loops carry values as phis.

`void name(ptr arguments, i64 chunk)`, as kernels are; `arguments` has the addresses of
the arrays in the order of `RegisterCode.reads`, then `writes`, and of the cancellation
token.

A value of few numbers is so many scalars, any other a vector. Whatever moves its
elements (a slice, a transpose, a concatenation) is a shuffle, because every index is
known. Only an index read from data needs memory: the value is put on the stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.compiler.llvm import vector_math
from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.expressions import Evaluator
from curta.compiler.llvm.polls import (
    iterations_between,
    poll,
    polled_loop,
    polled_while,
)
from curta.compiler.llvm.scalar_instructions import kind, memory_kind
from curta.compiler.llvm.types import I8, I64, PTR, Type, Value
from curta.compiler.loops.index import Affine, LoopVar, Quotient, Remainder
from curta.compiler.loops.nodes import Buffer, Const, Expr, IndexValue, Instr, Load
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


class _Registers(Evaluator):
    """Expressions over values in registers."""

    def __init__(self, b: Builder, pointers: dict[Buffer, Value]) -> None:
        super().__init__(b, pointers)
        self._held: dict[Buffer, Values] = {}
        self._numbers: dict[Buffer, Numbers] = {}
        self._folded: dict[Expr, Numbers | None] = {}
        self._slots: dict[Buffer, Value] = {}
        self._functions = 0
        self._laned: set[Buffer] = set()
        self.in_lanes = False

    # ------------------------------------------------------------------ values

    def holds(self, buffer: Buffer) -> bool:
        """Whether a value is in registers."""
        return buffer in self._held

    def hold(self, buffer: Buffer, values: Values) -> None:
        """Say what a value is: its numbers one by one, or all in a vector."""
        self._held[buffer] = values
        if self.in_lanes and values[0].lanes > 1:
            self._laned.add(buffer)

    def hold_table(self, buffer: Buffer, numbers: Numbers) -> None:
        """Say that a value is known."""
        self._numbers[buffer] = numbers
        type_ = Type(kind(buffer.dtype))
        if self.is_apart(buffer):
            self.hold(buffer, [self._vector(x, type_) for x in numbers])
        else:
            self.hold(buffer, [self._vector(numbers, type_)])

    def _vector(self, numbers: Numbers, type_: Type) -> Value:
        if type_.is_int and numbers.dtype.kind not in "biu":  # kept as bits
            numbers = numbers.view(f"u{numbers.dtype.itemsize}")
        if numbers.ndim == 0:
            return self.b.const(type_, numbers.item())
        if (numbers == numbers[0]).all() and numbers[0] != 0:
            return self.b.const(type_.with_lanes(len(numbers)), numbers[0].item())
        return self.b.vector(type_.with_lanes(len(numbers)), numbers.tolist())

    def is_apart(self, buffer: Buffer) -> bool:
        """Whether the numbers of a value are kept one by one."""
        return self.in_lanes or buffer.size <= config.tuning.register_scalars

    def held(self, buffer: Buffer) -> Values:
        """A value in the form in which loops carry it."""
        if self.is_apart(buffer):
            return [self.number(buffer, i) for i in range(buffer.size)]
        return [self.whole(buffer)]

    def number(self, buffer: Buffer, i: int) -> Value:
        """A number of a value."""
        values = self._held[buffer]
        if len(values) == buffer.size:
            return values[i]
        key = ("number", buffer, i)
        result = self._memo.get(key)
        if result is None:
            result = self.b.extract(values[0], i)
            self._remember(key, result)
        return result

    def whole(self, buffer: Buffer) -> Value:
        """All numbers of a value in one vector."""
        values = self._held[buffer]
        if len(values) < buffer.size or buffer.size == 1:
            return values[0]
        result = self._memo.get(("whole", buffer))
        if result is None:
            result = Value("poison", values[0].type.with_lanes(buffer.size), self.b)
            for i, value in enumerate(values):
                result = self.b.insert(result, value, i)
            self._remember(("whole", buffer), result)
        return result

    # ------------------------------------------------------------- expressions

    def over(self, lane: LoopVar | None) -> None:
        """From now on, the lanes of vectors are the indices of `lane`."""
        if self.in_lanes:
            return
        self.lane, self.lanes = lane, 1 if lane is None else lane.extent
        if lane is not None:
            self.bind(lane, self.b.const(I64, 0))

    def _find_dependence(self, expr: Expr) -> frozenset[Any]:
        result = super()._find_dependence(expr)
        if isinstance(expr, Load) and expr.buffer in self._laned:
            result = self._dependence[expr] = result | {self.lane}
        return result

    def index(self, index: Affine) -> Value:
        places = self._places(index)
        if places is not None and places.ndim:
            return self._vector(places, I64)
        return super().index(index)

    def _places(self, index: Affine) -> Numbers | None:
        """An index for all lanes, as a number or one for each; None if data has it."""
        total: Any = np.int64(index.const)
        for atom, k in index.terms.items():
            if atom == self.lane and not self.in_lanes:
                term: Any = np.arange(self.lanes, dtype=np.int64)
            elif isinstance(atom, (Quotient, Remainder)):
                of = self._places(atom.of)
                if of is None:
                    return None
                term = of // atom.by if isinstance(atom, Quotient) else of % atom.by
            else:
                return None
            total = total + k * term
        return np.asarray(total)

    def _fold(self, expr: Expr) -> Numbers | None:
        """The numbers of an expression of indices and constants; None of any other."""
        if isinstance(expr, Const):
            return np.asarray(expr.value, expr.dtype)
        if isinstance(expr, IndexValue):
            return self._places(expr.index)
        if not isinstance(expr, Instr) or expr.name not in _FOLDS:
            return None
        key = expr
        if key not in self._folded:
            args = [self._fold(a) for a in expr.args]
            known = all(a is not None for a in args) and _is_whole(expr)
            result = _FOLDS[expr.name](*args) if known else None
            self._folded[key] = None if result is None else result.astype(expr.dtype)
        return self._folded[key]

    def _instruction(self, expr: Instr) -> Value:
        folded = self._fold(expr)
        if folded is not None:
            return self._vector(folded, Type(kind(expr.dtype)))
        if expr.name == "select":
            condition = self._fold(expr.args[0])
            if condition is not None:
                return self._chosen(condition, expr.args[1], expr.args[2])
        if expr.name.startswith("math."):
            wide = self.lane in self.depends(expr)
            args = [self.lanewise(a) if wide else self.value(a) for a in expr.args]
            size = args[0].lanes * args[0].type.size
            self._functions += max(1, size // self.b.module.vector_bytes)
            if self._functions > config.tuning.inlined_math:
                return self._called(expr.name, args)
        return super()._instruction(expr)

    def _called(self, name: str, args: Values) -> Value:
        """A function of vector math as one of the module, so that code stays short."""
        module, type_ = self.b.module, args[0].type
        name = f"{name}.{type_.suffix}"
        if not module.defines(name):
            f = module.function(name, [a.type for a in args], type_, exported=False)
            f.ret(vector_math.FUNCTIONS[name.split(".")[1]](f, *f.arguments))
        return self.b.call(name, type_, *args)

    def _chosen(self, condition: Numbers, x: Expr, y: Expr) -> Value:
        """A choice that is known for every lane is a shuffle."""
        if condition.all() or not condition.any():
            return self.value(x if condition.all() else y)
        if isinstance(x, Const) and isinstance(y, Const):
            left, right = (np.asarray(e.value, e.dtype) for e in (x, y))
            return self._vector(np.where(condition, left, right), Type(kind(x.dtype)))
        order = [i if c else self.lanes + i for i, c in enumerate(condition)]
        return self.b.shuffle(self.lanewise(x), self.lanewise(y), order)

    # ------------------------------------------------------------------ memory

    def _load(self, expr: Load) -> Value:
        if expr.buffer not in self._held:
            return super()._load(expr)
        places = self._places(expr.offset)
        if places is None:
            self.spill(expr.buffer)
            return super()._load(expr)
        last = expr.buffer.size - 1
        if places.ndim == 0:  # beyond the ends only what nobody looks at
            return self.number(expr.buffer, min(max(int(places), 0), last))
        places = places.clip(0, last)
        numbers = self._numbers.get(expr.buffer)
        if numbers is not None:
            return self._vector(numbers[places], Type(kind(expr.dtype)))
        source = self.whole(expr.buffer)
        if (places == places[0]).all():
            return self.number(expr.buffer, int(places[0]))
        if len(places) == source.lanes and (places == np.arange(len(places))).all():
            return source
        return self.b.shuffle(source, None, places.tolist())

    def spill(self, buffer: Buffer) -> Value:
        """The address of a value, which is put on the stack unless it is in memory."""
        slot = self._slots.get(buffer)
        if slot is None and buffer in self._pointers:
            return self._pointers[buffer]
        if slot is None:
            slot = self.b.scratch(buffer.nbytes)
            self.place(buffer, slot)
            self._slots[buffer] = slot
        if ("spilled", buffer) not in self._memo:
            self.put(buffer, slot)
            self._remember(("spilled", buffer), slot)
        return slot

    def get(self, buffer: Buffer, pointer: Value) -> None:
        """Load a value."""
        type_ = Type(memory_kind(buffer.dtype))
        if buffer.size <= config.tuning.register_scalars:
            places = [self.b.offset(pointer, i, type_) for i in range(buffer.size)]
            values = [self.b.load(type_, p) for p in places]
        else:
            values = [self.b.load(type_.with_lanes(buffer.size), pointer)]
        if buffer.dtype.kind == "b":
            values = [self.b.ne(v, 0) for v in values]
        self.hold(buffer, values)

    def put(self, buffer: Buffer, pointer: Value) -> None:
        """Store a value."""
        type_ = Type(memory_kind(buffer.dtype))
        for i, value in enumerate(self.held(buffer)):
            if buffer.dtype.kind == "b":
                value = self.b.convert(value, "i8")
            self.b.store(value, self.b.offset(pointer, i, type_))


def _is_whole(expr: Instr) -> bool:
    return all(e.dtype.kind in "biu" for e in (expr, *expr.args))


_FOLDS: dict[str, Any] = {
    "compare.eq": np.equal,
    "compare.ne": np.not_equal,
    "compare.lt": np.less,
    "compare.le": np.less_equal,
    "compare.gt": np.greater,
    "compare.ge": np.greater_equal,
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "not_": np.bitwise_not,
    "convert": lambda x: x,
}


class _Emitter:
    """Steps, in order."""

    def __init__(self, b: Builder, pointers: dict[Buffer, Value]) -> None:
        self.b = b
        self.values = _Registers(b, pointers)
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
        self.values.place(result, pointer)

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
        self.values.place(rows.row, pointer)

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
