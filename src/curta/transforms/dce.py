"""Dead code elimination on jaxprs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from curta.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var


def dce_jaxpr(
    jaxpr: Jaxpr,
    used_outputs: Sequence[bool] | None = None,
    keep_effects: bool = True,
) -> Jaxpr:
    """The jaxpr with only the eqns that its (used) outputs or effects need.

    Inputs stay; unused outputs are dropped, and without `keep_effects` so are eqns of
    which only the effects are left.
    """
    outvars = jaxpr.outvars
    if used_outputs is not None:
        outvars = tuple(v for v, u in zip(outvars, used_outputs, strict=True) if u)
    live: set[Var] = {v for v in outvars if type(v) is Var}
    kept: list[Eqn] = []
    for eqn in reversed(jaxpr.eqns):
        if keep_effects and eqn.effects or any(v in live for v in eqn.outvars):
            kept.append(eqn)
            live.update(v for v in eqn.invars if type(v) is Var)
    return jaxpr.replace(outvars=outvars, eqns=kept[::-1])


@functools.lru_cache(maxsize=512)
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
    op: Any = eqn.op
    changed: dict[str, Any] = {}
    for f in dataclasses.fields(op):
        value = getattr(op, f.name)
        if isinstance(value, ClosedJaxpr):
            changed[f.name] = without_effects(value, why)
        elif isinstance(value, tuple) and any(
            isinstance(v, ClosedJaxpr) for v in value
        ):
            changed[f.name] = tuple(without_effects(v, why) for v in value)
    if not changed:
        raise NotImplementedError(
            f"Effects not supported in {why}: {sorted(eqn.effects)}. The result of"
            f" '{op.name}' is needed again there, and it would happen again."
        )
    return eqn.replace(op=dataclasses.replace(op, **changed))


def used_inputs(jaxpr: Jaxpr) -> list[bool]:
    """Which of the inputs an eqn or output reads."""
    read = {v for e in jaxpr.eqns for v in e.invars} | set(jaxpr.outvars)
    return [v in read for v in jaxpr.invars]
