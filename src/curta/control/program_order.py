"""`ProgramOrder`: a part of a program whose ops run in the order in which they are.

`ordered` puts barriers between the eqns of a jaxpr, so that each one waits for the
results of the one before. The compiler may move nothing through these.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.control.call import JaxprOp, JitCall
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Var
from curta.core.memo import kept_with_jaxpr
from curta.primitives.barrier import OptimizationBarrier
from curta.transforms.dce import dce_jaxpr
from curta.transforms.lowering import lower_jaxpr


@dataclass(frozen=True)
class ProgramOrder(JaxprOp):
    """A call of `jaxpr`, whose ops run in their order if that is to be enforced.

    `strict_in`: its ops wait for all operands. `strict_out`: results are given when all
    are there. `exclude_mask` says which operands the call does not wait for where it is
    within an order that is enforced.
    """

    name: ClassVar[str] = "program_order"
    param_names: ClassVar[Mapping[str, str | None]] = {"call_jaxpr": "jaxpr"}
    jaxpr: ClosedJaxpr
    enforce: bool
    exclude_mask: tuple[bool, ...]
    strict_in: bool = False
    strict_out: bool = False

    @property
    def stands_for(self) -> ClosedJaxpr:
        if not self.enforce:
            return self.jaxpr
        return ordered(self.jaxpr, self.strict_in, self.strict_out)

    def for_operands(
        self, jaxpr: ClosedJaxpr, operands: Sequence[int | None]
    ) -> ProgramOrder:
        mask = tuple(i is not None and self.exclude_mask[i] for i in operands)
        return dataclasses.replace(self, jaxpr=jaxpr, exclude_mask=mask)

    def on_parts(self, counts: Sequence[int]) -> ProgramOrder:
        parts = [[i] * n for i, n in enumerate(counts)]
        return self.for_operands(lower_jaxpr(self.jaxpr), [*itertools.chain(*parts)])


@kept_with_jaxpr
def ordered(closed: ClosedJaxpr, strict_in: bool, strict_out: bool) -> ClosedJaxpr:
    """Return the jaxpr with barriers between its eqns."""
    jaxpr = dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals))
    ordering = _Ordering()
    if strict_in:
        ordering.hold(jaxpr.invars)
    for eqn in jaxpr.eqns:
        ordering.add(eqn)
    if strict_out:
        ordering.hold(_variables(jaxpr.outvars))
    outvars = tuple(map(ordering.called, jaxpr.outvars))
    made = jaxpr.replace(eqns=ordering.eqns, outvars=outvars)
    return ClosedJaxpr(made, closed.consts)


class _Ordering:
    """Eqns one after the other, with barriers between them.

    Invariant: `names` has the variable to read for each that is behind a barrier, and
    `last` the results of the last eqn that had any.
    """

    def __init__(self) -> None:
        self.eqns: list[Eqn] = []
        self.names: dict[Var, Var] = {}
        self.last: Sequence[Var] = ()

    def called(self, atom: Atom) -> Atom:
        return self.names.get(atom, atom) if isinstance(atom, Var) else atom

    def hold(self, variables: Sequence[Var]) -> None:
        """Let all that reads one of the variables wait for all of them."""
        self.names.update(self._behind(variables))

    def add(self, eqn: Eqn) -> None:
        """Append an eqn, behind the results of the one before."""
        inputs = _variables(eqn.invars)
        own: dict[Var, Var] = {}
        if self.last and inputs:
            own = self._waiting(eqn, inputs)
        invars = [
            own.get(v) or self.called(v) if isinstance(v, Var) else v
            for v in eqn.invars
        ]
        self.eqns.append(eqn.replace(invars=tuple(invars)))
        if self.last and not inputs:  # its results come after those before instead
            self.hold([*self.last, *eqn.outvars])
        self.last = eqn.outvars or self.last

    def _waiting(self, eqn: Eqn, inputs: Sequence[Var]) -> dict[Var, Var]:
        """The operands of an eqn, behind the last results."""
        op, last = eqn.op, self.last
        if isinstance(op, ProgramOrder) and not op.enforce:
            flags = dict(zip(eqn.invars, op.exclude_mask, strict=True))
            inputs = [v for v in inputs if not flags[v]]
        elif not isinstance(op, JitCall):
            others = [v for v in last if v not in inputs]
            made = self._behind([*others, *inputs])
            self.names.update((v, made[v]) for v in others)
            return made
        # A call begins with what it can: its operands do not wait for each other.
        self.hold(last)
        behind = [v for v in inputs if v not in last]
        return {v: self._behind([*last, v])[v] for v in behind}

    def _behind(self, variables: Sequence[Var]) -> dict[Var, Var]:
        """New names for variables, behind one barrier."""
        if not variables:
            return {}
        made = {v: Var(v.aval) for v in variables}
        invars = tuple(map(self.called, made))
        self.eqns.append(Eqn(OptimizationBarrier(), invars, tuple(made.values())))
        return made


def _variables(atoms: Sequence[Atom]) -> list[Var]:
    """The variables among atoms, each once."""
    return [*dict.fromkeys(a for a in atoms if isinstance(a, Var))]
