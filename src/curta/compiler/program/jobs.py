"""Kernels that do not need each other run side by side.

A step of an optimizer has a kernel for each array of parameters, most of them too short
for several threads. Consecutive independent kernels are one job for the threads: all
their chunks, a few short ones at a time. The chunks do not change, and neither do the
results.
"""

from __future__ import annotations

from collections.abc import Sequence

from curta.compiler.loops.costs import kernel_cost
from curta.compiler.loops.nodes import Kernel
from curta.compiler.memory.places import Places
from curta.compiler.program.work import Job, Scheduled, Work, work_accesses
from curta.compiler.targets import Tuning
from curta.core.dim import is_symbolic_dim


def in_jobs(
    works: Sequence[Work],
    places: Places,
    often: bool,
    tuning: Tuning,
) -> list[Work | Job]:
    """Works in order, with jobs in place of independent kernels that are worth it.

    Args:
        works: what the program runs.
        places: where buffers are stored.
        often: whether the program runs many times at each call.
        tuning: the limits of the target.
    """
    least = tuning.chunk_cost_in_loop if often else tuning.chunk_cost
    result: list[Work | Job] = []
    if not isinstance(places.arena.size, int):  # known when the program is called
        return [*works]
    row = _Row(places, tuning)
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
    """Independent kernels in a row."""

    def __init__(self, places: Places, tuning: Tuning) -> None:
        self.places, self.tuning = places, tuning
        self.clear()

    def clear(self) -> None:
        """Begin another one."""
        self.works: list[Scheduled] = []
        self.costs: list[int] = []
        self.tasks = 0
        self.touched: dict[object, list[tuple[int, int, bool]]] = {}

    def take(self, least: int) -> Sequence[Work | Job]:
        """The kernels, as a job if they are worth waking threads for."""
        works, costs = tuple(self.works), self.costs
        self.clear()
        if len(works) < 2 or sum(costs) < self.tuning.job_cost:
            return works
        chunks = [work.plan.chunks for work in works]
        return [Job(works, _starts(chunks, costs, least))]

    def add(self, work: Scheduled, kernel: Kernel) -> bool:
        """Add a kernel if it needs none of the others, and none of them needs it."""
        tasks = self.tasks + work.plan.chunks
        if self.works and tasks > self.tuning.job_tasks:
            return False
        access = work_accesses(work)
        written = {*access.writes}
        ranges = [(self.places.of(b), b in written) for b in access.buffers]
        for (base, start, end), writes in ranges:
            for first, last, wrote in self.touched.get(base, ()):
                if start < last and first < end and (writes or wrote):
                    return False
        self.works.append(work)
        self.costs.append(kernel_cost(kernel))
        self.tasks = tasks
        for (base, start, end), writes in ranges:
            self.touched.setdefault(base, []).append((start, end, writes))
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
