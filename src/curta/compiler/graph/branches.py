"""A conditional with its parts named, as the passes over it rewrite it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from curta.compiler.graph.loop import live_eqns, with_names
from curta.control.cond import Cond
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from curta.lazy_dataclass import dataclass


@dataclass(eq=False)
class Branches:
    """A `cond` eqn taken apart: branches, operands, results."""

    source: Eqn
    branches: list[ClosedJaxpr]
    operands: list[Atom]
    results: list[Var]

    @classmethod
    def of(cls, eqn: Eqn) -> Branches | None:
        """The parts of a conditional; None for any other eqn."""
        if not isinstance(eqn.op, Cond):
            return None
        return cls(eqn, list(eqn.op.branches), [*eqn.invars[1:]], [*eqn.outvars])

    def jaxprs(self) -> list[Jaxpr]:
        return [b.jaxpr for b in self.branches]

    def rewrite(self, change: Callable[[Jaxpr], Jaxpr]) -> None:
        """Put other jaxprs instead of the branches'."""
        self.branches = [ClosedJaxpr(change(b.jaxpr), b.consts) for b in self.branches]

    def merge_operands(self) -> bool:
        """Give what is given twice once; whether there was such an operand."""
        firsts: dict[Var, int] = {}
        same = {
            i: firsts[x]
            for i, x in enumerate(self.operands)
            if isinstance(x, Var) and firsts.setdefault(x, i) != i
        }
        if not same:
            return False

        def merged(jaxpr: Jaxpr) -> Jaxpr:
            names: dict[Var, Atom] = {
                jaxpr.invars[i]: jaxpr.invars[first] for i, first in same.items()
            }
            invars = [v for i, v in enumerate(jaxpr.invars) if i not in same]
            return with_names(jaxpr.replace(invars=invars), names)

        self.rewrite(merged)
        self.operands = [x for i, x in enumerate(self.operands) if i not in same]
        return True

    def hand_on(self) -> dict[Var, Atom]:
        """What results are that every branch was given, or gives as another result."""
        known: dict[tuple[Atom, ...], Atom] = {}
        for i, x in enumerate(self.operands):
            known.setdefault(tuple(j.invars[i] for j in self.jaxprs()), x)
        names: dict[Var, Atom] = {}
        for i, result in enumerate(self.results):
            first = known.setdefault(tuple(j.outvars[i] for j in self.jaxprs()), result)
            if first is not result:
                names[result] = first
        self._keep_results([v not in names for v in self.results])
        return names

    def remove_unused(self, wanted: Iterable[Atom]) -> None:
        """Drop results that are not `wanted`, and all that only they need."""
        used = set(wanted)
        self._keep_results([v in used for v in self.results])
        read: set[int] = set()
        eqns = {}
        for j in self.jaxprs():
            eqns[j], live = live_eqns(j.eqns, j.outvars)
            read.update(i for i, v in enumerate(j.invars) if v in live)
        self.rewrite(
            lambda j: j.replace(
                invars=[v for i, v in enumerate(j.invars) if i in read], eqns=eqns[j]
            )
        )
        self.operands = [x for i, x in enumerate(self.operands) if i in read]

    def _keep_results(self, kept: list[bool]) -> None:
        def chosen(jaxpr: Jaxpr) -> Jaxpr:
            pairs = zip(jaxpr.outvars, kept, strict=True)
            return jaxpr.replace(outvars=[v for v, k in pairs if k])

        if not all(kept):
            self.rewrite(chosen)
            pairs = zip(self.results, kept, strict=True)
            self.results = [v for v, k in pairs if k]

    def to_eqn(self) -> Eqn:
        """The conditional as one eqn again."""
        op = cast(Cond, self.source.op)
        return self.source.replace(
            op=op.with_branches(tuple(self.branches)),
            invars=(self.source.invars[0], *self.operands),
            outvars=tuple(self.results),
        )
