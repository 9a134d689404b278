"""What a checkpointed function keeps for its backward pass, and computes again.

A policy is asked about every operation of known values, those in the bodies of `jit`,
loops, branches and `shard_map` too. An eqn that holds a body of known and unknown
values is cut: its first part is of known values and hands on what is kept within, its
later part takes that instead of computing it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from curta._base.lazy_dataclass import dataclass
from curta.control.call import JitCall
from curta.control.carries import unflagged
from curta.control.cond import Cond, share_residuals, shared_residuals
from curta.control.saving import is_kept
from curta.control.scan import Scan
from curta.control.shard_map import ShardMap, cut_as
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var, bound_consts
from curta.core.memo import kept_with_jaxpr
from curta.core.stage import stage
from curta.transforms.dce import dce_jaxpr, used_inputs
from curta.transforms.jaxprs import run_closed
from curta.transforms.partial_eval import SplitJaxpr, prune, split_jaxpr

Policy = Callable[..., Any]
Flags = tuple[bool, ...]


@dataclass(frozen=True)
class ResidualPlan:
    """How a rematerialised jaxpr is cut.

    `known` maps the known inputs to the known outputs and the kept values;
    `unknown` maps the kept values and the inputs at `passed` to the unknown outputs.
    """

    known: ClosedJaxpr
    unknown: ClosedJaxpr
    known_out_count: int
    passed: tuple[int, ...]
    out_unknown: Flags


class KnownEqns(NamedTuple):
    """The eqns of a jaxpr that the known inputs determine, and all of them.

    Where an eqn was cut, both have a part of it. `saved` are values of `known` that
    may be kept for `later`.
    """

    known: Jaxpr
    later: Jaxpr
    saved: list[Var]
    out_unknown: Flags

    def recomputing(self, wanted: Sequence[bool] | None = None) -> Recomputing:
        """The wanted outputs from what is kept; None means all of them."""
        later = _recompute(self.later, self.saved, wanted)
        read = {v for e in later.eqns for v in e.invars} | set(later.outvars)
        return Recomputing(later, [v for v in self.saved if v in read])

    def making(self, kept: Sequence[Var]) -> Jaxpr:
        """What the known inputs determine of the outputs, and the values `kept`."""
        outs = [v for v, u in zip(self.known.outvars, self.out_unknown) if not u]
        return dce_jaxpr(self.known.replace(outvars=(*outs, *kept)))


class Recomputing(NamedTuple):
    """A jaxpr that reads the values `kept`, which it does not compute."""

    jaxpr: Jaxpr
    kept: list[Var]


class EqnParts(NamedTuple):
    """An eqn cut in two; also the values kept within, and its unknown results."""

    first: Eqn
    later: tuple[Eqn, ...]
    kept: list[Var]
    unknown: list[Var]


@kept_with_jaxpr
def plan_residuals(
    closed: ClosedJaxpr, in_unknown: Flags, policy: Policy | None
) -> ResidualPlan:
    """Cut a jaxpr, keeping between the two parts only what `policy` allows."""
    split = split_jaxpr(closed, in_unknown)
    parts = KnownEqns(closed.jaxpr, closed.jaxpr, [], split.out_unknown)
    if policy is not None:
        closed = _inline_calls(closed)
        parts = _cut(closed.jaxpr, in_unknown, policy)
    later, kept = parts.recomputing(split.out_unknown)
    read = used_inputs(later)
    passed = tuple(i for i, r in enumerate(read) if r)
    later = later.replace(invars=[*kept, *(later.invars[i] for i in passed)])
    return ResidualPlan(
        prune(_known_part(closed, in_unknown, split, parts, kept)),
        ClosedJaxpr(later, closed.consts),
        split.out_unknown.count(False),
        passed,
        split.out_unknown,
    )


def _known_part(
    closed: ClosedJaxpr,
    in_unknown: Flags,
    split: SplitJaxpr,
    parts: KnownEqns,
    kept: list[Var],
) -> ClosedJaxpr:
    """From the known inputs to the known outputs and what is kept."""
    known = parts.making(kept)
    known = known.replace(invars=unflagged(known.invars, in_unknown))
    if kept and parts.out_unknown == split.out_unknown:
        return ClosedJaxpr(known, closed.consts)
    # Known outputs that are not kept come from `split`: it is more precise about which
    # outputs are known, does not inline calls, and has the effects.
    count = split.out_unknown.count(False)
    wanted = dce_jaxpr(known.replace(outvars=kept), keep_effects=False)
    values = ClosedJaxpr(wanted, closed.consts)

    def run(*args: Any) -> list[Any]:
        return run_closed(split.known, args)[:count] + run_closed(values, args)

    return stage(run, split.known.in_avals, closed.jaxpr.debug_info)


def _recompute(
    jaxpr: Jaxpr, kept: Sequence[Var], wanted: Sequence[bool] | None
) -> Jaxpr:
    available = set(kept)
    eqns = []
    for e in jaxpr.eqns:
        if not e.outvars or not available.issuperset(e.outvars):
            # A recomputed eqn does not redefine those of its results that are stored.
            outs = [Var(v.aval) if v in available else v for v in e.outvars]
            eqns.append(e.replace(outvars=tuple(outs)))
    return dce_jaxpr(jaxpr.replace(eqns=eqns), wanted, within=True)


# ---- cutting


def _cut(jaxpr: Jaxpr, in_unknown: Sequence[bool], policy: Policy) -> KnownEqns:
    unknown: set[Atom] = {v for v, u in zip(jaxpr.invars, in_unknown, strict=True) if u}
    known: list[Eqn] = []
    later: list[Eqn] = []
    saved: list[Var] = []
    for eqn in jaxpr.eqns:
        flags = tuple(v in unknown for v in eqn.invars)
        cut = None if eqn.effects else _CUTS.get(type(eqn.op))
        parts = cut(eqn, flags, policy) if cut else None
        if parts:
            known.append(parts.first)
            later += parts.later
            saved += parts.kept
            unknown.update(parts.unknown)
        elif any(flags):
            later.append(eqn)
            unknown.update(eqn.outvars)
            continue
        else:
            known.append(eqn)
            if eqn.outvars or not _is_saved(eqn, policy):
                later.append(eqn)
        if _is_saved(known[-1], policy):
            saved += known[-1].outvars
    flags = tuple(v in unknown for v in jaxpr.outvars)
    saved = list(dict.fromkeys(saved))
    return KnownEqns(jaxpr.replace(eqns=known), jaxpr.replace(eqns=later), saved, flags)


def _is_saved(eqn: Eqn, policy: Policy) -> bool:
    avals = [v.aval for v in eqn.invars]
    return is_kept(policy(eqn.primitive, *avals, **eqn.params))


def _cut_scan(eqn: Eqn, flags: Flags, policy: Policy) -> EqnParts | None:
    op: Any = eqn.op
    consts, carry, xs = op.parts(flags)
    body, before = _inline_calls(op.jaxpr), None
    while carry != before:  # to a fixed point: the carry out is the next carry in
        before = carry
        parts = _cut(body.jaxpr, (*consts, *carry, *xs), policy)
        carry = [c or u for c, u in zip(carry, parts.out_unknown)]
    later, kept = parts.recomputing()
    if not kept:
        return None
    rows = [Var(op.stacked(v.aval)) for v in kept]
    known = parts.making(kept)
    known = known.replace(invars=unflagged(known.invars, (*consts, *carry, *xs)))
    first = op.with_body(
        ClosedJaxpr(known, body.consts), consts.count(False), carry.count(False)
    )
    later = later.replace(invars=(*later.invars, *kept))
    second = op.with_body(ClosedJaxpr(later, body.consts), len(consts), len(carry))
    return _eqn_parts(eqn, (*consts, *carry, *xs), first, second, rows, parts)


def _eqn_parts(
    eqn: Eqn, flags: Flags, first: Any, second: Any, kept: list[Var], parts: KnownEqns
) -> EqnParts:
    unknown = [v for v, u in zip(eqn.outvars, parts.out_unknown, strict=True) if u]
    outs = unflagged(eqn.outvars, parts.out_unknown)
    known = tuple(unflagged(eqn.invars, flags))
    made = eqn.replace(op=first, invars=known, outvars=(*outs, *kept))
    later = eqn.replace(op=second, invars=(*eqn.invars, *kept))
    return EqnParts(made, (later,), kept, unknown)


def _cut_cond(eqn: Eqn, flags: Flags, policy: Policy) -> EqnParts | None:
    op: Any = eqn.op
    if flags[0]:  # an unknown index
        return None
    branches = [_inline_calls(b) for b in op.branches]
    cuts = [_cut(b.jaxpr, flags[1:], policy) for b in branches]
    out_unknown = tuple(map(any, zip(*(c.out_unknown for c in cuts), strict=True)))
    cuts = [c._replace(out_unknown=out_unknown) for c in cuts]
    result = [c.recomputing() for c in cuts]
    avals, slots = share_residuals([[v.aval for v in kept] for _, kept in result])
    if not avals:
        return None
    first, second = [], []
    for (later, own), branch, parts, at in zip(result, branches, cuts, slots):
        known = parts.making(own)
        known = known.replace(invars=unflagged(known.invars, flags[1:]))
        first.append(_filled(ClosedJaxpr(known, branch.consts), len(own), avals, at))
        given = dict(zip(at, own, strict=True))
        taken = [given.get(i) or Var(a) for i, a in enumerate(avals)]
        later = later.replace(invars=(*later.invars, *taken))
        second.append(ClosedJaxpr(later, branch.consts))
    made = op.with_branches(tuple(first)), op.with_branches(tuple(second))
    return _eqn_parts(eqn, flags, *made, [Var(a) for a in avals], cuts[0])


def _filled(
    closed: ClosedJaxpr,
    count: int,
    avals: Sequence[ShapedArray],
    slots: Sequence[int],
) -> ClosedJaxpr:
    """A branch whose residuals are put into their slots among those of all branches."""

    def run(*args: Any) -> list[Any]:
        results = run_closed(closed, args)
        outs = len(results) - count
        return results[:outs] + shared_residuals(results[outs:], avals, slots)

    return stage(run, closed.in_avals, closed.jaxpr.debug_info)


def _cut_map(eqn: Eqn, flags: Flags, policy: Policy) -> EqnParts | None:
    op: Any = eqn.op
    if all(flags) or not any(flags):
        return None
    with op.inside():
        plan = plan_residuals(op.body, flags, policy)
        count = plan.known_out_count
        sources = tuple((False, i) for i in range(count, len(plan.known.out_avals)))
        split = SplitJaxpr(plan.known, plan.unknown, plan.out_unknown, sources)
        cut = cut_as(op, flags, split, [op.in_specs[i] for i in plan.passed])
    kept = [Var(a) for a in cut.known.aval()[count:]]
    outs = unflagged(eqn.outvars, plan.out_unknown)
    late = [v for v, u in zip(eqn.outvars, plan.out_unknown, strict=True) if u]
    known = tuple(unflagged(eqn.invars, flags))
    first = eqn.replace(op=cut.known, invars=known, outvars=(*outs, *kept))
    passed = [eqn.invars[i] for i in plan.passed]
    second = eqn.replace(op=cut.unknown, invars=(*kept, *passed), outvars=tuple(late))
    return EqnParts(first, (first, second), kept, late)


_CUTS: dict[type, Callable[[Eqn, Flags, Policy], EqnParts | None]] = {
    Scan: _cut_scan,
    Cond: _cut_cond,
    ShardMap: _cut_map,
}


# ---- calls


def _inline_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with every `jit` eqn replaced by its body."""
    if not any(isinstance(e.op, JitCall) for e in closed.eqns):
        return closed

    def run(*args: Any) -> list[Any]:
        return _eval_inlined(closed, args)

    return stage(run, closed.in_avals, closed.jaxpr.debug_info)


def _eval_inlined(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    jaxpr = closed.jaxpr
    env = bound_consts(jaxpr, closed.consts)
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        operands = [env[v] if type(v) is Var else v.operand for v in eqn.invars]  # type: ignore[union-attr]
        if isinstance(eqn.op, JitCall):
            out: Any = _eval_inlined(eqn.op.jaxpr, operands)
        else:
            out = eqn.op(*operands)
            out = out if eqn.op.multiple_results else [out]
        env.update(zip(eqn.outvars, out, strict=True))
    return [env[v] if type(v) is Var else v.operand for v in jaxpr.outvars]
