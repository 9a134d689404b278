"""Indices made of iotas before a loop, and read at in it: computed inside.

Such sums are parts of addresses there (loops/known_indices.py); an array of them would
be read in every iteration, and what is read at it gathered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from curta.compiler.graph.loop import Loop, copied, live_eqns
from curta.compiler.graph.values import is_index, parts_of_indices
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Var


def indices_inside(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr whose loops compute the indices made of iotas that they read at."""
    known, made, eqns = set[Atom](), list[Eqn](), list[Eqn]()
    for eqn in jaxpr.eqns:
        loop = Loop.of(eqn) if known else None
        if loop is not None and _compute_inside(loop, made, known):
            eqn = loop.to_eqn()
        elif is_index(eqn, known):
            known.update(eqn.outvars)
            made.append(eqn)
        eqns.append(eqn)
    return jaxpr.replace(eqns=eqns)


def _compute_inside(loop: Loop, made: Sequence[Eqn], known: Collection[Atom]) -> bool:
    """Whether there were such indices among the constants of the loop."""
    read_at = parts_of_indices(loop.eqns)
    moved = {v: a for v, a in loop.consts if v in read_at and a in known}
    if not moved:
        return False
    needed, _ = live_eqns(made, moved.values())
    names: dict[Var, Atom] = {}
    inside = copied(needed, names)
    loop.rename({v: names[a] for v, a in moved.items() if isinstance(a, Var)})
    loop.eqns[:0] = inside
    loop.consts = [p for p in loop.consts if p[0] not in moved]
    return True
