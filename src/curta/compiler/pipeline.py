"""From a jaxpr to machine code: the table of contents of the compiler.

    inline     replace calls by their bodies             rewrite/inline.py
    ...        rewrite the jaxpr                         rewrite/passes.py
    fit        recompute values to save memory           fitting.py
    ...        order the equations                       rewrite/passes.py
    lower      a work item for each value with a buffer  lower/item_lowering.py
    fuse       group items that share loops              fuse/fuse.py
    works      turn each group into works of a program:  program/works.py
    assemble   a kernel from a group: loop nests         fuse/assemble.py
    memory     which buffers share memory                memory/analysis.py
    schedule   order, vectors, chunks for threads        schedule/
    bufferize  registers, rows on the stack              loops/bufferize.py
    arena      offsets of temporaries                    memory/arena.py
    emit       write LLVM IR                             emit/, llvm/
    link       compile it, or find it in the cache       machine_code/linked.py
    load       resolve addresses, constants and callees  loading.py

`lower` returns a `Program`, which is data (program/program.py): nothing is compiled or
loaded before the last two stages.

`CURTA_DUMP` prints what they make: `jaxpr` what comes in, `inline` and the names in
`rewrite/passes.py` the program after each, `prepared` the jaxpr that is lowered, then
`fuse`, `memory`, `kernels`, `schedule`, `program` (all works, with their memory) and
`llvm`.
"""

from __future__ import annotations

import time

from curta._base.advisor import advise
from curta._base.signals import meanwhile
from curta.compiler.dump import dump, is_checked
from curta.compiler.emit.emission import emit
from curta.compiler.executable import Executable, Launcher
from curta.compiler.fitting import fitted, memory_limit
from curta.compiler.fuse.fuse import fuse, separate
from curta.compiler.host_target import host
from curta.compiler.loading import load
from curta.compiler.lower.item_builder import InPlace
from curta.compiler.lower.item_lowering import LoweredItems, lower_to_items
from curta.compiler.lower.items import RegionItem
from curta.compiler.pretty import (
    pretty_memory,
    pretty_plan,
    pretty_program,
    pretty_schedules,
    pretty_work,
)
from curta.compiler.program.check import check_memory
from curta.compiler.program.program import Program
from curta.compiler.program.works import needs_threads, program_of
from curta.compiler.rewrite.expansions import expansions
from curta.compiler.rewrite.inline import inline_calls
from curta.compiler.rewrite.passes import ORDER, run_passes
from curta.compiler.rewrite.prepare import prepare
from curta.compiler.targets import Target
from curta.core.events import LOWERING, record_event_duration_secs
from curta.core.jaxpr import ClosedJaxpr
from curta.core.recorder import span


def compile_jaxpr(
    closed: ClosedJaxpr,
    target: Target | None = None,
    *,
    parallel_for: Launcher | None = None,
    optimise: bool = True,
    in_place: InPlace | None = None,
    often: bool = False,
) -> Executable:
    """Compile a jaxpr for this machine.

    Args:
        closed: the program; the consts become part of the executable.
        target: the machine of this process, which is the default.
        parallel_for: gives the address of the function that runs chunks on threads. It
            is called while LLVM compiles, if the program uses threads at its first
            call.
        optimise: whether to rewrite and fuse; the results are the same without.
        in_place: arguments that the program may overwrite, each with the result that
            may lie in its memory. Who asks for it must call the native program.
        often: whether the program runs many times at each call, being a loop's body.
    """
    made_for = target or host()
    program = lower(closed, made_for, optimise=optimise, in_place=in_place, often=often)
    with meanwhile(parallel_for if needs_threads(program) else None):
        with span("kernels", "phase"):
            codes = emit(program)
        return load(codes, parallel_for)


def lower(
    closed: ClosedJaxpr,
    target: Target,
    *,
    optimise: bool = True,
    in_place: InPlace | None = None,
    often: bool = False,
) -> Program:
    """Lower a jaxpr to a program; the arguments are those of `compile_jaxpr`."""
    dump("jaxpr", closed.__str__)
    start = time.perf_counter()
    with span("prepare", "phase"):
        flat = _prepared(closed, target, optimise)
        limit = memory_limit(closed) if optimise else None
        if limit is not None:
            flat = _fitted(flat, limit, target, in_place or {})
    record_event_duration_secs(LOWERING, time.perf_counter() - start)
    dump("prepared", flat.__str__)
    with span("lower and fuse", "phase"):
        program = lower_prepared(flat, target, optimise, in_place or {}, often)
    for part in program.inner_first():
        _show(part)
        if is_checked():
            check_memory(part)
    dump("program", lambda: pretty_program(program))
    return program


def _prepared(closed: ClosedJaxpr, target: Target, optimise: bool) -> ClosedJaxpr:
    if optimise:
        return prepare(closed, target)
    return inline_calls(closed, expansions(target))


def lower_prepared(
    flat: ClosedJaxpr,
    target: Target,
    optimise: bool,
    in_place: InPlace,
    often: bool,
    workspace: bool = False,
) -> Program:
    """Lower a prepared jaxpr, and the bodies of its loops and branches.

    With `workspace` arguments `in_place` may be overwritten by any value.
    """

    def lower_part(part: ClosedJaxpr, pairs: InPlace, workspace: bool) -> Program:
        ready = part if optimise else inline_calls(part, expansions(target))
        return lower_prepared(ready, target, optimise, pairs, True, workspace)

    jaxpr = run_passes(ORDER, flat.jaxpr, target)
    items = lower_to_items(jaxpr, target, lower_part, in_place)
    plan = fuse(items) if optimise else separate(items)
    return program_of(flat, jaxpr, items, plan, target, often, in_place, workspace)


def _show(program: Program) -> None:
    """Print a program if `CURTA_DUMP` asks for it; warn of steps in Python."""
    dump("fuse", lambda: pretty_plan(program.plan))
    dump("memory", lambda: pretty_memory(program))
    dump("kernels", lambda: "\n".join(map(pretty_work, program.works)))
    dump("schedule", lambda: pretty_schedules(program.works))
    if program.often:
        _advise_of_python(program.items)


def _fitted(
    flat: ClosedJaxpr, limit: int, target: Target, in_place: InPlace
) -> ClosedJaxpr:
    """Recompute values so that arguments, results and temporaries fit in `limit`."""

    def temporaries(closed: ClosedJaxpr) -> int:
        return lower_prepared(closed, target, True, in_place, False).temporaries

    return fitted(flat, limit, temporaries, in_place, target.tuning)


def _advise_of_python(items: LoweredItems) -> None:
    """Say which ops of a loop or branch have no code, and run in Python."""
    for item in items.items:
        if not isinstance(item, RegionItem) or item.kind != "Python":
            continue
        # Callbacks and collectives are meant to wait.
        if not (item.eqn.op.runs_python or item.eqn.op.meets_hosts):
            name = item.eqn.op.name
            types = ", ".join(v.aval.str_short() for v in item.eqn.invars)
            advise(
                "python",
                name,
                f"{name} of {types} has no compiled code, and runs in Python in each"
                f" iteration of a loop, or in a branch: {item.eqn.source_info}. Convert"
                " the operands to another dtype, or take it out of the loop.",
            )
