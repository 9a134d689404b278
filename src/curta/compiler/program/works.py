"""The last stage of lowering: groups of items become works of a program.

Kernels are assembled, split, scheduled and given their registers and rows; then the
arena is planned, and independent kernels are joined into jobs.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curta.compiler.fuse.assemble import assemble
from curta.compiler.fuse.fuse import FusionPlan
from curta.compiler.fuse.replace import Replaceable, replaceable_temporaries
from curta.compiler.library.products import product_plan
from curta.compiler.library.routine import Routine
from curta.compiler.loops.bufferize import (
    Arena,
    BufferPlacement,
    placement_of,
    plan_arena,
)
from curta.compiler.loops.check import check_kernel, check_region
from curta.compiler.loops.costs import block_cost, kernel_cost
from curta.compiler.loops.moves import by_width
from curta.compiler.loops.narrow_rows import widen_rows
from curta.compiler.loops.nodes import Buffer, Kernel, memory_of
from curta.compiler.loops.split import piece_index, split_folds
from curta.compiler.lower.item_builder import InPlace
from curta.compiler.lower.item_lowering import LoweredItems
from curta.compiler.lower.items import LibraryItem, RegionItem
from curta.compiler.lower.ties import without_idle_copies
from curta.compiler.program.jobs import in_jobs
from curta.compiler.program.program import Program
from curta.compiler.program.work import Job, Scheduled, Work, buffers, called_programs
from curta.compiler.schedule.check import check_schedule
from curta.compiler.schedule.kernels import kernel_schedule
from curta.compiler.schedule.regions import region_schedule
from curta.compiler.sized import depends_on_sizes, total
from curta.compiler.targets import Target
from curta.config import config
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
    in_place: InPlace,
    overwriting: frozenset[int],
) -> Program:
    """Return the program of fused items.

    Args:
        flat: the prepared jaxpr with its constants.
        jaxpr: the same in the order of execution.
        items: the work items of the jaxpr.
        plan: the groups of items that share kernels.
        target: the machine that it is made for.
        often: whether it is the body of a loop or a branch.
        in_place: arguments that the caller allows to overwrite, with the results that
            may take their buffers.
        overwriting: the results that do.
    """
    groups = tuple(map(tuple, works_of(plan, items, target, often)))
    works = [work for group in groups for work in group]
    pointers, roots = ends_of(items), items.roots
    replaceable = replaceable_temporaries(plan, roots)
    arena = arena_of(works, pointers, roots, replaceable)
    given = {items.outputs[o]: items.inputs[i] for i, o in in_place.items()}
    same = {**roots, **given}
    ends = [*jaxpr.out_avals, *jaxpr.in_avals]
    avals = [v.aval for v in jaxpr.constvars]
    return Program(
        signature=tuple((physical_dtype(a.dtype), a.shape) for a in ends),
        results=len(jaxpr.out_avals),
        arena_word=len(avals) + 1,
        in_place=overwriting,
        target=target,
        flat=flat,
        jaxpr=jaxpr,
        items=items,
        plan=plan,
        groups=groups,
        jobs=tuple(in_jobs(works, arena, same, often)),
        pointers=tuple(pointers),
        may_overwrite=in_place,
        roots=roots,
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
    arena = program.arena
    return dataclasses.replace(
        program,
        groups=tuple((work,) for work in works),
        jobs=tuple(in_jobs(works, arena, program.roots, False)),
        pointers=tuple(pointers),
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


def works_of(
    plan: FusionPlan, items: LoweredItems, target: Target, often: bool
) -> list[list[Work]]:
    """The works of each group of a plan: most are one kernel."""
    given = items.builder, target.vector_bytes
    groups: list[list[LibraryItem | Scheduled | Kernel]] = []
    for group in plan.groups:
        item = group.items[0]
        if isinstance(item, RegionItem):
            groups.append([_scheduled_region(item, target, items.roots)])
        elif isinstance(item, LibraryItem):
            groups.append([item])
        else:
            kernel = by_width(assemble(group, items.builder), items.builder)
            wide = widen_rows(kernel, *given)
            groups.append([k for w in wide for k in split_folds(w, *given)])
    works = [w for group in groups for w in group]
    users = Counter(b for w in works for b in _touched(w))
    shared = {*ends_of(items), *(b for b, count in users.items() if count > 1)}
    shared.update(items.ties.values())
    shared.update(b for w in works if not isinstance(w, Kernel) for b in _touched(w))
    return [
        [
            _scheduled(w, target, shared, often) if isinstance(w, Kernel) else w
            for w in group
        ]
        for group in groups
    ]


def _touched(work: Work | Kernel) -> Sequence[Buffer]:
    if isinstance(work, Kernel):
        return [*map(memory_of, work.buffers())]
    return buffers(work)


def _scheduled(
    kernel: Kernel, target: Target, shared: set[Buffer], often: bool
) -> Scheduled:
    plan = kernel_schedule(kernel, target, often)
    if os.environ.get("CURTA_CHECK"):
        check_kernel(kernel, (piece_index(plan.pieces),) if kernel.piece else ())
        check_schedule(kernel, plan)
    return Scheduled(kernel, plan, placement_of(kernel, plan, shared))


def _scheduled_region(
    item: RegionItem, target: Target, roots: Mapping[Buffer, Buffer]
) -> Scheduled:
    arrays = (*dict.fromkeys((*item.results, *item.operands, *item.temporaries)),)
    region = without_idle_copies(item.region, roots)
    plan = region_schedule(region, target)
    if os.environ.get("CURTA_CHECK"):
        check_region(region, arrays)
        check_schedule(region, plan)
    return Scheduled(region, plan, BufferPlacement(arrays, frozenset(), {}))


def arena_of(
    works: Sequence[Work],
    ends: Sequence[Buffer],
    roots: Mapping[Buffer, Buffer],
    replaceable: Replaceable,
) -> Arena:
    """The storage of values outside of the caller's arrays."""
    steps = [[roots.get(b, b) for b in buffers(w)] for w in works]
    return plan_arena(steps, set(ends), replaceable)


def needs_threads(program: Program) -> bool:
    """Return True if some of its works, or those of its callees, use several threads.

    Programs that take little time alone do not need the pool of threads at once.
    """
    return any(_uses_threads(p) for p in program.inner_first())


def _uses_threads(program: Program) -> bool:
    little = not program.often and typical(program.cost) <= config.tuning.alone_cost
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
