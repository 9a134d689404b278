"""Elimination of unread results of loops and branches."""

from __future__ import annotations

from curta.compiler.rewrite.branches import Branches
from curta.compiler.rewrite.loop import Loop
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Literal


def without_dead_results(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr without unused results of loops and branches."""
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
