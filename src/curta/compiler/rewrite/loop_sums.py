"""Sums over the iterations of a loop, taken after it.

The gradient of a weight is a sum of a product of matrices in every iteration, of which
each reads and writes all of it. Stacked, the factors of all iterations make one
product, with the iterations among what is summed over: `sum of a[t]·b[t]`. The sums are
made in another order than one by one, as those of products always are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from curta.compiler.rewrite.inline import called
from curta.compiler.rewrite.loop import Carried, Loop, renamed
from curta.core.jaxpr import Atom, Eqn, Literal, Var
from curta.core.op import Op
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.arithmetic import Add
from curta.primitives.structure import AddAny, ReduceSum


def sum_after(loop: Loop) -> None:
    """Take sums of products, and of what is stacked anyway, out of the loop."""
    if not loop.length:
        return
    rows: dict[Atom, Atom] = {**dict(loop.rows), **dict(loop.stacked)}
    for kind in _STACKED:
        sums = _LoopSums(loop, rows, kind)
        for part in loop.carry:
            sums.take_out(part)
        sums.finish()


class _LoopSums:
    """Takes out the terms of one kind; `rows` are arrays of what iterations have."""

    def __init__(self, loop: Loop, rows: dict[Atom, Atom], kind: type[Op]) -> None:
        self.loop, self.rows, self.kind = loop, rows, kind
        self.bound = loop.bound
        self.producers: dict[Atom, Eqn] = {v: e for e in loop.eqns for v in e.outvars}
        # The eqns that read a variable; None stands for what the body returns.
        self.uses: dict[Atom, list[Eqn | None]] = {}
        for eqn in loop.eqns:
            for v in eqn.invars:
                self.uses.setdefault(v, []).append(eqn)
        for v in loop.outs():
            self.uses.setdefault(v, []).append(None)
        self.dropped: set[Eqn] = set()
        # Results of dropped eqns -> what replaces them.
        self.names: dict[Var, Atom] = {}
        self.done: set[Carried] = set()

    def take_out(self, part: Carried) -> None:
        """Take the terms out of what a carry sums up."""
        terms = self._terms(part)
        if terms is None:
            return
        taken = []
        for term in terms:
            producer = self.producers.get(term)
            if (
                producer
                and type(producer.op) is self.kind
                and self._may_stack(producer)
            ):
                taken.append(producer)
        if not taken:
            return
        for producer in taken:
            self._drop(producer.outvars[0])
        part.end = called(part.end, self.names)
        total = part.result
        part.result = Var(total.aval)
        so_far: Atom = part.result
        if part.end is part.inner:  # nothing is left to add
            self.done.add(part)
            so_far = part.start
        for i, producer in enumerate(taken):
            result = self._summed(producer)
            out = total if i == len(taken) - 1 else Var(total.aval)
            self.loop.after.append(Eqn(Add(), (so_far, result), (out,)))
            so_far = out

    def finish(self) -> None:
        """Leave out what was taken."""
        loop = self.loop
        loop.carry = [part for part in loop.carry if part not in self.done]
        kept = (e for e in loop.eqns if e not in self.dropped)
        loop.eqns = [renamed(e, self.names) for e in kept]

    def _terms(self, part: Carried) -> list[Atom] | None:
        """What is added to a part of the carry that is nothing but a sum."""
        terms: list[Atom] = []
        at: Atom = part.inner
        while at is not part.end:
            uses = self.uses.get(at, [])
            (eqn,) = uses if len(uses) == 1 else (None,)
            if eqn is None or type(eqn.op) not in (Add, AddAny):
                return None
            (other,) = (v for v in eqn.invars if v is not at)
            if other.aval.shape != at.aval.shape or isinstance(other, Literal):
                return None
            terms.append(other)
            (at,) = eqn.outvars
        return terms if len(self.uses[at]) == 1 else None

    def _may_stack(self, producer: Eqn) -> bool:
        """Whether the operands change with the iterations, and are worth stacking."""
        (out,) = producer.outvars
        if len(self.uses[out]) > 1 or out.aval.dtype != producer.invars[0].aval.dtype:
            return False
        if not self.bound.issuperset(producer.invars):
            return False
        stacked = all(v in self.rows for v in producer.invars)
        return stacked or self.kind is not ReduceSum

    def _drop(self, term: Var) -> None:
        """Leave a term out of a chain of additions."""
        (adding,) = self.uses[term]
        assert adding is not None
        (rest,) = (v for v in adding.invars if v is not term)
        self.dropped.add(adding)
        self.names[adding.outvars[0]] = called(rest, self.names)

    def _summed(self, producer: Eqn) -> Var:
        """The term of all iterations together, after the loop."""
        op = _STACKED[self.kind](producer.op)
        args = tuple(self._all(v) for v in producer.invars)
        out = Var(op.aval(*[a.aval for a in args]))
        self.loop.after.append(Eqn(op, args, (out,)))
        return out

    def _all(self, atom: Atom) -> Atom:
        """The array of what a value is in every iteration."""
        if atom not in self.rows:
            array = Var(self.loop.all_rows(atom.aval))
            self.loop.stacked.append((atom, array))
            self.rows[atom] = array
        return self.rows[atom]


def _stacked_product(op: Any) -> Op:
    contracted, batch = op.dimension_numbers
    numbers = (
        ((0, *_later(contracted[0])), (0, *_later(contracted[1]))),
        (_later(batch[0]), _later(batch[1])),
    )
    return dataclasses.replace(op, dimension_numbers=numbers)


def _stacked_sum(op: Any) -> Op:
    return dataclasses.replace(op, axes=(0, *_later(op.axes)))


_STACKED: dict[type[Op], Callable[[Op], Op]] = {
    DotGeneral: _stacked_product,
    ReduceSum: _stacked_sum,
}
"""The kinds of terms, and the op that sums over the iterations as well."""


def _later(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(d + 1 for d in dims)
