"""Keep recomputation in the backward pass, separate from the forward pass.

Values that `checkpoint` does not save are recomputed by eqns equal to those of the
forward pass. If they were merged with those, or fused into their kernels, they would
keep the dropped values alive. So operands of recomputed eqns pass through a barrier,
like XLA's `opt-barrier`.
"""

from __future__ import annotations

from typing import Any

from curta.compiler.rewrite.inline import called
from curta.compiler.rewrite.rewriting import key_of
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Var
from curta.primitives.barrier import RecomputationBarrier


def without_idle_barriers(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr whose barriers are passed only by what was read before them.

    Nothing before a barrier can be shared that starts from other values. So a cotangent
    stays with the map that makes it, and the rows that a loop reads with the loop. A
    barrier goes if nothing that passes it is computed twice, as all was kept.
    """
    if not any(type(e.op) is RecomputationBarrier for e in jaxpr.eqns):
        return jaxpr
    useful = _useful_barriers(jaxpr)
    read_later = {v for e in jaxpr.eqns for v in e.invars}
    read: set[Atom] = set()
    names: dict[Var, Atom] = {}
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        eqn = eqn.replace(invars=tuple(called(v, names) for v in eqn.invars))
        if type(eqn.op) is RecomputationBarrier:
            pairs = [*zip(eqn.invars, eqn.outvars, strict=True)]
            kept = [(v, o) for v, o in pairs if v in read and o in read_later]
            if useful.isdisjoint(o for _, o in kept):
                kept = []
            passing = {o for _, o in kept}
            names.update((o, v) for v, o in pairs if o not in passing)
            if not kept:
                continue
            invars, outvars = zip(*kept, strict=True)
            eqn = eqn.replace(invars=invars, outvars=outvars)
        else:
            read.update(eqn.invars)
        eqns.append(eqn)
    outvars = tuple(called(v, names) for v in jaxpr.outvars)
    return jaxpr.replace(eqns=tuple(eqns), outvars=outvars)


def _useful_barriers(jaxpr: Jaxpr) -> set[Atom]:
    """What comes through barriers and is read by an eqn equal to one before."""
    before: set[Any] = set()
    original: dict[Var, Atom] = {}
    result: set[Atom] = set()
    for eqn in jaxpr.eqns:
        invars = tuple(called(v, original) for v in eqn.invars)
        if type(eqn.op) is RecomputationBarrier:
            original.update(zip(eqn.outvars, invars, strict=True))
            continue
        key = key_of(eqn, invars)
        if key is not None and key in before:
            result.update(eqn.invars)
        before.add(key)
    return result
