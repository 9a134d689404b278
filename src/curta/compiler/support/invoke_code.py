"""The native side of calls of programs, written with the IR builder.

A program is `i64 f(ptr table)`. `compiler/machine_code/calls.py` describes the table
and fills it in for calls from Python. This module fills it in for calls from native
code, wherever arguments come from:

    i64 invoke(ptr record, ptr table, ptr collect, ptr given)

takes an arena, has `i1 collect(record, given, table)` store the addresses of arrays, or
say that they are not as promised, and calls the program. The record begins with what
`calls.head` gives. It returns RAN, MISSED, or FAILED with an exception of Python: for
want of memory, or from the handler of a signal, which ended the program.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.functions import function
from curta.compiler.llvm.types import I1, I64, PTR, Value
from curta.compiler.support.objects import at, copy_words, pointer, put, word

# Words of a record; then come the constants, and what `collect` reads.
(
    FUNCTION,
    ARRAYS,
    RESULTS,
    MODE,
    CONSTANTS,
    ARENA_BYTES,
    ARENA_WORD,
    TOKEN_WORD,
) = range(8)
HEAD_WORDS = 8
CALL, CALL_WITHOUT_GIL, CALL_CANCELLABLE = range(3)
# What becomes of a call.
RAN, MISSED, FAILED = range(3)

# Native functions that are given: of arena_code, and of cancellation_code.
ARENAS = ("take_arena", "give_arena")
CANCELLATION = "call_cancellable"


@function(PTR, PTR, PTR, PTR, result=I64)
def invoke(
    b: Builder, record: Value, table: Value, collect: Value, given: Value
) -> Value:
    """Call the program of a record; its table is filled in."""
    put_constants(record, table)
    needed = word(record, ARENA_BYTES)
    with b.when(b.eq(needed, 0)):
        b.ret(collect_and_run(b, record, table, collect, given))
    arena = b.call("take_arena", PTR, needed)
    b.return_when(b.is_null(arena), FAILED)
    put(table, word(record, ARRAYS) + word(record, ARENA_WORD), arena)
    status = collect_and_run(b, record, table, collect, given)
    raised = b.eq(status, FAILED)
    error = [b.scratch(8, align=8) for _ in range(3)]
    with b.when(raised):  # Python may be called
        b.call("PyErr_Fetch", None, *error)
    b.call("give_arena", None, arena)
    with b.when(raised):
        b.call("PyErr_Restore", None, *(b.load(PTR, x) for x in error))
    return status


def put_constants(record: Value, table: Value) -> None:
    """Copy the constants of a record to its table."""
    to = at(table, word(record, ARRAYS))
    copy_words(to, at(record, HEAD_WORDS), word(record, CONSTANTS))


@function(PTR, PTR, PTR, PTR, result=I64)
def collect_and_run(
    b: Builder, record: Value, table: Value, collect: Value, given: Value
) -> Value:
    b.return_unless(b.call(collect, I1, record, given, table), MISSED)
    return run(b, record, table)


@function(PTR, PTR, result=I64)
def run(b: Builder, record: Value, table: Value) -> int:
    """Call the function of a record on a complete table, as the record says."""
    code, mode = pointer(record, FUNCTION), word(record, MODE)
    with b.when(b.eq(mode, CALL)):
        b.call(code, I64, table)
        b.ret(b.const(I64, RAN))
    with b.when(b.eq(mode, CALL_WITHOUT_GIL)):
        state = b.call("PyEval_SaveThread", PTR)
        b.call(code, I64, table)
        b.call("PyEval_RestoreThread", None, state)
        b.ret(b.const(I64, RAN))
    token_at = word(record, ARRAYS) + word(record, TOKEN_WORD)
    b.call(CANCELLATION, I64, code, table, token_at)  # it may have come too late
    b.return_unless(b.is_null(b.call("PyErr_Occurred", PTR)), FAILED)
    return RAN
