"""The native code of the worker pool, written with the IR builder.

The pool's state is one block of memory, a cache line for each group of fields. A job
is `function(context, i)` for i = 0 .. count-1. Its chunks are handed out by a ticket:
the job's generation in the high half and the next chunk in the low half, taken by
compare-and-swap. A worker reads ticket, job, then swaps: success proves that the job
belongs to the ticket. The caller works too, then waits until all chunks are done.

Whoever waits spins a little, since work comes in bursts, then lets others run, then
sleeps in the kernel (futex). Nothing here touches Python.
"""

from __future__ import annotations

from dataclasses import dataclass

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I8, I32, I64, PTR, Operand, Type, Value

# Offsets of the fields.
TICKET = 0
COUNT, FUNCTION, CONTEXT = 64, 72, 80
DONE = 128
WAKE = 192
SLEEPERS = 256
WAITING = 320  # the caller sleeps until DONE is COUNT
BUSY = 384
STARTED, WANTED, REGISTERED, LAST_CPU = 448, 452, 456, 460
CPUS, CPUS_SIZE = 512, 128  # the processors that the process may use, a bit each
THREADS = 640  # kernel ids of the workers
MAX_WORKERS = 256
STATE_SIZE = THREADS + 4 * MAX_WORKERS

_NO_CHUNK = 0xFFFFFFFF
_GENERATION = 1 << 32
_FUTEX_WAIT, _FUTEX_WAKE = 128, 129  # private
_WORKER_SPINS = 4000
_CALLER_SPINS = 2000
_CALLER_YIELDS = 100
# Beyond this many workers the kernel finds an idle processor without our help.
_FEW_WORKERS = 32


@dataclass(frozen=True)
class System:
    """What differs between processors: the pause instruction and call numbers."""

    pause: str
    futex: int
    set_affinity: int
    thread_id: int


SYSTEMS = {
    "x86_64": System("llvm.x86.sse2.pause", 202, 203, 186),
    "aarch64": System("llvm.aarch64.hint", 98, 122, 178),
}
IMPORTS = ("pthread_create", "pthread_detach", "sched_yield", "sched_getcpu", "syscall")


def pool_module(module: Module, system: System) -> str:
    """IR with `parallel_for(function, context, count)`; it imports `pool_state`."""
    _run_chunks(module, system)
    _worker(module, system)
    _avoid_processor(module, system)
    _start(module)
    _parallel_for(module, system)
    return "@pool_state = external global i8\n" + module.text()


def _state(b: Builder) -> Value:
    return Value("@pool_state", PTR, b)


def _at(b: Builder, field: int) -> Value:
    return b.offset(_state(b), field, I8)


def _load(b: Builder, field: int, type_: Type) -> Value:
    text = f"load atomic {type_}, ptr {_at(b, field)} seq_cst, align {type_.size}"
    return b.instruction(text, type_)


def _store(b: Builder, field: int, value: Value) -> None:
    place = f"ptr {_at(b, field)} seq_cst, align {value.type.size}"
    b.emit(f"  store atomic {value.type} {value}, {place}")


def _set(b: Builder, field: int, type_: Type, number: int) -> None:
    _store(b, field, b.const(type_, number))


def _add(b: Builder, field: int, type_: Type, number: int) -> Value:
    """Add atomically; gives the value before."""
    text = f"atomicrmw add ptr {_at(b, field)}, {type_} {number} seq_cst"
    return b.instruction(text, type_)


def _swap(b: Builder, field: int, expected: Value, new: Value) -> Value:
    """Store `new` if the field is as expected; whether it was."""
    pair = Type(f"{{ {new.type}, i1 }}")
    operands = f"{new.type} {expected}, {new.type} {new} seq_cst seq_cst"
    result = b.instruction(f"cmpxchg ptr {_at(b, field)}, {operands}", pair)
    return b.instruction(f"extractvalue {{ {new.type}, i1 }} {result}, 1", Type("i1"))


def _pause(b: Builder, system: System) -> None:
    argument = [b.const(I32, 1)] if "aarch64" in system.pause else []
    b.call(system.pause, None, *argument)


