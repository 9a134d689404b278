"""The native code of the worker pool, written with the IR builder.

The pool's state is one block of memory, a cache line for each group of fields. A job
is `function(context, i)` for i = 0 .. count-1. Its chunks are handed out by a ticket:
the job's generation in the high half and the next chunk in the low half, taken by
compare-and-swap. A worker reads ticket, job, then swaps: success proves that the job
belongs to the ticket. The caller works too, then waits until all chunks are done.

Several threads may call at once. As each of them works, as many workers take no chunks
meanwhile: one that had a chunk, but no processor, would keep its caller waiting.

A waiting thread spins a little, since work comes in bursts, then lets others run, then
sleeps in the kernel (futex). Nothing here touches Python.
A model of the protocol is explored in tests/runtime/test_protocols.py.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I32, I64, PTR, Operand, Value
from curta.compiler.support import atomics

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
CALLERS = 640  # threads that are in `parallel_for`
KEY = 704  # of what a thread knows alone: not null if it runs chunks already
THREADS = 768  # kernel ids of the workers
MAX_WORKERS = 256
STATE_SIZE = THREADS + 4 * MAX_WORKERS

_NO_CHUNK = 0xFFFFFFFF
_GENERATION = 1 << 32
_WORKER_SPINS = 4000
_CALLER_SPINS = 2000
_CALLER_YIELDS = 100
_CROWDED_PAUSE = 200_000  # nanoseconds until a worker that steps back looks again
# Beyond this many workers the kernel finds an idle processor without our help.
_FEW_WORKERS = 32


EXPORTS = ("parallel_for",)
POLL = "poll_current"  # of cancellation_code
_PATIENCE = 50_000_000  # nanoseconds that a caller waits without a look at signals


def pool_module(module: Module, system: atomics.System) -> None:
    """IR with `parallel_for(function, context, count)`; it imports `state`."""
    _run_chunks(module, system)
    _worker(module, system)
    _avoid_processor(module, system)
    _start(module)
    _parallel_for(module, system)


def _run_chunks(module: Module, system: atomics.System) -> None:
    """Take chunks of the current job until none is left.

    The argument is how many workers come before this one, -1 for the caller.
    """
    b = module.function("run_chunks", [I32], exported=False)
    (rank,) = b.arguments
    pause = atomics.timespec(b, _CROWDED_PAUSE)

    def take(_: Values) -> Values:
        ticket = atomics.load(b, TICKET, I64)
        count, function = atomics.load(b, COUNT, I64), atomics.load(b, FUNCTION, PTR)
        context = atomics.load(b, CONTEXT, PTR)
        index = ticket & _NO_CHUNK
        left = b.compare("lt", index, count, unsigned=True)

        def attempt() -> Values:
            taken = atomics.swap(b, TICKET, ticket, ticket + 1)
            with b.when(taken):
                b.call(function, None, context, index)
                before = atomics.add(b, DONE, I32, 1)
                last = b.eq(before + 1, b.convert(count, "i32"))
                with b.when(last), b.when(b.ne(atomics.load(b, WAITING, I32), 0)):
                    atomics.wake_all(b, system, DONE)
            return [b.const(left.type, 1)]

        def step_back_or_attempt() -> Values:
            callers = atomics.load(b, CALLERS, I32)

            def step_back() -> Values:
                atomics.sleep(b, system, CALLERS, callers, pause)  # nobody wakes it
                return [b.const(left.type, 1)]

            crowded = rank + callers > atomics.load(b, WANTED, I32)
            return b.if_(crowded & (rank >= 0), step_back, attempt)

        return b.if_(left, step_back_or_attempt, lambda: [b.const(left.type, 0)])

    b.while_loop([b.const(I1, 1)], lambda c: c[0], take)
    b.ret()


def _worker(module: Module, system: atomics.System) -> None:
    """Wait for work, spinning and then sleeping, and do it; for ever."""
    b = module.function("worker", [PTR], PTR, exported=False)
    slot = atomics.add(b, REGISTERED, I32, 1)
    address = b.offset(atomics.at(b, THREADS), slot, I32)
    b.store(b.convert(atomics.syscall(b, system.thread_id), "i32"), address)
    _mark(b, address)

    def wait(seen: Values) -> Values:
        def waiting() -> Value:
            return b.eq(atomics.load(b, WAKE, I32), seen[0])

        atomics.spin_while(b, system, waiting, _WORKER_SPINS)
        with b.when(waiting()):
            atomics.add(b, SLEEPERS, I32, 1)
            atomics.sleep(b, system, WAKE, seen[0])
            atomics.add(b, SLEEPERS, I32, -1)
        now = atomics.load(b, WAKE, I32)
        with b.when(b.ne(now, seen[0])):
            b.call("run_chunks", None, slot)
        return [now]

    b.while_loop([b.const(I32, 0)], lambda c: b.const(I1, 1), wait)
    b.ret(b.null)


def _avoid_processor(module: Module, system: atomics.System) -> None:
    """Keep the workers off the caller's processor.

    A sleeper tends to be woken on the processor of its waker, where it then waits
    for milliseconds until the scheduler moves it. The system is asked only when the
    caller has moved.
    """
    b = module.function("avoid_processor", [], exported=False)
    count = atomics.load(b, REGISTERED, I32)
    cpu = b.call("sched_getcpu", I32)
    moved = b.ne(atomics.load(b, LAST_CPU, I32), cpu + 1) & (count > 0)
    known = b.compare("lt", cpu, 8 * CPUS_SIZE, unsigned=True)
    with b.when(moved & known & (count < _FEW_WORKERS)):
        atomics.store(b, LAST_CPU, cpu + 1)
        mask = b.scratch(CPUS_SIZE)
        b.copy(mask, atomics.at(b, CPUS), CPUS_SIZE)
        word = b.offset(mask, b.convert(b.lshr(cpu, 6), "i64"), I64)
        bit = b.shl(1, b.convert(cpu & 63, "i64"))
        b.store(b.load(I64, word) & ~bit, word)
        with b.loop(0, b.convert(count, "i64")) as loop:
            thread = b.load(I32, b.offset(atomics.at(b, THREADS), loop.index, I32))
            size = b.const(I64, CPUS_SIZE)
            # An empty mask is refused, which leaves the worker where it may be.
            atomics.syscall(b, system.set_affinity, thread, size, mask)
    b.ret()


def _start(module: Module) -> None:
    """Make the threads: at the first job, and again in a forked process."""
    b = module.function("start", [], exported=False)
    atomics.set(b, STARTED, I32, 1)
    thread = b.scratch(8)
    null = b.null
    with b.loop(0, b.convert(atomics.load(b, WANTED, I32), "i64")):
        worker = b.function_address("worker")
        failed = b.call("pthread_create", I32, thread, null, worker, null)
        with b.when(b.eq(failed, 0)):
            b.call("pthread_detach", I32, b.load(I64, thread))
    b.ret()


def _mark(b: Builder, value: Value) -> None:
    """Let this thread know that it runs chunks, or with null that it does not."""
    b.call("pthread_setspecific", I32, atomics.load(b, KEY, I32), value)


def _parallel_for(module: Module, system: atomics.System) -> None:
    """Run a job on the caller and the workers; inline when they are busy."""
    b = module.function("parallel_for", [PTR, PTR, I64])
    function, context, count = b.arguments
    several = (count > 1) & b.ne(atomics.load(b, WANTED, I32), 0) & (count < _NO_CHUNK)
    no, yes = b.const(I1, 0), b.const(I1, 1)

    def inline() -> None:
        with b.loop(0, count) as loop:
            b.call(function, None, context, loop.index)

    def in_parallel() -> Values:
        with b.when(b.eq(atomics.load(b, STARTED, I32), 0)):
            b.call("start", None)
        _publish(b, system)
        b.call("run_chunks", None, b.const(I32, -1))
        _join(b, system, b.convert(count, "i32"))
        atomics.set(b, BUSY, I32, 0)
        return [yes]

    def if_free() -> Values:
        free = atomics.swap(b, BUSY, b.const(I32, 0), b.const(I32, 1))
        return b.if_(free, in_parallel, lambda: [no])

    def run() -> Values:
        _mark(b, function)
        callers = atomics.add(b, CALLERS, I32, 1) + 1
        some_work = callers <= atomics.load(b, WANTED, I32)
        done = b.if_(some_work, if_free, lambda: [no])
        with b.when(~done[0]):
            inline()
        atomics.add(b, CALLERS, I32, -1)
        _mark(b, b.null)
        return [yes]

    def unless_inside() -> Values:
        key = atomics.load(b, KEY, I32)
        outside = b.is_null(b.call("pthread_getspecific", PTR, key))
        return b.if_(outside, run, lambda: [no])

    done = b.if_(several, unless_inside, lambda: [no])
    with b.when(~done[0]):
        inline()
    b.ret()


def _publish(b: Builder, system: atomics.System) -> None:
    """Close the old job, write the new one, open it, wake the sleepers."""
    function, context, count = b.arguments
    generation = atomics.load(b, TICKET, I64) & -_GENERATION
    atomics.store(b, TICKET, generation | _NO_CHUNK)
    atomics.store(b, COUNT, count)
    atomics.store(b, FUNCTION, function)
    atomics.store(b, CONTEXT, context)
    atomics.set(b, DONE, I32, 0)
    atomics.store(b, TICKET, generation + _GENERATION)
    b.call("avoid_processor", None)
    atomics.add(b, WAKE, I32, 1)
    with b.when(b.ne(atomics.load(b, SLEEPERS, I32), 0)):
        atomics.wake_all(b, system, WAKE)


def _join(b: Builder, system: atomics.System, count: Operand) -> None:
    """Wait until every chunk is done: spin, then yield, then sleep.

    Who sleeps looks for signals now and then: what a handler raises ends long loops.
    """
    patience = atomics.timespec(b, _PATIENCE)

    def unfinished(_: Values) -> Value:
        return b.ne(atomics.load(b, DONE, I32), count)

    def wait(iteration: Values) -> Values:
        atomics.pause(b, system)
        with b.when(iteration[0] > _CALLER_SPINS):
            b.call("sched_yield", I32)
        with b.when(iteration[0] > _CALLER_SPINS + _CALLER_YIELDS):
            atomics.set(b, WAITING, I32, 1)
            done = atomics.load(b, DONE, I32)
            with b.when(b.ne(done, count)):
                atomics.sleep(b, system, DONE, done, patience)
            atomics.set(b, WAITING, I32, 0)
            b.call(POLL, None)
        return [iteration[0] + 1]

    b.while_loop([b.const(I32, 0)], unfinished, wait)
