"""Loops without the parts of their carry that no step changes.

Those become constants of the body: a batch of examples need not carry them, and nothing
is copied. Scanned arrays that are outputs as they are need not be stacked again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from curta.api.arguments import as_result
from curta.control.loop_references import merged, parted
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.jaxpr import ClosedJaxpr
from curta.transforms.dce import dce_jaxpr, used_inputs


def run_while(op: While, args: Sequence[Any]) -> list[Any]:
    """The results of a while loop; what neither changes nor decides is no carry."""
    cond_consts, body_consts, carry = op.parts(args)
    body, cond = op.body_jaxpr.jaxpr, dce_jaxpr(op.cond_jaxpr.jaxpr)
    inputs = body.invars[op.body_nconsts :]
    tested = used_inputs(cond)[op.cond_nconsts :]
    fixed = [
        v is x and not t for v, x, t in zip(body.outvars, inputs, tested, strict=True)
    ]
    if not any(fixed):
        return list(op(*args))
    found, rest = parted(carry, fixed)
    found = list(map(as_result, found))
    moved, moving = parted(inputs, fixed)
    consts = body.invars[: op.body_nconsts]
    step = body.replace(
        invars=[*moved, *consts, *moving], outvars=parted(body.outvars, fixed)[1]
    )
    tests, carried = cond.invars[: op.cond_nconsts], cond.invars[op.cond_nconsts :]
    test = cond.replace(invars=[*tests, *parted(carried, fixed)[1]])
    loop = dataclasses.replace(
        op,
        cond_jaxpr=ClosedJaxpr(test, op.cond_jaxpr.consts),
        body_jaxpr=ClosedJaxpr(step, op.body_jaxpr.consts),
        body_nconsts=len(moved) + op.body_nconsts,
    )
    outs = loop(*cond_consts, *found, *body_consts, *rest)
    return merged(found, outs, fixed)


def run_scan(op: Scan, args: Sequence[Any]) -> list[Any]:
    """The results of a scan; inputs that come out as they are do not go through it."""
    consts, carry, xs = op.parts(args)
    body = op.jaxpr.jaxpr
    const_vars, carry_vars, x_vars = op.parts(body.invars)
    outs, ys = body.outvars[: op.num_carry], body.outvars[op.num_carry :]
    fixed = [v is x for v, x in zip(outs, carry_vars, strict=True)]
    known = dict(zip(x_vars, xs, strict=True))
    passed = [v in known for v in ys]
    if not any(fixed) and not any(passed):
        return list(op(*args))
    found, rest = parted(carry, fixed)
    found = list(map(as_result, found))
    moved, moving = parted(carry_vars, fixed)
    jaxpr = body.replace(
        invars=[*moved, *const_vars, *moving, *x_vars],
        outvars=[*parted(outs, fixed)[1], *parted(ys, passed)[1]],
    )
    loop = op.with_body(
        ClosedJaxpr(jaxpr, op.jaxpr.consts), len(moved) + len(consts), len(moving)
    )
    results = loop(*found, *consts, *rest, *xs)
    rows = [as_result(known[v]) for v in parted(ys, passed)[0]]
    return [
        *merged(found, results[: len(moving)], fixed),
        *merged(rows, results[len(moving) :], passed),
    ]
