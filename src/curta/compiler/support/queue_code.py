"""The native code of the queue of long computations, written with the IR builder.

A job is a function and the address of its table of words. Jobs run one after the other
in the order in which they came, so that a count of finished ones says which are done. A
thread of the queue's own runs them, or the thread that waits for one. To a caller that
waits at once the thread, when it wakes up, leaves the job. A caller that must look at
signals now and then runs none: it sleeps, and wakes up for them. Nothing here touches
Python. A model of the protocol is explored in tests/runtime/test_protocols.py.
"""

from __future__ import annotations

from curta.compiler.callee import STOPPED
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.functions import function
from curta.compiler.llvm.types import I1, I32, I64, PTR, Value
from curta.compiler.support import atomics

# Offsets of the fields.
SUBMITTED = 0  # jobs that came
FINISHED = 64  # jobs that are done
RUNNER = 128  # whether somebody runs jobs
WAKE = 192  # changes whenever there may be something to do for the thread
THREAD_SLEEPS = 256
WAITING = 320  # callers that sleep until FINISHED changes
STARTED = 384  # whether there is the thread
JOBS = 448  # function and table of each
MOST_JOBS = 32
STATE_SIZE = JOBS + 16 * MOST_JOBS
_SPINS = 100
# In nanoseconds: a caller has this long to wait for its job before the thread begins,
_GRACE = 30_000
# and so long Python goes without a look at its signals.
_PATIENCE = 50_000_000


@function(I64, result=I1)
def run_until(b: Builder, number: Value) -> int:
    """Run jobs until the one of a number is done; 0 if somebody else runs any."""
    b.return_unless(atomics.swap(b, RUNNER, b.const(I32, 0), b.const(I32, 1)))
    with b.forever():
        with b.when(~_is_unfinished(b, number)):
            atomics.set(b, RUNNER, I32, 0)
            with b.when(_has_work(b)):
                wake_thread(b)
            b.ret(b.const(I1, 1))
        slot = atomics.load(b, FINISHED, I64) & (MOST_JOBS - 1)
        job = b.offset(atomics.at(b, JOBS), slot * 2, I64)
        b.call(b.load(PTR, job), I64, b.load(PTR, b.offset(job, 1, I64)))
        atomics.add(b, FINISHED, I64, 1)
        with b.when(b.ne(atomics.load(b, WAITING, I32), 0)):
            atomics.wake_all(b, FINISHED)
    return 0


def _is_unfinished(b: Builder, number: Value) -> Value:
    return b.compare("lt", atomics.load(b, FINISHED, I64), number)


def _has_work(b: Builder) -> Value:
    return b.ne(atomics.load(b, SUBMITTED, I64), atomics.load(b, FINISHED, I64))


@function()
def wake_thread(b: Builder) -> None:
    atomics.add(b, WAKE, I32, 1)
    with b.when(b.ne(atomics.load(b, THREAD_SLEEPS, I32), 0)):
        atomics.wake_all(b, WAKE)


@function(PTR, result=PTR)
def serve(b: Builder, _: Value) -> Value:
    """The thread: run what comes, or sleep; for ever."""
    with b.forever():
        seen = atomics.load(b, WAKE, I32)
        with b.when(_has_work(b)):
            run_until(b, atomics.load(b, SUBMITTED, I64))

        def idle() -> Value:
            return b.eq(atomics.load(b, WAKE, I32), seen)

        atomics.spin_while(b, idle, _SPINS)
        with b.when(idle()):
            atomics.set(b, THREAD_SLEEPS, I32, 1)
            atomics.sleep(b, WAKE, seen)
            atomics.set(b, THREAD_SLEEPS, I32, 0)
            woken = atomics.load(b, WAKE, I32)
            atomics.sleep(b, WAKE, woken, atomics.timespec(b, _GRACE))
    return b.null


@function(PTR, PTR, PTR)
def submit(b: Builder, code: Value, table: Value, number_at: Value) -> None:
    """Add a job, for which there must be room, and store its number.

    Only one thread at a time may submit.
    """
    number = atomics.load(b, SUBMITTED, I64)
    job = b.offset(atomics.at(b, JOBS), (number & (MOST_JOBS - 1)) * 2, I64)
    b.store(code, job)
    b.store(table, b.offset(job, 1, I64))
    b.store(number + 1, number_at)
    atomics.add(b, SUBMITTED, I64, 1)
    with b.when(b.eq(atomics.load(b, STARTED, I32), 0)):
        atomics.set(b, STARTED, I32, 1)
        with b.when(~atomics.start_thread(b, serve.address(b))):
            atomics.add(b, STARTED, I32, -1)
    wake_thread(b)


@function(I64, I64, result=I64)
def wait(b: Builder, number: Value, helps: Value) -> Value:
    """Wait until a job is done; 0 if it is not after a while.

    A thread that `helps` runs the job if no other thread does.
    """

    def unfinished() -> Value:
        return _is_unfinished(b, number)

    b.return_unless(unfinished(), 1)
    helping = b.ne(helps, 0) | b.eq(atomics.load(b, STARTED, I32), 0)
    with b.when(helping):
        b.return_when(run_until(b, number), 1)
    with b.when(~helping & b.eq(atomics.load(b, RUNNER, I32), 0)):
        wake_thread(b)  # which need not leave the job to anybody
    atomics.spin_while(b, unfinished, _SPINS)
    atomics.add(b, WAITING, I32, 1)
    # The low half of the count, which is where little-endian memory begins.
    seen = atomics.load(b, FINISHED, I32)
    with b.when(unfinished()):
        atomics.sleep(b, FINISHED, seen, atomics.timespec(b, _PATIENCE))
    atomics.add(b, WAITING, I32, -1)
    return b.convert(~unfinished(), "i64")


@function(PTR, result=I64)
def skip(b: Builder, _: Value) -> int:
    """Stands for a job that is not wanted any more."""
    return STOPPED


EXPORTS = (submit, wait, skip)
