"""A program made ready for lowering: the passes from jaxpr to jaxpr (passes.py).

Calls are inlined, eqns simplified, and loops rewritten, the inner ones first, so that
what one of them hoists can be hoisted further by the next.
"""

from __future__ import annotations

from typing import Any, cast

from curta.compiler.dump import dump
from curta.compiler.rewrite.counted_consts import with_iotas
from curta.compiler.rewrite.expansions import expansions
from curta.compiler.rewrite.inline import inline_calls, with_variables
from curta.compiler.rewrite.loop import Loop
from curta.compiler.rewrite.passes import LOOPS, PROGRAM, run_passes
from curta.compiler.targets import Target
from curta.control.cond import Cond
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, Eqn, Var
from curta.transforms.dce import dce_jaxpr


def prepare(closed: ClosedJaxpr, target: Target) -> ClosedJaxpr:
    """The program without calls, simplified, its loops and branches prepared too.

    Ops for which the target has no code, or better code, are replaced by others.
    """
    if any(e.op.always_pruned for e in closed.eqns):
        closed = ClosedJaxpr(dce_jaxpr(closed.jaxpr), closed.consts)
    flat = inline_calls(closed, expansions(target), barriers=True)
    flat = with_iotas(unplaced(flat), target)
    dump("inline", flat.__str__)
    consts = dict(zip(flat.jaxpr.constvars, flat.consts, strict=True))
    jaxpr = run_passes(PROGRAM, flat.jaxpr, target)
    eqns = [_with_prepared_parts(e, consts, target) for e in jaxpr.eqns]
    if not any(e.op.regions for e in eqns):
        return ClosedJaxpr(jaxpr.replace(eqns=eqns), flat.consts)
    jaxpr = jaxpr.replace(constvars=tuple(consts), eqns=eqns)
    return ClosedJaxpr(run_passes(LOOPS, jaxpr, target), list(consts.values()))


def unplaced(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with types that say nothing of where arrays are, as memory is one."""
    jaxpr = closed.jaxpr
    made = (v for eqn in jaxpr.eqns for v in eqn.outvars)
    names = {
        v: Var(v.aval.unplaced())
        for v in (*jaxpr.constvars, *jaxpr.invars, *made)
        if isinstance(v.aval, ShapedArray) and v.aval.placement is not None
    }
    return closed.replace(jaxpr=with_variables(jaxpr, names)) if names else closed


def _with_prepared_parts(eqn: Eqn, consts: dict[Var, Any], target: Target) -> Eqn:
    """The eqn with its jaxprs prepared; `consts` gets the constants of a loop."""
    op = eqn.op
    regions = [prepare(r, target) for r in op.regions]
    if regions and op.loop is None:
        return eqn.replace(op=cast(Cond, op).with_branches(tuple(regions)))
    loop = Loop.of(eqn, regions)
    if loop is None:
        return eqn
    for region in regions:
        consts.update(zip(region.constvars, region.consts, strict=True))
    return loop.to_eqn()
