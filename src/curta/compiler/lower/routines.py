"""Items of ops that routines of the library run (rewrite/library_op.py)."""

from __future__ import annotations

from functools import partial
from typing import cast

import numpy as np

from curta.compiler.loops.nodes import Buffer
from curta.compiler.lower.item_builder import ItemBuilder
from curta.compiler.lower.items import LibraryItem
from curta.compiler.rewrite.library_op import LibraryOp
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, Eqn


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
