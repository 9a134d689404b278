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

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.functions import function
from curta.compiler.llvm.types import I1, I32, I64, PTR, Value
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

POLL = "poll_current"  # of cancellation_code
_PATIENCE = 50_000_000  # nanoseconds that a caller waits without a look at signals


@function(I32)
def run_chunks(b: Builder, rank: Value) -> None:
    """Take chunks of the current job until none is left.

    The argument is how many workers come before this one, -1 for the caller.
    """
    pause = atomics.timespec(b, _CROWDED_PAUSE)
    with b.forever():
        ticket = atomics.load(b, TICKET, I64)
        count, code = atomics.load(b, COUNT, I64), atomics.load(b, FUNCTION, PTR)
        context = atomics.load(b, CONTEXT, PTR)
        index = ticket & _NO_CHUNK
        b.return_unless(b.compare("lt", index, count, unsigned=True))
        callers = atomics.load(b, CALLERS, I32)
        crowded = (rank >= 0) & (rank + callers > atomics.load(b, WANTED, I32))
        with b.when(crowded):
            atomics.sleep(b, CALLERS, callers, pause)  # nobody wakes it
        with b.when(~crowded), b.when(atomics.swap(b, TICKET, ticket, ticket + 1)):
            b.call(code, None, context, index)
            before = atomics.add(b, DONE, I32, 1)
            last = b.eq(before + 1, b.convert(count, "i32"))
            with b.when(last), b.when(b.ne(atomics.load(b, WAITING, I32), 0)):
                atomics.wake_all(b, DONE)


@function(PTR, result=PTR)
def worker(b: Builder, _: Value) -> Value:
    """Wait for work, spinning and then sleeping, and do it; for ever."""
    slot = atomics.add(b, REGISTERED, I32, 1)
    address = b.offset(atomics.at(b, THREADS), slot, I32)
    thread = atomics.syscall(b, atomics.system(b).thread_id)
    b.store(b.convert(thread, "i32"), address)
    _mark(b, address)
    with b.forever([b.const(I32, 0)]) as loop:
        (seen,) = loop.carried

        def waiting() -> Value:
            return b.eq(atomics.load(b, WAKE, I32), seen)

        atomics.spin_while(b, waiting, _WORKER_SPINS)
        with b.when(waiting()):
            atomics.add(b, SLEEPERS, I32, 1)
            atomics.sleep(b, WAKE, seen)
            atomics.add(b, SLEEPERS, I32, -1)
        now = atomics.load(b, WAKE, I32)
        with b.when(b.ne(now, seen)):
            run_chunks(b, slot)
        loop.next(now)
    return b.null


@function()
def avoid_processor(b: Builder) -> None:
    """Keep the workers off the caller's processor.

    A sleeper tends to be woken on the processor of its waker, where it then waits
    for milliseconds until the scheduler moves it. The system is asked only when the
    caller has moved.
    """
    count = atomics.load(b, REGISTERED, I32)
    cpu = b.call("sched_getcpu", I32)
    b.return_when(b.eq(atomics.load(b, LAST_CPU, I32), cpu + 1) | (count <= 0))
    b.return_when(b.compare("ge", cpu, 8 * CPUS_SIZE, unsigned=True))
    b.return_when(count >= _FEW_WORKERS)
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
        atomics.syscall(b, atomics.system(b).set_affinity, thread, size, mask)


@function()
def start(b: Builder) -> None:
    """Make the threads: at the first job, and again in a forked process."""
    atomics.set(b, STARTED, I32, 1)
    with b.loop(0, b.convert(atomics.load(b, WANTED, I32), "i64")):
        atomics.start_thread(b, worker.address(b))


def _mark(b: Builder, value: Value) -> None:
    """Let this thread know that it runs chunks, or with null that it does not."""
    b.call("pthread_setspecific", I32, atomics.load(b, KEY, I32), value)


@function(PTR, PTR, I64)
def parallel_for(b: Builder, code: Value, context: Value, count: Value) -> None:
    """Run a job on the caller and the workers; inline when they are busy."""
    several = (count > 1) & b.ne(atomics.load(b, WANTED, I32), 0) & (count < _NO_CHUNK)
    with b.when(~several):
        inline(b, code, context, count)
        b.ret()
    key = atomics.load(b, KEY, I32)
    with b.when(~b.is_null(b.call("pthread_getspecific", PTR, key))):
        inline(b, code, context, count)
        b.ret()
    _mark(b, code)
    callers = atomics.add(b, CALLERS, I32, 1) + 1
    some_work = callers <= atomics.load(b, WANTED, I32)
    owned = b.choose(some_work, lambda: _begin(b), lambda: b.const(I1, 0))
    with b.when(owned):
        with b.when(b.eq(atomics.load(b, STARTED, I32), 0)):
            start(b)
        _publish(b, code, context, count)
        run_chunks(b, -1)
        join(b, b.convert(count, "i32"))
        atomics.set(b, BUSY, I32, 0)
    with b.when(~owned):
        inline(b, code, context, count)
    atomics.add(b, CALLERS, I32, -1)
    _mark(b, b.null)


def _begin(b: Builder) -> Value:
    """Whether the workers are free, for this thread from now on."""
    return atomics.swap(b, BUSY, b.const(I32, 0), b.const(I32, 1))


@function(PTR, PTR, I64)
def inline(b: Builder, code: Value, context: Value, count: Value) -> None:
    with b.loop(0, count) as loop:
        b.call(code, None, context, loop.index)


def _publish(b: Builder, code: Value, context: Value, count: Value) -> None:
    """Close the old job, write the new one, open it, wake the sleepers."""
    generation = atomics.load(b, TICKET, I64) & -_GENERATION
    atomics.store(b, TICKET, generation | _NO_CHUNK)
    atomics.store(b, COUNT, count)
    atomics.store(b, FUNCTION, code)
    atomics.store(b, CONTEXT, context)
    atomics.set(b, DONE, I32, 0)
    atomics.store(b, TICKET, generation + _GENERATION)
    avoid_processor(b)
    atomics.add(b, WAKE, I32, 1)
    with b.when(b.ne(atomics.load(b, SLEEPERS, I32), 0)):
        atomics.wake_all(b, WAKE)


@function(I32)
def join(b: Builder, count: Value) -> None:
    """Wait until every chunk is done: spin, then yield, then sleep.

    A sleeping thread polls signals: an exception of a handler ends long loops.
    """
    patience = atomics.timespec(b, _PATIENCE)
    with b.forever([b.const(I32, 0)]) as loop:
        b.return_when(b.eq(atomics.load(b, DONE, I32), count))
        (iteration,) = loop.carried
        atomics.pause(b)
        with b.when(iteration > _CALLER_SPINS):
            b.call("sched_yield", I32)
        with b.when(iteration > _CALLER_SPINS + _CALLER_YIELDS):
            atomics.set(b, WAITING, I32, 1)
            done = atomics.load(b, DONE, I32)
            with b.when(b.ne(done, count)):
                atomics.sleep(b, DONE, done, patience)
            atomics.set(b, WAITING, I32, 0)
            b.call(POLL, None)
        loop.next(iteration + 1)


EXPORTS = (parallel_for,)
