"""Loops over references, as loops that carry the arrays in them.

What a loop writes becomes part of its carry; what it only reads stays a constant, and
a reference that is scanned becomes an array scanned and, if written, a stacked output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_with_jaxpr
from curta.core.refs import Ref
from curta.core.stage import stage
from curta.transforms.discharge import Flags, discharge_jaxpr
from curta.transforms.jaxprs import run_closed


def parted(xs: Sequence[Any], flags: Sequence[bool]) -> tuple[list[Any], list[Any]]:
    """The items with the flag, and those without."""
    pairs = list(zip(xs, flags, strict=True))
    return [x for x, f in pairs if f], [x for x, f in pairs if not f]


def merged(
    flagged: Sequence[Any], others: Sequence[Any], flags: Sequence[bool]
) -> list[Any]:
    """The inverse of `parted`."""
    first, second = iter(flagged), iter(others)
    return [next(first if f else second) for f in flags]


def discharged_scan(
    op: Any, args: Sequence[Any], given: Flags, written: Flags
) -> tuple[Sequence[Any], Sequence[Any]]:
    """See `TakesRefs.discharged`."""
    consts, carry, xs = op.parts(args)
    const_written, carry_given, _ = (tuple(p) for p in op.parts(written))
    assert not any(carry_given)
    moved, kept = parted(consts, const_written)
    body = _scan_body(op, given, written)
    result = op.with_body(body, len(kept), len(moved) + len(carry))(
        *kept, *moved, *carry, *xs
    )
    count = len(moved)
    end = count + len(op.jaxpr.out_avals)
    return result[count:end], [*result[:count], *result[end:]]


@kept_with_jaxpr
def _scan_body(op: Any, given: Flags, written: Flags) -> ClosedJaxpr:
    """From kept constants, written ones, carry and xs, to the written ones, carry, ys
    and the written xs."""
    closed = discharge_jaxpr(op.jaxpr, given, written)
    const_written, _, _ = (tuple(p) for p in op.parts(written))
    count = const_written.count(True)
    n_kept, n_outs = const_written.count(False), len(op.jaxpr.out_avals)

    def run(*args: Any) -> list[Any]:
        kept, moved = args[:n_kept], args[n_kept : n_kept + count]
        consts = merged(moved, kept, const_written)
        result = run_closed(closed, [*consts, *args[n_kept + count :]])
        outs, finals = result[:n_outs], result[n_outs:]
        return [*finals[:count], *outs, *finals[count:]]

    consts, carry, xs = op.parts(closed.in_avals)
    moved, kept = parted(consts, const_written)
    return stage(run, [*kept, *moved, *carry, *xs], op.jaxpr.jaxpr.debug_info)


def discharged_while(
    op: Any, args: Sequence[Any], given: Flags, written: Flags, refs: Sequence[Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    """See `TakesRefs.discharged`; the condition may read what the body writes."""
    cond_consts, body_consts, carry = op.parts(args)
    cond_written, body_written, _ = op.parts(written)
    if any(cond_written):
        raise NotImplementedError(
            "the condition of a while_loop cannot write a reference: write it in the"
            " body"
        )
    cond_refs, body_refs, _ = op.parts(refs)
    changing, _ = parted(body_refs, body_written)
    # By constant of the condition: its index among the written references, or None.
    shared_with = tuple(
        next((i for i, r in enumerate(changing) if r is x), None)
        if isinstance(x, Ref)
        else None
        for x in cond_refs
    )
    moved, kept = parted(body_consts, body_written)
    cond, body = _while_jaxprs(op, given, tuple(body_written), shared_with)
    cond_kept = [x for x, p in zip(cond_consts, shared_with, strict=True) if p is None]
    loop = type(op)(cond, body, len(cond_kept), len(kept))
    result = loop(*cond_kept, *kept, *moved, *carry)
    return result[len(moved) :], result[: len(moved)]


@kept_with_jaxpr
def _while_jaxprs(
    op: Any, given: Flags, body_written: Flags, shared_with: tuple[int | None, ...]
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    cond_given, body_given, _ = (tuple(p) for p in op.parts(given))
    rest = (False,) * len(op.body_jaxpr.out_avals)
    unwritten = (False,) * len(op.cond_jaxpr.in_avals)
    test = discharge_jaxpr(op.cond_jaxpr, cond_given + rest, unwritten)
    step = discharge_jaxpr(op.body_jaxpr, body_given + rest, body_written + rest)
    count, n_kept = body_written.count(True), body_written.count(False)
    n_cond, n_outs = shared_with.count(None), len(op.body_jaxpr.out_avals)

    def condition(*args: Any) -> list[Any]:
        kept, moved = iter(args[:n_cond]), args[n_cond : n_cond + count]
        consts = [next(kept) if p is None else moved[p] for p in shared_with]
        return run_closed(test, [*consts, *args[n_cond + count :]])

    def body(*args: Any) -> list[Any]:
        kept, moved = args[:n_kept], args[n_kept : n_kept + count]
        consts = merged(moved, kept, body_written)
        result = run_closed(step, [*consts, *args[n_kept + count :]])
        return [*result[n_outs:], *result[:n_outs]]

    n_consts = len(body_written)
    changing, kept = parted(step.in_avals[:n_consts], body_written)
    carry = [*changing, *step.in_avals[n_consts:]]
    cond_avals = [
        a for a, p in zip(test.in_avals, shared_with, strict=False) if p is None
    ]
    return (
        stage(condition, [*cond_avals, *carry], op.cond_jaxpr.jaxpr.debug_info),
        stage(body, [*kept, *carry], op.body_jaxpr.jaxpr.debug_info),
    )
