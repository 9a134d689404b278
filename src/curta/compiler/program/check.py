"""The check of a memory plan: every read sees the write that dataflow says.

Under `CURTA_CHECK` the works of a program are replayed in their order over the places
that the plan gives their buffers: ranges of the arena and arrays of the caller. A
buffer is one value: works that store to it define it, and those that load it must find
it whole. A plan is wrong if

* a range holds something else when it is read, as a later write or one through another
  name of the same memory (a tie, a reused temporary, a donated argument) took it;
* works of one job touch the same bytes, and one of them writes;
* a kernel reads bytes that an earlier or a concurrent iteration has overwritten;
* a call hands its callee a result in the memory of an operand, or of its arena, that
  the callee does not update in place;
* a program writes to an argument that its caller did not give away, or a constant.

The check relies on statements and offsets alone, not on the analysis behind the plan.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from curta.compiler.loops.nodes import Buffer, Kernel
from curta.compiler.lower.items import RegionItem
from curta.compiler.memory.accesses import Accesses
from curta.compiler.memory.iterations import IterationOrder
from curta.compiler.program.check_regions import reads_before_writes, region_problems
from curta.compiler.program.program import Program
from curta.compiler.program.work import Job, Scheduled, Work, work_accesses
from curta.core.dim import is_symbolic_dim


class MemoryPlanError(AssertionError):
    """A plan of memory under which a program would compute something else."""


def check_memory(program: Program) -> None:
    """Check the plan of a program; those of its callees are checked apart.

    Raises:
        MemoryPlanError: naming the works and the buffers that get in each other's way.
    """
    if is_symbolic_dim(program.arena.size):
        return  # offsets are found when sizes are known
    problems = list(_Replay(program).run())
    if problems:
        raise MemoryPlanError("; ".join(problems[:5]))


class _Replay:
    """The works of a program in order, over what lies where."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.places = program.places
        self.memory: dict[object, _Ranges] = {}
        pairs = zip(program.plan.groups, program.groups, strict=False)
        self.items: dict[Work, RegionItem | None] = {
            w: item if isinstance(item := group.items[0], RegionItem) else None
            for group, works in pairs
            for w in works
        }
        self.left: dict[Buffer, int] = {}  # how many works will still write a buffer
        self.access: dict[Work, Accesses] = {w: work_accesses(w) for w in program.works}
        for access in self.access.values():
            for buffer in access.writes:
                self.left[buffer] = self.left.get(buffer, 0) + 1
        items, given = program.items, program.may_overwrite.items()
        donated = {i for i, o in given if program.workspace or o in program.in_place}
        kept = (b for i, b in enumerate(items.inputs) if i not in donated)
        self.kept: set[Buffer] = {*kept, *items.consts}
        for buffer in (*items.inputs, *items.consts):
            self._put(buffer)

    def run(self) -> Iterator[str]:
        """What is wrong, in the order of the works."""
        for job in self.program.jobs:
            works = job.works if isinstance(job, Job) else (job,)
            yield from self._side_by_side(works)
            for work in works:
                yield from self._reads(work, self.access[work])
            for work in works:
                yield from self._writes(work, self.access[work])
        for out in self.program.items.outputs:
            yield from self._is_there(out, None)
        yield from self._results()

    def _reads(self, work: Work, access: Accesses) -> Iterator[str]:
        written, updates = {*access.writes}, {*access.updates}
        for buffer in dict.fromkeys((*access.reads, *access.updates)):
            if buffer in written:
                # What a cumulative sum reads of its result it has stored itself.
                alone = buffer not in updates or self.left[buffer] == 1
                if not (alone or self._holds(buffer) or self._begins(buffer)):
                    yield f"{buffer.name} is updated before it is there"
            elif self.left.get(buffer):
                yield f"{buffer.name} is read before all of it is written"
            else:
                yield from self._is_there(buffer, work)

    def _writes(self, work: Work, access: Accesses) -> Iterator[str]:
        for buffer in access.writes:
            operand = self.program.memory.ties.get(buffer)
            if operand is not None and not self._holds(buffer):
                if self.places.of(operand) != self.places.of(buffer):
                    yield f"{buffer.name} is not where {operand.name} is"
                yield from self._is_there(operand, work)
            if self.places.of(buffer).base in self.kept:
                yield f"{_name(work)} writes {buffer.name}, which others need"
        yield from self._within(work, access)
        for buffer in access.writes:
            self.left[buffer] -= 1
            if buffer not in self.program.memory.begun:  # which is its argument
                self._put(buffer)

    def _within(self, work: Work, access: Accesses) -> Iterator[str]:
        """What a work writes in the place of something else that it touches."""
        pairs = [
            (a, b)
            for a, b in self.places.overlapping(access.buffers, access.writes)
            if a is not b
        ]
        kernel = work.kernel if isinstance(work, Scheduled) else None
        if isinstance(kernel, Kernel):
            yield from self._kernel(kernel, pairs)
        elif kernel is not None and kernel.programs:
            yield from region_problems(kernel, self.items[work], self.places)
        else:
            for a, b in pairs:
                if kernel is None or not reads_before_writes(kernel, a, b):
                    yield f"{_name(work)} writes {b.name} over {a.name}"

    def _kernel(
        self, kernel: Kernel, pairs: Iterable[tuple[Buffer, Buffer]]
    ) -> Iterator[str]:
        order = IterationOrder(kernel)
        for read, written in pairs:
            if read in order.stores:
                yield f"a kernel stores {read.name} and {written.name} to one place"
            aligned = self.places.of(read).start == self.places.of(written).start
            if not aligned or not order.loads_first([read], [written]):
                yield f"a kernel stores {written.name} over {read.name}, unread"

    def _side_by_side(self, works: Sequence[Work]) -> Iterator[str]:
        """Accesses of different works of one job to the same bytes."""
        if len(works) < 2:
            return
        owner: dict[Buffer, set[Work]] = {}
        written: set[Buffer] = set()
        for work in works:
            for buffer in self.access[work].buffers:
                owner.setdefault(buffer, set()).add(work)
            written.update(self.access[work].writes)
        for a, b in self.places.overlapping(owner, written):
            if len(owner[a] | owner[b]) > 1:
                yield f"works side by side touch {a.name} and write {b.name}"

    def _results(self) -> Iterator[str]:
        """Results where arguments lie are those that the program declares."""
        program, inputs = self.program, {*self.program.items.inputs}
        for i, out in enumerate(program.items.outputs):
            root = program.memory.root(out)
            if root in inputs and i not in program.in_place:
                yield f"{out.name} lies in {root.name}, which no caller expects"

    # ----------------------------------------------------------------- contents

    def _holds(self, buffer: Buffer) -> bool:
        """Whether the place of a buffer holds it, whole."""
        begun = self.program.memory.begun
        buffer = begun.get(buffer, buffer)
        place = self.places.of(buffer)
        ranges = self.memory.get(place.base)
        held = ranges.only(place.start, place.end) if ranges else None
        if held is buffer or place.size == 0:
            return True
        # A result that no work stores to is its operand.
        return buffer not in self.left and held is not None and self._begins(buffer)

    def _begins(self, buffer: Buffer) -> bool:
        operand = self.program.memory.ties.get(buffer)
        return operand is not None and self._holds(operand)

    def _is_there(self, buffer: Buffer, reader: Work | None) -> Iterator[str]:
        if not self._holds(buffer):
            place = self.places.of(buffer)
            ranges = self.memory.get(place.base)
            there = ranges.text(place.start, place.end) if ranges else "nothing"
            name = "the caller" if reader is None else _name(reader)
            yield f"{name} reads {buffer.name}, where {there} lies"

    def _put(self, buffer: Buffer) -> None:
        place = self.places.of(buffer)
        ranges = self.memory.setdefault(place.base, _Ranges())
        ranges.put(place.start, place.end, buffer)


