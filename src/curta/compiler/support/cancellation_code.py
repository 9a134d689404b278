"""The native code of cancellation, written with the IR builder.

A *cancellation token* is two words: whether the call is to stop, and the address of
`poll`, or null. Long loops look at it now and then (llvm/polls.py). In the thread where
Python answers signals `poll` has Python run their handlers, if it is some time since
the last look; if one raises, the exception stays in the thread and the call is to stop.
"""

from __future__ import annotations

import time

from curta.compiler.callee import FLAG, POLL
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.functions import function
from curta.compiler.llvm.types import I8, I32, I64, PTR, Type, Value
from curta.compiler.support.objects import put, word

TOKEN_WORDS = 2
# Offsets of the state: the thread that answers signals, the nanoseconds of its last
# look, and the token of the call that it makes.
STATE = "cancellation"
MAIN, LOOKED, CURRENT = 0, 8, 16
STATE_SIZE = 24

_PATIENCE = 30_000_000  # nanoseconds between looks at signals


@function(PTR, result=I64)
def poll(b: Builder, token: Value) -> Value:
    """Whether the call of a token is to stop."""
    with b.when(b.eq(_load(b, I64, token), 0)), b.when(_is_main(b)):
        with b.when(_is_time(b)):
            lock = b.call("PyGILState_Ensure", I32)
            raised = b.call("PyErr_CheckSignals", I32)
            b.call("PyGILState_Release", None, lock)
            with b.when(b.ne(raised, 0)):
                _store(b, token, b.const(I64, 1))
    return _load(b, I64, token)


def _is_main(b: Builder) -> Value:
    return b.eq(b.call("pthread_self", I64), _load(b, I64, _state(b, MAIN)))


def _is_time(b: Builder) -> Value:
    """Whether the last look was long ago; if so, this is the last one."""
    read = b.scratch(16, align=8)
    clock = b.const(I32, time.CLOCK_MONOTONIC)  # a number of the system
    b.call("clock_gettime", I32, clock, read)
    now = word(read, 0) * 1_000_000_000 + word(read, 1)
    late = now - _load(b, I64, _state(b, LOOKED)) > _PATIENCE
    with b.when(late):
        _store(b, _state(b, LOOKED), now)
    return late


@function()
def poll_current(b: Builder) -> None:
    """Poll for the call that this thread makes, if it answers signals and makes one."""
    b.return_unless(_is_main(b))
    token = _load(b, PTR, _state(b, CURRENT))
    with b.when(~b.is_null(token)):
        poll(b, token)


@function(PTR, PTR, I64, result=I64)
def call_cancellable(b: Builder, code: Value, table: Value, at: Value) -> Value:
    """Call a function on a table with a token at a word, without Python's lock.

    An exception may be set afterwards.
    """
    token = b.scratch(8 * TOKEN_WORDS, align=8)
    b.store(b.const(I64, 0), b.offset(token, FLAG, I8))
    b.store(poll.address(b), b.offset(token, POLL, I8))
    put(table, at, token)
    main = _is_main(b)
    before = _load(b, PTR, _state(b, CURRENT))
    with b.when(main):
        _store(b, _state(b, CURRENT), token)
    python = b.call("PyEval_SaveThread", PTR)
    status = b.call(code, I64, table)
    b.call("PyEval_RestoreThread", None, python)
    with b.when(main):
        _store(b, _state(b, CURRENT), before)
    return status


def _state(b: Builder, offset: int) -> Value:
    return b.offset(b.external(STATE), offset, I8)


def _load(b: Builder, type_: Type, address: Value) -> Value:
    return b.instruction(
        f"load atomic {type_}, ptr {address} monotonic, align 8", type_
    )


def _store(b: Builder, address: Value, value: Value) -> None:
    b.emit(f"  store atomic {value.type} {value}, ptr {address} monotonic, align 8")


EXPORTS = (poll, poll_current, call_cancellable)
