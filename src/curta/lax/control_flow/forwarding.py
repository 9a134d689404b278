"""Loops without the parts of their carry that no step changes, and branches likewise.

Those become constants of the body: a batch of examples need not carry them, and nothing
is copied. Scanned arrays that are outputs as they are need not be stacked again, and
operands that all branches hand on need not be chosen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from curta.api.arguments import as_result
from curta.control.cond import Cond
from curta.control.loop_references import merged, parted
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.jaxpr import Atom, ClosedJaxpr
from curta.core.memo import kept_with_jaxpr
from curta.transforms.dce import dce_jaxpr, used_inputs


def run_while(op: While, args: Sequence[Any]) -> list[Any]:
    """Return the results of a while loop; invariant values are not in the carry."""
    fixed, loop = _moving_while(op)
    if not any(fixed):
        return list(op(*args))
    cond_consts, body_consts, carry = op.parts(args)
    moving, rest = parted(carry, fixed)
    moving = list(map(as_result, moving))
    outs = loop(*cond_consts, *moving, *body_consts, *rest)
    return merged(moving, outs, fixed)


@kept_with_jaxpr
def _moving_while(op: While) -> tuple[list[bool], While]:
    """Which parts of the carry are fixed, and the loop of the others."""
    body, cond = op.body_jaxpr.jaxpr, dce_jaxpr(op.cond_jaxpr.jaxpr)
    inputs = body.invars[op.body_nconsts :]
    tested = used_inputs(cond)[op.cond_nconsts :]
    fixed = [
        v is x and not t for v, x, t in zip(body.outvars, inputs, tested, strict=True)
    ]
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
    return fixed, loop


def run_cond(op: Cond, args: Sequence[Any]) -> list[Any]:
    """The results of a choice; operands that all branches hand on are not chosen."""
    passed, choice = _chosen(op)
    if all(p is None for p in passed):
        return list(op(*args))
    _, *operands = args
    result = [as_result(operands[p]) for p in passed if p is not None]
    return merged(result, choice(*args), [p is not None for p in passed])


@kept_with_jaxpr
def _chosen(op: Cond) -> tuple[list[int | None], Cond]:
    """Which outputs are operands as they are, by operand number, and the choice of the
    others."""
    forwarded = [
        [b.invars.index(v) if v in b.invars else None for v in b.outvars]
        for b in op.branches
    ]
    passed = [
        first if all(p == first for p in others) else None
        for first, *others in zip(*forwarded, strict=True)
    ]
    kept = [p is None for p in passed]
    branches = tuple(
        b.map_jaxpr(lambda j: j.replace(outvars=parted(j.outvars, kept)[0]))
        for b in op.branches
    )
    return passed, dataclasses.replace(op, branches=branches)


def run_scan(op: Scan, args: Sequence[Any]) -> list[Any]:
    """The results of a scan; inputs that come out as they are do not go through it."""
    fixed, passed, loop = _moving_scan(op)
    if not any(fixed) and not any(p is not None for p in passed):
        return list(op(*args))
    consts, carry, xs = op.parts(args)
    moving, rest = parted(carry, fixed)
    moving = list(map(as_result, moving))
    results = loop(*moving, *consts, *rest, *xs)
    rows = [as_result(xs[p]) for p in passed if p is not None]
    return [
        *merged(moving, results[: loop.num_carry], fixed),
        *merged(rows, results[loop.num_carry :], [p is not None for p in passed]),
    ]


@kept_with_jaxpr
def _moving_scan(op: Scan) -> tuple[list[bool], list[int | None], Scan]:
    """Which parts of the carry are fixed, which outputs are scanned arrays as they are,
    by their numbers, and the loop of the others."""
    body = op.jaxpr.jaxpr
    const_vars, carry_vars, x_vars = op.parts(body.invars)
    outs, ys = body.outvars[: op.num_carry], body.outvars[op.num_carry :]
    fixed = [v is x for v, x in zip(outs, carry_vars, strict=True)]
    x_numbers: dict[Atom, int] = {v: i for i, v in enumerate(x_vars)}
    passed = [x_numbers.get(v) for v in ys]
    moved, moving = parted(carry_vars, fixed)
    jaxpr = body.replace(
        invars=[*moved, *const_vars, *moving, *x_vars],
        outvars=[*parted(outs, fixed)[1], *(v for v in ys if v not in x_numbers)],
    )
    count = len(moved) + len(const_vars)
    loop = op.with_body(ClosedJaxpr(jaxpr, op.jaxpr.consts), count, len(moving))
    return fixed, passed, loop
