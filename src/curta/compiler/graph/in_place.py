"""Which updates and loops may work in the memory of an operand, without a copy.

They may if nobody needs the operand as it was: it is a temporary, or an argument that
the program was told to overwrite, and all that reads it is done before. What an update
itself makes of other elements is computed first, unless it is of a single element,
which is read in time anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from curta.compiler.graph.values import Values
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from curta.primitives.indexing.windows import WindowUpdate
from curta.primitives.structure import Reshape


def with_late_updates(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with updates after what reads their operand as it was, if they can."""
    waiting: dict[Var, Eqn] = {}
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        for v in eqn.invars:
            if isinstance(v, Var) and v in waiting:
                eqns.append(waiting.pop(v))
        if isinstance(eqn.op, WindowUpdate):
            waiting[eqn.outvars[0]] = eqn
        else:
            eqns.append(eqn)
    return jaxpr.replace(eqns=(*eqns, *waiting.values()))


class Overwriting:
    """Answers for the eqns of one jaxpr; `free` are arguments to overwrite."""

    def __init__(self, jaxpr: Jaxpr, values: Values, free: set[Var]) -> None:
        self.values, self.free = values, free
        self.order = {eqn: i for i, eqn in enumerate(jaxpr.eqns)}

    def allowed(self, eqn: Eqn, operand: Atom) -> bool:
        """Whether an eqn may overwrite an operand."""
        if not isinstance(operand, Var):
            return False
        place = self._place(operand)
        if place not in self.free and place not in self.values.materialised:
            return False
        if sum(isinstance(v, Var) and self._place(v) is place for v in eqn.invars) > 1:
            return False
        last = self.order[eqn]
        return not self._is_returned(place) and all(
            self.order[e] <= last for e in self._readers(place)
        )

    def to_compute_first(self, update: Eqn) -> Iterator[Var]:
        """The operands that read what the update overwrites, if that matters."""
        if _is_single(update):
            return
        operand = update.invars[0]
        assert isinstance(operand, Var)
        for atom in dict.fromkeys(update.invars[1:]):
            if isinstance(atom, Var) and self._reads(atom, self._place(operand)):
                yield atom

    def _place(self, var: Var) -> Var:
        """The value in whose memory a value lies: that of which it is a reshape."""
        made = self.values.definitions.get(var)
        while made is not None and self._is_view(made):
            (var,) = made.invars  # type: ignore[assignment]
            made = self.values.definitions.get(var)
        return var

    def _is_view(self, eqn: Eqn) -> bool:
        """Whether its result lies in memory, and there in that of its operand."""
        if not isinstance(eqn.op, Reshape) or isinstance(eqn.invars[0], Literal):
            return False
        there, (x,) = self.values.materialised, eqn.invars
        return eqn.outvars[0] in there and (
            x in there or x not in self.values.definitions
        )

    def _is_returned(self, var: Var) -> bool:
        """Whether a value is returned, or a reshape of it."""
        return var in self.values.returned or any(
            self._is_returned(e.outvars[0])
            for e in self.values.uses.get(var, ())
            if self._is_view(e)
        )

    def _readers(self, var: Var) -> Iterator[Eqn]:
        """The eqns in whose code a value is read, inside of virtual ones or not."""
        for consumer in self.values.uses.get(var, ()):
            if not isinstance(consumer.op, WindowUpdate):
                for out in consumer.outvars:
                    if out not in self.values.materialised or self._is_view(consumer):
                        yield from self._readers(out)
            yield consumer

    def _reads(self, atom: object, place: Var) -> bool:
        """Whether the code of an operand reads memory."""
        if not isinstance(atom, Var):
            return False
        if self._place(atom) is place:
            return True
        if atom in self.values.materialised:
            return False
        made = self.values.definitions.get(atom)
        return made is not None and any(self._reads(v, place) for v in made.invars)


def _is_single(update: Eqn) -> bool:
    """Whether it updates a single element."""
    assert isinstance(update.op, WindowUpdate)
    shape = update.op.update_shape(*[v.aval for v in update.invars])
    return math.prod(shape) == 1
