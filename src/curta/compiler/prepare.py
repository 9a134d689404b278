"""A program made ready for lowering: the passes from jaxpr to jaxpr (passes.py).

Calls are inlined, eqns simplified, and loops rewritten, the inner ones first, so that
what one of them hoists can be hoisted further by the next.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from curta.compiler.dump import dump
from curta.compiler.graph.expansions import natively, natively_in_loop
from curta.compiler.graph.inline import inline_calls
from curta.compiler.passes import LOOPS, PROGRAM, run_passes
from curta.control.cond import Cond
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.jaxpr import ClosedJaxpr, Eqn, Var
from curta.transforms.dce import dce_jaxpr


def prepare(closed: ClosedJaxpr, in_loop: bool = False) -> ClosedJaxpr:
    """The program without calls, simplified, its loops and branches prepared too."""
    if any(e.op.always_pruned for e in closed.eqns):
        closed = ClosedJaxpr(dce_jaxpr(closed.jaxpr), closed.consts)
    flat = inline_calls(closed, natively_in_loop if in_loop else natively)
    dump("inline", flat.__str__)
    consts = dict(zip(flat.jaxpr.constvars, flat.consts, strict=True))
    jaxpr = run_passes(PROGRAM, flat.jaxpr)
    eqns = [_with_prepared_parts(e, consts, in_loop) for e in jaxpr.eqns]
    if not any(isinstance(e.op, (Cond, Scan, While)) for e in eqns):
        return ClosedJaxpr(jaxpr.replace(eqns=eqns), flat.consts)
    jaxpr = jaxpr.replace(constvars=tuple(consts), eqns=eqns)
    return ClosedJaxpr(run_passes(LOOPS, jaxpr), list(consts.values()))


def _with_prepared_parts(eqn: Eqn, consts: dict[Var, Any], in_loop: bool) -> Eqn:
    """The eqn with its jaxprs prepared; the consts of a loop become its operands."""
    op = eqn.op
    if isinstance(op, Cond):
        branches = tuple(prepare(b, in_loop) for b in op.branches)
        return eqn.replace(op=dataclasses.replace(op, branches=branches))
    if isinstance(op, Scan):
        body, given = _open(prepare(op.jaxpr, True), consts)
        count = op.num_consts + len(given)
        op = op.with_body(body, count, op.num_carry)
        return eqn.replace(op=op, invars=(*given, *eqn.invars))
    if isinstance(op, While):
        test, for_test = _open(prepare(op.cond_jaxpr, True), consts)
        body, for_body = _open(prepare(op.body_jaxpr, True), consts)
        first, second, rest = op.parts(eqn.invars)
        first, second = [*for_test, *first], [*for_body, *second]
        op = dataclasses.replace(
            op, cond_jaxpr=test, body_jaxpr=body, cond_nconsts=len(first),
            body_nconsts=len(second),
        )  # fmt: skip
        return eqn.replace(op=op, invars=(*first, *second, *rest))
    return eqn


def _open(closed: ClosedJaxpr, consts: dict[Var, Any]) -> tuple[ClosedJaxpr, list[Var]]:
    """The jaxpr with its consts as arguments, which go to the program around it."""
    jaxpr = closed.jaxpr
    given = [Var(v.aval) for v in jaxpr.constvars]
    consts.update(zip(given, closed.consts, strict=True))
    invars = (*jaxpr.constvars, *jaxpr.invars)
    return ClosedJaxpr(jaxpr.replace(constvars=(), invars=invars)), given
