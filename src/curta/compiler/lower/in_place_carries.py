"""Large arrays that loops in registers update element by element: they stay in memory.

Such an array is carried by a loop, which has it to itself: it lies where the result is
to be, and an update writes there at once. Each update gives the array a new name, and
only the newest may be read. Code that would read an older one does not qualify, nor
does code by which two names of one array would go on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from curta.compiler.loops.build import CannotUseRegisters
from curta.compiler.loops.complexes import parts
from curta.compiler.loops.index import ZERO, as_index, row_major
from curta.compiler.loops.lower import Operand
from curta.compiler.loops.nodes import Buffer, Copy, LoopNest, Store, View
from curta.compiler.lower.register_blocks import RegisterBlocks
from curta.compiler.targets import Tuning
from curta.control.call import JaxprOp
from curta.core.avals import ShapedArray
from curta.core.dim import may_exceed
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Var
from curta.primitives.indexing.windows import WindowUpdate


class InPlaceCarries:
    """The arrays in memory that the code of one lowering updates.

    `_roots` says in which memory a name lies; `_old` are the names of which that is no
    longer what they stand for.
    """

    def __init__(self, lowering: RegisterBlocks) -> None:
        self.lowering = lowering
        self._roots: dict[Atom, Buffer] = {}
        self._old: set[Atom] = set()

    def __contains__(self, atom: Atom) -> bool:
        return atom in self._roots

    def require_newest(self, atoms: Sequence[Atom]) -> None:
        """Raise `CannotUseRegisters` if what is needed again has been overwritten."""
        if not self._old.isdisjoint(atoms):
            raise CannotUseRegisters("an array is needed as it was before an update")

    def enter(self, x: Atom, level: int, array: Buffer | None) -> Var:
        """The name of an array inside of a loop or branch that may update it.

        `array` is where the result of an outermost loop goes.
        """
        lowering = self.lowering
        if array is not None:
            root = array
            if (source := lowering.in_memory(x)) is not array:
                lowering.add(Copy(array, source), level)
        elif self.owns(x, level):
            root = self._roots[x]
            self._old.add(x)
        else:
            raise CannotUseRegisters("a loop carries an array that others may need")
        return self.name(x.aval, root, level + 1)

    def owns(self, x: Atom, level: int) -> bool:
        """Whether code at a level may update an array."""
        here = level == len(self.lowering.blocks) - 1
        return here and x in self._roots and self.lowering.level(x) == level

    def require_same(self, x: Atom, then: Atom) -> None:
        """Raise `CannotUseRegisters` unless one is the other as updates left it."""
        self.require_newest([then])
        if self._roots.get(then) is not self._roots[x]:
            raise CannotUseRegisters("an array is not handed on in its own memory")

    def leave(self, inside: Atom, level: int) -> Var:
        """The name of an array after the loop that has updated it."""
        return self.name(inside.aval, self._roots[inside], level)

    def alias(self, x: Atom, level: int) -> Var:
        """The name of an array inside of a branch."""
        return self.name(x.aval, self._roots[x], level + 1)

    def newest_root(self, x: Atom) -> Buffer:
        """Where a result of a branch lies, if updates have led to it."""
        self.require_newest([x])
        if x not in self._roots:
            raise CannotUseRegisters("a branch makes a large array")
        return self._roots[x]

    def end(self, x: Atom, roots: Sequence[Buffer], aliases: Sequence[Var]) -> None:
        """An array is as it was only if no branch updated it or hands it on."""
        if self._roots[x] in roots or not self._old.isdisjoint(aliases):
            self._old.add(x)

    def alias_for_branches(self, operands: Sequence[Atom], level: int) -> BranchAliases:
        """The operands of a choice, whose branches may update the arrays among them."""
        return BranchAliases(self, operands, level)

    def update(self, op: WindowUpdate, args: Sequence[Atom]) -> Var:
        """The nests of an update, one for each element; the new name of the array."""
        lowering, (array, *rest) = self.lowering, args
        level = lowering.level(array)
        shape = op.update_shape(*[a.aval for a in args])
        if (
            not self.owns(array, level)
            or not 0 < math.prod(shape) <= lowering.tuning.in_place_updates
        ):
            raise CannotUseRegisters(
                "an update of many elements, or of what others need"
            )
        for element in lowering.indices(shape):
            array = self._element(op, array, rest, element, level)
        assert isinstance(array, Var)
        return array

    def _element(
        self,
        op: WindowUpdate,
        array: Atom,
        rest: Sequence[Atom],
        index: Sequence[Any],
        level: int,
    ) -> Var:
        lowering, aval, b = self.lowering, array.aval, self.lowering.builder
        operands = [Operand(a.aval, a, lowering.elements) for a in (array, *rest)]
        element, inside, new = op.lower_update(
            b, tuple(map(as_index, index)), *operands
        )
        source, offset = lowering.register(array), row_major(element, aval.shape)
        dtype = lowering.dtype(aval)

        def value() -> Any:
            return new(b.load(source, offset, dtype))

        values = parts(b.under(inside, value))
        out = self.name(aval, self._roots[array], level)
        first = offset * len(values)
        stores = tuple(
            Store(lowering.buffers[out], first + i, v, inside)
            for i, v in enumerate(values)
        )
        lowering.add(LoopNest((), stores, (), ordered=True), level)
        self._old.add(array)
        return out

    def name(self, aval: ShapedArray, root: Buffer, level: int) -> Var:
        """A further name of an array, of a level."""
        lowering = self.lowering
        alias = lowering.buffer(aval, View(root, ZERO))
        var = lowering.variable(aval, alias, level)
        self._roots[var] = root
        return var


class BranchAliases:
    """Arrays that the branches of a choice may update, each in a block of its own."""

    def __init__(
        self, in_place_carries: InPlaceCarries, operands: Sequence[Atom], level: int
    ) -> None:
        self._arrays, self._operands, self._level = in_place_carries, operands, level
        self._owned = [
            x for x in dict.fromkeys(operands) if in_place_carries.owns(x, level)
        ]
        self._aliases: list[dict[Atom, Var]] = []
        self._roots: list[Buffer] | None = None

    def names(self) -> list[Atom]:
        """The operands as the next branch knows them."""
        result = {x: self._arrays.alias(x, self._level) for x in self._owned}
        self._aliases.append(result)
        return [result.get(x, x) for x in self._operands]

    def leave(self, outs: Sequence[Atom]) -> None:
        """Take the large results of a branch; every branch leaves them alike."""
        roots = [self._arrays.newest_root(x) for x in outs]
        if len(set(roots)) < len(roots) or self._roots not in (None, roots):
            raise CannotUseRegisters("branches hand on arrays in different memories")
        self._roots = roots

    def results(self, avals: Sequence[ShapedArray]) -> list[Var]:
        """The names of the large results; what has been updated is gone."""
        roots = self._roots or []
        for x in self._owned:
            self._arrays.end(x, roots, [names[x] for names in self._aliases])
        level = self._level
        pairs = zip(avals, roots, strict=True)
        return [self._arrays.name(aval, r, level) for aval, r in pairs]


def may_be_in_place(closed: ClosedJaxpr, tuning: Tuning) -> bool:
    """Whether the large values of a loop's body may all be updates: a first look."""
    return all(_is_light(e, tuning) for e in closed.jaxpr.eqns)


def _is_light(eqn: Eqn, tuning: Tuning) -> bool:
    op = eqn.op
    if op.regions or op.updates_first or isinstance(op, JaxprOp):
        return True
    most = tuning.register_elements
    return not any(may_exceed(v.aval.size, most) for v in eqn.outvars)
