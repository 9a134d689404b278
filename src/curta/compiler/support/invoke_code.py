"""The native side of calls of programs, written with the IR builder.

A program is `i64 f(ptr table)`. `compiler/calls.py` says what is in a table, and fills
one in for Python; here is what does so for native code, wherever arguments come from:

    i64 invoke(ptr record, ptr table, ptr collect, ptr given)

takes an arena, has `i1 collect(record, given, table)` store the addresses of arrays, or
say that they are not as promised, and calls the program. The record begins with what
`calls.head` gives. It returns RAN, MISSED, or FAILED with an exception of Python: for
want of memory, or from the handler of a signal, which ended the program.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I64, PTR, Value

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


def emit_invoke(module: Module) -> None:
    """Add `invoke` to a module."""
    _run(module)
    b = module.function("invoke", [PTR, PTR, PTR, PTR], I64, exported=False)
    record, table, collect, given = b.arguments
    arrays = word(b, record, ARRAYS)
    emit_constants(b, record, table)
    needed = word(b, record, ARENA_BYTES)

    def call() -> Values:
        fits = b.call(collect, I1, record, given, table)
        return b.if_(
            fits,
            lambda: [b.call("run", I64, record, table)],
            lambda: [b.const(I64, MISSED)],
        )

    def call_with_arena() -> Values:
        arena = b.call("take_arena", PTR, needed)

        def go() -> Values:
            b.store(arena, at(b, table, arrays + word(b, record, ARENA_WORD)))
            (status,) = call()
            raised = b.eq(status, FAILED)
            errors = b.scratch(24, align=8)
            error = [b.offset(errors, i, PTR) for i in range(3)]
            with b.when(raised):  # Python may be called
                b.call("PyErr_Fetch", None, *error)
            b.call("give_arena", None, arena)
            with b.when(raised):
                b.call("PyErr_Restore", None, *(b.load(PTR, x) for x in error))
            return [status]

        return b.if_(b.is_null(arena), lambda: [b.const(I64, FAILED)], go)

    b.ret(b.if_(b.eq(needed, 0), call, call_with_arena)[0])


def emit_constants(b: Builder, record: Value, table: Value) -> None:
    """Copy the constants of a record to its table."""
    arrays = word(b, record, ARRAYS)
    with b.loop(0, word(b, record, CONSTANTS)) as loop:
        constant = word(b, record, loop.index + HEAD_WORDS)
        b.store(constant, at(b, table, arrays + loop.index))


def _run(module: Module) -> None:
    """Call the function of a record on a complete table, as the record says."""
    b = module.function("run", [PTR, PTR], I64, exported=False)
    record, table = b.arguments
    function, mode = b.load(PTR, record), word(b, record, MODE)
    ran = b.const(I64, RAN)

    def with_gil() -> Values:
        b.call(function, I64, table)
        return [ran]

    def without_gil() -> Values:
        state = b.call("PyEval_SaveThread", PTR)
        b.call(function, I64, table)
        b.call("PyEval_RestoreThread", None, state)
        return [ran]

    def cancellable() -> Values:
        token_at = word(b, record, ARRAYS) + word(b, record, TOKEN_WORD)
        b.call(
            CANCELLATION, I64, function, table, token_at
        )  # it may have come too late
        raised = b.call("PyErr_Occurred", PTR)
        return [b.select(b.is_null(raised), ran, FAILED)]

    def released() -> Values:
        return b.if_(b.eq(mode, CALL_CANCELLABLE), cancellable, without_gil)

    b.ret(b.if_(b.eq(mode, CALL), with_gil, released)[0])


# ---- small pieces


def at(b: Builder, base: Value, index: Value | int) -> Value:
    """The address of a word."""
    return b.offset(base, index, I64)


def word(b: Builder, base: Value, index: Value | int) -> Value:
    return b.load(I64, at(b, base, index))


def words(b: Builder, count: Value) -> Value:
    """Room for so many words on the stack."""
    return b.instruction(f"alloca i64, i64 {count}, align 16", PTR)
