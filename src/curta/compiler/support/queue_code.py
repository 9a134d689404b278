"""The native code of the queue of long computations, written with the IR builder.

A job is a function and the address of its table of words. Jobs run one after the other
in the order in which they came, so that a count of finished ones says which are done. A
thread of the queue's own runs them, or the thread that waits for one. To a caller that
waits at once the thread, when it wakes up, leaves the job. A caller that must look at
signals now and then runs none: it sleeps, and wakes up for them. Nothing here touches
Python. A model of the protocol is explored in tests/runtime/test_protocols.py.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I32, I64, PTR, Value
from curta.compiler.native import STOPPED
from curta.compiler.support import atomics
from curta.compiler.support.atomics import System

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

EXPORTS = ("submit", "wait", "skip")
_SPINS = 100
# In nanoseconds: a caller has this long to wait for its job before the thread begins,
_GRACE = 30_000
# and so long Python goes without a look at its signals.
_PATIENCE = 50_000_000


def queue_module(module: Module, system: System) -> None:
    """IR with the functions of the queue; it imports `state`.

    `submit(function, table, number)` stores the number of the job, for which there
    must be room. `i64 wait(number, helps)` waits until it is done, and returns 0 if it
    is not after a while; who `helps` runs it if nobody does. Only one thread at a time
    may submit. `i64 skip(table)` stands for a job that is not wanted any more.
    """
    _run_until(module, system)
    _serve(module, system)
    _submit(module, system)
    _wait(module, system)
    skip = module.function("skip", [PTR], I64)
    skip.ret(skip.const(I64, STOPPED))


def _run_until(module: Module, system: System) -> None:
    """Run jobs until the one of a number is done, if nobody else runs any."""
    b = module.function("run_until", [I64], I1, exported=False)
    (number,) = b.arguments
    free = atomics.swap(b, RUNNER, b.const(I32, 0), b.const(I32, 1))

    def unfinished(_: Values) -> Value:
        return b.compare("lt", atomics.load(b, FINISHED, I64), number)

    def run(_: Values) -> Values:
        slot = atomics.load(b, FINISHED, I64) & (MOST_JOBS - 1)
        job = b.offset(atomics.at(b, JOBS), slot * 2, I64)
        b.call(b.load(PTR, job), I64, b.load(PTR, b.offset(job, 1, I64)))
        atomics.add(b, FINISHED, I64, 1)
        with b.when(b.ne(atomics.load(b, WAITING, I32), 0)):
            atomics.wake_all(b, system, FINISHED)
        return []

    with b.when(free):
        b.while_loop([], unfinished, run)
        atomics.set(b, RUNNER, I32, 0)
        with b.when(_has_work(b)):
            _wake_thread(b, system)
    b.ret(free)


def _has_work(b: Builder) -> Value:
    return b.ne(atomics.load(b, SUBMITTED, I64), atomics.load(b, FINISHED, I64))


def _wake_thread(b: Builder, system: System) -> None:
    atomics.add(b, WAKE, I32, 1)
    with b.when(b.ne(atomics.load(b, THREAD_SLEEPS, I32), 0)):
        atomics.wake_all(b, system, WAKE)


def _serve(module: Module, system: System) -> None:
    """The thread: run what comes, or sleep; for ever."""
    b = module.function("serve", [PTR], PTR, exported=False)

    def iteration(carried: Values) -> Values:
        seen = atomics.load(b, WAKE, I32)
        with b.when(_has_work(b)):
            b.call("run_until", I1, atomics.load(b, SUBMITTED, I64))

        def idle() -> Value:
            return b.eq(atomics.load(b, WAKE, I32), seen)

        atomics.spin_while(b, system, idle, _SPINS)
        with b.when(idle()):
            atomics.set(b, THREAD_SLEEPS, I32, 1)
            atomics.sleep(b, system, WAKE, seen)
            atomics.set(b, THREAD_SLEEPS, I32, 0)
            woken = atomics.load(b, WAKE, I32)
            atomics.sleep(b, system, WAKE, woken, atomics.timespec(b, _GRACE))
        return carried

    b.while_loop([b.const(I1, 1)], lambda carried: carried[0], iteration)
    b.ret(b.null)


def _submit(module: Module, system: System) -> None:
    b = module.function("submit", [PTR, PTR, PTR])
    function, table, number_at = b.arguments
    number = atomics.load(b, SUBMITTED, I64)
    job = b.offset(atomics.at(b, JOBS), (number & (MOST_JOBS - 1)) * 2, I64)
    b.store(function, job)
    b.store(table, b.offset(job, 1, I64))
    b.store(number + 1, number_at)
    atomics.add(b, SUBMITTED, I64, 1)
    with b.when(b.eq(atomics.load(b, STARTED, I32), 0)):
        atomics.set(b, STARTED, I32, 1)
        thread, null = b.scratch(8), b.null
        serve = b.function_address("serve")
        failed = b.call("pthread_create", I32, thread, null, serve, null)
        b.if_(
            b.eq(failed, 0),
            lambda: [b.call("pthread_detach", I32, b.load(I64, thread))],
            lambda: [atomics.add(b, STARTED, I32, -1)],
        )
    _wake_thread(b, system)
    b.ret()


def _wait(module: Module, system: System) -> None:
    b = module.function("wait", [I64, I64], I64)
    number, helps = b.arguments

    def unfinished() -> Value:
        return b.compare("lt", atomics.load(b, FINISHED, I64), number)

    def left_alone() -> Values:
        with b.when(b.eq(atomics.load(b, RUNNER, I32), 0)):
            _wake_thread(b, system)  # which need not leave the job to anybody
        return [b.const(I1, 0)]

    with b.when(unfinished()):
        alone = b.eq(atomics.load(b, STARTED, I32), 0)
        ran = b.if_(
            b.ne(helps, 0) | alone,
            lambda: [b.call("run_until", I1, number)],
            left_alone,
        )[0]
        with b.when(~ran):
            atomics.spin_while(b, system, unfinished, _SPINS)
            atomics.add(b, WAITING, I32, 1)
            # The low half of the count, which is where little-endian memory begins.
            seen = atomics.load(b, FINISHED, I32)
            with b.when(unfinished()):
                timeout = atomics.timespec(b, _PATIENCE)
                atomics.sleep(b, system, FINISHED, seen, timeout)
            atomics.add(b, WAITING, I32, -1)
    b.ret(b.convert(~unfinished(), "i64"))
