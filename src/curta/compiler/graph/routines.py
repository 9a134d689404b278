"""Ops that routines of the library run, and their items.

Rewrites (sorting.py, ...) express ops of the language by these; no user sees them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from curta.compiler.graph.items import RoutineItem
from curta.compiler.library.routine import Routine
from curta.compiler.loops.nodes import Buffer
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Eqn
from curta.core.op import Op

if TYPE_CHECKING:
    from curta.compiler.graph.itemise import ItemMaker


class LibraryOp(Op):
    """An op for which there is a routine."""

    @abstractmethod
    def routine(self, *avals: ShapedArray) -> Routine:
        """The routine for operands of these avals."""


def routine_item(maker: ItemMaker, eqn: Eqn, results: tuple[Buffer, ...]) -> None:
    """Add the item that runs a `LibraryOp`."""
    assert isinstance(eqn.op, LibraryOp)
    routine = eqn.op.routine(*[v.aval for v in eqn.invars])
    operands: list[Any] = [maker.operand(v) for v in eqn.invars]
    memory = ShapedArray((max(routine.scratch, 1),), np.dtype(np.uint8))
    scratch = maker.new_buffer(memory, f"{results[0].name}.memory")
    maker.items.append(RoutineItem(routine, tuple(operands), results, scratch))
