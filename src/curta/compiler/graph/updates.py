"""Scatters and updates of slices as work items: a copy, then ordered updates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from curta.compiler.graph.items import loop_item
from curta.compiler.loops.index import as_index, row_major
from curta.compiler.loops.lower import Operand, loop_dims, variables
from curta.compiler.loops.nodes import Buffer
from curta.core.jaxpr import Eqn
from curta.primitives.indexing.windows import WindowUpdate

if TYPE_CHECKING:
    from curta.compiler.graph.itemise import ItemMaker


def update_items(maker: ItemMaker, eqn: Eqn, result: Buffer, copy: bool) -> None:
    """Add the items that copy the operand to `result`, if asked, and update it."""
    assert isinstance(eqn.op, WindowUpdate)
    b, elements = maker.builder, maker.elements
    aval = eqn.outvars[0].aval
    index = loop_dims(aval.shape)
    if copy:
        maker.emit_map(result, index, elements.at(eqn.invars[0], index), "copy")
    avals = [v.aval for v in eqn.invars]
    shape = eqn.op.update_shape(*avals)
    if 0 in shape or not aval.size:
        return
    index = loop_dims(shape)
    operands = [Operand(v.aval, v, elements) for v in eqn.invars]
    place, inside, new = eqn.op.lower_update(b, tuple(map(as_index, index)), *operands)
    offset = row_major(place, aval.shape)
    old = b.load(result, offset, maker.dtype(result))
    stores = maker.stores(result, offset, new(old), inside)
    maker.items.append(
        loop_item(eqn.op.name, variables(index), (), stores, (), ordered=True)
    )
