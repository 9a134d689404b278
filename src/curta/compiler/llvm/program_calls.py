"""Calls of native functions: a table of addresses for each, and the code that calls."""

from __future__ import annotations

from typing import NamedTuple

from curta.compiler.callee import DONE, STOPPED
from curta.compiler.llvm.register_values import RegisterValues
from curta.compiler.llvm.types import I64, PTR, Value
from curta.compiler.loops.nodes import Buffer, Call


class CallTarget(NamedTuple):
    """The address of a native function, its constant words, and how many they are."""

    code: Value
    words: Value
    size: int


class ProgramCall:
    """A table for a call, with its constants; an iteration only stores addresses."""

    def __init__(
        self,
        values: RegisterValues,
        call: Call,
        target: CallTarget,
        token: Value | None,
    ) -> None:
        b, program = values.b, call.program
        self.values, self.call, (self.code, words, count) = values, call, target
        arrays, self.count = len(program.signature), count
        self.table: Value = b.scratch(8 * max(1, arrays + count), align=8)
        b.copy(b.offset(self.table, arrays, PTR), words, b.module.pointer_bytes * count)
        if program.cancellable and token is not None:
            b.store(token, b.offset(self.table, arrays + program.token_word, PTR))
        self.unknown: dict[int, Buffer] = dict(enumerate(call.results + call.operands))
        if call.arena is not None and program.arena_bytes:
            self.unknown[arrays + program.arena_word] = call.arena
        if call.every > 1:
            self.times: Value = b.scratch(8, align=8)
            b.store(b.const(I64, 0), self.times)

    def settle(self) -> None:
        """Store the addresses that are known by now."""
        b, known = self.values.b, self.values.has_pointer
        for word in [i for i, x in self.unknown.items() if known(x)]:
            address = self.values.pointer(self.unknown.pop(word))
            b.store(address, b.offset(self.table, word, PTR))

    def run(self) -> None:
        """Call the program, if it is time; return from the function if it stopped."""
        b, every = self.values.b, self.call.every
        if every == 1:
            return self._run()
        time = b.load(I64, self.times) + 1
        b.store(time, self.times)
        with b.when(b.eq(b.and_(time, every - 1), 0)):
            self._run()
        return None

    def _run(self) -> None:
        b, program = self.values.b, self.call.program
        if program.is_host_call:  # its last constant is set if it ran to its end
            words = len(program.signature) + self.count
            status_word = b.offset(self.table, words - 1, I64)
            b.store(b.const(I64, STOPPED), status_word)
            b.call(self.code, None, self.table)
            status = b.load(I64, status_word)
        else:
            status = b.call(self.code, I64, self.table)
        if program.runs_python or program.cancellable:
            b.return_when(b.ne(status, DONE), STOPPED)
