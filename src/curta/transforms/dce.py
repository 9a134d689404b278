"""Dead code elimination on jaxprs."""

from __future__ import annotations

from collections.abc import Sequence

from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, with_jaxprs
from curta.core.memo import kept_with_jaxpr
from curta.core.op import Op, may_have_effects


def dce_jaxpr(
    jaxpr: Jaxpr,
    used_outputs: Sequence[bool] | None = None,
    keep_effects: bool = True,
    within: bool = False,
) -> Jaxpr:
    """The jaxpr with only the eqns that its (used) outputs or effects need.

    Inputs stay; unused outputs are dropped, and without `keep_effects` so are eqns of
    which only the effects are left. `within` says that eqns that hold jaxprs, loops for
    example, lose results that nobody needs, too.
    """
    outvars = jaxpr.outvars
    if used_outputs is not None:
        outvars = tuple(v for v, u in zip(outvars, used_outputs, strict=True) if u)
    live: set[Atom] = set(outvars)
    ops = jaxpr.used_ops
    effectful = {op for op in ops if keep_effects and may_have_effects(op)}
    prunable = {op for op in ops if _is_pruned(op, within)}
    kept: list[Eqn] = []
    for eqn in reversed(jaxpr.eqns):
        kind = type(eqn.op)
        if live.isdisjoint(eqn.outvars) and not (kind in effectful and eqn.op.effects):
            continue
        if kind in prunable:
            eqn = _pruned(eqn, live)
        kept.append(eqn)
        live.update(eqn.invars)
    return jaxpr.replace(outvars=outvars, eqns=kept[::-1])


def _is_pruned(kind: type[Op], within: bool) -> bool:
    return (within or kind.always_pruned) and kind.pruned is not Op.pruned


def _pruned(eqn: Eqn, live: set[Atom]) -> Eqn:
    used = tuple(v in live for v in eqn.outvars)
    result = None if all(used) or eqn.effects else eqn.op.pruned(used)
    if result is None:
        return eqn
    op, reads, gives = result
    return eqn.replace(
        op=op,
        invars=tuple(v for v, r in zip(eqn.invars, reads, strict=True) if r),
        outvars=tuple(v for v, g in zip(eqn.outvars, gives, strict=True) if g),
    )


@kept_with_jaxpr
def prune_outputs(
    closed: ClosedJaxpr, used: tuple[bool, ...]
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The jaxpr with only some outputs, and which inputs it reads for them."""
    jaxpr = dce_jaxpr(closed.jaxpr, used, within=True)
    return ClosedJaxpr(jaxpr, closed.consts), tuple(used_inputs(jaxpr))


def with_inputs(closed: ClosedJaxpr, kept: Sequence[bool]) -> ClosedJaxpr:
    """The jaxpr with only the inputs `kept`, which must be all that it reads."""
    jaxpr = closed.jaxpr
    invars = [v for v, k in zip(jaxpr.invars, kept, strict=True) if k]
    return ClosedJaxpr(jaxpr.replace(invars=invars), closed.consts)


@kept_with_jaxpr
def without_effects(closed: ClosedJaxpr, why: str) -> ClosedJaxpr:
    """The jaxpr without what happens besides computing its outputs.

    Raises NotImplementedError, saying `why`, if an output depends on it.
    """
    if not closed.effects:
        return closed
    jaxpr = dce_jaxpr(closed.jaxpr, keep_effects=False)
    eqns = [_without_effects(eqn, why) for eqn in jaxpr.eqns]
    return ClosedJaxpr(jaxpr.replace(eqns=eqns), closed.consts)


def _without_effects(eqn: Eqn, why: str) -> Eqn:
    if not eqn.effects:
        return eqn
    op = with_jaxprs(eqn.op, lambda closed: without_effects(closed, why))
    if op is eqn.op:
        names = sorted(map(str, eqn.effects))
        raise NotImplementedError(
            f"Effects not supported in {why}: {names}. The result of '{op.name}' is"
            " needed again there, and it would happen again."
        )
    return eqn.replace(op=op)


def used_inputs(jaxpr: Jaxpr) -> list[bool]:
    """Which of the inputs an eqn or output reads."""
    read = read_atoms(jaxpr)
    return [v in read for v in jaxpr.invars]


def read_atoms(jaxpr: Jaxpr) -> set[Atom]:
    """What the eqns read, and the outputs are."""
    return set(jaxpr.outvars).union(*[e.invars for e in jaxpr.eqns])
