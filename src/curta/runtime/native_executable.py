"""Compiled programs that are one native function, called at once or from the queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from curta._base.once import cached_property
from curta.compiler.callee import UNKNOWN
from curta.compiler.machine_code import calls
from curta.compiler.machine_code.native import NativeProgram
from curta.compiler.support.cancellation import CancellationToken
from curta.compiler.support.entry import native_entry, plain_entry, table_entry
from curta.compiler.support.threads import is_pool_made
from curta.config import config
from curta.core.buffers import allocator, unshared
from curta.runtime.executables import Executable
from curta.runtime.queue import (
    Pending,
    QueuedCall,
    answers_signals,
    is_available,
    queue,
)

NDArray = np.ndarray[Any, Any]


class NativeExecutable(Executable):
    """Calls machine code on results from the pool, with nothing in between.

    `fallback` runs what the native code refuses. With `overwrites` arguments are
    donated: the results that it has lie where those lie, which belong to the call, and
    no reference to the others is kept, since they will be donated as well.
    """

    borrows = True

    def __init__(
        self,
        fallback: Callable[..., Sequence[Any]],
        program: NativeProgram,
        overwrites: Mapping[int, int] | None = None,
    ):
        self.fallback = fallback
        self.program = self.native = program
        self.temporary_bytes = program.temporaries
        self.overwrites = overwrites or {}
        results = program.signature[: program.results]
        maker = allocator if overwrites is None else unshared
        self._make = [maker(shape, np.dtype(dtype)) for dtype, shape in results]
        self._bytes = _bytes(results)
        tuning = config.tuning
        moved = _bytes(program.signature)
        share = 1 + len(program.signature) / tuning.queued_arrays
        long = program.cost > share * tuning.queued_cost
        long = long or moved > share * tuning.queued_bytes
        # The cost of a while loop is unknown: whether to queue it the last call tells.
        self.is_async = long and program.cost < UNKNOWN
        self.measured = program.cost >= UNKNOWN
        # Whether calls may take so long that signals wait; measured calls may show that
        # they do not.
        self.lingers = program.cost > tuning.interruptible_cost
        self._entry: Callable[..., Any] | None = None
        self._called = False

    def __call__(self, *args: NDArray) -> Sequence[Any]:
        if self.lingers and answers_signals():
            return self._by_queue(args)
        if not self.overwrites:  # the path of every call
            outs = [make() for make in self._make]
        else:
            outs = self._results(args)
        begin = time.perf_counter() if self.measured else 0.0
        entry = self._entry or self._next_entry()
        # Refused: not aligned, say, or of a dtype that is equal but not identical.
        if not entry(*outs, *args):
            return self.fallback(*args)
        if self.measured:
            self._measure(begin, config.tuning.queued_seconds)
        return outs

    def _by_queue(self, args: Sequence[NDArray]) -> Sequence[Any]:
        """A call of which the main thread awaits the end, ready for signals."""
        begin = time.perf_counter()
        pending = self.submit(args)
        if not pending:
            return self.fallback(*args)
        outs = [result.wait() for result in pending]
        if self.measured:  # waking threads may take long: measure again
            self._measure(begin, config.tuning.answer_seconds)
        return outs

    def took(self, seconds: float) -> None:
        """A call by the queue took so long at most."""
        if seconds < config.tuning.answer_seconds:
            self.lingers = False
        if self.measured and seconds < config.tuning.queued_seconds:
            self.is_async = False  # one slow call may have been the machine's

    def _measure(self, begin: float, most: float) -> None:
        spent = time.perf_counter() - begin
        self.is_async = spent > most
        self.lingers = spent > config.tuning.answer_seconds

    def _next_entry(self) -> Callable[..., Any]:
        """How to call the program: the second call is when a fast way is worth making.

        Most have one call of this kind; the next ones come from native code. The first
        one is done without threads where to make these would take longer.
        """
        if not self._called:
            self._called = True
            little = self.program.cost <= config.tuning.alone_cost
            return plain_entry(self.program, little and not is_pool_made())
        self._entry = entry = native_entry(self.program)
        return entry

    @cached_property
    def _table(self) -> Callable[..., bytearray]:
        """What makes the tables of the queue's calls."""
        return table_entry(self.program)

    def _results(self, args: Sequence[NDArray]) -> list[NDArray]:
        """Where the results go: memory of the pool, or of arguments."""
        return [
            args[self.overwrites[i]] if i in self.overwrites else make()
            for i, make in enumerate(self._make)
        ]

    def submit(self, args: Sequence[NDArray | Pending]) -> list[Pending]:
        """Queue a call; its pending results. [] where it cannot be queued."""
        jobs = queue()
        jobs.make_room(self._bytes)
        overwritten = {*self.overwrites.values()}
        arrays: list[Any] = [
            x.memory(i in overwritten) if type(x) is Pending else x
            for i, x in enumerate(args)
        ]
        results = self._results(arrays)
        program = self.program
        table = self._table(*results, *arrays)
        if not table:
            return []
        size = program.arena_bytes
        arena = jobs.arena(size) if size else None
        token = CancellationToken()
        address = 0 if arena is None else arena.ctypes.data
        calls.complete(program, table, address, token.address)
        pending = [Pending(x, token) for x in results]
        kept = [x for i, x in enumerate(args) if i not in overwritten]
        needed = [x for x in args if type(x) is Pending]
        call = QueuedCall(self, token, needed, (kept, pending, arena))
        number = jobs.submit(program.address, bytes(table), self._bytes, call)
        for result in pending:
            result.number = number
        for i in overwritten:
            taken = args[i]
            if type(taken) is Pending:
                taken.let_go()
        return pending

    def start(self, args: Sequence[Any], borrowed: Sequence[int] = ()) -> Sequence[Any]:
        if is_available():
            waits = self.is_async or any(type(x) is Pending for x in args)
            if (
                waits
                and sum(args[i].nbytes for i in borrowed) <= config.tuning.copied_bytes
            ):
                kept = list(args)
                for i in borrowed:
                    kept[i] = kept[i].copy()
                pending = self.submit(kept)
                if pending:
                    return pending
        own = {*self.overwrites.values()}
        return self(
            *[x.wait(i in own) if type(x) is Pending else x for i, x in enumerate(args)]
        )

    def on_ready(self) -> Callable[..., Sequence[Any]]:
        if self.is_async or self.measured:
            return lambda *args: self.start(args)
        return self


def _bytes(signature: Sequence[tuple[Any, tuple[int, ...]]]) -> int:
    return sum(prod(shape) * np.dtype(dtype).itemsize for dtype, shape in signature)
