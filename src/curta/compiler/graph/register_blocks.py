"""The values and the blocks of one piece of code in registers.

Values lie in registers, in tables of constants, or in arrays of memory; steps that
compute them go to the block from which on their operands are there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.complexes import parts
from curta.compiler.loops.element_types import component, is_native
from curta.compiler.loops.index import LoopVar, as_index, unravel
from curta.compiler.loops.lower import Elements
from curta.compiler.loops.nodes import Buffer, Expr, Instr, Load, walk
from curta.compiler.loops.registers import CannotUseRegisters, Compute, Step, Table
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.evaluate import as_numpy
from curta.core.jaxpr import Atom, Eqn, Literal, Var
from curta.dtypes import physical_dtype

NDArray = np.ndarray[Any, Any]


class RegisterElements(Elements):
    """Elements of values in registers; those of known ones are constants."""

    def __init__(self, lowering: RegisterBlocks) -> None:
        super().__init__(lowering.builder, lowering.buffers, lowering.definitions)
        self._lowering = lowering

    def at(self, atom: Atom, index: tuple[Any, ...]) -> Any:
        known = self._lowering.known.get(atom) if isinstance(atom, Var) else None
        if known is not None:
            indices = [as_index(i) for i in index]
            if all(i.is_constant for i in indices):
                at = tuple(
                    min(max(i.const, 0), d - 1)
                    for i, d in zip(indices, known.shape, strict=True)
                )
                return self.builder.const(known[at].item(), known.dtype)
            self._lowering.register(atom)
        return super().at(atom, index)


class RegisterBlocks:
    """Writes steps into blocks.

    `blocks` are those that are open, outermost first. A variable has the `level` of
    the block from which on its value is there: an eqn goes to the block of the last of
    its operands, or to that of the innermost branch, which may not be taken.

    `most_rows` of a reduction are combined in one expression, and a product of matrices
    of `most_products` is written out.
    """

    def __init__(self) -> None:
        self.most_rows: int = config.tuning.unrolled_rows
        self.most_products: int = config.tuning.unrolled_products
        self.builder: ScalarBuilder = ScalarBuilder()
        self.blocks: list[list[Step]] = [[]]
        self.buffers: dict[Var, Buffer] = {}
        self.definitions: dict[Var, Eqn] = {}
        self.known: dict[Var, NDArray] = {}
        self.elements: RegisterElements = RegisterElements(self)
        self._level: dict[Var, int] = {}
        self._branch = 0
        self._steps = 0

    def elements_of(self, aval: ShapedArray) -> int:
        """How many elements of such a value there are in registers."""
        return aval.size

    def indices(self, shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
        """The indices of the elements of such a value, in order."""
        return [unravel(as_index(i), shape) for i in range(math.prod(shape))]

    def dtype(self, aval: ShapedArray) -> np.dtype[Any]:
        """The dtype of an element."""
        return physical_dtype(aval.dtype)

    def may_be_in_place(self, aval: ShapedArray) -> bool:
        """Whether a value is so large that it is to stay in memory."""
        return aval.size > config.tuning.register_elements

    def require_own(
        self, index: Sequence[Any], update: Sequence[Any], element: Sequence[Any]
    ) -> None:
        """Raise `CannotUseRegisters` if an update may concern more than one example."""

    def arguments(
        self, avals: Sequence[ShapedArray], arrays: Sequence[Buffer]
    ) -> list[Var]:
        """Variables for arrays in memory: one for each array of a shape."""
        pairs = list(zip(arrays, avals, strict=True))
        result = {
            pair: self.argument(pair[1], pair[0]) for pair in dict.fromkeys(pairs)
        }
        return [result[pair] for pair in pairs]

    def argument(self, aval: ShapedArray, array: Buffer) -> Var:
        """A variable for an array in memory."""
        require_native(aval)
        var = Var(aval)
        self.buffers[var] = array
        self._level[var] = 0
        return var

    def buffer(self, aval: ShapedArray) -> Buffer:
        """A new buffer for a value."""
        require_native(aval)
        dtype, size = physical_dtype(aval.dtype), aval.size
        if dtype.kind == "c":
            dtype, size = component(dtype), 2 * size
        return Buffer(f"r{self.builder.fresh()}", dtype, size)

    def define(self, aval: ShapedArray, level: int) -> Var:
        """A variable that a loop or a choice defines, in registers."""
        self.require(aval)
        return self.row(aval, level)

    def row(self, aval: ShapedArray, level: int) -> Var:
        """A variable for a row of an array; a long one is left in memory."""
        var = Var(aval)
        self.buffers[var] = self.buffer(aval)
        self._level[var] = level
        return var

    def level(self, *atoms: Atom) -> int:
        """The block in which all of these are there."""
        levels = [self._level[a] for a in atoms if isinstance(a, Var)]
        return max(self._branch, *levels) if levels else self._branch

    def register(self, atom: Atom) -> Buffer:
        """Where a value lies; it is computed now if that has been put off."""
        found = self.buffers.get(atom) if isinstance(atom, Var) else None
        if found is not None:
            return found
        level = self._level[atom] if isinstance(atom, Var) else 0
        known = constant_of(atom) if isinstance(atom, Literal) else self.known.get(atom)
        if known is None:
            assert isinstance(atom, Var)
            result = self.compute(
                atom.aval, level, lambda index: self.elements.computed(atom, index)
            )
        else:
            result = self.buffer(atom.aval)
            flat = known.reshape(-1)
            if flat.dtype.kind == "c":
                flat = flat.view(component(flat.dtype))
            self.add(Table(result, tuple(flat.tolist())), 0)
        if isinstance(atom, Var):
            self.buffers[atom] = result
        return result

    def small(self, atom: Atom) -> Buffer:
        """The registers of a value, which must not be a large array."""
        self.require(atom.aval)
        return self.register(atom)

    def require(self, aval: ShapedArray) -> None:
        """Raise `CannotUseRegisters` unless a value can lie in registers."""
        require_small(aval)

    def compute(self, aval: ShapedArray, level: int, element: Any) -> Buffer:
        """A step for a value whose element at an index is given.

        Few elements are computed one by one, unless they come from long vectors or
        cost much; others as the lanes of a vector.
        """
        # Of halves of rows, twice as many.
        if aval.size > 2 * config.tuning.register_elements:
            raise CannotUseRegisters(f"{aval.size} elements")
        shape, result = aval.shape, self.buffer(aval)
        lane = LoopVar(f"lane{aval.size}", aval.size)
        if aval.size > 1:
            values = parts(element(unravel(as_index(lane), shape)))
        if aval.size > 1 and (
            aval.size > config.tuning.register_scalars or not _is_light(values)
        ):
            self.add(Compute(result, lane, values), level)
            return result
        scalars = tuple(p for at in self.indices(shape) for p in parts(element(at)))
        self.add(Compute(result, None, scalars), level)
        return result

    def computed(self, aval: ShapedArray, atoms: Sequence[Atom], element: Any) -> Var:
        """A variable in registers, computed from others."""
        var = Var(aval)
        self._level[var] = level = self.level(*atoms)
        self.buffers[var] = self.compute(aval, level, element)
        return var

    def add(self, step: Step, level: int | None = None) -> None:
        """Append a step to the block of a level, or to the innermost one."""
        self._steps += 1
        if self._steps > config.tuning.register_steps:
            raise CannotUseRegisters("too many steps")
        self.blocks[-1 if level is None else level].append(step)

    @contextmanager
    def block(self, level: int) -> Iterator[list[Step]]:
        """Open a block inside that of a level."""
        before, self.blocks = self.blocks, [*self.blocks[: level + 1], []]
        yield self.blocks[-1]
        self.blocks = before

    def constant(self, atom: Atom) -> NDArray | None:
        return constant_of(atom) if isinstance(atom, Literal) else self.known.get(atom)

    def new_constant(self, aval: ShapedArray, value: NDArray) -> Var:
        require_small(aval)
        var = Var(aval)
        self.known[var] = np.asarray(value, physical_dtype(aval.dtype), order="C")
        self._level[var] = 0
        return var


def require_native(aval: ShapedArray) -> None:
    """Raise `CannotUseRegisters` for dtypes that instructions do not know."""
    dtype = physical_dtype(aval.dtype)
    if dtype.kind != "c" and not is_native(dtype):
        raise CannotUseRegisters(f"values of {dtype}")


def require_small(aval: ShapedArray) -> None:
    """Raise `CannotUseRegisters` for what does not fit registers."""
    require_native(aval)
    if not 0 < aval.size <= config.tuning.register_elements:
        raise CannotUseRegisters(f"{aval.size} elements")


def _is_light(values: Sequence[Expr]) -> bool:
    """Whether expressions are quickly computed one by one."""
    for e in walk(values):
        if isinstance(e, Load) and e.buffer.size > 2 * config.tuning.register_scalars:
            return False
        if isinstance(e, Instr) and e.name.startswith("math."):
            return False
    return True


def constant_of(literal: Literal) -> NDArray:
    """The value of a literal."""
    return as_numpy(literal.val, literal.aval)
