"""The values and the blocks of one region.

Values are in registers, in tables of constants, or in memory. A statement goes to the
outermost block in which its operands are available.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from curta.compiler.loops.build import CannotUseRegisters, ScalarBuilder
from curta.compiler.loops.complexes import parts
from curta.compiler.loops.element_types import component, is_native
from curta.compiler.loops.index import (
    ZERO,
    Affine,
    LoopVar,
    as_index,
    row_major,
    unravel,
)
from curta.compiler.loops.lower import Elements
from curta.compiler.loops.nodes import (
    Buffer,
    Copy,
    DataIndex,
    Expr,
    Instr,
    Load,
    LoopNest,
    Statement,
    Storage,
    Store,
    Table,
    View,
    walk,
)
from curta.compiler.targets import Target, Tuning
from curta.core.avals import ShapedArray
from curta.core.dim import may_exceed
from curta.core.evaluate import as_numpy
from curta.core.jaxpr import Atom, Eqn, Literal, Var
from curta.dtypes import physical_dtype

NDArray = np.ndarray[Any, Any]


class RegisterElements(Elements):
    """Elements of values in registers; those of known ones are constants.

    A read at an index from data reads memory.
    """

    def __init__(self, lowering: RegisterBlocks) -> None:
        super().__init__(lowering.builder, lowering.buffers, lowering.definitions)
        self._lowering = lowering

    def at(self, atom: Atom, index: tuple[Any, ...]) -> Any:
        if isinstance(atom, Literal) or not atom.aval.size:
            return super().at(atom, index)
        known = self._lowering.known.get(atom)
        if known is not None:
            indices = [as_index(i) for i in index]
            if all(i.is_constant for i in indices):
                at = tuple(
                    min(max(i.const, 0), d - 1)
                    for i, d in zip(indices, known.shape, strict=True)
                )
                return self.builder.const(known[at].item(), known.dtype)
            self._lowering.register(atom)
        buffer = self._lowering.buffers.get(atom)
        if buffer is None:
            return self.computed(atom, index)
        offset = row_major(index, atom.aval.shape)
        if any(isinstance(a, DataIndex) for a in offset.atoms()):
            buffer = self._lowering.in_memory(atom)
        return self.builder.load(buffer, offset, physical_dtype(atom.aval.dtype))


class RegisterBlocks:
    """Writes statements into blocks.

    `blocks` are those that are open, outermost first. A variable has the `level` of
    the block from which on its value is there: an eqn goes to the block of the last of
    its operands, or to that of the innermost branch, which may not be taken.

    `most_rows` of a reduction are combined in one expression, and a product of matrices
    of `most_products` is written out.
    """

    def __init__(self, target: Target) -> None:
        self.target: Target = target
        self.tuning: Tuning = target.tuning
        self.most_rows: int = self.tuning.unrolled_rows
        self.most_products: int = self.tuning.unrolled_products
        self.builder: ScalarBuilder = ScalarBuilder()
        self.blocks: list[list[Statement]] = [[]]
        self.buffers: dict[Var, Buffer] = {}
        self.definitions: dict[Var, Eqn] = {}
        self.known: dict[Var, NDArray] = {}
        self.elements: RegisterElements = RegisterElements(self)
        self.examples: tuple[LoopVar, ...] = ()  # if each has a lane
        self._memory: dict[Buffer, Buffer] = {}  # value -> its copy in memory
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
        return may_exceed(aval.size, self.tuning.register_elements)

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
        return self.loaded(aval, array, 0)

    def buffer(self, aval: ShapedArray, storage: Storage = "register") -> Buffer:
        """A new buffer for a value."""
        dtype, size = numbers(aval)
        letter = "s" if storage == "stack" else "r"
        return Buffer(f"{letter}{self.builder.fresh()}", dtype, size, storage)

    def define(self, aval: ShapedArray, level: int) -> Var:
        """A variable that a loop or a branch defines, in registers."""
        self.require(aval)
        return self.variable(aval, self.buffer(aval), level)

    def variable(self, aval: ShapedArray, buffer: Buffer, level: int) -> Var:
        """A variable for a value in a buffer."""
        var = Var(aval)
        self.buffers[var] = buffer
        self._level[var] = level
        return var

    def loaded(self, aval: ShapedArray, array: Buffer, level: int) -> Var:
        """A variable for an array in memory, which is loaded unless it is long."""
        most = 2 * self.tuning.register_elements
        if may_exceed(array.size, most) or not array.size:
            return self.variable(aval, array, level)
        result = self.variable(aval, self.buffer(aval), level)
        self._memory[self.buffers[result]] = array
        self.add(self.copied(self.buffers[result], array), level)
        return result

    def row(self, x: Atom, iteration: LoopVar, level: int) -> Var:
        """A variable for the row of an array at an iteration of a loop."""
        aval = x.aval.update(shape=x.aval.shape[1:])
        return self.loaded(aval, self._row(self.in_memory(x), aval, iteration), level)

    def _row(self, array: Buffer, aval: ShapedArray, iteration: LoopVar) -> Buffer:
        _, size = numbers(aval)
        return self.buffer(aval, View(array, as_index(iteration) * size))

    def stacked(self, aval: ShapedArray) -> Buffer:
        """An array on the stack whose rows a loop writes."""
        self.require(aval)
        return self.buffer(aval, "stack")

    def save(self, atom: Atom, array: Buffer) -> None:
        """A statement that stores a value to an array."""
        self.add(self.copied(array, self.register(atom)))

    def save_row(self, atom: Atom, array: Buffer, iteration: LoopVar) -> None:
        """A statement that stores a row of an array."""
        row = self._row(array, atom.aval, iteration)
        self.add(self.copied(row, self.small(atom)))

    def copied(self, to: Buffer, source: Buffer) -> Statement:
        """The statement that copies a value: number by number, or as a vector."""
        if to.in_memory and source.in_memory:
            return Copy(to, source)
        lane = LoopVar(f"lane{to.size}", to.size)
        few = to.size <= self.tuning.register_scalars
        offsets = [as_index(i) for i in range(to.size)] if few else [as_index(lane)]
        load = self.builder.load_where
        return LoopNest(
            () if few else (lane,),
            tuple(Store(to, i, load(source, i, None, to.dtype)) for i in offsets),
            (),
        )

    def in_memory(self, atom: Atom) -> Buffer:
        """The address of a value; a value in registers is stored on the stack."""
        value = self.register(atom)
        if value.in_memory:
            return value
        if value not in self._memory:
            stack = self._memory[value] = self.buffer(atom.aval, "stack")
            self.add(self.copied(stack, value), self.level_of(atom))
        return self._memory[value]

    def level(self, *atoms: Atom) -> int:
        """The innermost block in which all of these values are defined."""
        levels = [self._level[a] for a in atoms if isinstance(a, Var)]
        return max(self._branch, *levels) if levels else self._branch

    def level_of(self, atom: Atom) -> int:
        """The block from which on a value is there."""
        return self._level[atom] if isinstance(atom, Var) else 0

    def register(self, atom: Atom) -> Buffer:
        """Where a value lies; it is computed now if that has been put off."""
        buffer = self.buffers.get(atom) if isinstance(atom, Var) else None
        if buffer is not None:
            return buffer
        known = self.constant(atom)
        if known is None:
            assert isinstance(atom, Var)
            level = self._level[atom]
            result = self.compute(
                atom.aval, level, lambda index: self.elements.computed(atom, index)
            )
        else:
            flat = known.reshape(-1)
            if flat.dtype.kind == "c":
                flat = flat.view(component(flat.dtype))
            result = self.buffer(atom.aval, Table(tuple(flat.tolist())))
        if isinstance(atom, Var):
            self.buffers[atom] = result
        return result

    def small(self, atom: Atom) -> Buffer:
        """The registers of a value, which must not be a large array."""
        self.require(atom.aval)
        return self.register(atom)

    def require(self, aval: ShapedArray) -> None:
        """Raise `CannotUseRegisters` unless a value can be in registers."""
        require_small(aval, self.tuning)

    def compute(self, aval: ShapedArray, level: int, element: Any) -> Buffer:
        """A statement for a value whose element at an index is given.

        Few elements are computed one by one, unless they come from long vectors or
        cost much; others as the lanes of a vector.
        """
        # Values that are read by halves may be twice as large.
        if aval.size > 2 * self.tuning.register_elements:
            raise CannotUseRegisters(f"{aval.size} elements")
        shape, result = aval.shape, self.buffer(aval)
        lane = LoopVar(f"lane{aval.size}", aval.size)
        if aval.size > 1:
            values = parts(element(unravel(as_index(lane), shape)))
        if aval.size > 1 and (
            aval.size > self.tuning.register_scalars
            or not _is_light(values, self.tuning)
        ):
            first = as_index(lane) * len(values)
            self.add(LoopNest((lane,), stores(result, first, values), ()), level)
            return result
        scalars = [p for at in self.indices(shape) for p in parts(element(at))]
        self.add(LoopNest((), stores(result, ZERO, scalars), ()), level)
        return result

    def computed(self, aval: ShapedArray, atoms: Sequence[Atom], element: Any) -> Var:
        """A variable in registers, computed from others."""
        var = Var(aval)
        self._level[var] = level = self.level(*atoms)
        self.buffers[var] = self.compute(aval, level, element)
        return var

    def add(self, statement: Statement, level: int | None = None) -> None:
        """Append a statement to the block of a level, or to the innermost one."""
        self._steps += 1
        if self._steps > self.tuning.register_steps:
            raise CannotUseRegisters("too many steps")
        self.blocks[-1 if level is None else level].append(statement)

    @contextmanager
    def block(self, level: int) -> Iterator[list[Statement]]:
        """Open a block inside that of a level."""
        before, self.blocks = self.blocks, [*self.blocks[: level + 1], []]
        yield self.blocks[-1]
        self.blocks = before

    def constant(self, atom: Atom) -> NDArray | None:
        return constant_of(atom) if isinstance(atom, Literal) else self.known.get(atom)

    def new_constant(self, aval: ShapedArray, value: NDArray) -> Var:
        require_small(aval, self.tuning)
        var = Var(aval)
        self.known[var] = np.asarray(value, physical_dtype(aval.dtype), order="C")
        self._level[var] = 0
        return var


def stores(buffer: Buffer, first: Affine, values: Sequence[Expr]) -> tuple[Store, ...]:
    """Stores of values to neighboring elements."""
    return tuple(Store(buffer, first + i, v) for i, v in enumerate(values))


def numbers(aval: ShapedArray) -> tuple[np.dtype[Any], int]:
    """The dtype of the numbers of a value, and how many there are."""
    require_native(aval)
    dtype = physical_dtype(aval.dtype)
    if dtype.kind == "c":
        return component(dtype), 2 * aval.size
    return dtype, aval.size


def require_native(aval: ShapedArray) -> None:
    """Raise `CannotUseRegisters` for dtypes that instructions do not know."""
    dtype = physical_dtype(aval.dtype)
    if dtype.kind != "c" and not is_native(dtype):
        raise CannotUseRegisters(f"values of {dtype}")


def require_small(aval: ShapedArray, tuning: Tuning) -> None:
    """Raise `CannotUseRegisters` for what does not fit registers."""
    require_native(aval)
    if not 0 < aval.size <= tuning.register_elements:
        raise CannotUseRegisters(f"{aval.size} elements")


def _is_light(values: Sequence[Expr], tuning: Tuning) -> bool:
    """Whether expressions are quickly computed one by one."""
    for e in walk(values):
        if isinstance(e, Load) and e.buffer.size > 2 * tuning.register_scalars:
            return False
        if isinstance(e, Instr) and e.name.startswith("math."):
            return False
    return True


def constant_of(literal: Literal) -> NDArray:
    """The value of a literal."""
    return as_numpy(literal.val, literal.aval)
