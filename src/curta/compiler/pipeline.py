"""From a jaxpr to machine code: the table of contents of the compiler.

    inline     calls are replaced by what they call                 graph/inline.py
    simplify   named rewrites, equal eqns, dead code                graph/simplify.py
    itemise    a loop nest for each value that needs a buffer       graph/itemise.py
    fuse       loop nests that share loops form groups              graph/fuse.py
    assemble   each group becomes a kernel: stages of loops         loops/assemble.py
    schedule   the order, the vectors, the chunks for threads       loops/schedule.py
    bufferize  registers, rows on the stack, the arena              loops/bufferize.py
    emit       LLVM IR text                                         llvm/
    link       machine code                                         link.py

`CURTA_DUMP=simplify,fuse,kernels,llvm` prints what these stages make, `jaxpr` what
comes in.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.cache import object_file
from curta.compiler.dot_code import dot_code
from curta.compiler.executable import (
    Executable,
    KeptArena,
    NativeStep,
    PythonStep,
    Step,
)
from curta.compiler.graph.fuse import Group, Plan, fuse, separate
from curta.compiler.graph.inline import inline_calls
from curta.compiler.graph.itemise import InPlace, Program, itemise
from curta.compiler.graph.items import (
    ControlItem,
    DotItem,
    EqnItem,
    reads,
    written,
)
from curta.compiler.graph.simplify import simplify
from curta.compiler.link import load
from curta.compiler.llvm import target
from curta.compiler.llvm.entry import (
    ENTRY,
    Scheduled,
    Work,
    buffers,
    callees,
    emit_entry,
)
from curta.compiler.loops.assemble import assemble
from curta.compiler.loops.bufferize import place, plan_arena
from curta.compiler.loops.check import check_kernel
from curta.compiler.loops.nodes import Buffer, Kernel
from curta.compiler.loops.schedule import kernel_cost, schedule
from curta.compiler.loops.split import piece_index, split_folds
from curta.compiler.native import NativeProgram
from curta.compiler.pretty import pretty_plan, pretty_work
from curta.core.avals import ShapedArray
from curta.core.evaluate import as_numpy
from curta.core.jaxpr import ClosedJaxpr
from curta.transforms.dce import dce_jaxpr

LONG = 1 << 20  # a program of this cost lets other Python threads run
WORTH_OPTIMISING = 1 << 20  # a fold of this cost is compiled at the higher level


def compile_jaxpr(
    closed: ClosedJaxpr,
    *,
    parallel_for: int = 0,
    optimise: bool = True,
    in_place: InPlace | None = None,
) -> Executable:
    """Compile a jaxpr for this machine.

    Args:
        closed: the program; the consts become part of the executable.
        parallel_for: the address of the function that runs chunks on threads.
        optimise: whether to rewrite and fuse; the results are the same without.
        in_place: arguments that the program may overwrite, each with the result that
            may lie in its memory. Who asks for it must call the native program.
    """
    dump("jaxpr", lambda: str(closed))
    flat = inline_calls(closed)
    jaxpr = dce_jaxpr(simplify(flat.jaxpr) if optimise else flat.jaxpr)
    dump("simplify", lambda: str(jaxpr))

    def compile_part(part: ClosedJaxpr, pairs: InPlace) -> NativeProgram | None:
        return compile_jaxpr(
            part, parallel_for=parallel_for, optimise=optimise, in_place=pairs
        ).native

    program = itemise(jaxpr, compile_part, in_place)
    plan = fuse(program) if optimise else separate(program)
    dump("fuse", lambda: pretty_plan(plan))
    segments = _segments(plan)
    visible = _visible(segments, program)
    steps = [_step(s, program, v) for s, v in zip(segments, visible, strict=True)]
    avals = [v.aval for v in jaxpr.constvars]
    arrays = map(_const_array, flat.consts, avals)
    consts = dict(zip(program.consts, arrays, strict=True))
    return Executable(
        closed.in_avals, closed.out_avals, steps, program.inputs, program.outputs,
        consts, program.avals, parallel_for,
    )  # fmt: skip


def _segments(plan: Plan) -> list[list[Group]]:
    """Groups that can run without returning to Python between them, together."""
    segments: list[list[Group]] = []
    for group in plan.groups:
        python = isinstance(group.items[0], EqnItem)
        if python or not segments or isinstance(segments[-1][0].items[0], EqnItem):
            segments.append([group])
        else:
            segments[-1].append(group)
    return segments or [[]]


def _step(segment: list[Group], program: Program, visible: list[Buffer]) -> Step:
    first = segment[0].items[0] if segment else None
    if isinstance(first, EqnItem):
        return PythonStep(first.eqn, first.operands, first.results)
    machine = target.host()
    works: list[Library | Kernel] = []
    for group in segment:
        item = group.items[0]
        if isinstance(item, (DotItem, ControlItem)):
            works.append(item)
        else:
            kernel = assemble(group, program.builder)
            works += split_folds(kernel, program.builder)
    users = Counter(b for w in works for b in _touched(w))
    shared = {*visible, *(b for b, count in users.items() if count > 1)}
    shared.update(b for w in works if not isinstance(w, Kernel) for b in _touched(w))
    done = [
        _scheduled(w, machine, shared) if isinstance(w, Kernel) else w for w in works
    ]
    dump("kernels", lambda: "\n".join(map(pretty_work, done)))
    return _native_step(done, program, visible, machine)


Library = DotItem | ControlItem


def _touched(work: Library | Kernel) -> Sequence[Buffer]:
    return work.buffers() if isinstance(work, Kernel) else buffers(work)


def _scheduled(
    kernel: Kernel, machine: target.Target, shared: set[Buffer]
) -> Scheduled:
    plan = schedule(kernel, machine.vector_bytes)
    if os.environ.get("CURTA_CHECK"):
        check_kernel(kernel, (piece_index(plan.pieces),) if kernel.piece else ())
    return Scheduled(kernel, plan, place(kernel, plan, shared))


def _native_step(
    works: list[Work],
    program: Program,
    pointers: list[Buffer],
    machine: target.Target,
) -> NativeStep:
    created = {b for w in works for b in _written(w)}
    arena = plan_arena([buffers(w) for w in works], set(pointers))
    module = machine.module()
    emit_entry(module, works, pointers, arena)
    text = module.text()
    dump("llvm", lambda: text)
    code = load(object_file(text, _level(works)), [ENTRY])
    dots, programs = callees(works)
    products = [dot_code(dot) for dot in dots]
    words = [p.address for p in products]
    for called in programs:
        words += [called.address, ctypes.addressof(called.words)]
    return NativeStep(
        code,
        code.address(ENTRY),
        (*products, *programs),
        tuple(words),
        KeptArena(),
        tuple(pointers),
        tuple(b for b in pointers if b in created),
        sum(map(_cost, works)) > LONG,
    )


def _level(works: list[Work]) -> int:
    """How hard the code generator should try: long folds are worth good registers."""
    kernels = [w.kernel for w in works if isinstance(w, Scheduled)]
    folds = [k for k in kernels if any(s.folds for s in k.stages)]
    worth_it = any(kernel_cost(k) > WORTH_OPTIMISING for k in folds)
    return target.GOOD if worth_it else target.QUICK


def _written(work: Work) -> list[Buffer]:
    return work.kernel.stored() if isinstance(work, Scheduled) else written(work)


def _cost(work: Work) -> int:
    if isinstance(work, Scheduled):
        return kernel_cost(work.kernel)
    return work.dot.work if isinstance(work, DotItem) else LONG + 1


def _visible(segments: list[list[Group]], program: Program) -> list[list[Buffer]]:
    """For each segment, the buffers that others (or the caller) see, in order.

    A program of one segment sees all its results, arguments and constants.
    """
    ends = [*program.outputs, *program.inputs, *program.consts]
    if len(segments) == 1:
        return [ends]
    used = [
        dict.fromkeys(b for g in s for i in g.items for b in (*reads(i), *written(i)))
        for s in segments
    ]
    counts = Counter(b for buffers in used for b in buffers)
    return [[b for b in own if counts[b] > 1 or b in ends] for own in used]


def dump(stage: str, text: Callable[[], str]) -> None:
    """Print a stage if `CURTA_DUMP` names it."""
    if stage in os.environ.get("CURTA_DUMP", "").split(","):
        print(f"--- {stage}\n{text()}", file=sys.stderr)


def _const_array(x: Any, aval: ShapedArray) -> Any:
    storage = getattr(x, "_storage", None)
    return as_numpy(x if storage is None else storage(), aval)
