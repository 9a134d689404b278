"""Rows that one loop stores for another, computed again where that is cheaper.

The forward loop of a gradient stores what the backward loop needs of every turn: of
z = logistic(x) not only z, but also 1 - z and z·(1 - z). What follows from other rows
by a few simple operations is not stored; the loop that reads it computes it. Memory
takes longer than arithmetic, and residuals are most of what a gradient holds.
"""

from __future__ import annotations

from dataclasses import field

from curta.compiler.graph.loop import Loop, copied
from curta.compiler.graph.simplify import simplify
from curta.compiler.graph.values import is_virtual, op_cost
from curta.config import config
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from curta.lazy_dataclass import dataclass


def recompute(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr whose scans store no rows that their readers can compute."""
    loops = {i: loop for i, e in enumerate(jaxpr.eqns) if (loop := Loop.of(e))}
    readers: dict[Atom, list[int]] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        for v in eqn.invars:
            readers.setdefault(v, []).append(i)
    changed: set[int] = set()
    for stored in loops.values():
        kept = dict(stored.stacked)
        for atom, result in stored.stacked:
            reading = readers.get(result, [])
            if result in jaxpr.outvars or not all(
                _reads_rows(loops.get(i), result) for i in reading
            ):
                continue
            recipe = _Recipe(stored, {a: r for a, r in kept.items() if a is not atom})
            if not recipe.add(atom) or not recipe.eqns:
                continue
            kept.pop(atom, None)
            for i in set(reading):
                _apply(loops[i], result, atom, recipe)
                for array in recipe.rows.values():
                    readers.setdefault(array, []).append(i)
            changed.update(reading)
    eqns = [_simplified(loops[i]) if i in changed else e
            for i, e in enumerate(jaxpr.eqns)]  # fmt: skip
    return jaxpr.replace(eqns=eqns)


def _reads_rows(loop: Loop | None, array: Var) -> bool:
    """Whether a loop reads an array row by row, and in no other way."""
    if loop is None or loop.length is None:
        return False
    outside = [a for _, a in loop.consts] + [c.start for c in loop.carry]
    return array not in outside


@dataclass
class _Recipe:
    """How to compute a row from others: eqns of the loop, and what they read."""

    loop: Loop
    kept: dict[Atom, Var]
    eqns: list[Eqn] = field(default_factory=list)
    consts: dict[Var, Atom] = field(default_factory=dict)
    rows: dict[Var, Atom] = field(default_factory=dict)
    cost: int = 0

    def add(self, atom: Atom) -> bool:
        """Add what gives a variable of the body; False if that is not cheap."""
        if isinstance(atom, Literal) or atom in self.consts or atom in self.rows:
            return True
        if any(atom in e.outvars for e in self.eqns):
            return True
        for pairs, found in (
            (dict(self.loop.consts), self.consts),
            (dict(self.loop.rows) | self.kept, self.rows),
        ):
            if atom in pairs:
                found[atom] = pairs[atom]
                return True
        eqn = next((e for e in self.loop.eqns if atom in e.outvars), None)
        if (
            eqn is None
            or not is_virtual(eqn.op)
            or op_cost(eqn.op) > config.tuning.recomputed_cost
        ):
            return False
        self.cost += op_cost(eqn.op)
        if self.cost > config.tuning.recomputed_cost_of_row or not all(
            self.add(v) for v in eqn.invars
        ):
            return False
        self.eqns.append(eqn)
        return True


def _apply(loop: Loop, array: Var, atom: Atom, recipe: _Recipe) -> None:
    """Compute a row in the loop instead of reading it."""
    names: dict[Var, Atom] = {}
    for v, outside in recipe.consts.items():
        names[v] = loop.add_const(outside)
    there = {outside: v for v, outside in loop.rows}
    for v, outside in recipe.rows.items():
        if outside not in there:
            there[outside] = Var(v.aval)
            loop.rows.append((there[outside], outside))
        names[v] = there[outside]
    eqns = copied(recipe.eqns, names)
    assert isinstance(atom, Var)
    loop.rename({v: names[atom] for v, outside in loop.rows if outside is array})
    loop.rows = [p for p in loop.rows if p[1] is not array]
    loop.eqns[:0] = eqns


def _simplified(loop: Loop) -> Eqn:
    """The eqn of a loop that may now compute something twice."""
    loop.rewrite(simplify)
    return loop.to_eqn()
