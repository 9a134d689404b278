"""The queue of long computations: dispatched at once, and done in their order.

A `Pending` is one result, a future of it. Its memory may be passed on to further jobs
before it is computed, since they run later; everybody else waits.

A job is native code, which raises no errors: the memory that it needs is there before
it is queued. As jobs run one after the other, they have one arena in common. A thread
that waits for one that has not begun runs it, and those before it: a call that is
waited for at once stays in its thread. Only the main thread, where Python answers
signals, leaves what may take long to the queue's thread, and can be interrupted while
it waits. Then what it has queued is cancelled, and what others have queued that needs
it: those jobs end soon, or do not begin, and nobody gets their results.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from curta._base.once import Lock, once, snapshot
from curta._base.signals import is_main_thread
from curta.compiler.host_target import host
from curta.compiler.support import atomics, queue_code
from curta.compiler.support.cancellation import CancellationToken
from curta.compiler.support.loader import keep_for_process, native_module, shared_state
from curta.compiler.support.threads import num_threads
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.buffers import is_last_reference, workspace
from curta.errors import CancelledError, DeletedArrayError
from curta.runtime.remote_data import Held


class Pending(Held):
    """The memory of a result, and the number of the job that writes to it."""

    __slots__ = ("_data", "_donated", "_token", "number")

    def __init__(self, data: Any, token: CancellationToken):
        self._data = data
        self._token = token
        self._donated: str | None = None
        self.number: int = 0

    def is_ready(self) -> bool:
        """Whether the result is there."""
        return queue().finished() >= self.number

    def wait(self, own: bool = False) -> Any:
        """The result, as soon as it is there; otherwise as `memory`."""
        self.refuse_cancelled()
        queue().wait(self.number)
        return self.memory(own)

    def memory(self, own: bool = False) -> Any:
        """The memory, also before the result is there.

        DeletedArrayError if it was donated, unless it is the caller's own by that. The
        mark is looked at after the memory, while `donate` sets it before it counts who
        has the memory: so nobody has what is overwritten. CancelledError if the job was
        cancelled.
        """
        data = self._data
        self.refuse_cancelled()
        if self._donated is not None and not own:
            raise DeletedArrayError(self._donated)
        return data

    def donate(self) -> bool:
        """Make the memory the caller's own; False if somebody else has it."""
        with _donating:
            if self._donated is not None:
                return False
            self._donated = self._kind()
            alone = is_last_reference([self._data], 0, 1)
            if not alone:
                self._donated = None
            return alone

    def _kind(self) -> str:
        data = self._data
        return "" if data is None else ShapedArray(data.shape, data.dtype).str_short()

    @property
    def cancelled(self) -> bool:
        """Whether there will be no result."""
        return self._token.cancelled

    def refuse_cancelled(self) -> None:
        """CancelledError if there will be no result."""
        if self._token.cancelled:
            raise CancelledError(self._kind())

    def take_back(self) -> None:
        """Undo `donate`."""
        self._donated = None

    def let_go(self) -> None:
        """Leave the memory to the result that lies there, which may be donated too."""
        self._data = None


_donating = Lock()


class QueuedCall(NamedTuple):
    """What a job is a call of: for whom, on what, and how it is cancelled.

    `caller.lingers` says whether a signal would wait too long for its end; `took` tells
    it how many seconds that was at most. A `measured` one may take long whatever it
    says. `needed` are arguments that were not there when it was queued. It uses `keep`,
    which stays alive.
    """

    caller: Any
    token: CancellationToken
    needed: Sequence[Pending]
    keep: Any


class _QueuedJob(NamedTuple):
    """A job that is not done, of a thread.

    `number` is 0 until it is submitted, `size` are the bytes of its results.
    """

    number: ctypes.c_uint64
    size: int
    begin: float
    thread: int
    call: QueuedCall
    table: bytes