def _syscall(b: Builder, number: int, *arguments: Value) -> Value:
    """A system call; the C function takes any number of words."""
    words = [b.const(I64, number)]
    for a in arguments:
        words.append(a if a.type == PTR else b.convert(a, "i64"))
    words += [b.const(I64, 0)] * (7 - len(words))
    values = ", ".join(f"{w.type} {w}" for w in words)
    b.module.declare_variadic("syscall", I64, [I64])
    return b.instruction(f"call i64 (i64, ...) @syscall({values})", I64)


def _sleep(b: Builder, system: System, field: int, value: Value) -> None:
    """Sleep while the i32 field has this value."""
    _syscall(b, system.futex, _at(b, field), b.const(I32, _FUTEX_WAIT), value)


def _wake_all(b: Builder, system: System, field: int) -> None:
    everybody = b.const(I32, 0x7FFFFFFF)
    _syscall(b, system.futex, _at(b, field), b.const(I32, _FUTEX_WAKE), everybody)


def _run_chunks(module: Module, system: System) -> None:
    """Take chunks of the current job until none is left."""
    b = module.function("run_chunks", [], exported=False)

    def take(_: Values) -> Values:
        ticket = _load(b, TICKET, I64)
        count, function = _load(b, COUNT, I64), _load(b, FUNCTION, PTR)
        context = _load(b, CONTEXT, PTR)
        index = ticket & _NO_CHUNK
        left = b.compare("lt", index, count, unsigned=True)

        def attempt() -> Values:
            taken = _swap(b, TICKET, ticket, ticket + 1)
            with b.when(taken):
                b.call(function, None, context, index)
                before = _add(b, DONE, I32, 1)
                last = b.eq(before + 1, b.convert(count, "i32"))
                with b.when(last), b.when(b.ne(_load(b, WAITING, I32), 0)):
                    _wake_all(b, system, DONE)
            return [b.const(left.type, 1)]

        return b.if_(left, attempt, lambda: [b.const(left.type, 0)])

    b.while_loop([b.const(Type("i1"), 1)], lambda c: c[0], take)
    b.ret()


def _worker(module: Module, system: System) -> None:
    """Wait for work, spinning and then sleeping, and do it; for ever."""
    b = module.function("worker", [PTR], PTR, exported=False)
    slot = _add(b, REGISTERED, I32, 1)
    place = b.offset(_at(b, THREADS), slot, I32)
    b.store(b.convert(_syscall(b, system.thread_id), "i32"), place)

    def wait(seen: Values) -> Values:
        def waiting(c: Values) -> Value:
            return b.eq(_load(b, WAKE, I32), seen[0]) & (c[0] < _WORKER_SPINS)

        def spin(c: Values) -> Values:
            _pause(b, system)
            return [c[0] + 1]

        b.while_loop([b.const(I32, 0)], waiting, spin)
        with b.when(b.eq(_load(b, WAKE, I32), seen[0])):
            _add(b, SLEEPERS, I32, 1)
            _sleep(b, system, WAKE, seen[0])
            _add(b, SLEEPERS, I32, -1)
        now = _load(b, WAKE, I32)
        with b.when(b.ne(now, seen[0])):
            b.call("run_chunks", None)
        return [now]

    b.while_loop([b.const(I32, 0)], lambda c: b.const(Type("i1"), 1), wait)
    b.ret(Value("null", PTR, b))