def _name(work: Work) -> str:
    if isinstance(work, Scheduled):
        kind = "a kernel" if isinstance(work.kernel, Kernel) else "a region"
        made = work_accesses(work).writes
        return f"{kind} of {', '.join(sorted(b.name for b in made))}"
    return f"a call of the library for {work.results[0].name}"


class _Ranges:
    """What each byte of a block of memory holds: disjoint ranges in order."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.held: list[tuple[int, Buffer]] = []  # the end of each range, its value

    def put(self, start: int, end: int, value: Buffer) -> None:
        """Let a value take a range."""
        if start == end:
            return
        first, last = self._touching(start, end)
        rest: list[tuple[int, int, Buffer]] = [(start, end, value)]
        for i in range(first, last):
            low, (high, other) = self.starts[i], self.held[i]
            if low < start:
                rest.append((low, start, other))
            if end < high:
                rest.append((end, high, other))
        rest.sort(key=lambda r: r[0])
        self.starts[first:last] = [low for low, _, _ in rest]
        self.held[first:last] = [(high, other) for _, high, other in rest]

    def only(self, start: int, end: int) -> Buffer | None:
        """Return the value that holds all of a range, if one does."""
        first, last = self._touching(start, end)
        if last - first != 1 or self.starts[first] > start:
            return None
        high, value = self.held[first]
        return value if high >= end else None

    def text(self, start: int, end: int) -> str:
        """The names of what a range holds."""
        first, last = self._touching(start, end)
        return " and ".join(b.name for _, b in self.held[first:last]) or "nothing"

    def _touching(self, start: int, end: int) -> tuple[int, int]:
        """The numbers of the ranges that overlap one: from, to before."""
        first = bisect_left(self.starts, start)
        if first and self.held[first - 1][0] > start:
            first -= 1
        return first, bisect_left(self.starts, end)
