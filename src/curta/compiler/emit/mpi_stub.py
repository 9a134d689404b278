"""The native function between a program and MPI: `i64 collective(ptr table)`.

It says in which collective the process is (which is asked when a wait is too long),
counts what is sent, and reports an error of MPI. Everything that differs between
collectives and hosts is among its constant words, so that there are few such functions.
"""

from __future__ import annotations

from typing import Any

from curta.compiler.callee import DONE, STOPPED
from curta.compiler.code_generator import QUICK
from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.types import I8, I32, I64, PTR, Value
from curta.compiler.lower.mpi_call import MPICallee, StubForm
from curta.compiler.machine_code.linked import ModuleSource
from curta.compiler.targets import Target
from curta.hosts.mpi_calls import (
    BEGUN,
    FLAG,
    OPERAND,
    REQUEST,
    RESULT,
    STATUS,
    Argument,
    Communicator,
    Named,
    Slot,
)

_NAME = "collective"
# The constant words: MPI's function, where to say in which collective the process is,
# its number, where to count, how many bytes, what reports errors, where the request is
# kept, how many bytes of the result are copied from the operand before the call, and
# how many are cleared; then the arguments.
_FUNCTION, _SITE, _NUMBER, _COUNTS, _BYTES = range(5)
_REPORT, _REQUEST, _COPIED, _CLEARED, _FIRST = range(5, 10)


def constant_words(callee: MPICallee) -> int:
    """Return the number of constant words of a collective's native function."""
    return _FIRST + len(callee.call.arguments)


def stub(callee: MPICallee, target: Target) -> ModuleSource:
    """Return the code of a collective's native function."""
    form, call = callee.form, callee.call
    module = Module.of(target)
    b = module.function(_NAME, [PTR], I64)
    table = _Table(b, form.arrays)
    named = _named(b, table, form, prepared=call.pairs is not None)
    given = [
        named[x]
        if isinstance(x, str) and x in named
        else table.word(_FIRST + i, _type(x, target))
        for i, x in enumerate(call.arguments)
    ]
    site = table.word(_SITE)
    if not form.polls:
        b.store(table.word(_NUMBER, I64), site)
    status = b.call(table.word(_FUNCTION), I32, *given)
    if not form.polls:
        b.store(b.const(I64, 0), site)
    if form.begins:
        b.store(table.word(_REQUEST), table.array(0))
    elif form.polls:
        b.store(named[BEGUN], table.array(0))
    if form.request is None:
        _count(b, table.word(_COUNTS), table.word(_BYTES, I64))
    failed = b.ne(status, 0)
    with b.when(failed):
        b.call(table.word(_REPORT), None, status)
    b.ret(b.select(failed, b.const(I64, STOPPED), b.const(I64, DONE)))
    return ModuleSource.of(target, module.text(), QUICK, [_NAME])


class _Table:
    """The words that a native function is called with."""

    def __init__(self, b: Builder, arrays: int) -> None:
        self._b, self._arrays = b, arrays
        (self._table,) = b.arguments

    def array(self, number: int) -> Value:
        """The address of a result or an operand."""
        return self._b.load(PTR, self._b.offset(self._table, number, PTR))

    def word(self, number: int, type_: Any = PTR) -> Value:
        """A constant word."""
        at = self._b.offset(self._table, self._arrays + number, PTR)
        return self._b.load(type_, at)


def _named(
    b: Builder, table: _Table, form: StubForm, prepared: bool
) -> dict[str, Value]:
    """The arguments that are arrays or memory of the call; results are `prepared`."""
    if form.request is not None:
        begun = b.load(PTR, table.array(form.request))
        return {BEGUN: begun, FLAG: b.scratch(8, align=8)}
    named = {OPERAND: table.array(form.operand), RESULT: table.array(form.result)}
    if prepared:
        b.copy(named[RESULT], named[OPERAND], table.word(_COPIED, I64))
        b.fill(named[RESULT], 0, table.word(_CLEARED, I64))
    return named


def _type(argument: Argument, target: Target) -> Any:
    """The type of an argument that is a constant word."""
    if isinstance(argument, (Named, Slot, Communicator)):
        return PTR if target.transport.handle_bytes == 8 else I32
    return PTR if argument in (STATUS, REQUEST) else I32


def _count(b: Builder, counts: Value, nbytes: Value) -> None:
    calls = b.offset(counts, 8, I8)
    b.store(b.load(I64, counts) + nbytes, counts)
    b.store(b.load(I64, calls) + 1, calls)
