"""Report on a compiled program: its kernels, fusion, and times.

Kernels are timed as the program runs: it is compiled once more, with the clock read
between them.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

from curta._base.lazy_dataclass import dataclass
from curta.compiler.clocks import clocked
from curta.compiler.executable import Executable, Launcher, NDArray
from curta.compiler.fuse.groups import FusionGroup
from curta.compiler.host_target import host
from curta.compiler.loops.nodes import Buffer
from curta.compiler.lower.item_builder import InPlace
from curta.compiler.lower.item_lowering import LoweredItems
from curta.compiler.lower.items import RegionItem, written
from curta.compiler.pipeline import lower
from curta.compiler.pretty import pretty_work
from curta.compiler.program.program import Program
from curta.compiler.program.work import Job, Work, buffers, called_programs, works_in
from curta.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var


@dataclass(frozen=True, eq=False)
class KernelReport:
    """A kernel, or a call of the library, of programs or of Python.

    `eqns` are those computed in it; `read` and `written` bytes are of memory, each
    element once; `apart` says why the kernels before it do not contain it; `inner` are
    the programs that it calls.
    """

    kind: str
    eqns: tuple[Eqn, ...]
    labels: tuple[str, ...]
    read: int
    written: int
    apart: tuple[str, ...]
    inner: tuple[ProgramReport, ...]
    works: tuple[Work, ...]

    @property
    def code(self) -> str:
        """The printed form: loops, vectors, where values lie."""
        return "\n".join(map(pretty_work, self.works))

    @property
    def in_python(self) -> bool:
        """Whether it runs in Python, or calls programs that do."""
        return any(p.runs_python for p in called_programs(self.works))


@dataclass(frozen=True, eq=False)
class ProgramReport:
    """The kernels of a program in the order in which they run.

    `together` has how many kernels in a row run side by side: one, or those of a job.
    Bytes: of the arena, of results and arguments, of constants of the program.
    """

    program: Program
    kernels: tuple[KernelReport, ...]
    together: tuple[int, ...]
    arena: int
    results: int
    arguments: int
    constants: int

    @property
    def peak(self) -> int:
        """The bytes that a call needs at once, arguments and constants included."""
        return self.arena + self.results + self.arguments + self.constants


def report(closed: ClosedJaxpr, in_place: InPlace | None = None) -> ProgramReport:
    """Return the report of a program as it is compiled for this machine.

    Args:
        closed: the program.
        in_place: arguments that it may overwrite, each with the result that may take
            its memory.
    """
    return _report(lower(closed, host(), in_place=in_place))


def _report(program: Program) -> ProgramReport:
    fused = _fused(program.jaxpr, program.items, program.plan.groups)
    kernels = []
    for group, eqns, works in zip(
        program.plan.groups, fused, program.groups, strict=True
    ):
        refusals = program.plan.refusals.items()
        reasons = [reason for (_, item), reason in refusals if item in group.items]
        kernels.append(_kernel(group, eqns, works, reasons))
    items = program.items
    return ProgramReport(
        program,
        tuple(kernels),
        _together(program.groups, program.jobs),
        program.arena.needed,
        sum(b.nbytes for b in items.outputs),
        sum(b.nbytes for b in items.inputs),
        sum(b.nbytes for b in items.consts),
    )


def _together(
    works: Sequence[Sequence[Work]], jobs: Sequence[Work | Job]
) -> tuple[int, ...]:
    """How many groups of works in a row have jobs in common."""
    job_of = {w: i for i, job in enumerate(jobs) for w in works_in([job])}
    found: list[int] = []
    last = None
    for group in works:
        if found and group and job_of[group[0]] == last:
            found[-1] += 1
        else:
            found.append(1)
        last = job_of[group[-1]] if group else None
    return tuple(found)


def _kernel(
    group: FusionGroup,
    eqns: tuple[Eqn, ...],
    works: Sequence[Work],
    reasons: Sequence[str],
) -> KernelReport:
    first = group.items[0]
    inner: tuple[ProgramReport, ...] = ()
    if isinstance(first, RegionItem):
        called = first.region.programs
        inner = tuple(_report(p) for p in called if isinstance(p, Program))
    labels = tuple(item.label for item in group.loops())
    if not labels and eqns:
        labels = (eqns[-1].op.name,)
    read, stored = _traffic(group, works)
    apart = tuple(dict.fromkeys(reasons))
    made = tuple(works)
    return KernelReport(first.kind, eqns, labels, read, stored, apart, inner, made)


def _traffic(group: FusionGroup, works: Sequence[Work]) -> tuple[int, int]:
    """The bytes of memory that a kernel reads and writes, each element once."""
    there = {b for w in works for b in buffers(w)}
    loops = group.loops()
    if not loops:
        results = {b for item in group.items for b in written(item)}
        others = there - results
        return sum(b.nbytes for b in others), sum(b.nbytes for b in results)
    loaded: dict[Buffer, int] = defaultdict(int)
    stored: dict[Buffer, int] = defaultdict(int)
    for item in loops:
        for read in item.loads:
            loaded[read.buffer] += item.work
        for store in item.stores:
            stored[store.buffer] += item.work
        for fold in item.folds:
            for store in fold.stores:
                stored[store.buffer] += store.buffer.size
    sizes = [
        sum(
            min(b.nbytes, n * max(1, b.dtype.itemsize))
            for b, n in x.items()
            if b in there
        )
        for x in (loaded, stored)
    ]
    return sizes[0], sizes[1]


def _fused(
    jaxpr: Jaxpr, items: LoweredItems, groups: Sequence[FusionGroup]
) -> list[tuple[Eqn, ...]]:
    """The eqns that each group computes, in the order of the jaxpr."""
    made_by = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    order_of = {eqn: i for i, eqn in enumerate(jaxpr.eqns)}
    values: dict[Buffer, list[Var]] = defaultdict(list)
    for v in made_by:
        if v in items.variables:
            values[items.variables[v]].append(v)
    writers: dict[Buffer, list[int]] = defaultdict(list)
    for i, group in enumerate(groups):
        for buffer in dict.fromkeys(b for item in group.items for b in written(item)):
            writers[buffer].append(i)
    result: list[set[Eqn]] = [set() for _ in groups]
    for buffer, by in writers.items():
        there = values[buffer]
        for order, i in enumerate(by):
            # A buffer of several values is updated in place, by group after group.
            own = there if len(there) == 1 else there[order : order + 1]
            if order == len(by) - 1 and len(there) > 1:
                own = there[order:]
            for v in own:
                _reach(made_by[v], made_by, items, result[i])
    for group, eqns in zip(groups, result, strict=True):
        if isinstance(group.items[0], RegionItem):
            # An eqn for its effects has no values.
            _reach(group.items[0].eqn, made_by, items, eqns)
    return [tuple(sorted(eqns, key=order_of.__getitem__)) for eqns in result]


def _reach(
    root: Eqn, made_by: dict[Var, Eqn], items: LoweredItems, reached: set[Eqn]
) -> None:
    """Add an eqn and the eqns fused into it."""
    left = [root]
    while left:
        eqn = left.pop()
        if eqn in reached:
            continue
        reached.add(eqn)
        for v in eqn.invars:
            if isinstance(v, Var) and v not in items.variables and v in made_by:
                left.append(made_by[v])


# ---- times

T = TypeVar("T")


@dataclass(frozen=True)
class Times:
    """Seconds of the call that took least: of each kernel in it, and of all of it.

    `typical` is the median of all calls. Both are None where there was one call.
    `bodies` has what the kernels of each program that a loop or a branch runs took, in
    any unit.
    """

    kernels: tuple[float, ...]
    call: float | None = None
    typical: float | None = None
    bodies: Mapping[Program, NDArray] = field(default_factory=dict)


def measure(
    made: ProgramReport,
    args: Sequence[NDArray],
    parallel_for: Launcher,
    seconds: float = 0.3,
    call_of: Callable[[Executable], Callable[[], object]] | None = None,
) -> Times:
    """How long a call of a program takes on arguments, and the kernels in it.

    The program is called as often as the time given allows, with the clock read between
    its kernels; all times are those of the one call that took least, so that they add
    up. `call_of` gives a user's call of an executable; without it that is called as it
    is. Programs that run Python are called once.
    """
    program = clocked(made, parallel_for)
    executable = program.executable
    call: Callable[[], object] = functools.partial(executable, *args)
    if call_of is not None:
        call = call_of(executable)
    if any(k.in_python for k in made.kernels):
        return Times(program.sample(call)[1], bodies=program.totals.of)
    samples = [*_for_a_while(functools.partial(program.sample, call), seconds)]
    least, kernels = min(samples)
    typical_call = statistics.median(s for s, _ in samples)
    return Times(kernels, least, typical_call, program.totals.of)


def _for_a_while(measured: Callable[[], T], seconds: float) -> Iterator[T]:
    """What is measured again and again, a few times at least.

    The first calls make threads and memory, and are looked up in Python.
    """
    for _ in range(_ROUNDS):
        yield measured()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        yield measured()


_ROUNDS = 3  # at least
