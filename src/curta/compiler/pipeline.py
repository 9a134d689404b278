"""From a jaxpr to machine code: the table of contents of the compiler.

    inline     calls are replaced by what they call                 graph/inline.py
    ...        the passes from jaxpr to jaxpr                       passes.py
    fit        values computed again, under a limit of memory       fitting.py
    ...        the order of eqns                                    passes.py
    lower      a loop nest for each value that needs a buffer       item_lowering.py
    fuse       loop nests that share loops form groups              graph/fuse.py
    steps      groups become one native function:                   steps.py
    assemble   each group becomes a kernel: loop nests             loops/assemble.py
    schedule   the order, the vectors, the chunks for threads       loops/schedule.py
    bufferize  registers, rows on the stack, the arena              loops/bufferize.py
    emit       LLVM IR text                                         llvm/
    link       machine code                                         link.py

`CURTA_DUMP` prints what they make: `jaxpr` what comes in, `inline` and the names in
`passes.py` the program after each, `prepared` the jaxpr that is lowered, then `fuse`,
`kernels` and `llvm`.
"""

from __future__ import annotations

import time

from curta.advisor import advise
from curta.compiler.dump import dump
from curta.compiler.executable import Executable, Launcher
from curta.compiler.fitting import fitted, memory_limit
from curta.compiler.graph.expansions import natively
from curta.compiler.graph.fuse import FusionPlan, fuse, separate
from curta.compiler.graph.inline import inline_calls
from curta.compiler.graph.item_builder import CompilePart, InPlace
from curta.compiler.graph.item_lowering import Program, lower_to_items
from curta.compiler.graph.items import RegionItem
from curta.compiler.graph.replace import replaced_arguments
from curta.compiler.native import NativeProgram
from curta.compiler.passes import ORDER, run_passes
from curta.compiler.prepare import prepare
from curta.compiler.pretty import pretty_plan
from curta.compiler.steps import make_code, temporary_bytes
from curta.core.evaluate import const_as_numpy
from curta.core.events import LOWERING, record_event_duration_secs
from curta.core.jaxpr import ClosedJaxpr, Jaxpr
from curta.core.recorder import span


def compile_jaxpr(
    closed: ClosedJaxpr,
    *,
    parallel_for: Launcher | None = None,
    optimise: bool = True,
    in_place: InPlace | None = None,
    often: bool = False,
) -> Executable:
    """Compile a jaxpr for this machine.

    Args:
        closed: the program; the consts become part of the executable.
        parallel_for: gives the address of the function that runs chunks on threads.
        optimise: whether to rewrite and fuse; the results are the same without.
        in_place: arguments that the program may overwrite, each with the result that
            may lie in its memory. Who asks for it must call the native program.
        often: whether the program runs many times at each call, being a loop's body.
    """
    dump("jaxpr", closed.__str__)
    start = time.perf_counter()
    with span("prepare", "phase"):
        flat = prepare(closed) if optimise else inline_calls(closed, natively)
        limit = memory_limit(closed) if optimise else None
        if limit is not None:
            flat = _fitted(flat, limit, in_place or {})
    record_event_duration_secs(LOWERING, time.perf_counter() - start)
    dump("prepared", flat.__str__)
    return generated(flat, parallel_for, optimise, in_place, often)


def generated(
    flat: ClosedJaxpr,
    parallel_for: Launcher | None,
    optimise: bool,
    in_place: InPlace | None,
    often: bool,
) -> Executable:
    """The code of a program that is ready to be cut into items."""

    def compile_part(part: ClosedJaxpr, pairs: InPlace) -> NativeProgram:
        ready = part if optimise else inline_calls(part, natively)
        return generated(ready, parallel_for, optimise, pairs, True).native

    with span("lower and fuse", "phase"):
        jaxpr, program, plan = planned(flat, compile_part, optimise, in_place)
    pairs = in_place or {}
    overwriting = _overwriting(plan, program, pairs)
    kept = {i: o for i, o in pairs.items() if o in overwriting}
    if not often and not program.overwritten <= kept.keys():
        # Callers lend memory for results, not as a workspace.
        return generated(flat, parallel_for, optimise, kept, often)
    dump("fuse", lambda: pretty_plan(plan))
    if often:
        _advise_of_python(program)
    with span("kernels", "phase"):
        code = make_code(plan, program, often, parallel_for, pairs)
    avals = [v.aval for v in jaxpr.constvars]
    consts = list(map(const_as_numpy, flat.consts, avals))
    return Executable(
        jaxpr.in_avals, jaxpr.out_avals, code, consts, parallel_for, overwriting
    )


def _overwriting(
    plan: FusionPlan, program: Program, in_place: InPlace
) -> frozenset[int]:
    """The results that lie in the memory of arguments."""
    given = set(program.inputs)
    there = [i for i, b in enumerate(program.outputs) if b in given]
    return replaced_arguments(plan, program, in_place).union(there)


def _fitted(flat: ClosedJaxpr, limit: int, in_place: InPlace) -> ClosedJaxpr:
    """The program with its arguments, results and temporaries in so many bytes."""

    def compile_part(part: ClosedJaxpr, pairs: InPlace) -> NativeProgram:
        return generated(part, None, True, pairs, True).native

    def temporaries(closed: ClosedJaxpr) -> int:
        _, program, plan = planned(closed, compile_part, True, in_place)
        return temporary_bytes(plan, program)

    return fitted(flat, limit, temporaries, in_place)


def _advise_of_python(program: Program) -> None:
    """Say which ops of a loop or branch have no code, and run in Python."""
    for item in program.items:
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


def planned(
    flat: ClosedJaxpr,
    compile_part: CompilePart,
    optimise: bool = True,
    in_place: InPlace | None = None,
) -> tuple[Jaxpr, Program, FusionPlan]:
    """The jaxpr whose values are computed, its items, and which share a kernel."""
    jaxpr = run_passes(ORDER, flat.jaxpr)
    program = lower_to_items(jaxpr, compile_part, in_place)
    return jaxpr, program, fuse(program) if optimise else separate(program)
