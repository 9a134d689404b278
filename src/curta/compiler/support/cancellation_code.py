"""The native code of calls that can be cancelled, written with the IR builder.

A *cancellation token* is two words: whether the call is to stop, and the address of
`poll`, or null. Long loops look at it now and then (llvm/polls.py). In the thread where
Python answers signals `poll` has Python run their handlers, if it is some time since
the last look; if one raises, the exception stays in the thread and the call is to stop.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I8, I32, I64, PTR, Type, Value

FLAG, POLL = 0, 8
TOKEN_WORDS = 2
# Offsets of the state: the thread that answers signals, the nanoseconds of its last
# look, and the token of the call that it makes.
STATE = "cancellation"
MAIN, LOOKED, CURRENT = 0, 8, 16
STATE_SIZE = 24

EXPORTS = ("poll", "poll_current", "call_cancellable")
_PATIENCE = 30_000_000  # nanoseconds between looks at signals


def cancellation_module(module: Module, clock: int) -> None:
    """IR with the functions; `clock` is the number of the system's monotonic clock.

    `i64 poll(ptr token)` says whether the call is to stop. `void poll_current()` polls
    for the call that this thread makes, if it answers signals and makes one. `i64
    call_cancellable(function, table, i64 word)` calls a function on a table with a
    token at a word, without Python's lock; an exception may be set afterwards.
    """
    _poll(module, clock)
    _poll_current(module)
    _call_cancellable(module)


def _poll(module: Module, clock: int) -> None:
    b = module.function("poll", [PTR], I64)
    (token,) = b.arguments

    def look() -> Values:
        with b.when(_is_main(b)), b.when(_is_time(b, clock)):
            lock = b.call("PyGILState_Ensure", I32)
            raised = b.call("PyErr_CheckSignals", I32)
            b.call("PyGILState_Release", None, lock)
            with b.when(b.ne(raised, 0)):
                _store(b, token, b.const(I64, 1))
        return []

    with b.when(b.eq(_load(b, I64, token), 0)):
        look()
    b.ret(_load(b, I64, token))


def _is_main(b: Builder) -> Value:
    return b.eq(b.call("pthread_self", I64), _load(b, I64, _state(b, MAIN)))


def _is_time(b: Builder, clock: int) -> Value:
    """Whether the last look was long ago; if so, this is the last one."""
    time = b.scratch(16, align=8)
    b.call("clock_gettime", I32, b.const(I32, clock), time)
    seconds, rest = b.load(I64, time), b.load(I64, b.offset(time, 1, I64))
    now = b.mul(seconds, 1_000_000_000) + rest
    late = b.sub(now, _load(b, I64, _state(b, LOOKED))) > _PATIENCE
    with b.when(late):
        _store(b, _state(b, LOOKED), now)
    return late


def _poll_current(module: Module) -> None:
    b = module.function("poll_current", [])
    with b.when(_is_main(b)):
        token = _load(b, PTR, _state(b, CURRENT))
        with b.when(~b.is_null(token)):
            b.call("poll", I64, token)
    b.ret()


def _call_cancellable(module: Module) -> None:
    b = module.function("call_cancellable", [PTR, PTR, I64], I64)
    function, table, word = b.arguments
    token = b.scratch(8 * TOKEN_WORDS, align=8)
    b.store(b.const(I64, 0), b.offset(token, FLAG, I8))
    b.store(b.function_address("poll"), b.offset(token, POLL, I8))
    b.store(token, b.offset(table, word, I64))
    main = _is_main(b)
    before = _load(b, PTR, _state(b, CURRENT))
    with b.when(main):
        _store(b, _state(b, CURRENT), token)
    python = b.call("PyEval_SaveThread", PTR)
    status = b.call(function, I64, table)
    b.call("PyEval_RestoreThread", None, python)
    with b.when(main):
        _store(b, _state(b, CURRENT), before)
    b.ret(status)


def _state(b: Builder, field: int) -> Value:
    return b.offset(b.external(STATE), field, I8)


def _load(b: Builder, type_: Type, address: Value) -> Value:
    return b.instruction(
        f"load atomic {type_}, ptr {address} monotonic, align 8", type_
    )


def _store(b: Builder, address: Value, value: Value) -> None:
    b.emit(f"  store atomic {value.type} {value}, ptr {address} monotonic, align 8")
