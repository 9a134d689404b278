"""Loops and branches over native programs: `scan`, `while` and `cond`.

A program is called with a table of addresses, so an iteration of a loop is a few stores
into its table and a call. A carry has two buffers, from which iterations read and to
which they write in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import cast

from curta.compiler.graph.items import ControlItem
from curta.compiler.library.routine import run_chunks
from curta.compiler.llvm.builder import Builder, Values
from curta.compiler.llvm.polls import iterations_between, poll
from curta.compiler.llvm.scalar_instructions import memory_kind
from curta.compiler.llvm.types import I8, I64, PTR, Type, Value
from curta.compiler.loops.nodes import Buffer
from curta.compiler.native import DONE, STOPPED, NativeProgram
from curta.config import config
from curta.control.scan import Scan
from curta.control.while_loop import While

Callee = tuple[Value, Value]
"""The address of a native program, and that of its constants."""


def emit_control(
    b: Builder,
    item: ControlItem,
    address: Mapping[Buffer, Value],
    code: list[Callee],
    launcher: Value,
    token: Value,
) -> None:
    """Run a control-flow item; `launcher` is parallel_for."""
    if item.parts is not None:
        return _emit_parts(b, item, address, code, launcher, token)
    calls = [
        ProgramCall(b, p, c, token) for p, c in zip(item.programs, code, strict=False)
    ]
    if item.scratch is not None:
        for call in calls:
            call.arena(address[item.scratch])
    if item.eqn.op.loop is None:
        operands = [address[x] for x in item.operands]
        return _cond(b, item, calls, operands, [address[x] for x in item.results])
    if item.signals is not None:
        calls[-1].answer(ProgramCall(b, item.signals, code[-1], token))
    elif item.polled:
        calls[-1].poll()
    return _emit_loop(b, item, address, calls, _Part(b, item, None))


def _emit_parts(
    b: Builder,
    item: ControlItem,
    address: Mapping[Buffer, Value],
    code: list[Callee],
    launcher: Value,
    token: Value,
) -> None:
    """Share out the parts of a loop: `void loop(ptr table, i64 chunk)`."""
    assert item.parts is not None
    pairs = [x for pair in item.carries for x in pair]
    arenas = [] if item.scratch is None else [item.scratch]
    buffers = list(dict.fromkeys([*item.operands, *item.results, *pairs, *arenas]))
    words = [*(address[x] for x in buffers), *code[0], token]
    table = b.scratch(8 * len(words), align=8)
    for i, word in enumerate(words):
        b.store(word, b.offset(table, i, PTR))
    name = next(n for n in map("loop{}".format, count()) if not b.module.defines(n))
    inner = b.module.function(name, [PTR, I64], exported=False)
    given, chunk = inner.arguments
    *given_addresses, body, constants, own_token = (
        inner.load(PTR, inner.offset(given, i, PTR)) for i in range(len(words))
    )
    call = ProgramCall(inner, item.programs[0], (body, constants), own_token)
    if item.polled:
        call.poll()
    known = dict(zip(buffers, given_addresses, strict=True))
    if item.scratch is not None:
        own = inner.mul(chunk, item.scratch.nbytes // item.chunks)
        call.arena(inner.offset(known[item.scratch], own, I8))
    parts = item.parts.count
    first, last = (inner.udiv((chunk + i) * parts, item.chunks) for i in (0, 1))
    with inner.loop(first, last) as loop:
        _emit_loop(inner, item, known, [call], _Part(inner, item, loop.index))
    inner.ret()
    run_chunks(b, launcher, name, table, item.chunks)


class _Part:
    """Where the rows of a part lie in arrays that a loop is cut along, if it is."""

    def __init__(self, b: Builder, item: ControlItem, index: Value | None) -> None:
        self.b, self.index = b, index
        self.parts = item.parts
        self.program = item.programs[-1]

    def count(self, array: int) -> int:
        """How many parts have rows in a result, or (counting on) an argument."""
        if self.parts is None:
            return 1
        return self.parts.count if self._cut(array) else 1

    def _cut(self, array: int) -> bool:
        assert self.parts is not None
        return (*self.parts.results, *self.parts.arguments)[array]

    def own(self, address: Value, array: int) -> Value:
        """The address of the part's rows."""
        if self.index is None or not self._cut(array):
            return address
        return self.share(address, row_bytes(self.program, array))

    def share(self, address: Value, size: int) -> Value:
        """The address of the part's memory among those of some bytes."""
        if self.index is None:
            return address
        return self.b.offset(address, self.b.mul(self.index, size), I8)


