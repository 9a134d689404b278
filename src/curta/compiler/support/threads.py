"""The pool of worker threads that compiled code runs on.

    parallel_for(function, context, count)

is a native function, called from native code by its address. It runs `function(context,
i)` for every i below count, on the caller and the workers. A call from inside a job,
and one made while another thread's job runs, runs inline; workers leave a processor to
each thread that calls. The caller divides work into chunks by shape alone, so results
do not depend on the number of threads. The threads are plain pthreads which never touch
Python; they start at the first job, start again in a forked process, and end with the
process.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

from curta._base.once import once
from curta._base.signals import processors
from curta.compiler.host_target import host
from curta.compiler.support import atomics, cancellation, thread_code
from curta.compiler.support.loader import keep_for_process, native_module, shared_state
from curta.config import config

_CHUNK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def num_threads() -> int:
    """How many threads work at once, the caller included (`CURTA_NUM_THREADS`).

    The pool asks when it is made, at the first compiled function.
    """
    chosen = config.curta_num_threads
    return min(chosen if chosen > 0 else processors(), thread_code.MAX_WORKERS)


class Pool:
    """Native code and state of the pool; both stay for as long as the process."""

    address: int

    def __init__(self) -> None:
        self._memory, self._state = shared_state(thread_code.STATE_SIZE)
        self._key = ctypes.c_uint32()
        self.address, self._code = self._make()
        # Threads may run this code until the very end of the process.
        keep_for_process(self, self._memory, self._code)
        self.reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.reset)

    def _make(self) -> tuple[int, object]:
        known = host().machine in atomics.SYSTEMS
        if sys.platform != "linux" or not known:
            return _serial()
        ctypes.CDLL(None).pthread_key_create(ctypes.byref(self._key), None)
        try:
            poll = cancellation.addresses()[thread_code.POLL]
            given = {atomics.STATE: self._state, thread_code.POLL: poll}
            code = native_module(thread_code, atomics, given=given)
        except ImportError:
            return _serial()
        return code.address("parallel_for"), code

    def reset(self) -> None:
        """Forget all threads, as after a fork, where there are none."""
        ctypes.memset(self._state, 0, thread_code.STATE_SIZE)
        workers = ctypes.c_int32.from_address(self._state + thread_code.WANTED)
        workers.value = num_threads() - 1
        key = ctypes.c_uint32.from_address(self._state + thread_code.KEY)
        key.value = self._key.value
        allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
        size = thread_code.CPUS_SIZE
        bits = sum(1 << cpu for cpu in allowed if cpu < 8 * size)
        ctypes.memmove(
            self._state + thread_code.CPUS, bits.to_bytes(size, sys.byteorder), size
        )


def _serial() -> tuple[int, object]:
    """`parallel_for` where there is no pool: a loop in Python, calling native code."""

    def run(function: int, context: int, count: int) -> None:
        chunk = _CHUNK(function)
        for i in range(count):
            chunk(context, i)

    callback = _PARALLEL_FOR(run)
    return ctypes.cast(callback, ctypes.c_void_p).value or 0, callback


@once
def _pool() -> Pool:
    return Pool()


def parallel_for_address() -> int:
    """The address of `void parallel_for(function, context, int64 count)`."""
    return _pool().address


def is_pool_made() -> bool:
    """Whether a program that asks for the pool need not wait until it is made."""
    return _pool.cache_info().currsize > 0


def parallel_for(function: Callable[[int], Any], count: int) -> None:
    """Run a Python function on the pool: for tests and diagnosis, not for speed."""
    chunk = _CHUNK(lambda _, i: function(i))
    address = ctypes.cast(chunk, ctypes.c_void_p)
    _PARALLEL_FOR(parallel_for_address())(address, None, count)