def _avoid_processor(module: Module, system: System) -> None:
    """Keep the workers off the caller's processor.

    A sleeper tends to be woken on the processor of its waker, where it then waits
    for milliseconds until the scheduler moves it. The system is asked only when the
    caller has moved.
    """
    b = module.function("avoid_processor", [], exported=False)
    count = _load(b, REGISTERED, I32)
    cpu = b.call("sched_getcpu", I32)
    moved = b.ne(_load(b, LAST_CPU, I32), cpu + 1) & (count > 0)
    known = b.compare("lt", cpu, 8 * CPUS_SIZE, unsigned=True)
    with b.when(moved & known & (count < _FEW_WORKERS)):
        _store(b, LAST_CPU, cpu + 1)
        mask = b.scratch(CPUS_SIZE)
        b.copy(mask, _at(b, CPUS), CPUS_SIZE)
        word = b.offset(mask, b.convert(b.lshr(cpu, 6), "i64"), I64)
        bit = b.shl(1, b.convert(cpu & 63, "i64"))
        b.store(b.load(I64, word) & ~bit, word)
        with b.loop(0, b.convert(count, "i64")) as loop:
            thread = b.load(I32, b.offset(_at(b, THREADS), loop.index, I32))
            size = b.const(I64, CPUS_SIZE)
            # An empty mask is refused, which leaves the worker where it may be.
            _syscall(b, system.set_affinity, thread, size, mask)
    b.ret()


def _start(module: Module) -> None:
    """Make the threads: at the first job, and again in a forked process."""
    b = module.function("start", [], exported=False)
    _set(b, STARTED, I32, 1)
    thread = b.scratch(8)
    null = Value("null", PTR, b)
    with b.loop(0, b.convert(_load(b, WANTED, I32), "i64")):
        worker = b.function_address("worker")
        failed = b.call("pthread_create", I32, thread, null, worker, null)
        with b.when(b.eq(failed, 0)):
            b.call("pthread_detach", I32, b.load(I64, thread))
    b.ret()


def _parallel_for(module: Module, system: System) -> None:
    """Run a job on the caller and the workers; inline when they are busy."""
    b = module.function("parallel_for", [PTR, PTR, I64])
    function, context, count = b.arguments
    several = (count > 1) & b.ne(_load(b, WANTED, I32), 0) & (count < _NO_CHUNK)

    def in_parallel() -> Values:
        zero, one = b.const(I32, 0), b.const(I32, 1)
        free = _swap(b, BUSY, zero, one)

        def run() -> Values:
            with b.when(b.eq(_load(b, STARTED, I32), 0)):
                b.call("start", None)
            _publish(b, system)
            b.call("run_chunks", None)
            _join(b, system, b.convert(count, "i32"))
            _set(b, BUSY, I32, 0)
            return [b.const(Type("i1"), 1)]

        return b.if_(free, run, lambda: [b.const(Type("i1"), 0)])

    done = b.if_(several, in_parallel, lambda: [b.const(Type("i1"), 0)])
    with b.when(~done[0]), b.loop(0, count) as loop:
        b.call(function, None, context, loop.index)
    b.ret()


def _publish(b: Builder, system: System) -> None:
    """Close the old job, write the new one, open it, wake the sleepers."""
    function, context, count = b.arguments
    generation = _load(b, TICKET, I64) & -_GENERATION
    _store(b, TICKET, generation | _NO_CHUNK)
    _store(b, COUNT, count)
    _store(b, FUNCTION, function)
    _store(b, CONTEXT, context)
    _set(b, DONE, I32, 0)
    _store(b, TICKET, generation + _GENERATION)
    b.call("avoid_processor", None)
    _add(b, WAKE, I32, 1)
    with b.when(b.ne(_load(b, SLEEPERS, I32), 0)):
        _wake_all(b, system, WAKE)


def _join(b: Builder, system: System, count: Operand) -> None:
    """Wait until every chunk is done: spin, then yield, then sleep."""

    def unfinished(_: Values) -> Value:
        return b.ne(_load(b, DONE, I32), count)

    def wait(turn: Values) -> Values:
        _pause(b, system)
        with b.when(turn[0] > _CALLER_SPINS):
            b.call("sched_yield", I32)
        with b.when(turn[0] > _CALLER_SPINS + _CALLER_YIELDS):
            _set(b, WAITING, I32, 1)
            done = _load(b, DONE, I32)
            with b.when(b.ne(done, count)):
                _sleep(b, system, DONE, done)
            _set(b, WAITING, I32, 0)
        return [turn[0] + 1]

    b.while_loop([b.const(I32, 0)], unfinished, wait)
