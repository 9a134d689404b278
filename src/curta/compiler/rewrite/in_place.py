"""The order of updates: after what reads their operand as it was.

Then they need no copy (memory/analysis.py).
"""

from __future__ import annotations

from curta.core.jaxpr import Eqn, Jaxpr, Var


def with_late_updates(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with updates after what reads their operand as it was, if they can."""
    waiting: dict[Var, Eqn] = {}
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        for v in eqn.invars:
            if isinstance(v, Var) and v in waiting:
                eqns.append(waiting.pop(v))
        if eqn.op.updates_first:
            waiting[eqn.outvars[0]] = eqn
        else:
            eqns.append(eqn)
    return jaxpr.replace(eqns=(*eqns, *waiting.values()))
