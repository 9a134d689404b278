"""Sums over the turns of a loop, taken after it.

The gradient of a weight is a sum of a product of matrices in every turn, of which each
reads and writes all of it. Stacked, the factors of all turns make one product, with the
turns among what is summed over: `sum of a[t]·b[t]`. The sums are made in another
order than one by one, as those of products always are.
"""

from __future__ import annotations

import dataclasses

from curta.compiler.graph.loop import Carried, Loop
from curta.core.jaxpr import Atom, Eqn, Literal, Var
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.arithmetic import Add
from curta.primitives.structure import AddAny, ReduceSum


def sum_after(loop: Loop) -> None:
    """Take sums of products, and of what is stacked anyway, out of the loop."""
    if not loop.length:
        return
    sums = _Sums(loop)
    for kind in (DotGeneral, ReduceSum):
        for part in list(loop.carry):
            sums.take_out(part, kind)


class _Sums:
    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.fixed = {v for v, _ in loop.consts}
        self.rows: dict[Atom, Atom] = dict(loop.rows)
        self.rows |= dict(loop.stacked)

    def take_out(self, part: Carried, kind: type) -> None:
        """Take the terms of this kind out of what a carry sums up."""
        terms = self._terms(part)
        if terms is None:
            return
        taken = []
        for term in terms:
            maker = self._maker(term)
            if maker and isinstance(maker.op, kind) and self._may_stack(maker):
                taken.append(maker)
        if not taken:
            return
        for maker in taken:
            self._drop(part, maker.outvars[0])
        total = part.result
        part.result = Var(total.aval)
        so_far: Atom = part.result
        if part.end is part.inner:  # nothing is left to add
            self.loop.carry.remove(part)
            so_far = part.start
        for i, maker in enumerate(taken):
            found = self._summed(maker)
            out = total if i == len(taken) - 1 else Var(total.aval)
            self.loop.after.append(Eqn(Add(), (so_far, found), (out,)))
            so_far = out

    def _maker(self, atom: Atom) -> Eqn | None:
        for eqn in self.loop.eqns:
            if atom in eqn.outvars:
                return eqn
        return None

    def _uses(self, atom: Atom) -> list[Eqn | None]:
        """The eqns that read a variable; None stands for what the body returns."""
        found: list[Eqn | None] = [
            e for e in self.loop.eqns for v in e.invars if v is atom
        ]
        return found + [None for v in self.loop.outs() if v is atom]

    def _terms(self, part: Carried) -> list[Atom] | None:
        """What is added to a part of the carry that is nothing but a sum."""
        terms: list[Atom] = []
        at: Atom = part.inner
        while at is not part.end:
            uses = self._uses(at)
            (eqn,) = uses if len(uses) == 1 else (None,)
            if eqn is None or not isinstance(eqn.op, (Add, AddAny)):
                return None
            (other,) = (v for v in eqn.invars if v is not at)
            if other.aval.shape != at.aval.shape or isinstance(other, Literal):
                return None
            terms.append(other)
            (at,) = eqn.outvars
        return terms if len(self._uses(at)) == 1 else None

    def _may_stack(self, maker: Eqn) -> bool:
        """Whether the operands change with the turns, and are worth stacking."""
        (out,) = maker.outvars
        if len(self._uses(out)) > 1 or out.aval.dtype != maker.invars[0].aval.dtype:
            return False
        if any(isinstance(v, Literal) or v in self.fixed for v in maker.invars):
            return False
        stacked = all(v in self.rows for v in maker.invars)
        return stacked or not isinstance(maker.op, ReduceSum)

    def _drop(self, part: Carried, term: Var) -> None:
        """Leave a term out of a chain of additions."""
        eqns = self.loop.eqns
        at = next(i for i, e in enumerate(eqns) if term in e.invars)
        adding = eqns.pop(at)
        (rest,) = (v for v in adding.invars if v is not term)
        (out,) = adding.outvars
        if part.end is out:
            part.end = rest
        for i, eqn in enumerate(eqns):
            if out in eqn.invars:
                changed = tuple(rest if v is out else v for v in eqn.invars)
                eqns[i] = eqn.replace(invars=changed)

    def _summed(self, maker: Eqn) -> Var:
        """The term of all turns together, after the loop."""
        op = maker.op
        if isinstance(op, DotGeneral):
            contracted, batch = op.dimension_numbers
            numbers = (
                ((0, *_later(contracted[0])), (0, *_later(contracted[1]))),
                (_later(batch[0]), _later(batch[1])),
            )
            op = dataclasses.replace(op, dimension_numbers=numbers)
        else:
            assert isinstance(op, ReduceSum)
            op = dataclasses.replace(op, axes=(0, *_later(op.axes)))
        args = tuple(self._all(v) for v in maker.invars)
        out = Var(op.aval(*[a.aval for a in args]))
        self.loop.after.append(Eqn(op, args, (out,)))
        return out

    def _all(self, atom: Atom) -> Atom:
        """The array of what a value is in every turn."""
        if atom not in self.rows:
            array = Var(self.loop.all_rows(atom.aval))
            self.loop.stacked.append((atom, array))
            self.rows[atom] = array
        return self.rows[atom]


def _later(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(d + 1 for d in dims)
