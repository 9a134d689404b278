"""Rematerialisation of rows that one loop stores for another.

The forward loop of a gradient stores what the backward loop needs of every iteration:
of z = logistic(x) not only z, but also 1 - z and z·(1 - z). What follows from other
rows by a few simple operations is not stored; the loop that reads it computes it.
Memory takes longer than arithmetic, and residuals are most of what a gradient holds.
"""

from __future__ import annotations

import itertools
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
    returned = set(jaxpr.outvars)
    whole = {i: _read_as_a_whole(loop) for i, loop in loops.items()}
    changes: dict[int, list[_Change]] = {i: [] for i in loops}
    for at, stored in loops.items():
        _apply(stored, changes[at])
        changes[at] = []
        body = _Body(stored)
        for atom, result in stored.stacked:
            reading = readers.get(result, [])
            if result in returned or not all(
                i in loops and loops[i].length is not None and result not in whole[i]
                for i in reading
            ):
                continue
            recipe = _Recipe(body, atom)
            if not recipe.add(atom) or not recipe.eqns:
                continue
            body.kept.pop(atom, None)
            for i in set(reading):
                changes[i].append((result, recipe))
                whole[i].update(recipe.consts.values())
                for array in recipe.rows.values():
                    readers.setdefault(array, []).append(i)
            changed.update(reading)
    for i, loop in loops.items():
        _apply(loop, changes[i])
    eqns = [_simplified(loops[i]) if i in changed else e
            for i, e in enumerate(jaxpr.eqns)]  # fmt: skip
    return jaxpr.replace(eqns=eqns)


def _read_as_a_whole(loop: Loop) -> set[Atom]:
    """The arrays that a loop does not only read row by row."""
    return {a for _, a in loop.consts}.union(c.start for c in loop.carry)


class _Body:
    """Where the body of a loop that stores rows has its variables from."""

    def __init__(self, loop: Loop) -> None:
        self.consts = dict(loop.consts)
        self.rows = dict(loop.rows)
        self.kept: dict[Atom, Var] = dict(loop.stacked)
        self.producers = {v: e for e in loop.eqns for v in e.outvars}


@dataclass
class _Recipe:
    """How to compute a row from others: eqns of the loop, and what they read."""

    body: _Body
    target: Atom
    eqns: list[Eqn] = field(default_factory=list)
    consts: dict[Var, Atom] = field(default_factory=dict)
    rows: dict[Var, Atom] = field(default_factory=dict)
    cost: int = 0

    def add(self, atom: Atom) -> bool:
        """Add what gives a variable of the body; False if that is not cheap."""
        if isinstance(atom, Literal) or atom in self.consts or atom in self.rows:
            return True
        body = self.body
        eqn = body.producers.get(atom)
        if eqn in self.eqns:
            return True
        if atom in body.consts:
            self.consts[atom] = body.consts[atom]
            return True
        stored = {} if atom is self.target else body.kept
        if atom in stored or atom in body.rows:
            self.rows[atom] = stored.get(atom) or body.rows[atom]
            return True
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


_Change = tuple[Var, _Recipe]
"""An array of rows, and how to compute its rows."""


def _apply(loop: Loop, changes: list[_Change]) -> None:
    """Compute rows in the loop instead of reading them."""
    inner: dict[Atom, list[Var]] = {}
    for v, outside in loop.rows:
        inner.setdefault(outside, []).append(v)
    instead: dict[Var, Atom] = {}
    made: list[list[Eqn]] = []
    for array, recipe in changes:
        names: dict[Var, Atom] = {}
        for v, outside in recipe.consts.items():
            names[v] = loop.add_const(outside)
        for v, outside in recipe.rows.items():
            if outside not in inner:
                inner[outside] = [Var(v.aval)]
                loop.rows.append((inner[outside][0], outside))
            names[v] = inner[outside][-1]
        made.append(copied(recipe.eqns, names))
        assert isinstance(recipe.target, Var)
        instead |= dict.fromkeys(inner.pop(array, []), names[recipe.target])
    # In dependence order: a row may be recomputed from another that is recomputed.
    loop.eqns = [*itertools.chain(*reversed(made)), *loop.eqns]
    loop.rename(instead)
    loop.rows = [p for p in loop.rows if p[0] not in instead]


def _simplified(loop: Loop) -> Eqn:
    """The eqn of a loop that may now compute something twice."""
    loop.rewrite(simplify)
    return loop.to_eqn()
