"""Which updates and loops may work in the memory of an operand, without a copy.

An operand can be overwritten if (1) its buffer is a temporary or a donated argument and
(2) no other operation reads its old value afterwards. An update that reads other
elements is computed first, unless it updates a single element.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import cast

from curta.compiler.rewrite.values import Values
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Var
from curta.primitives.indexing.windows import WindowUpdate


def with_late_updates(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with updates after what reads their operand as it was, if they can."""
    waiting: dict[Var, Eqn] = {}
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        for v in eqn.invars:
            if isinstance(v, Var) and v in waiting:
                eqns.append(waiting.pop(v))
        if eqn.op.updates_first:
            waiting[eqn.outvars[0]] = eqn
        else:
            eqns.append(eqn)
    return jaxpr.replace(eqns=(*eqns, *waiting.values()))


class Overwriting:
    """Answers for the eqns of one jaxpr; `free` are arguments to overwrite.

    A reshape of what lies in memory, or what came through a barrier, is another name
    for the same memory (an alias). A read of one alias counts as a read of all.
    `overwritten` is the memory that eqns were allowed to overwrite.
    """

    free: set[Var]

    def __init__(
        self, jaxpr: Jaxpr, values: Values, free: set[Var], host: frozenset[Eqn]
    ) -> None:
        self.values = values
        self.order: dict[Eqn, int] = {eqn: i for i, eqn in enumerate(jaxpr.eqns)}
        self.aliases: dict[Var, Var] = _aliases(jaxpr, values, host)
        self.last: dict[Var, int] = self._last_readers(jaxpr)
        self.free = free.union(values.materialised) - set(self.aliases)
        self.free -= {self._memory(v) for v in values.returned}
        self.overwritten: set[Var] = set()

    def _memory(self, var: Var) -> Var:
        """The variable that was the first name of the memory of another."""
        return self.aliases.get(var, var)

    def _last_readers(self, jaxpr: Jaxpr) -> dict[Var, int]:
        """The last eqn in whose code a value is read, inside of virtual ones or not."""
        last: dict[Var, int] = {}
        for eqn in reversed(jaxpr.eqns):
            for operands, outs in _read_for(eqn):
                within = [last[o] for o in outs if o in last and not self._is_apart(o)]
                at = max(within, default=self.order[eqn])
                last.update((v, max(last.get(v, at), at)) for v in operands)
        return last

    def _is_apart(self, var: Var) -> bool:
        """Whether a value, once computed, needs nothing that it was made of."""
        return var in self.values.materialised and var not in self.aliases

    def allowed(self, eqn: Eqn, operand: Atom) -> bool:
        """Whether an eqn may overwrite an operand."""
        if not isinstance(operand, Var):
            return False
        memory = self._memory(operand)
        if memory not in self.free or self.last[memory] > self.order[eqn]:
            return False
        names = [v for v in eqn.invars if isinstance(v, Var)]
        if sum(self._memory(v) is memory for v in names) != 1:
            return False
        self.overwritten.add(memory)
        return True

    def to_compute_first(self, update: Eqn) -> Iterator[Var]:
        """The operands that read what the update overwrites, if that matters."""
        if _is_single(update):
            return
        operand, *others = update.invars
        assert isinstance(operand, Var)
        memory, seen = self._memory(operand), dict[Atom, bool]()
        for atom in dict.fromkeys(others):
            if isinstance(atom, Var) and self._reads(atom, memory, seen):
                yield atom

    def _reads(self, atom: Atom, memory: Var, seen: dict[Atom, bool]) -> bool:
        """Whether the code of a value reads some memory."""
        if not isinstance(atom, Var):
            return False
        if self._memory(atom) is memory:
            return True
        if atom in self.values.materialised:
            return False
        if atom not in seen:
            made = self.values.definitions.get(atom)
            operands = made.invars if made else ()
            seen[atom] = any(self._reads(v, memory, seen) for v in operands)
        return seen[atom]


def _read_for(eqn: Eqn) -> Iterator[tuple[list[Var], Sequence[Var]]]:
    """Operands of an eqn, with the results in whose code they may be read later."""
    if not eqn.op.renames_memory:
        operands = [v for v in eqn.invars if isinstance(v, Var)]
        yield operands, () if eqn.op.updates_first else eqn.outvars
        return
    for v, out in zip(eqn.invars, eqn.outvars, strict=True):
        if isinstance(v, Var):
            yield [v], [out]


def _aliases(jaxpr: Jaxpr, values: Values, host: frozenset[Eqn]) -> dict[Var, Var]:
    """Other names of what lies in memory, each with the first name of that memory."""
    lies = {*jaxpr.invars, *jaxpr.constvars, *values.materialised}
    result: dict[Var, Var] = {}
    for eqn in jaxpr.eqns:
        if not eqn.op.renames_memory or eqn in host:
            continue
        for operand, out in zip(eqn.invars, eqn.outvars, strict=True):
            if out in values.materialised and operand in lies:
                assert isinstance(operand, Var)
                result[out] = result.get(operand, operand)
    return result


def _is_single(update: Eqn) -> bool:
    """Whether it updates a single element."""
    shape = cast(WindowUpdate, update.op).update_shape(*[v.aval for v in update.invars])
    return math.prod(shape) == 1