def _emit_loop(
    b: Builder,
    item: ControlItem,
    address: Mapping[Buffer, Value],
    calls: list[ProgramCall],
    part: _Part,
) -> None:
    op = item.eqn.op
    view = op.loop
    assert view is not None
    operands = [address[x] for x in item.operands]
    results = [address[x] for x in item.results]
    body = item.programs[-1]
    number = len(item.carries)
    sizes = [row_bytes(body, i) for i in range(number)]
    initial = view.initial(operands)
    memory = []
    for side in (0, 1):
        for pair in item.carries:
            buffer = pair[side]
            stride = buffer.nbytes // (item.parts.count if item.parts else 1)
            memory.append(part.share(address[buffer], stride))
    for i, value in enumerate(initial):
        if address[item.carries[i][0]] is not value:
            start = part.own(value, body.results + view.consts + i)
            b.copy(memory[i], start, sizes[i])
    if view.iterations is not None:
        last = _scan(b, cast(Scan, op), calls[0], operands, results, memory, part)
    else:
        last = _while(b, cast(While, op), calls, operands, memory)
    for i, value in enumerate(last):
        iteration, other = item.carries[i]
        there = iteration is other or view.iterations is not None
        if not there or item.results[i] not in (iteration, other):
            # What all parts have alike, each of them stores.
            b.copy(part.own(results[i], i), value, sizes[i])


def row_bytes(program: NativeProgram, array: int) -> int:
    """The bytes of a result, or (counting on) of an argument."""
    dtype, shape = program.signature[array]
    return int(dtype.itemsize) * math.prod(shape)


