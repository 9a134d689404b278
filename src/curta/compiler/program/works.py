"""The last stage of lowering: groups of items become works of a program.

Kernels are assembled, split, scheduled and given their registers and rows; then the
arena is planned, and independent kernels are joined into jobs.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curta.compiler.dump import is_checked
from curta.compiler.fuse.assemble import assemble
from curta.compiler.fuse.fuse import FusionPlan
from curta.compiler.library.products import product_plan
from curta.compiler.library.routine import Routine
from curta.compiler.loops.bufferize import BufferPlacement, placement_of, received
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.check import check_kernel, check_region
from curta.compiler.loops.costs import block_cost, kernel_cost
from curta.compiler.loops.index import as_index
from curta.compiler.loops.lower import loop_dims, variables
from curta.compiler.loops.moves import by_width
from curta.compiler.loops.narrow_rows import widen_rows
from curta.compiler.loops.nodes import Buffer, Copy, Kernel, LoopNest, Region, Store
from curta.compiler.loops.split import piece_index, split_folds
from curta.compiler.lower.item_builder import InPlace
from curta.compiler.lower.item_lowering import LoweredItems
from curta.compiler.lower.items import LibraryItem, RegionItem
from curta.compiler.lower.ties import without_idle_copies
from curta.compiler.memory.accesses import Accesses, Step, accesses_of
from curta.compiler.memory.analysis import MemoryAliases, analyze
from curta.compiler.memory.arena import Arena, live_ranges, plan_arena
from curta.compiler.memory.places import Places
from curta.compiler.program.jobs import in_jobs
from curta.compiler.program.program import Program
from curta.compiler.program.work import Job, Scheduled, Work, buffers, called_programs
from curta.compiler.schedule.check import check_schedule
from curta.compiler.schedule.kernels import kernel_schedule
from curta.compiler.schedule.regions import region_schedule
from curta.compiler.sized import depends_on_sizes, total
from curta.compiler.targets import Target, Tuning
from curta.core.dim import is_symbolic_dim, typical
from curta.core.evaluate import const_as_numpy
from curta.core.jaxpr import ClosedJaxpr, Jaxpr
from curta.dtypes import physical_dtype


def program_of(
    flat: ClosedJaxpr,
    jaxpr: Jaxpr,
    items: LoweredItems,
    plan: FusionPlan,
    target: Target,
    often: bool,
    may_overwrite: InPlace,
    workspace: bool,
) -> Program:
    """Return the program of fused items.

    Args:
        flat: the prepared jaxpr with its constants.
        jaxpr: the same in the order of execution.
        items: the work items of the jaxpr.
        plan: the groups of items that share kernels.
        target: the machine that it is made for.
        often: whether it is the body of a loop or a branch.
        may_overwrite: arguments that the caller gives away, each with the result that
            may take its memory.
        workspace: whether these may be overwritten by other values, too.
    """
    steps = steps_of(plan, items, target)
    flow = {step: accesses_of(step) for group in steps for step in group}
    apart = often and not workspace  # a branch: its caller may pass two addresses
    memory = analyze(flow, items, may_overwrite, workspace, apart)
    steps, last = with_copies(steps, flow, memory, items.builder, target)
    scheduled = _WorkMaker(items, memory, target, often)
    each = [step for group in [*steps, last] for step in group]
    scheduled.note({s: flow.get(s) or accesses_of(s) for s in each})
    groups = tuple(tuple(map(scheduled, group)) for group in steps)
    works = [work for group in groups for work in group] + [*map(scheduled, last)]
    pointers = ends_of(items)
    arena = arena_of(works, pointers, memory, target.tuning)
    places = Places(items, memory, arena, may_overwrite)
    ends = [*jaxpr.out_avals, *jaxpr.in_avals]
    avals = [v.aval for v in jaxpr.constvars]
    return Program(
        signature=tuple((physical_dtype(a.dtype), a.shape) for a in ends),
        results=len(jaxpr.out_avals),
        arena_word=len(avals) + 1,
        in_place=memory.in_place,
        target=target,
        flat=flat,
        jaxpr=jaxpr,
        items=items,
        plan=plan,
        groups=groups,
        jobs=tuple(in_jobs(works, places, often, target.tuning)),
        pointers=tuple(pointers),
        may_overwrite=may_overwrite,
        workspace=workspace,
        memory=memory,
        arena=arena,
        consts=tuple(map(const_as_numpy, flat.consts, avals)),
        often=often,
        **demands(works, arena),
    )


def rearranged(
    program: Program,
    works: Sequence[Work],
    pointers: Sequence[Buffer],
    consts: Sequence[np.ndarray[Any, Any]],
) -> Program:
    """Return a program with further works, pointers and constants.

    The works of the program keep their order and their arena: temporaries lie where
    they lay, and the caller of a body provides an arena of that size.
    """
    memory, arena = program.memory, program.arena
    places = Places(program.items, memory, arena, {})
    return dataclasses.replace(
        program,
        groups=tuple((work,) for work in works),
        jobs=tuple(in_jobs(works, places, False, program.target.tuning)),
        pointers=tuple(pointers),
        memory=memory,
        arena=arena,
        arena_word=len(consts) + 1,
        consts=tuple(consts),
        often=False,
        **demands(works, arena),
    )


def demands(works: Sequence[Work], arena: Arena) -> dict[str, Any]:
    """Return what a program of these works costs and needs, as fields of `Callee`."""
    programs = called_programs(works)
    inner = [p.temporaries for p in programs if not p.arena_bytes]
    scheduled = [w for w in works if isinstance(w, Scheduled)]
    return {
        "cost": sum(map(work_cost, works)),
        "arena_bytes": arena.needed,
        "temporaries": total([arena.size, *inner]),
        "runs_python": any(p.runs_python for p in programs),
        "cancellable": any(w.plan.takes_token for w in scheduled),
    }


def ends_of(items: LoweredItems) -> list[Buffer]:
    """The arrays that the caller of a program provides."""
    return [*items.outputs, *items.inputs, *items.consts]


def steps_of(plan: FusionPlan, items: LoweredItems, target: Target) -> list[list[Step]]:
    """Return what is run for each group of a plan: most are one kernel."""
    groups: list[list[Step]] = []
    for group in plan.groups:
        item = group.items[0]
        if isinstance(item, (RegionItem, LibraryItem)):
            groups.append([item])
        else:
            kernel = assemble(group, items.builder)
            groups.append(_kernels(kernel, items.builder, target))
    return groups


def _kernels(kernel: Kernel, builder: ScalarBuilder, target: Target) -> list[Step]:
    """Return the kernels of a group, after the passes over kernels."""
    given = builder, target
    wide = widen_rows(by_width(kernel, builder, target.tuning), *given)
    return [k for w in wide for k in split_folds(w, *given)]


def with_copies(
    groups: Sequence[Sequence[Step]],
    flow: Mapping[Step, Accesses],
    memory: MemoryAliases,
    builder: ScalarBuilder,
    target: Target,
) -> tuple[list[list[Step]], list[Step]]:
    """Return the groups with copies before what begins as an operand elsewhere.

    The second result are copies of what no work stores to. Regions copy for
    themselves.
    """
    begun = {first: copy for first, copy in memory.ties.items() if copy in memory.begun}
    wanted = {**begun, **memory.copies}

    def copies(result: Buffer) -> list[Step]:
        operand = wanted.pop(result)
        if operand in memory.begun:
            return [conditional_copy(operand, memory.begun[operand])]
        return _kernels(copy_kernel(result, operand, builder), builder, target)

    made: list[list[Step]] = []
    for group in groups:
        made.append([])
        for step in group:
            for result in [b for b in flow[step].writes if b in wanted]:
                if isinstance(step, Kernel):
                    made[-1] += copies(result)
                else:
                    del wanted[result]
            made[-1].append(step)
    return made, [step for result in [*wanted] for step in copies(result)]


def copy_kernel(result: Buffer, operand: Buffer, builder: ScalarBuilder) -> Kernel:
    """Return the kernel that copies a buffer."""
    (index,) = loop_dims((result.size,))
    offset = as_index(index)
    value = builder.load(operand, offset, operand.dtype)
    return Kernel(
        (), (LoopNest(variables((index,)), (Store(result, offset, value),), ()),)
    )


def conditional_copy(result: Buffer, operand: Buffer) -> Region:
    """Return the region that copies a buffer unless both have one address."""
    return Region((Copy(result, operand, unless_same=True),))


class _WorkMaker:
    """Makes works of steps: kernels and regions get their schedules."""

    def __init__(
        self, items: LoweredItems, memory: MemoryAliases, target: Target, often: bool
    ) -> None:
        self.items, self.memory, self.target = items, memory, target
        self.often = often
        self.shared: set[Buffer] = {*ends_of(items), *items.ties.values()}

    def note(self, flow: Mapping[Step, Accesses]) -> None:
        """Take in which buffers pass values between steps, or into one but a kernel.

        Kernels made of one kernel store to the same buffers. A buffer passes no value
        if each of them reads only elements that it has stored itself.
        """
        users: Counter[Buffer] = Counter()
        passed: set[Buffer] = set()
        for step, access in flow.items():
            touched = access.buffers
            users.update(touched)
            if isinstance(step, Kernel):
                passed.update(received(step))
            else:
                self.shared.update(touched)
        self.shared.update(b for b in passed if users[b] > 1)

    def __call__(self, step: Step) -> Work:
        """Schedule a step."""
        if isinstance(step, LibraryItem):
            return step
        if isinstance(step, Kernel):
            return self._kernel(step)
        if isinstance(step, Region):
            copies = (s for s in step.body if isinstance(s, Copy))
            arrays = [b for s in copies for b in (s.to, s.source)]
            return self._region(step, arrays)
        arrays = [*step.results, *step.operands, *step.temporaries]
        ties, root = self.memory.ties, self.memory.root
        return self._region(without_idle_copies(step.region, ties, root), arrays)

    def _kernel(self, kernel: Kernel) -> Scheduled:
        plan = kernel_schedule(kernel, self.target, self.often)
        if is_checked():
            check_kernel(kernel, (piece_index(plan.pieces),) if kernel.piece else ())
            check_schedule(kernel, plan)
        return Scheduled(
            kernel, plan, placement_of(kernel, plan, self.shared, self.target.tuning)
        )

    def _region(self, region: Region, arrays: Sequence[Buffer]) -> Scheduled:
        arguments = (*dict.fromkeys(arrays),)
        plan = region_schedule(region, self.target)
        if is_checked():
            check_region(region, arguments)
            check_schedule(region, plan)
        return Scheduled(region, plan, BufferPlacement(arguments, frozenset(), {}))


def arena_of(
    works: Sequence[Work],
    ends: Sequence[Buffer],
    memory: MemoryAliases,
    tuning: Tuning,
) -> Arena:
    """Return where works have what is not in the arrays of the caller."""
    steps = [[memory.root(b) for b in buffers(w)] for w in works]
    return plan_arena(live_ranges(steps, {*ends}), memory.reused, tuning)


def needs_threads(program: Program) -> bool:
    """Return True if some of its works, or those of its callees, use several threads.

    Programs that take little time alone do not need the pool of threads at once.
    """
    return any(_uses_threads(p) for p in program.inner_first())


def _uses_threads(program: Program) -> bool:
    most = program.target.tuning.alone_cost
    little = not program.often and typical(program.cost) <= most
    return not little and is_parallel(program.jobs, program.target)


def is_parallel(jobs: Sequence[Work | Job], target: Target) -> bool:
    """Return True if some work asks for threads."""
    return any(isinstance(job, Job) or _is_parallel(job, target) for job in jobs)


def _is_parallel(work: Work, target: Target) -> bool:
    """Return True if a work may be cut into several chunks."""
    if isinstance(work, Scheduled):
        return is_symbolic_dim(work.plan.chunks) or work.plan.chunks > 1
    key = work.routine
    if isinstance(key, Routine) or depends_on_sizes(key):
        return True
    return product_plan(key, target).is_parallel


def work_cost(work: Work) -> int:
    """The cost of a piece of work, in simple scalar operations."""
    if isinstance(work, Scheduled):
        if isinstance(work.kernel, Kernel):
            return kernel_cost(work.kernel)
        # A vector of examples takes about as long as one.
        return block_cost(work.kernel.body) * work.plan.iterations
    return work.routine.work
