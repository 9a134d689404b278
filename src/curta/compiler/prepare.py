"""A program made ready for lowering: the passes from jaxpr to jaxpr (passes.py).

Calls are inlined, eqns simplified, and loops rewritten, the inner ones first, so that
what one of them hoists can be hoisted further by the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

from curta.compiler.dump import dump
from curta.compiler.graph.counted_consts import with_iotas
from curta.compiler.graph.expansions import natively, natively_in_loop
from curta.compiler.graph.inline import called, inline_calls
from curta.compiler.passes import LOOPS, PROGRAM, run_passes
from curta.control.cond import Cond
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Var
from curta.transforms.dce import dce_jaxpr


def prepare(closed: ClosedJaxpr, in_loop: bool = False) -> ClosedJaxpr:
    """The program without calls, simplified, its loops and branches prepared too."""
    if any(e.op.always_pruned for e in closed.eqns):
        closed = ClosedJaxpr(dce_jaxpr(closed.jaxpr), closed.consts)
    flat = inline_calls(
        closed, natively_in_loop if in_loop else natively, barriers=True
    )
    flat = with_iotas(unplaced(flat))
    dump("inline", flat.__str__)
    consts = dict(zip(flat.jaxpr.constvars, flat.consts, strict=True))
    jaxpr = run_passes(PROGRAM, flat.jaxpr)
    eqns = [_with_prepared_parts(e, consts, in_loop) for e in jaxpr.eqns]
    if not any(e.op.regions for e in eqns):
        return ClosedJaxpr(jaxpr.replace(eqns=eqns), flat.consts)
    jaxpr = jaxpr.replace(constvars=tuple(consts), eqns=eqns)
    return ClosedJaxpr(run_passes(LOOPS, jaxpr), list(consts.values()))


def unplaced(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with types that say nothing of where arrays are, as memory is one."""
    jaxpr = closed.jaxpr
    made = (v for eqn in jaxpr.eqns for v in eqn.outvars)
    names: dict[Var, Atom] = {
        v: Var(v.aval.unplaced())
        for v in (*jaxpr.constvars, *jaxpr.invars, *made)
        if isinstance(v.aval, ShapedArray) and v.aval.placement is not None
    }
    if not names:
        return closed

    def renamed(atoms: Sequence[Atom]) -> tuple[Any, ...]:
        return tuple(called(v, names) for v in atoms)

    eqns = [
        e.replace(invars=renamed(e.invars), outvars=renamed(e.outvars))
        for e in jaxpr.eqns
    ]
    result = jaxpr.replace(
        constvars=renamed(jaxpr.constvars),
        invars=renamed(jaxpr.invars),
        eqns=tuple(eqns),
        outvars=renamed(jaxpr.outvars),
    )
    return ClosedJaxpr(result, closed.consts)


def _with_prepared_parts(eqn: Eqn, consts: dict[Var, Any], in_loop: bool) -> Eqn:
    """The eqn with its jaxprs prepared; the consts of a loop become its operands."""
    op = eqn.op
    if op.regions and op.loop is None:
        branches = tuple(prepare(b, in_loop) for b in op.regions)
        return eqn.replace(op=cast(Cond, op).with_branches(branches))
    loop = op.loop
    if loop is None:
        return eqn
    body, given = _open(prepare(loop.body, True), consts)
    args, first = eqn.invars, loop.start - loop.consts
    count = loop.consts + len(given)
    if loop.iterations is not None:
        scan = cast(Scan, op).with_body(body, count, loop.carry)
        return eqn.replace(op=scan, invars=(*given, *args))
    test, for_test = _open(prepare(op.regions[0], True), consts)
    again = dataclasses.replace(
        cast(While, op), cond_jaxpr=test, body_jaxpr=body,
        cond_nconsts=first + len(for_test), body_nconsts=count,
    )  # fmt: skip
    return eqn.replace(
        op=again, invars=(*for_test, *args[:first], *given, *args[first:])
    )


def _open(closed: ClosedJaxpr, consts: dict[Var, Any]) -> tuple[ClosedJaxpr, list[Var]]:
    """The jaxpr with its consts as arguments, which go to the program around it."""
    jaxpr = closed.jaxpr
    given = [Var(v.aval) for v in jaxpr.constvars]
    consts.update(zip(given, closed.consts, strict=True))
    invars = (*jaxpr.constvars, *jaxpr.invars)
    return ClosedJaxpr(jaxpr.replace(constvars=(), invars=invars)), given
