"""Kernels that do not need each other run side by side.

A step of an optimizer has a kernel for each array of parameters, most of them too short
for several threads. Consecutive independent kernels are one job for the threads: all
their chunks, a few short ones at a time. The chunks do not change, and neither do the
results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from curta.compiler.loops.bufferize import Arena, aligned_size
from curta.compiler.loops.costs import kernel_cost
from curta.compiler.loops.nodes import Buffer, Kernel, memory_of
from curta.compiler.program.work import Job, Scheduled, Work, buffers
from curta.config import config
from curta.core.dim import is_symbolic_dim


def in_jobs(
    works: Sequence[Work],
    arena: Arena,
    same: Mapping[Buffer, Buffer],
    often: bool,
) -> list[Work | Job]:
    """Works in order, with jobs in place of independent kernels that are worth it.

    Args:
        works: what the program runs.
        arena: where temporaries lie.
        same: the buffer that stands for the memory of one that may lie there.
        often: whether the program runs many times at each call.
    """
    tuning = config.tuning
    least = tuning.chunk_cost_in_loop if often else tuning.chunk_cost
    result: list[Work | Job] = []
    if not isinstance(arena.size, int):  # known when the program is called
        return [*works]
    row = _Row(arena, same)
    for work in works:
        kernel = _shareable(work)
        if kernel is None or not isinstance(work, Scheduled):
            result += [*row.take(least), work]
        elif not row.add(work, kernel):
            result += row.take(least)
            row.add(work, kernel)
    return [*result, *row.take(least)]


def _shareable(work: Work) -> Kernel | None:
    """Its kernel, if the chunks and the cost of that are known."""
    if not isinstance(work, Scheduled) or not isinstance(work.kernel, Kernel):
        return None
    known = work.plan.chunks, kernel_cost(work.kernel)
    return None if any(map(is_symbolic_dim, known)) else work.kernel


class _Row:
    """Independent kernels in a row.

    Memory is an argument or a result of the program, or a range of the arena.
    """

    def __init__(self, arena: Arena, same: Mapping[Buffer, Buffer]) -> None:
        self.arena, self.same = arena, same
        self.clear()

    def clear(self) -> None:
        """Begin another one."""
        self.works: list[Scheduled] = []
        self.costs: list[int] = []
        self.tasks = 0
        self.read: set[Buffer] = set()
        self.written: set[Buffer] = set()
        self.ranges: list[tuple[int, int, bool]] = []

    def take(self, least: int) -> Sequence[Work | Job]:
        """The kernels, as a job if they are worth waking threads for."""
        works, costs = tuple(self.works), self.costs
        self.clear()
        if len(works) < 2 or sum(costs) < config.tuning.job_cost:
            return works
        chunks = [work.plan.chunks for work in works]
        return [Job(works, _starts(chunks, costs, least))]

    def add(self, work: Scheduled, kernel: Kernel) -> bool:
        """Add a kernel if it needs none of the others, and none of them needs it."""
        tasks = self.tasks + work.plan.chunks
        if self.works and tasks > config.tuning.job_tasks:
            return False
        written = {memory_of(b) for b in kernel.stored()}
        reads, writes = set[Buffer](), set[Buffer]()
        ranges: list[tuple[int, int, bool]] = []
        for buffer in buffers(work):
            memory = self.same.get(buffer, buffer)
            memory = self.same.get(memory, memory)  # a result where an argument lies
            start = self.arena.offsets.get(memory)
            if start is None:
                place = writes if buffer in written else reads
                place.add(memory)
            else:
                end = start + aligned_size(buffer)
                ranges.append((start, end, buffer in written))
        if self.written & (reads | writes) or self.read & writes:
            return False
        for start, end, is_written in ranges:
            for first, last, was_written in self.ranges:
                if start < last and first < end and (is_written or was_written):
                    return False
        self.works.append(work)
        self.costs.append(kernel_cost(kernel))
        self.tasks = tasks
        self.read |= reads
        self.written |= writes
        self.ranges += ranges
        return True


def _starts(chunks: Sequence[int], costs: Sequence[int], least: int) -> tuple[int, ...]:
    """The first of the chunks that a thread takes at a time, and their end.

    They cost at least so much together, but for the last.

    Args:
        chunks: how many chunks each kernel has.
        costs: what each kernel costs.
        least: the cost of what is taken at a time.
    """
    starts, task, cost = [0], 0, 0
    for count, total in zip(chunks, costs, strict=True):
        for _ in range(count):
            if cost >= least:
                starts.append(task)
                cost = 0
            task += 1
            cost += total // count
    return (*starts, task)
