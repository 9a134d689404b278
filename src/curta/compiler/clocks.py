"""Programs that read a clock between their kernels, in the bodies of their loops too.

The kernels of the program itself are between two readings each. Those of a body run
many times: each adds what it took to a total. Threads that run a body at the same time
add to the same totals, so these are used as shares of the time of the loop.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.compiler.callee import Callee
from curta.compiler.emit.emission import emit
from curta.compiler.executable import Executable, Launcher, NDArray
from curta.compiler.library.clock import AddElapsed, ReadClock, function_address
from curta.compiler.loading import load
from curta.compiler.loops.nodes import (
    Block,
    Buffer,
    Call,
    For,
    If,
    Region,
    Statement,
    While,
)
from curta.compiler.lower.items import LibraryItem
from curta.compiler.program.program import Program
from curta.compiler.program.work import Scheduled, Work
from curta.compiler.program.works import rearranged, work_cost
from curta.core.dim import typical


@dataclass(frozen=True, eq=False)
class Totals:
    """What the kernels of each body took, and the memory that its code refers to."""

    of: dict[Program, NDArray] = field(default_factory=dict)
    words: list[NDArray] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class ClockedProgram:
    """A program that reads a clock before its kernels and after each of them.

    The `executable` is called as the program itself is. The `readings` are those of the
    last call: seconds, and nanoseconds. Between two of them ran a kernel, or several of
    them side by side; the `shares` are their parts of the time, by what they cost.
    `totals` has the nanoseconds of the kernels of each body, in all calls.
    """

    executable: Executable
    readings: NDArray
    clock: int
    shares: tuple[tuple[float, ...], ...]
    totals: Totals

    def kernels(self) -> tuple[float, ...]:
        """The seconds of the kernels in the last call."""
        seconds, rest = np.diff(self.readings, axis=0).T
        times = zip((seconds + 1e-9 * rest).tolist(), self.shares, strict=True)
        return tuple(time * share for time, shares in times for share in shares)

    def sample(self, call: Callable[[], object]) -> tuple[float, tuple[float, ...]]:
        """The seconds of a call of the executable, and of the kernels in it."""
        start = time.clock_gettime(self.clock)
        call()
        return time.clock_gettime(self.clock) - start, self.kernels()


def clocked(
    made: Any, parallel_for: Launcher, clock: int = time.CLOCK_MONOTONIC
) -> ClockedProgram:
    """Return a reported program with the clock read between its kernels."""
    function = Buffer("clock_gettime", np.dtype(np.uint64), 1)
    readings = np.zeros((len(made.together) + 1, 2), np.int64)
    ends = [Buffer(f"time{i}", readings.dtype, 2) for i in range(len(readings))]
    reads = [LibraryItem(ReadClock(clock), (function,), (end,)) for end in ends]
    totals = Totals()
    works: list[Work] = [reads[0]]
    kernels, shares = iter(made.kernels), []
    for count, after in zip(made.together, reads[1:], strict=True):
        row = [*itertools.islice(kernels, count)]
        for kernel in row:
            works += _clocked_works(kernel, clock, totals)
        works.append(after)
        costs = [1 + typical(sum(map(work_cost, kernel.works))) for kernel in row]
        shares.append(tuple(cost / sum(costs) for cost in costs))
    address = np.array([function_address()], np.uint64)
    program = _with_words(made.program, works, (function, *ends), (address, *readings))
    executable = load(emit(program), parallel_for)
    return ClockedProgram(executable, readings, clock, tuple(shares), totals)


def _with_words(
    program: Program,
    works: Sequence[Work],
    buffers: Sequence[Buffer],
    words: Sequence[NDArray],
) -> Program:
    """A program with other works, and further constants at the end of its table."""
    pointers, consts = (*program.pointers, *buffers), (*program.consts, *words)
    return rearranged(program, works, pointers, consts)


def _clocked_works(kernel: Any, clock: int, totals: Totals) -> list[Work]:
    """The works of a kernel, which call programs with clocks of their own."""
    bodies: dict[Callee, Program] = {
        inner.program: _clocked_body(inner, clock, totals) for inner in kernel.inner
    }
    return [_calling(work, bodies) for work in kernel.works]


def _clocked_body(made: Any, clock: int, totals: Totals) -> Program:
    """The body of a loop, each of whose kernels adds its time to a total."""
    reading = np.zeros(2, np.int64)
    sums = totals.of[made.program] = np.zeros(len(made.kernels), np.int64)
    function = Buffer("clock_gettime", np.dtype(np.uint64), 1)
    last = Buffer("last", reading.dtype, 2)
    ends = [Buffer(f"total{i}", sums.dtype, 1) for i in range(len(sums))]
    works: list[Work] = [LibraryItem(ReadClock(clock), (function,), (last,))]
    for kernel, end in zip(made.kernels, ends, strict=True):
        works += _clocked_works(kernel, clock, totals)
        works.append(LibraryItem(AddElapsed(clock), (function,), (last, end)))
    address = np.array([function_address()], np.uint64)
    words = (address, reading, *(sums[i : i + 1] for i in range(len(sums))))
    totals.words.extend(words)
    program = _with_words(made.program, works, (function, last, *ends), words)
    return dataclasses.replace(program, often=True)


def _calling(work: Work, bodies: Mapping[Callee, Program]) -> Work:
    """A piece of work that calls other programs in the place of these."""
    region = work.kernel if isinstance(work, Scheduled) else None
    if not bodies or not isinstance(region, Region):
        return work
    assert isinstance(work, Scheduled)
    changed = dataclasses.replace(region, body=_block_calling(region.body, bodies))
    return dataclasses.replace(work, kernel=changed)


def _block_calling(block: Block, bodies: Mapping[Callee, Program]) -> Block:
    return tuple(_statement_calling(s, bodies) for s in block)


def _statement_calling(s: Statement, bodies: Mapping[Callee, Program]) -> Statement:
    if isinstance(s, Call):
        return dataclasses.replace(s, program=bodies.get(s.program, s.program))
    if isinstance(s, For):
        return dataclasses.replace(s, body=_block_calling(s.body, bodies))
    if isinstance(s, While):
        condition, body = (_block_calling(b, bodies) for b in (s.condition, s.body))
        return dataclasses.replace(s, condition=condition, body=body)
    if isinstance(s, If):
        blocks = tuple(_block_calling(b, bodies) for b in s.blocks)
        return dataclasses.replace(s, blocks=blocks)
    return s
