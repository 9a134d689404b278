"""How hard LLVM's code generator should try for a kernel.

Level 1 takes it two to five times as long as level 0. It is worth that where an
iteration of an inner loop is short: at level 0 what a loop carries goes through memory,
so reductions along rows take two or three times as long, and light maps up to half as
long again. The body of an iteration is as good at level 0, if it has no branches: a map
that computes much for an element gains a few percent at most.
"""

from __future__ import annotations

import math

from curta.compiler import code_generator
from curta.compiler.library.routine import Routine
from curta.compiler.llvm.vector_math import BRANCHING
from curta.compiler.loops.costs import block_cost, cost, kernel_cost
from curta.compiler.loops.nodes import Instr, Kernel, LoopNest
from curta.compiler.loops.schedule import NestSchedule, Schedule
from curta.compiler.program.work import Scheduled
from curta.compiler.targets import Tuning
from curta.core.dim import typical

_DIVISIONS = 8  # simple operations: a quotient and a rest, which level 1 multiplies for


def level_of(work: Scheduled, often: bool, tuning: Tuning) -> int:
    """The level for a kernel or a region; `often` if it runs many times at a call."""
    kernel = work.kernel
    if not isinstance(kernel, Kernel):
        if kernel.programs:
            return code_generator.QUICK
        if kernel.parts is None:
            return code_generator.SIMPLIFIED
        cost = block_cost(kernel.body) * work.plan.iterations
        worth_it = often or cost > tuning.optimised_parts
        return code_generator.GOOD if worth_it else code_generator.QUICK
    total = typical(kernel_cost(kernel)) + _divisions(work.plan)
    worth_it = often or total > _enough(kernel, work.plan, tuning)
    return code_generator.GOOD if worth_it else code_generator.QUICK


def _divisions(plan: Schedule) -> int:
    """What level 0 takes to find the outer indices of all iterations by division."""
    count = max(len(plan.outer) - 1, 0)
    return _DIVISIONS * count * typical(plan.iterations)


def routine_level(routine: Routine, often: bool, tuning: Tuning) -> int:
    """The level for a routine of the library; `often` as for a kernel."""
    if routine.externals:
        return code_generator.QUICK
    saved = routine.work * routine.slower_at_level_0
    worth_it = often or saved > tuning.optimised_routine
    return code_generator.GOOD if worth_it else code_generator.QUICK


def _enough(kernel: Kernel, plan: Schedule, tuning: Tuning) -> float:
    """The cost above which level 1 saves more than it takes, in a hundred calls."""
    nests = list(zip(kernel.nests, plan.nests, strict=True))
    if any(s.ordered or _folds_in_a_loop(s, v, plan) for s, v in nests):
        return tuning.optimised_fold
    if plan.column and max(map(cost, kernel.nests)) <= tuning.plain_fold:
        return math.inf
    if all(_is_heavy(nest, tuning) for nest in kernel.nests):
        return tuning.optimised_heavy_map
    return tuning.optimised_map


def _folds_in_a_loop(nest: LoopNest, own: NestSchedule, plan: Schedule) -> bool:
    """Whether sums are carried in registers from one iteration to the next."""
    if not nest.folds or plan.column:
        return False
    *around, last = (v.extent for v in nest.dims) if nest.dims else (1,)
    return any(n != 1 for n in around) or typical(last) > own.lanes


def _is_heavy(nest: LoopNest, tuning: Tuning) -> bool:
    """Whether the body is straight code that takes longer than what is around it."""
    instructions = [e for e in nest.body if isinstance(e, Instr)]
    names = {e.name.removeprefix("math.") for e in instructions}
    return cost(nest) >= tuning.heavy_map and names.isdisjoint(BRANCHING)
