"""A conditional with its parts named, as the passes over it rewrite it.

Its branches read what lies outside under the names that this has there, as the bodies
of loops do (loop.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from curta._base.lazy_dataclass import dataclass
from curta.compiler.rewrite.loop import captured, live_eqns, with_names
from curta.control.cond import Cond
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var


@dataclass(eq=False)
class Branches:
    """The parts of a `cond` eqn."""

    source: Eqn
    branches: list[ClosedJaxpr]
    results: list[Var]

    @classmethod
    def of(cls, eqn: Eqn) -> Branches | None:
        """The parts of a conditional; None for any other eqn."""
        if not eqn.op.regions or eqn.op.loop is not None:
            return None
        result = cls(eqn, list(eqn.op.regions), [*eqn.outvars])
        args = eqn.invars[1:]
        result.rewrite(lambda j: with_names(j, dict(zip(j.invars, args, strict=True))))
        return result

    def jaxprs(self) -> list[Jaxpr]:
        return [b.jaxpr for b in self.branches]

    def rewrite(self, change: Callable[[Jaxpr], Jaxpr]) -> None:
        """Put other jaxprs instead of the branches'."""
        self.branches = [b.map_jaxpr(change) for b in self.branches]

    def hand_on(self) -> dict[Var, Atom]:
        """The results that equal an operand of every branch, or another result."""
        known: dict[tuple[Atom, ...], Atom] = {
            (v,) * len(self.branches): v for j in self.jaxprs() for v in _outside(j)
        }
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
        self.rewrite(lambda j: j.replace(eqns=live_eqns(j.eqns, j.outvars)[0]))

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
        operands = tuple(dict.fromkeys(v for j in self.jaxprs() for v in _outside(j)))
        self.rewrite(lambda j: j.replace(invars=operands))
        op = cast(Cond, self.source.op)
        return self.source.replace(
            op=op.with_branches(tuple(self.branches)),
            invars=(self.source.invars[0], *operands),
            outvars=tuple(self.results),
        )


def _outside(branch: Jaxpr) -> list[Var]:
    """What a branch reads from outside."""
    return captured(branch.eqns, branch.outvars, branch.constvars)
