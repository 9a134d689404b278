"""Compute loop operands inside the loop if they follow cheaply from other values.

Memory takes longer than arithmetic, and residuals are most of what a gradient holds. So
rows that follow from other rows by a few simple operations are not stored:

* The forward loop of a gradient stores what the backward loop needs of every iteration:
  of z = logistic(x) not only z, but also 1 - z and z·(1 - z). The loop that reads these
  computes them.
* Before the backward loop an array is made that only it reads, row by row: of the size
  of all outputs, for the gradient of their mean. It computes each row when it comes to
  it.

Indices made of iotas are parts of addresses where they are computed, in the loop that
reads at them (loops/known_indices.py). An array of them would be read in every
iteration, and what is read at it gathered.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import field
from functools import partial

from curta._base.lazy_dataclass import dataclass
from curta.compiler.rewrite.loop import Loop, captured, copied, live_eqns
from curta.compiler.rewrite.simplify import simplify
from curta.compiler.rewrite.values import (
    is_index,
    is_virtual,
    op_cost,
    parts_of_indices,
)
from curta.compiler.targets import Target, Tuning
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from curta.core.op import Op
from curta.primitives.base import Elementwise
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.structure import AddAny, BroadcastInDim


def sunk(jaxpr: Jaxpr, target: Target) -> Jaxpr:
    """The jaxpr whose loops compute cheap rows and indices, and do not read them."""
    sinking = _Sinking(jaxpr, target)
    if not sinking.loops:
        return jaxpr
    sinking.stored_rows()
    sinking.indices()
    sinking.rows()
    return jaxpr.replace(
        eqns=[
            sinking.loops[i].to_eqn() if i in sinking.changed else e
            for i, e in enumerate(jaxpr.eqns)
        ]
    )


@dataclass
class _Recipe:
    """How to compute a row of an array: eqns, one of which gives the `target`.

    `rows` are variables that they read, with the arrays of which these are rows.
    """

    target: Atom
    eqns: list[Eqn] = field(default_factory=list)
    rows: dict[Var, Atom] = field(default_factory=dict)
    cost: int = 0


class _Sinking:
    """The loops of a jaxpr by their numbers, and what reads which value."""

    def __init__(self, jaxpr: Jaxpr, target: Target) -> None:
        self.jaxpr, self.target = jaxpr, target
        eqns = [*enumerate(jaxpr.eqns)]
        self.loops: dict[int, Loop] = {
            i: loop for i, e in eqns if (loop := Loop.of(e)) is not None
        }
        self.readers: dict[Atom, set[int]] = {v: {-1} for v in jaxpr.outvars}
        for i, eqn in eqns:
            for v in eqn.invars:
                self.readers.setdefault(v, set()).add(i)
        # What a loop does not only read row by row.
        self.whole: dict[int, set[Atom]] = {}
        for i, loop in self.loops.items():
            args = loop.source.invars
            self.whole[i] = {*args[: len(args) - len(loop.rows)]}
        self.changed: set[int] = set()

    def stored_rows(self) -> None:
        """Rows that one loop stores, computed by those that read them."""
        changes: dict[int, list[tuple[Var, _Recipe]]] = {i: [] for i in self.loops}
        for at, loop in self.loops.items():
            if changes[at]:
                _compute_rows(loop, changes[at])
                loop.rewrite(
                    partial(simplify, target=self.target)
                )  # it may compute something twice
            body = _Body(loop, self.target.tuning)
            for atom, result in loop.stacked:
                reading = self.readers.get(result, set())
                if reading and all(self._reads_rows(i, result) for i in reading):
                    recipe = body.recipe(atom)
                    if recipe is not None:
                        body.kept.pop(atom, None)
                        for i in reading:
                            changes[i].append((result, recipe))
                        self._note(result, recipe)

    def indices(self) -> None:
        """Indices made of iotas."""
        known, made = set[Atom](), list[Eqn]()
        for i, eqn in enumerate(self.jaxpr.eqns):
            loop = self.loops.get(i)
            if loop is None:
                if is_index(eqn, known):
                    known.update(eqn.outvars)
                    made.append(eqn)
            elif known and (moved := known & parts_of_indices(loop.eqns)):
                needed, _ = live_eqns(made, moved)
                names: dict[Var, Atom] = {}
                inside = copied(needed, names)
                loop.rename(names)
                loop.eqns[:0] = inside
                self.changed.add(i)
                for v in moved - {x for _, x in loop.rows}:
                    self.readers[v].discard(i)

    def rows(self) -> None:
        """Rows of cheap arrays that one loop alone reads."""
        for i, eqn in reversed([*enumerate(self.jaxpr.eqns)]):
            reading = self.readers.get(eqn.outvars[0], ()) if eqn.outvars else ()
            (at,) = reading if len(reading) == 1 else (-1,)
            if self._reads_rows(at, *eqn.outvars):
                recipe = _of_eqn(eqn, self.target.tuning)
                if recipe is not None:
                    for v in eqn.invars:
                        self.readers[v].discard(i)
                    _compute_rows(self.loops[at], [(eqn.outvars[0], recipe)])
                    self._note(eqn.outvars[0], recipe)

    def _reads_rows(self, i: int, *arrays: Var) -> bool:
        """Whether an eqn is a loop that reads arrays row by row, and not otherwise."""
        if i not in self.loops or self.loops[i].length is None:
            return False
        return self.whole[i].isdisjoint(arrays)

    def _note(self, array: Var, recipe: _Recipe) -> None:
        """Take in that what reads rows of an array follows the recipe instead."""
        reading, self.readers[array] = self.readers[array], set()
        self.changed |= reading
        outside = captured(recipe.eqns, (), recipe.rows)
        for v in (*outside, *recipe.rows.values()):
            self.readers.setdefault(v, set()).update(reading)
        for i in reading:
            self.whole[i].update(outside)


class _Body:
    """Where the body of a loop that stores rows has its variables from."""

    def __init__(self, loop: Loop, tuning: Tuning) -> None:
        self.tuning = tuning
        self.bound = loop.bound
        self.rows = dict(loop.rows)
        self.kept: dict[Atom, Var] = dict(loop.stacked)
        self.producers = {v: e for e in loop.eqns for v in e.outvars}

    def recipe(self, target: Atom) -> _Recipe | None:
        """How to compute a row from others; None if it is one, or not cheap."""
        result = _Recipe(target)
        return result if self._add(target, result) and result.eqns else None

    def _add(self, atom: Atom, recipe: _Recipe) -> bool:
        """Add what gives a variable of the body; False if that is not cheap."""
        if atom not in self.bound or atom in recipe.rows:
            return True
        assert isinstance(atom, Var)
        eqn = self.producers.get(atom)
        if eqn in recipe.eqns:
            return True
        stored = {} if atom is recipe.target else self.kept
        if atom in stored or atom in self.rows:
            recipe.rows[atom] = stored.get(atom) or self.rows[atom]
            return True
        if eqn is None or not is_virtual(eqn.op):
            return False
        cost, tuning = op_cost(eqn.op), self.tuning
        recipe.cost += cost
        if cost > tuning.recomputed_cost or recipe.cost > tuning.recomputed_cost_of_row:
            return False
        if not all(self._add(v, recipe) for v in eqn.invars):
            return False
        recipe.eqns.append(eqn)
        return True


def _compute_rows(loop: Loop, changes: Sequence[tuple[Var, _Recipe]]) -> None:
    """Compute rows of arrays in the loop instead of reading them."""
    inner: dict[Atom, list[Var]] = {}
    for v, array in loop.rows:
        inner.setdefault(array, []).append(v)
    instead: dict[Var, Atom] = {}
    made: list[list[Eqn]] = []
    for array, recipe in changes:
        names: dict[Var, Atom] = {}
        for v, source in recipe.rows.items():
            if source not in inner:
                inner[source] = [Var(v.aval)]
                loop.rows.append((inner[source][0], source))
            names[v] = inner[source][-1]
        made.append(copied(recipe.eqns, names))
        assert isinstance(recipe.target, Var)
        instead |= dict.fromkeys(inner.pop(array, []), names[recipe.target])
    # In dependence order: a row may be recomputed from another that is recomputed.
    loop.eqns = [*itertools.chain(*reversed(made)), *loop.eqns]
    loop.rename(instead)
    loop.rows = [p for p in loop.rows if p[0] not in instead]


def _of_eqn(eqn: Eqn, tuning: Tuning) -> _Recipe | None:
    """How to compute a row of the result of a cheap eqn, if that can be done."""
    op = _of_rows(eqn, tuning)
    if op is None:
        return None
    array, rows = eqn.outvars[0].aval, dict[Atom, Var]()

    def row(atom: Atom) -> Atom:
        if isinstance(atom, Literal) or atom.aval.shape != array.shape:
            return atom
        return rows.setdefault(atom, Var(atom.aval.update(shape=array.shape[1:])))

    target = Var(array.update(shape=array.shape[1:]))
    made = eqn.replace(op=op, invars=tuple(map(row, eqn.invars)), outvars=(target,))
    return _Recipe(target, [made], {v: x for x, v in rows.items()})


def _of_rows(eqn: Eqn, tuning: Tuning) -> Op | None:
    """The op that makes a row of the result of a cheap op, if there is one."""
    if len(eqn.outvars) > 1 or eqn.effects:
        return None
    if op_cost(eqn.op) > tuning.shared_cost:
        return None
    op, out = eqn.op, eqn.outvars[0].aval
    shapes = [v.aval.shape for v in eqn.invars]
    if isinstance(op, (Elementwise, AddAny, ConvertElementType)):
        whole = all(s in ((), out.shape) for s in shapes) and out.shape != ()
        return op if whole else None
    if isinstance(op, BroadcastInDim) and 0 not in op.broadcast_dimensions:
        dims = tuple(d - 1 for d in op.broadcast_dimensions)
        return BroadcastInDim(op.shape[1:], dims)
    return None
