"""Scatters and updates of slices as work items: a copy, then ordered updates.

The dims along which no two updates meet, whatever the data, are independent: threads
share them out. Rows are cut into blocks of columns for that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from curta.compiler.graph.items import loop_item
from curta.compiler.loops.index import LoopVar, as_index, row_major
from curta.compiler.loops.lower import Operand, loop_dims, variables
from curta.compiler.loops.nodes import Buffer
from curta.core.jaxpr import Eqn
from curta.primitives.indexing.windows import WindowUpdate

if TYPE_CHECKING:
    from curta.compiler.graph.itemise import ItemMaker

_WORTH_BLOCKS = 1 << 16  # updates that are worth several threads
_MOST_BLOCKS = 4
_BLOCK_BYTES = 128  # of a block of columns, at least


def update_items(maker: ItemMaker, eqn: Eqn, result: Buffer, copy: bool) -> None:
    """Add the items that copy the operand to `result`, if asked, and update it."""
    assert isinstance(eqn.op, WindowUpdate)
    elements, aval = maker.elements, eqn.outvars[0].aval
    index = loop_dims(aval.shape)
    if copy:
        maker.emit_map(result, index, elements.at(eqn.invars[0], index), "copy")
    shape = eqn.op.update_shape(*[v.aval for v in eqn.invars])
    if 0 in shape or not aval.size:
        return
    index = loop_dims(shape)
    dims = variables(index)
    place, inside, new = _lowered(maker, eqn, index)
    free = _independent(place)
    independent = next((i for i, v in enumerate(dims) if v not in free), len(dims))
    if not independent and dims and dims[-1] in free:
        blocks = _blocks(shape, dims[-1].extent, maker.dtype(result).itemsize)
        if blocks > 1:
            index, dims = _in_blocks(index, dims, blocks)
            place, inside, new = _lowered(maker, eqn, index)
            independent = 1
    offset = row_major(place, aval.shape)
    old = _load(maker, result, offset, inside)
    stores = maker.stores(result, offset, new(old), inside)
    maker.items.append(
        loop_item(
            eqn.op.name, dims, (), stores, (), ordered=True, independent=independent
        )
    )


def _load(maker: ItemMaker, result: Buffer, offset: Any, inside: Any) -> Any:
    def load() -> Any:
        return maker.builder.load(result, offset, maker.dtype(result))

    return load() if inside is None else maker.builder.under(inside, load)


def _lowered(maker: ItemMaker, eqn: Eqn, index: tuple[Any, ...]) -> Any:
    assert isinstance(eqn.op, WindowUpdate)
    operands = [Operand(v.aval, v, maker.elements) for v in eqn.invars]
    return eqn.op.lower_update(maker.builder, tuple(map(as_index, index)), *operands)


def _independent(place: tuple[Any, ...]) -> set[Any]:
    """The loop variables that alone decide one of the places in the operand."""
    terms = [tuple(as_index(p).terms) for p in place]
    return {t[0] for t in terms if len(t) == 1 and isinstance(t[0], LoopVar)}


def _blocks(shape: tuple[int, ...], columns: int, itemsize: int) -> int:
    """Into how many blocks to cut the columns."""
    if math.prod(shape) < _WORTH_BLOCKS:
        return 1
    for blocks in range(_MOST_BLOCKS, 1, -1):
        if columns % blocks == 0 and columns // blocks * itemsize >= _BLOCK_BYTES:
            return blocks
    return 1


def _in_blocks(
    index: tuple[Any, ...], dims: tuple[LoopVar, ...], blocks: int
) -> tuple[tuple[Any, ...], tuple[LoopVar, ...]]:
    """The index with the last loop cut into blocks, and the loops, blocks first."""
    width = dims[-1].extent // blocks
    made = variables(loop_dims((blocks, *(v.extent for v in dims[:-1]), width)))
    column = as_index(made[0]) * width + made[-1]
    of = dict(zip(dims[:-1], made[1:-1], strict=True)) | {dims[-1]: column}
    return tuple(of.get(i, i) if isinstance(i, LoopVar) else i for i in index), made
