"""The semaphore for calls of OpenBLAS and its buffers, written with the IR builder.

Who calls a routine enters before and leaves after; no more calls run at a time than
there are buffers. All takes place in native code, where no signal comes in between.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I8, I32, I64, PTR, Value

ENTER, LEAVE = "enter_blas", "leave_blas"
STATE = "blas_buffers"
# Offsets of the state: a semaphore of the C library, how many may be in at once, where
# the buffers lie, how many there are, the bytes of each, and how many are given out.
SEMAPHORE, MOST, BASE, COUNT, BYTES, GIVEN = 0, 64, 72, 80, 88, 96
STATE_SIZE = 104

EXPORTS = (ENTER, LEAVE, "map_buffer", "before_fork", "in_parent", "in_child")


def buffers_module(module: Module) -> None:
    """IR with the functions.

    `ptr map_buffer(..)` is what OpenBLAS calls instead of `mmap`. The last three are
    for `fork`: nobody is in while a process is copied, and no lock of OpenBLAS taken.
    """
    _semaphore(module)
    _map_buffer(module)
    _forks(module)


def unlimited_module(module: Module) -> None:
    """IR for systems where nothing bounds the calls."""
    for name in (ENTER, LEAVE):
        module.function(name, []).ret()


def caller_module(module: Module, count: int) -> None:
    """IR with `void call(ptr routine, ptr words)`, which takes a permit of its own."""
    b = module.function("call", [PTR, PTR])
    routine, words = b.arguments
    given = [b.load(PTR, b.offset(words, i, PTR)) for i in range(count)]
    b.call(ENTER, None)
    b.call(routine, None, *given)
    b.call(LEAVE, None)
    b.ret()


def _semaphore(module: Module) -> None:
    b = module.function(ENTER, [])

    def interrupted(_: Values) -> Value:  # by a signal
        return b.ne(b.call("sem_wait", I32, _field(b, SEMAPHORE)), 0)

    b.while_loop([], interrupted, lambda _: [])
    b.ret()
    b = module.function(LEAVE, [])
    b.call("sem_post", I32, _field(b, SEMAPHORE))
    b.ret()


def _map_buffer(module: Module) -> None:
    """One of the buffers, or what the system gives."""
    b = module.function("map_buffer", [PTR, I64, I32, I32, I32, I64], PTR)
    size = b.arguments[1]
    limit = b.load(I64, _field(b, BYTES))
    fits = b.compare("le", size, limit, unsigned=True)

    def take() -> Values:
        text = f"atomicrmw add ptr {_field(b, GIVEN)}, i64 1 seq_cst"
        return [b.instruction(text, I64)]

    number = b.if_(fits, take, lambda: [b.const(I64, 1 << 62)])[0]
    there = b.compare("lt", number, b.load(I64, _field(b, COUNT)))
    base = b.load(PTR, _field(b, BASE))
    result = b.if_(
        there,
        lambda: [b.offset(base, b.mul(number, limit), I8)],
        lambda: [b.call("mmap", PTR, *b.arguments)],
    )
    b.ret(result[0])


def _forks(module: Module) -> None:
    for name, each in (("before_fork", ENTER), ("in_parent", LEAVE)):
        b = module.function(name, [])
        with b.loop(0, b.load(I64, _field(b, MOST))):
            b.call(each, None)
        b.ret()
    b = module.function("in_child", [])  # where nobody waits
    most = b.convert(b.load(I64, _field(b, MOST)), "i32")
    b.call("sem_init", I32, _field(b, SEMAPHORE), b.const(I32, 0), most)
    b.ret()


def _field(b: Builder, field: int) -> Value:
    return b.offset(b.external(STATE), field, I8)
