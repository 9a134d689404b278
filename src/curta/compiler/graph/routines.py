"""Ops that routines of the library run, and their items.

Expansions (sorting.py, ...) express ops of the language by these; no user sees them.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import ClassVar, cast

import numpy as np

from curta.compiler.graph.item_builder import ItemBuilder
from curta.compiler.graph.items import LibraryItem
from curta.compiler.library.routine import Routine
from curta.compiler.loops.nodes import Buffer
from curta.compiler.targets import Target
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, Eqn
from curta.core.op import Op


class LibraryOp(Op):
    """An op for which there is a routine."""

    orders_rows: ClassVar[bool] = False
    """Whether results are indices of elements along the last dim."""

    @abstractmethod
    def routine(self, target: Target, *avals: ShapedArray) -> Routine:
        """Return the routine for operands of these avals on a target."""


def routine_item(lowering: ItemBuilder, eqn: Eqn, results: tuple[Buffer, ...]) -> None:
    """Add the item that runs a `LibraryOp`."""
    routine = cast(LibraryOp, eqn.op).routine(
        lowering.target, *[v.aval for v in eqn.invars]
    )
    operands = [in_memory(lowering, v) for v in eqn.invars]
    memory = ShapedArray((max(routine.scratch, 1),), np.dtype(np.uint8))
    scratch = lowering.new_buffer(memory, f"{results[0].name}.memory")
    lowering.items.append(LibraryItem(routine, tuple(operands), results, (scratch,)))


def in_memory(lowering: ItemBuilder, atom: Atom) -> Buffer:
    """The buffer of an operand; a literal is stored for it."""
    name = f"literal{len(lowering.avals)}"
    element = partial(lowering.elements.at, atom)
    there = lowering.buffer_of(atom)
    return there or lowering.stored(atom.aval, name, element, "literal")
