"""Scatters and updates of slices as work items: a copy, then ordered updates.

The dims along which no two updates meet, whatever the data, are independent: threads
share them out. Rows are cut into blocks of columns for that. Otherwise parts of the
operand have owners. Each owner reads all updates and applies those of its own part, in
order, so the result does not depend on the number of owners.
"""

from __future__ import annotations

import math
from operator import add
from typing import Any, cast

import numpy as np

from curta.compiler.loops.costs import weight
from curta.compiler.loops.index import Affine, LoopVar, as_index, row_major
from curta.compiler.loops.index_set_splitting import cuts_along, intervals
from curta.compiler.loops.lower import Operand, loop_dims, variables
from curta.compiler.loops.nodes import Buffer, Const, Expr, index_operands, walk
from curta.compiler.lower.item_builder import ItemBuilder
from curta.compiler.lower.items import LoopItem
from curta.compiler.targets import Tuning
from curta.core.dim import is_multiple, typical
from curta.core.jaxpr import Eqn
from curta.primitives.indexing.gather import Scattering
from curta.primitives.indexing.windows import WindowUpdate


def update_items(
    lowering: ItemBuilder, eqn: Eqn, shape: tuple[int, ...], result: Buffer, copy: bool
) -> None:
    """Add the items that store the operand in `result`, if asked, and update it.

    `shape` is that of the updates.
    """
    elements, aval = lowering.elements, eqn.outvars[0].aval
    index = loop_dims(aval.shape)
    if copy:
        lowering.emit_map(result, index, elements.at(eqn.invars[0], index), "copy")
    if 0 in shape or not aval.size:
        return
    for low, part in _parts(lowering, eqn, shape):
        _updates(lowering, eqn, result, low, part)