class _Queue:
    """Native code and state of the queue; both stay for as long as the process."""

    def __init__(self) -> None:
        self._memory, self._state = shared_state(queue_code.STATE_SIZE)
        count = ctypes.c_uint64.from_address
        self._submitted = count(self._state + queue_code.SUBMITTED)
        self._finished = count(self._state + queue_code.FINISHED)
        self._started = ctypes.c_uint32.from_address(self._state + queue_code.STARTED)
        given = {atomics.STATE: self._state}
        self._code = native_module(queue_code, atomics, given=given)
        names = [f.name for f in queue_code.EXPORTS]
        submit, wait, self._skip = map(self._code.address, names)
        word, pointer = ctypes.c_int64, ctypes.c_void_p
        submitting = ctypes.PYFUNCTYPE(None, pointer, ctypes.c_char_p, pointer)
        self._submit = submitting(submit)
        self._wait = ctypes.CFUNCTYPE(word, word, word)(wait)
        self._lock = Lock()
        self._jobs: deque[_QueuedJob] = deque()  # those that are not done
        self._arena: Any = None
        # The thread may run this code until the very end of the process.
        keep_for_process(self, self._memory, self._code)
        self._interrupted = False
        atexit.register(self._at_exit)
        os.register_at_fork(before=self._before_fork, after_in_parent=self._unlock)
        os.register_at_fork(after_in_child=self._in_child)

    def finished(self) -> int:
        """The number of jobs done, in the order of submission."""
        return self._finished.value

    def submitted(self) -> int:
        """The number of jobs submitted so far."""
        return self._submitted.value

    def has_room(self, size: int) -> bool:
        """Whether a job with so many bytes of results may be added."""
        with self._lock:
            self.forget()
            under_way = self._submitted.value - self._finished.value
            taken = sum([job.size for job in self._jobs])
        fits = taken + size <= config.tuning.waiting_bytes
        return under_way < queue_code.MOST_JOBS and (fits or not under_way)

    def make_room(self, size: int) -> None:
        """Wait until there is room; memory of what is done can be used again."""
        while not self.has_room(size):
            self.wait(min(self._finished.value + 1, self._submitted.value))

    def submit(self, address: int, table: bytes, size: int, call: QueuedCall) -> int:
        """Add a call of the function at `address` on a table of words; its number.

        `size` are the bytes of its results. What it needs stays alive until it is done.
        CancelledError if an argument will never be there.

        Once it is submitted it runs, whatever is raised here: a signal, or for want of
        memory. So it is among the jobs before, and native code writes its number.
        """
        number, thread = ctypes.c_uint64(0), threading.get_ident()
        while True:
            self.make_room(size)
            with self._lock:
                if not self.has_room(size):
                    continue
                for result in call.needed:
                    result.refuse_cancelled()
                begin = time.perf_counter()
                job = _QueuedJob(number, size, begin, thread, call, table)
                try:
                    self._jobs.append(job)
                    self._submit(address, table, ctypes.byref(number))
                except BaseException:
                    if not number and self._jobs and self._jobs[-1] is job:
                        self._jobs.pop()
                    raise
            if not self._started.value:  # the system gives no thread
                self.wait(number.value)
            return number.value

    def arena(self, size: int) -> Any:
        """An arena of at least a number of bytes, kept alive by its jobs.

        OutOfMemoryError if the system has not enough.
        """
        arena = self._arena
        if arena is None or arena.size < size:
            self._arena = arena = workspace(size)
        return arena

    def wait(self, number: int) -> None:
        """Return when a job is done; may be interrupted, and then waited for again."""
        if self._finished.value >= number:
            if self._jobs:
                self.forget()
            return
        if is_main_thread():  # between two iterations Python looks at signals
            self._interrupted = True  # if it ends here
            try:
                while (finished := self._finished.value) < number:
                    self._wait(finished + 1, not self._lingers(finished + 1))
            except BaseException:
                self._cancel()
                raise
            self._interrupted = False
        else:
            while not self._wait(number, True):
                pass
        self.forget()

    def _at_exit(self) -> None:
        """Wait for what is left, but not for what the user did not want to wait for.

        That runs until the process is gone, in memory that stays as long.
        """
        if not self._interrupted:
            self.wait_for_all()

    def _lingers(self, number: int) -> bool:
        """Whether a job may take too long for a signal to wait for its end."""
        jobs = snapshot(self._jobs)
        result = (job.call.caller for job in jobs if job.number.value == number)
        caller = next(result, None)
        return caller is not None and (caller.lingers or caller.measured)

    def _cancel(self) -> None:
        """Cancel the jobs queued by this thread, and those that depend on them."""
        with self._lock:
            for job in self._jobs:
                own, call = job.thread == threading.get_ident(), job.call
                wanted = not own and not any(x.cancelled for x in call.needed)
                number = job.number.value
                if number <= self._finished.value or wanted:
                    continue
                call.token.cancel()
                offset = queue_code.JOBS + 16 * ((number - 1) % queue_code.MOST_JOBS)
                entry = ctypes.c_uint64.from_address(self._state + offset)
                entry.value = self._skip

    def wait_for_all(self) -> None:
        """Return when no job is left."""
        while self._finished.value < (last := self._submitted.value):
            self.wait(last)

    def forget(self) -> None:
        """Let go of what finished jobs have used."""
        done = []  # destroyed after the lock is released
        with self._lock:
            finished = self._finished.value
            while self._jobs and 0 < self._jobs[0].number.value <= finished:
                done.append(self._jobs.popleft())
            if not self._jobs:
                self._arena = None
        for job in done:
            spent = time.perf_counter() - job.begin  # at most
            caller = None if job.call.token.cancelled else job.call.caller
            if caller is not None:
                caller.took(spent)

    # A forked process has none of the threads, so that nothing may be under way.

    def _before_fork(self) -> None:
        self._lock.acquire()
        self.wait_for_all()

    def _unlock(self) -> None:
        self._lock.release()

    def _in_child(self) -> None:
        start = queue_code.RUNNER  # the counts stay
        ctypes.memset(self._state + start, 0, queue_code.JOBS - start)
        self._lock.release()


@once
def queue() -> _Queue:
    """The queue of this process."""
    return _Queue()


def is_available() -> bool:
    """Whether there are threads to leave work to, and nobody wants to see it done."""
    checks = config.jax_debug_nans or config.jax_debug_infs
    return config.jax_cpu_enable_async_dispatch and not checks and _has_threads()


def answers_signals() -> bool:
    """Whether a long call should be made by the queue, to be waited for."""
    return is_main_thread() and is_known_system()


@once
def _has_threads() -> bool:
    return is_known_system() and num_threads() > 1


@once
def is_known_system() -> bool:
    """Whether there is a queue for this machine."""
    known = sys.platform == "linux" and host().machine in atomics.SYSTEMS
    return known and sys.byteorder == "little"


def forget_finished() -> None:
    """Let go of what finished jobs have used."""
    if queue.cache_info().currsize:
        queue().forget()


def submitted() -> int:
    """The number of jobs submitted so far."""
    return queue().submitted() if queue.cache_info().currsize else 0
