"""A program made ready for itemising: the passes from jaxpr to jaxpr.

Calls are inlined, eqns simplified, and loops rewritten, the inner ones first, so that
what one of them hoists can be hoisted further by the next.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from curta.compiler.graph.aliases import without_aliases
from curta.compiler.graph.branches import Branches
from curta.compiler.graph.expansions import natively, natively_in_loop
from curta.compiler.graph.gamma import gammas_in_loops
from curta.compiler.graph.inline import inline_calls
from curta.compiler.graph.licm import hoist
from curta.compiler.graph.loop import Loop
from curta.compiler.graph.loop_residuals import recompute
from curta.compiler.graph.loop_rows import rows_inside
from curta.compiler.graph.scans import in_blocks
from curta.compiler.graph.scatters import in_pieces
from curta.compiler.graph.simplify import simplify
from curta.compiler.graph.sorting import by_library
from curta.compiler.graph.strip_mining import with_products_together
from curta.compiler.graph.winograd import by_winograd
from curta.control.cond import Cond
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from curta.transforms.dce import dce_jaxpr


def prepare(closed: ClosedJaxpr, in_loop: bool = False) -> ClosedJaxpr:
    """The program without calls, simplified, its loops and branches prepared too."""
    if any(e.op.always_pruned for e in closed.eqns):
        closed = ClosedJaxpr(dce_jaxpr(closed.jaxpr), closed.consts)
    flat = inline_calls(closed, natively_in_loop if in_loop else natively)
    consts = dict(zip(flat.jaxpr.constvars, flat.consts, strict=True))
    jaxpr = simplify(flat.jaxpr)
    for rewritten in (by_library, in_pieces, in_blocks, gammas_in_loops, by_winograd):
        jaxpr = rewritten(jaxpr)
    jaxpr = dce_jaxpr(jaxpr)
    eqns = [_with_prepared_parts(e, consts, in_loop) for e in jaxpr.eqns]
    if not any(isinstance(e.op, (Cond, Scan, While)) for e in eqns):
        return ClosedJaxpr(jaxpr.replace(eqns=eqns), flat.consts)
    jaxpr = jaxpr.replace(constvars=tuple(consts), eqns=eqns)
    for rewrite in (
        without_aliases, _without_unused, recompute, rows_inside, dce_jaxpr,
        _without_unused, _rewritten, simplify, dce_jaxpr,
    ):  # fmt: skip
        jaxpr = rewrite(jaxpr)
    return ClosedJaxpr(jaxpr, list(consts.values()))


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


def _without_unused(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr without results of loops and branches that nobody reads."""
    live: set[Atom] = {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    kept: list[Eqn] = []
    for eqn in reversed(jaxpr.eqns):
        if not eqn.effects and not any(v in live for v in eqn.outvars):
            continue
        parts = Loop.of(eqn) or Branches.of(eqn)
        if parts:
            parts.remove_unused(live)
            eqn = parts.to_eqn()
        kept.append(eqn)
        live.update(v for v in eqn.invars if not isinstance(v, Literal))
    return jaxpr.replace(eqns=kept[::-1])


def _rewritten(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with what loops need not do in every iteration moved out of them."""
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        loop = Loop.of(eqn)
        if loop is None:
            eqns.append(eqn)
            continue
        hoist(loop)
        loop.remove_unused(eqn.outvars)
        eqns += loop.before
        once = loop.to_eqn()
        eqns += with_products_together(once) if loop.length else [once]
    return jaxpr.replace(eqns=eqns)
