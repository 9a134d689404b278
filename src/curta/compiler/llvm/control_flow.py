"""Loops and branches over native programs: `scan`, `while` and `cond`.

A program is called with a table of addresses, so a turn of a loop is a few stores
into its table and a call. A carry has two places, from which turns read and to which
they write in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from curta.compiler.graph.items import ControlItem
from curta.compiler.llvm.builder import Builder, Values
from curta.compiler.llvm.scalar_instructions import memory_kind
from curta.compiler.llvm.types import I8, I64, PTR, Type, Value
from curta.compiler.loops.nodes import Buffer
from curta.compiler.native import NativeProgram
from curta.control.cond import Cond
from curta.control.scan import Scan
from curta.control.while_loop import While

Callee = tuple[Value, Value]
"""The address of a native program, and that of its constants."""


def emit_control(
    b: Builder, item: ControlItem, address: Mapping[Buffer, Value], code: list[Callee]
) -> None:
    """Run a control-flow item."""
    calls = [_Call(b, p, c) for p, c in zip(item.programs, code, strict=True)]
    operands = [address[x] for x in item.operands]
    results = [address[x] for x in item.results]
    op = item.eqn.op
    if isinstance(op, Cond):
        return _cond(b, item, calls, operands, results)
    pairs = [(address[x], address[y]) for x, y in item.carries]
    sizes = [first.nbytes for first, _ in item.carries]
    assert isinstance(op, (Scan, While))
    initial = op.parts(operands)[1 if isinstance(op, Scan) else 2]
    for (first, _), size, value in zip(pairs, sizes, initial, strict=False):
        b.copy(first, value, size)
    places = [x for x, _ in pairs] + [y for _, y in pairs]
    if isinstance(op, Scan):
        last = _scan(b, op, calls[0], operands, results, places)
    else:
        last = _while(b, op, calls, operands, places)
    for result, value, size in zip(results, last, sizes, strict=False):
        b.copy(result, value, size)
    return None


class _Call:
    """A table for calls of one program, whose constants are in their places."""

    def __init__(self, b: Builder, program: NativeProgram, callee: Callee) -> None:
        self.b = b
        self.program = program
        self.code, words = callee
        arrays, count = len(program.signature), len(program.constants)
        self.table = b.scratch(8 * max(1, arrays + count), align=8)
        b.copy(b.offset(self.table, arrays, PTR), words, 8 * count)

    def results(self, places: Sequence[Value], first: int = 0) -> None:
        """Where the results go, from the `first` on."""
        for i, place in enumerate(places, first):
            self.b.store(place, self.b.offset(self.table, i, PTR))

    def arguments(self, places: Sequence[Value], first: int = 0) -> None:
        """Where the arguments lie, from the `first` on."""
        self.results(places, self.program.results + first)

    def row_bytes(self, array: int) -> int:
        """The bytes of a result, or (counting on) of an argument."""
        dtype, shape = self.program.signature[array]
        size = int(dtype.itemsize)
        for d in shape:
            size *= d
        return size

    def run(self) -> None:
        self.b.call(self.code, None, self.table)


def _scan(
    b: Builder,
    op: Scan,
    body: _Call,
    operands: list[Value],
    results: list[Value],
    places: list[Value],
) -> list[Value]:
    carried, constants = op.num_carry, op.num_consts
    body.arguments(operands[:constants])
    rows = operands[constants + carried :]
    with b.loop(0, op.length, 1, places) as loop:
        now, then = loop.carried[:carried], loop.carried[carried:]
        turn = b.sub(op.length - 1, loop.index) if op.reverse else loop.index
        body.arguments(now, constants)
        body.results(then)
        for i, array in enumerate(rows):
            at = constants + carried + i
            size = body.row_bytes(body.program.results + at)
            body.arguments([b.offset(array, b.mul(turn, size), I8)], at)
        for i, array in enumerate(results[carried:], carried):
            size = body.row_bytes(i)
            body.results([b.offset(array, b.mul(turn, size), I8)], i)
        body.run()
        loop.next(*then, *now)
    return loop.results[:carried]


def _while(
    b: Builder,
    op: While,
    calls: list[_Call],
    operands: list[Value],
    places: list[Value],
) -> list[Value]:
    condition, body = calls
    condition_consts, body_consts, _ = op.parts(operands)
    carried = len(places) // 2
    goes_on = b.scratch(1, align=1)
    condition.arguments(condition_consts)
    condition.results([goes_on])
    body.arguments(body_consts)

    def test(carry: Values) -> Value:
        condition.arguments(carry[:carried], len(condition_consts))
        condition.run()
        return b.ne(b.load(I8, goes_on), 0)

    def turn(carry: Values) -> Values:
        now, then = carry[:carried], carry[carried:]
        body.arguments(now, len(body_consts))
        body.results(then)
        body.run()
        return [*then, *now]

    return b.while_loop(places, test, turn)[:carried]


def _cond(
    b: Builder,
    item: ControlItem,
    calls: list[_Call],
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
