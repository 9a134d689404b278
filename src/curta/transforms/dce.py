"""Dead code elimination on jaxprs."""

from __future__ import annotations

from collections.abc import Sequence

from curta.core.jaxpr import Eqn, Jaxpr, Var


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Sequence[bool] | None = None) -> Jaxpr:
    """The jaxpr with only the eqns that its (used) outputs or effects need.

    Inputs stay; unused outputs are dropped.
    """
    outvars = jaxpr.outvars
    if used_outputs is not None:
        outvars = tuple(v for v, u in zip(outvars, used_outputs, strict=True) if u)
    live: set[Var] = {v for v in outvars if type(v) is Var}
    kept: list[Eqn] = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or any(v in live for v in eqn.outvars):
            kept.append(eqn)
            live.update(v for v in eqn.invars if type(v) is Var)
    return jaxpr.replace(outvars=outvars, eqns=kept[::-1])


def used_inputs(jaxpr: Jaxpr) -> list[bool]:
    """Which of the inputs an eqn or output reads."""
    read = {v for e in jaxpr.eqns for v in e.invars} | set(jaxpr.outvars)
    return [v in read for v in jaxpr.invars]
