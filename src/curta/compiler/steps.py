"""The code of a program: groups of items to one native function.

Their kernels are assembled, scheduled, placed and emitted together, with the entry that
runs them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from curta.compiler.dot_code import dot_call, entry_call
from curta.compiler.dump import dump
from curta.compiler.executable import Launcher, NativeCode
from curta.compiler.graph.fuse import FusionPlan
from curta.compiler.graph.item_builder import InPlace
from curta.compiler.graph.item_lowering import Program
from curta.compiler.graph.items import LibraryItem, RegionItem
from curta.compiler.graph.replace import Replaceable, replaceable_temporaries
from curta.compiler.jobs import in_jobs
from curta.compiler.levels import level_of, routine_level
from curta.compiler.library.routine import Routine
from curta.compiler.linked import Source, link
from curta.compiler.llvm import target
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.entry import (
    ENTRY,
    Job,
    KernelModules,
    LibraryKey,
    Scheduled,
    Work,
    buffers,
    called_programs,
    emit_entry,
    in_entry,
    library_keys,
    works_in,
)
from curta.compiler.loops.assemble import assemble
from curta.compiler.loops.bufferize import (
    Arena,
    BufferPlacement,
    placement_of,
    plan_arena,
)
from curta.compiler.loops.check import check_kernel, check_region
from curta.compiler.loops.costs import block_cost, is_cancellable, kernel_cost
from curta.compiler.loops.moves import by_width
from curta.compiler.loops.narrow_rows import widen_rows
from curta.compiler.loops.nodes import Buffer, Kernel, memory_of
from curta.compiler.loops.row_blocks import in_blocks_of_rows
from curta.compiler.loops.schedule import region_schedule, schedule
from curta.compiler.loops.split import piece_index, split_folds
from curta.compiler.pretty import pretty_work
from curta.compiler.routine_code import (
    LibraryCall,
    routine_call,
    shared_code,
)
from curta.compiler.sized import Slots, depends_on_sizes, total
from curta.config import config
from curta.core.dim import is_symbolic_dim, typical
from curta.signals import meanwhile


def make_code(
    plan: FusionPlan,
    program: Program,
    often: bool,
    launcher: Launcher | None,
    in_place: InPlace,
) -> NativeCode:
    """The code that runs a plan; `often` if it is the body of a loop.

    Results may lie `in_place` of arguments.
    If it is for threads, and the first call too, the `launcher` is made meanwhile,
    once in a process.
    """
    done = [work for works in works_of(plan, program, often) for work in works]
    dump("kernels", lambda: "\n".join(map(pretty_work, done)))
    cost = typical(sum(map(work_cost, done)))
    little = not often and cost <= config.tuning.alone_cost
    needed = not little and any(map(is_parallel, done))
    same = {program.outputs[o]: program.inputs[i] for i, o in in_place.items()}
    with meanwhile(launcher if needed else None):
        replaceable = replaceable_temporaries(plan)
        return native_code(done, ends_of(program), often, replaceable, same)


def ends_of(program: Program) -> list[Buffer]:
    """The arrays that the caller of a program provides."""
    return [*program.outputs, *program.inputs, *program.consts]


def works_of(plan: FusionPlan, program: Program, often: bool) -> list[list[Work]]:
    """What is run for each group of a plan: most are one kernel."""
    machine = target.host()
    groups: list[list[LibraryItem | Scheduled | Kernel]] = []
    for group in plan.groups:
        item = group.items[0]
        if isinstance(item, RegionItem):
            groups.append([_scheduled_region(item, machine)])
        elif isinstance(item, LibraryItem):
            groups.append([item])
        else:
            kernel = by_width(assemble(group, program.builder), program.builder)
            wide = widen_rows(kernel, program.builder)
            groups.append([k for w in wide for k in split_folds(w, program.builder)])
    works = [w for group in groups for w in group]
    users = Counter(b for w in works for b in _touched(w))
    shared = {*ends_of(program), *(b for b, count in users.items() if count > 1)}
    shared.update(b for w in works if not isinstance(w, Kernel) for b in _touched(w))
    return [
        [
            _scheduled(w, machine, shared, often) if isinstance(w, Kernel) else w
            for w in group
        ]
        for group in groups
    ]


def _touched(work: Work | Kernel) -> Sequence[Buffer]:
    if isinstance(work, Kernel):
        return [*map(memory_of, work.buffers())]
    return buffers(work)


def _scheduled(
    kernel: Kernel, machine: target.Target, shared: set[Buffer], often: bool
) -> Scheduled:
    plan = schedule(kernel, machine.vector_bytes, often)
    plan = in_blocks_of_rows(kernel, plan, machine.vector_bytes, often)
    if os.environ.get("CURTA_CHECK"):
        check_kernel(kernel, (piece_index(plan.pieces),) if kernel.piece else ())
    return Scheduled(kernel, plan, placement_of(kernel, plan, shared))


def _scheduled_region(item: RegionItem, machine: target.Target) -> Scheduled:
    arrays = (*dict.fromkeys((*item.results, *item.operands, *item.temporaries)),)
    if os.environ.get("CURTA_CHECK"):
        check_region(item.region, arrays)
    plan = region_schedule(item.region, machine.vector_bytes)
    return Scheduled(item.region, plan, BufferPlacement(arrays, frozenset(), {}))


def temporary_bytes(plan: FusionPlan, program: Program) -> int:
    """The bytes that a program takes besides its ends, without making its code."""
    works = [work for works in works_of(plan, program, False) for work in works]
    arena = arena_of(works, ends_of(program), replaceable_temporaries(plan))
    return total(_temporaries(works, arena))


def arena_of(works: list[Work], ends: list[Buffer], replaceable: Replaceable) -> Arena:
    """Where works have what does not lie in the arrays of the caller."""
    return plan_arena([buffers(w) for w in works], set(ends), replaceable)


def _temporaries(works: list[Work], arena: Arena) -> list[Any]:
    """The bytes of the arena, and of programs that have theirs elsewhere."""
    programs = called_programs(works)
    return [arena.size, *(p.temporaries for p in programs if not p.arena_bytes)]


def native_code(
    works: list[Work],
    pointers: list[Buffer],
    often: bool,
    replaceable: Replaceable = MappingProxyType({}),
    same: Mapping[Buffer, Buffer] = MappingProxyType({}),
) -> NativeCode:
    """The function that runs works in order; its table begins with the `pointers`.

    What is `replaceable` is memory for results of kernels (graph/replace.py). Results
    may lie in the `same` memory as arguments.
    """
    arena = arena_of(works, pointers, replaceable)
    jobs = in_jobs(works, arena, same, often)
    keys = library_keys(works)
    fixed = [key for key in keys if not depends_on_sizes(key)]
    library = {key: _library_call(key, often) for key in fixed}
    parallel = any(isinstance(j, Job) or is_parallel(j) for j in jobs)
    slots = Slots()
    entry = _entry_code(jobs, pointers, arena, often, library, parallel, slots)
    programs = called_programs(works)
    made = link([entry, *(code for call in library.values() for code in call.code)])
    return NativeCode(
        made[0],
        (*programs, *made[1:]),
        sum(map(work_cost, works)),
        arena.needed,
        total(_temporaries(works, arena)),
        parallel,
        any(p.runs_python for p in programs),
        any(is_cancellable(w.kernel) for w in works if isinstance(w, Scheduled)),
        slots,
    )


def is_parallel(work: Work) -> bool:
    """Whether it may run on threads: programs of which none does need no pool."""
    if isinstance(work, Scheduled):
        return is_symbolic_dim(work.plan.chunks) or work.plan.chunks > 1
    key = work.routine
    if isinstance(key, Routine) or depends_on_sizes(key):
        return True
    return dot_call(key).parallel


def _library_call(key: LibraryKey, often: bool) -> LibraryCall:
    if isinstance(key, Routine):
        return routine_call(key, routine_level(key, often))
    return entry_call(key)


def _entry_code(
    jobs: list[Work | Job],
    pointers: list[Buffer],
    arena: Arena,
    often: bool,
    library: Mapping[LibraryKey, LibraryCall],
    parallel: bool,
    slots: Slots,
) -> Source:
    """The entry and its kernels: one module if that will do, or one for each level."""

    def new_module() -> Module:
        module = target.host().module()
        module.sizes = slots
        return module

    kernels = KernelModules(new_module)
    works = works_in(jobs)
    for work in works:
        if isinstance(work, Scheduled) and not in_entry(work):
            kernels.add(work, level_of(work, often))
    apart = kernels.modules
    level, entry = target.QUICK, new_module()
    if len(apart) == 1 and len(works) <= config.tuning.short_entry:
        only = apart.pop()
        level, entry = only.level, only.module
    callees = []
    for part in apart:
        part.module.export(part.functions)
        text, shared = part.module.text(), shared_code(part.module, part.level)
        callees.append(Source.of(text, part.level, part.functions, shared))
    emit_entry(entry, jobs, pointers, arena, kernels.functions, library, parallel)
    text = entry.text()
    dump("llvm", lambda: "\n".join([*(c.write() for c in callees), text]))
    return Source.of(text, level, [ENTRY], [*callees, *shared_code(entry, level)])


def work_cost(work: Work) -> int:
    """What a piece of work costs, in simple scalar operations."""
    if isinstance(work, Scheduled):
        if isinstance(work.kernel, Kernel):
            return kernel_cost(work.kernel)
        # A vector of examples takes about as long as one.
        return block_cost(work.kernel.body) * work.plan.iterations
    return work.routine.work
