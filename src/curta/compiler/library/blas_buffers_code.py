"""The semaphore for calls of OpenBLAS and its buffers, written with the IR builder.

A caller of a routine enters before and leaves after the call; at most as many calls run
as there are buffers. Both steps are native code, which signals do not interrupt.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder, Values
from curta.compiler.llvm.functions import Function, function
from curta.compiler.llvm.types import I8, I32, I64, PTR, Value

ENTER, LEAVE = "enter_blas", "leave_blas"
STATE = "blas_buffers"
# Offsets of the state: a semaphore of the C library, how many may be in at once, where
# the buffers lie, how many there are, the bytes of each, and how many are given out.
SEMAPHORE, MOST, BASE, COUNT, BYTES, GIVEN = 0, 64, 72, 80, 88, 96
STATE_SIZE = 104


@function(name=ENTER)
def enter(b: Builder) -> None:
    def interrupted(_: Values) -> Value:  # by a signal
        return b.ne(b.call("sem_wait", I32, _field(b, SEMAPHORE)), 0)

    b.while_loop([], interrupted, lambda _: [])


@function(name=LEAVE)
def leave(b: Builder) -> None:
    b.call("sem_post", I32, _field(b, SEMAPHORE))


@function(PTR, I64, I32, I32, I32, I64, result=PTR)
def map_buffer(b: Builder, at: Value, size: Value, *others: Value) -> Value:
    """The replacement of `mmap` in OpenBLAS: a buffer, or memory of the system."""
    limit = b.load(I64, _field(b, BYTES))
    with b.when(b.compare("le", size, limit, unsigned=True)):
        text = f"atomicrmw add ptr {_field(b, GIVEN)}, i64 1 seq_cst"
        number = b.instruction(text, I64)
        address = b.offset(b.load(PTR, _field(b, BASE)), number * limit, I8)
        b.return_when(number < b.load(I64, _field(b, COUNT)), address)
    return b.call("mmap", PTR, at, size, *others)


# ---- for `fork`: nobody is in while a process is copied, and no lock of OpenBLAS taken


@function()
def before_fork(b: Builder) -> None:
    with b.loop(0, b.load(I64, _field(b, MOST))):
        enter(b)


@function()
def in_parent(b: Builder) -> None:
    with b.loop(0, b.load(I64, _field(b, MOST))):
        leave(b)


@function()
def in_child(b: Builder) -> None:  # where nobody waits
    most = b.convert(b.load(I64, _field(b, MOST)), "i32")
    b.call("sem_init", I32, _field(b, SEMAPHORE), b.const(I32, 0), most)


def _field(b: Builder, field: int) -> Value:
    return b.offset(b.external(STATE), field, I8)


EXPORTS = (enter, leave, map_buffer, before_fork, in_parent, in_child)
# Where nothing bounds the calls.
UNLIMITED = tuple(function(name=name)(lambda b: None) for name in (ENTER, LEAVE))


def caller(count: int) -> Function:
    """`void call(ptr routine, ptr words)`, which takes a permit of its own."""

    @function(PTR, PTR)
    def call(b: Builder, routine: Value, words: Value) -> None:
        given = [b.load(PTR, b.offset(words, i, PTR)) for i in range(count)]
        b.call(ENTER, None)
        b.call(routine, None, *given)
        b.call(LEAVE, None)

    return call
