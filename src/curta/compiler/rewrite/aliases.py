"""Loops and branches in which every value has one name.

An operand given twice, a result that is an operand as it came, two results that are
one: under two names a value looks needed after it was overwritten, and updates copy it
in every iteration. So it is given once, handed on around the eqn and carried once.
"""

from __future__ import annotations

from curta.compiler.rewrite.branches import Branches
from curta.compiler.rewrite.inline import called
from curta.compiler.rewrite.loop import Loop, renamed
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Var


def without_aliases(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr; its inner jaxprs have no aliases already."""
    names: dict[Var, Atom] = {}
    eqns = [_canonical(renamed(eqn, names), names) for eqn in jaxpr.eqns]
    outvars = tuple(called(v, names) for v in jaxpr.outvars)
    return jaxpr.replace(eqns=eqns, outvars=outvars)


def _canonical(eqn: Eqn, names: dict[Var, Atom]) -> Eqn:
    """The eqn with fewer operands and results; `names` gets what those left out are."""
    handed: dict[Var, Atom] = {}
    while parts := Loop.of(eqn) or Branches.of(eqn):
        if len({*eqn.invars}) < len(eqn.invars):
            parts.rewrite(without_aliases)  # inside, the names of two values are one
        result = parts.hand_on()
        eqn = parts.to_eqn()
        handed = {v: called(x, result) for v, x in handed.items()} | result
        if not result:
            break
    names.update(handed)
    return eqn
