"""Memory that native threads share: atomic fields, pauses, sleeping and waking.

Used by modules of IR whose threads meet in one block of memory, which they import as
`state`. A field is an offset in bytes; all accesses are sequentially consistent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from curta._base.lazy_dataclass import dataclass
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import I1, I8, I32, I64, PTR, Type, Value

STATE = "state"

_FUTEX_WAIT, _FUTEX_WAKE = 128, 129  # private


@dataclass(frozen=True)
class System:
    """Differences between processors: the pause instruction and call numbers."""

    pause: str
    futex: int
    set_affinity: int
    thread_id: int


SYSTEMS = {
    "x86_64": System("llvm.x86.sse2.pause", 202, 203, 186),
    "aarch64": System("llvm.aarch64.hint", 98, 122, 178),
}


def system(b: Builder) -> System:
    """The features of the processor that code is made for."""
    return SYSTEMS[b.module.machine]


def at(b: Builder, field: int) -> Value:
    return b.offset(b.external(STATE), field, I8)


def load(b: Builder, field: int, type_: Type) -> Value:
    text = f"load atomic {type_}, ptr {at(b, field)} seq_cst, align {type_.size}"
    return b.instruction(text, type_)


def store(b: Builder, field: int, value: Value) -> None:
    target = f"ptr {at(b, field)} seq_cst, align {value.type.size}"
    b.emit(f"  store atomic {value.type} {value}, {target}")


def set(b: Builder, field: int, type_: Type, number: int) -> None:
    store(b, field, b.const(type_, number))


def add(b: Builder, field: int, type_: Type, number: int) -> Value:
    """Add atomically; gives the value before."""
    text = f"atomicrmw add ptr {at(b, field)}, {type_} {number} seq_cst"
    return b.instruction(text, type_)


def swap(b: Builder, field: int, expected: Value, new: Value) -> Value:
    """Store `new` if the field is as expected; whether it was."""
    pair = Type(f"{{ {new.type}, i1 }}")
    operands = f"{new.type} {expected}, {new.type} {new} seq_cst seq_cst"
    result = b.instruction(f"cmpxchg ptr {at(b, field)}, {operands}", pair)
    return b.instruction(f"extractvalue {{ {new.type}, i1 }} {result}, 1", I1)


def pause(b: Builder) -> None:
    name = system(b).pause
    argument = [b.const(I32, 1)] if "aarch64" in name else []
    b.call(name, None, *argument)


def spin_while(b: Builder, waiting: Callable[[], Value], most: int) -> None:
    """Pause while `waiting()` holds, so many times at most."""

    def spin(spins: Sequence[Value]) -> list[Value]:
        pause(b)
        return [spins[0] + 1]

    b.while_loop([b.const(I32, 0)], lambda s: waiting() & (s[0] < most), spin)


def syscall(b: Builder, number: int, *arguments: Value) -> Value:
    """A system call; the C function takes any number of words."""
    words = [b.const(I64, number)]
    for a in arguments:
        words.append(a if a.type == PTR else b.convert(a, "i64"))
    words += [b.const(I64, 0)] * (7 - len(words))
    values = ", ".join(f"{w.type} {w}" for w in words)
    b.module.declare_variadic("syscall", I64, [I64])
    return b.instruction(f"call i64 (i64, ...) @syscall({values})", I64)


def sleep(b: Builder, field: int, value: Value, timeout: Value | None = None) -> None:
    """Sleep while the i32 field has this value, no longer than a `timespec` says."""
    limit = [] if timeout is None else [timeout]
    wait = b.const(I32, _FUTEX_WAIT)
    syscall(b, system(b).futex, at(b, field), wait, value, *limit)


def wake_all(b: Builder, field: int) -> None:
    everybody = b.const(I32, 0x7FFFFFFF)
    syscall(b, system(b).futex, at(b, field), b.const(I32, _FUTEX_WAKE), everybody)


def timespec(b: Builder, nanoseconds: int) -> Value:
    """The address of a `timespec`, for less than a second."""
    timespec = b.scratch(16)
    b.store(b.const(I64, 0), timespec)
    b.store(b.const(I64, nanoseconds), b.offset(timespec, 1, I64))
    return timespec


def start_thread(b: Builder, code: Value) -> Value:
    """Start a thread that runs a function for ever; whether there is one."""
    thread, null = b.scratch(8), b.null
    failed = b.call("pthread_create", I32, thread, null, code, null)
    started = b.eq(failed, 0)
    with b.when(started):
        b.call("pthread_detach", I32, b.load(I64, thread))
    return started