def _parts(
    lowering: ItemBuilder, eqn: Eqn, shape: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Where updates are cut, in their order, for each part to have affine indices.

    That is the first of the loops along which updates may meet. A part is its first
    index and its shape.
    """
    whole, index = (0,) * len(shape), loop_dims(shape)
    if typical(math.prod(shape)) < lowering.tuning.large_join:
        return [(whole, shape)]
    element, *_ = _lowered(lowering, eqn, index)
    free = _independent(element)
    meeting = [v for v in _in_order(eqn, index, free) if v not in free]
    data = [x for p in element for x in index_operands(as_index(p))]
    if not meeting or not data:
        return [(whole, shape)]
    at = index.index(meeting[0])
    return [
        (_replaced(whole, at, low), _replaced(shape, at, high - low))
        for low, high in intervals(cuts_along(index, data)[at], shape[at])
    ]


def _replaced(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    """The tuple with another value at a position."""
    return (*values[:at], value, *values[at + 1 :])


def _updates(
    lowering: ItemBuilder,
    eqn: Eqn,
    result: Buffer,
    low: tuple[int, ...],
    shape: tuple[int, ...],
) -> None:
    """Add the item of the updates of a part."""
    index, aval = loop_dims(shape), eqn.outvars[0].aval
    element, inside, new = _lowered(lowering, eqn, index, low)
    free = _independent(element)
    dims = _in_order(eqn, index, free)
    independent = next((i for i, v in enumerate(dims) if v not in free), len(dims))
    if dims and row_major(element, aval.shape).coefficient(dims[-1]) == 1:
        independent = min(independent, len(dims) - 1)  # neighbours are for vectors
    if not independent and dims and dims[-1] in free:
        blocks = _blocks(
            shape, dims[-1].extent, lowering.dtype(result).itemsize, lowering.tuning
        )
        if blocks > 1:
            index, dims = _in_blocks(index, dims, blocks)
            element, inside, new = _lowered(lowering, eqn, index, low)
            independent = 1
    shared = (
        None if independent else _shared_out(lowering, eqn, result, element, inside)
    )
    if shared is not None:
        owner, inside = shared
        dims, independent = (owner, *dims), 1
    offset = row_major(element, aval.shape)
    old = _load(lowering, result, offset, inside)
    stores = lowering.stores(result, offset, new(old), inside)
    lowering.items.append(
        LoopItem(dims, stores, (), 0, True, bool(shared), eqn.op.name, independent)
    )


def _load(lowering: ItemBuilder, result: Buffer, offset: Any, inside: Any) -> Any:
    b, dtype = lowering.builder, lowering.dtype(result)
    return b.under(inside, lambda: b.load(result, offset, dtype))


def _lowered(
    lowering: ItemBuilder, eqn: Eqn, index: tuple[Any, ...], low: tuple[int, ...] = ()
) -> Any:
    """Where an update goes, under which condition (None: always), and what it does."""
    op = cast(WindowUpdate, eqn.op)
    operands = [Operand(v.aval, v, lowering.elements) for v in eqn.invars]
    there = map(add, map(as_index, index), low or (0,) * len(index))
    element, inside, new = op.lower_update(lowering.builder, tuple(there), *operands)
    always = isinstance(inside, Const) and bool(inside.value)
    return element, None if always else inside, new


def _shared_out(
    lowering: ItemBuilder,
    eqn: Eqn,
    result: Buffer,
    element: tuple[Any, ...],
    inside: Any,
) -> tuple[LoopVar, Expr] | None:
    """The owners of the parts of the operand, and when an update is the owner's own."""
    b, aval = lowering.builder, eqn.outvars[0].aval
    nbytes = typical(aval.size) * lowering.dtype(result).itemsize
    if (
        not cast(WindowUpdate, eqn.op).has_index_arrays
        or typical(eqn.invars[2].aval.size) < lowering.tuning.update_work
    ):
        return None
    tuning = lowering.tuning
    count = min(max(nbytes // tuning.owner_bytes, 2), tuning.most_owners)
    cut = next((d for d, p in enumerate(element) if _is_data(as_index(p))), None)
    if nbytes < tuning.owned_bytes or cut is None or typical(aval.shape[cut]) < count:
        return None
    owner, part = LoopVar("owner", count), -(-aval.shape[cut] // count)
    ahead = b.index_value(as_index(element[cut]) - as_index(owner) * part)
    # One comparison: negative offsets wrap to large ones.
    unsigned = np.dtype(np.uint64)
    own = b.compare("lt", b.convert(ahead, unsigned), b.const(part, unsigned))
    if inside is not None:
        own = b.and_(inside, own)
    cost = sum(map(weight, walk([own])))
    return (owner, own) if cost <= tuning.owner_cost else None


def _in_order(eqn: Eqn, index: tuple[Any, ...], free: set[Any]) -> tuple[LoopVar, ...]:
    """The loops in an order in which one window after the other is written.

    Windows may overlap along those of their dims that start at data.
    """
    dims = variables(index)
    if not cast(WindowUpdate, eqn.op).has_index_arrays:
        return dims
    window = {
        index[d] for d in cast(Scattering, eqn.op).dimension_numbers.update_window_dims
    }
    first = next((i for i, v in enumerate(dims) if v in window - free), len(dims))
    return (*dims[:first], *sorted(dims[first:], key=lambda v: v in window))


def _is_data(index: Affine) -> bool:
    """Whether an index depends on more than loop variables."""
    return not all(isinstance(a, LoopVar) for a in index.atoms())


def _independent(element: tuple[Any, ...]) -> set[Any]:
    """The loop variables that alone decide one of the indices in the operand."""
    terms = [tuple(as_index(p).terms) for p in element]
    return {t[0] for t in terms if len(t) == 1 and isinstance(t[0], LoopVar)}


def _blocks(shape: tuple[int, ...], columns: int, itemsize: int, tuning: Tuning) -> int:
    """Into how many blocks to cut the columns."""
    if typical(math.prod(shape)) < tuning.update_work:
        return 1
    for blocks in range(tuning.update_blocks, 1, -1):
        if (
            is_multiple(columns, blocks)
            and typical(columns) // blocks * itemsize >= tuning.update_block_bytes
        ):
            return blocks
    return 1


def _in_blocks(
    index: tuple[Any, ...], dims: tuple[LoopVar, ...], blocks: int
) -> tuple[tuple[Any, ...], tuple[LoopVar, ...]]:
    """The index with the last loop cut into blocks, and the loops, blocks first."""
    width = dims[-1].extent // blocks
    made = loop_dims((blocks, *(v.extent for v in dims[:-1]), width))
    # `made[-1]` is 0 if blocks have one column.
    column = as_index(made[0]) * width + made[-1]
    of = dict(zip(dims[:-1], made[1:-1], strict=True)) | {dims[-1]: column}
    cut = tuple(of.get(i, i) if isinstance(i, LoopVar) else i for i in index)
    return cut, variables(made)