class ProgramCall:
    """A table for calls of one program, whose constants are in its words."""

    code: Value

    def __init__(
        self, b: Builder, program: NativeProgram, callee: Callee, token: Value
    ) -> None:
        self.b = b
        self.program = program
        self.code, words = callee
        self._token = token
        arrays, count = len(program.signature), len(program.constants)
        self.table: Value = b.scratch(8 * max(1, arrays + count), align=8)
        b.copy(b.offset(self.table, arrays, PTR), words, 8 * count)
        if program.cancellable:
            self._constant(program.token_word, token)
        self._now_and_then: Callable[[], None] | None = None

    def answer(self, signals: ProgramCall) -> None:
        """Call another program after as many calls as keep signals waiting."""
        most = config.tuning.interruptible_cost // 4
        calls = -(-most // max(self.program.cost, 1))  # a program may cost nothing
        self._every(1 << max(calls - 1, 0).bit_length(), signals.run)

    def poll(self) -> None:
        """Look now and then whether the call of all this was cancelled."""
        b = self.b
        self._every(
            iterations_between(self.program.cost),
            lambda: b.return_when(poll(b, self._token), STOPPED),
        )

    def _every(self, calls: int, action: Callable[[], None]) -> None:
        """Do something after so many calls, a power of two, again and again."""
        b = self.b
        runs = b.scratch(8, align=8)
        b.store(b.const(I64, 0), runs)

        def count() -> None:
            run = b.load(I64, runs) + 1
            b.store(run, runs)
            with b.when(b.eq(b.and_(run, calls - 1), 0)):
                action()

        self._now_and_then = count

    def results(self, addresses: Sequence[Value], first: int = 0) -> None:
        """Where the results go, from the `first` on."""
        for i, address in enumerate(addresses, first):
            self.b.store(address, self.b.offset(self.table, i, PTR))

    def arguments(self, addresses: Sequence[Value], first: int = 0) -> None:
        """Where the arguments lie, from the `first` on."""
        self.results(addresses, self.program.results + first)

    def arena(self, address: Value) -> None:
        """Where the arena is, if the program needs one."""
        self._constant(self.program.arena_word, address)

    def _constant(self, number: int, value: Value) -> None:
        word = len(self.program.signature) + number
        self.b.store(value, self.b.offset(self.table, word, PTR))

    def run(self) -> None:
        """Call the program; return from the function where it has stopped."""
        b, program = self.b, self.program
        if program.is_host_call:  # its last constant says whether it came to its end
            words = len(program.signature) + len(program.constants)
            status_word = b.offset(self.table, words - 1, I64)
            b.store(b.const(I64, STOPPED), status_word)
            b.call(self.code, None, self.table)
            status = b.load(I64, status_word)
        else:
            status = b.call(self.code, I64, self.table)
        if program.runs_python or program.cancellable:
            b.return_when(b.ne(status, DONE), STOPPED)
        if self._now_and_then is not None:
            self._now_and_then()


def _scan(
    b: Builder,
    op: Scan,
    body: ProgramCall,
    operands: list[Value],
    results: list[Value],
    memory: list[Value],
    part: _Part,
) -> list[Value]:
    carried, constants = op.num_carry, op.num_consts
    first = body.program.results
    for i, value in enumerate(operands[:constants]):
        body.arguments([part.own(value, first + i)], i)
    rows = operands[constants + carried :]
    with b.loop(0, op.length, 1, memory) as loop:
        now, then = loop.carried[:carried], loop.carried[carried:]
        iteration = b.sub(op.length - 1, loop.index) if op.reverse else loop.index

        def row(array: Value, number: int) -> Value:
            size = row_bytes(body.program, number) * part.count(number)
            return part.own(b.offset(array, b.mul(iteration, size), I8), number)

        body.arguments(now, constants)
        body.results(then)
        for i, array in enumerate(rows, constants + carried):
            body.arguments([row(array, first + i)], i)
        for i, array in enumerate(results[carried:], carried):
            body.results([row(array, i)], i)
        body.run()
        loop.next(*then, *now)
    return loop.results[:carried]


def _while(
    b: Builder,
    op: While,
    calls: list[ProgramCall],
    operands: list[Value],
    memory: list[Value],
) -> list[Value]:
    condition, body = calls
    condition_consts, body_consts, _ = op.parts(operands)
    carried = len(memory) // 2
    goes_on = b.scratch(1, align=1)
    condition.arguments(condition_consts)
    condition.results([goes_on])
    body.arguments(body_consts)

    def test(carry: Values) -> Value:
        condition.arguments(carry[:carried], len(condition_consts))
        condition.run()
        return b.ne(b.load(I8, goes_on), 0)

    def iteration(carry: Values) -> Values:
        now, then = carry[:carried], carry[carried:]
        body.arguments(now, len(body_consts))
        body.results(then)
        body.run()
        return [*then, *now]

    return b.while_loop(memory, test, iteration)[:carried]


def _cond(
    b: Builder,
    item: ControlItem,
    calls: list[ProgramCall],
    operands: list[Value],
    results: list[Value],
) -> None:
    dtype = item.operands[0].dtype
    index = b.load(Type(memory_kind(dtype)), operands[0])
    index = b.convert(index, "i64", unsigned=dtype.kind in "ub")
    index = b.max(b.min(index, len(calls) - 1), 0)
    for i, branch in enumerate(calls):
        with b.when(b.eq(index, b.const(I64, i))):
            branch.arguments(operands[1:])
            branch.results(results)
            branch.run()
