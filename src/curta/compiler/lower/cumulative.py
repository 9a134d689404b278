"""Cumulative reductions as work items.

Along the last dim they are running reductions. Along another, the last dim is walked by
vectors, and each row is combined with the row before it, in an ordered loop.
"""

from __future__ import annotations

from typing import Any, cast

from curta.compiler.loops.element_types import computed_dtype, wide_dtype
from curta.compiler.loops.folds import cumulative_fold
from curta.compiler.loops.index import as_index, row_major
from curta.compiler.loops.lower import loop_dims, variables
from curta.compiler.loops.nodes import Buffer
from curta.compiler.lower.item_builder import ItemBuilder
from curta.compiler.lower.items import LoopItem
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Eqn
from curta.primitives.cumulative import Cumulative


def cumulative_items(lowering: ItemBuilder, eqn: Eqn, result: Buffer) -> None:
    """Add the items that compute a cumulative reduction into `result`."""
    op, aval = cast(Cumulative, eqn.op), eqn.outvars[0].aval
    if not aval.size:
        return
    b, dtype = lowering.builder, lowering.dtype(result)
    working = computed_dtype(dtype)
    index = loop_dims(aval.shape)
    element = list(map(as_index, index))
    if op.reverse:
        element[op.axis] = aval.shape[op.axis] - 1 - as_index(index[op.axis])
    x = b.convert(lowering.elements.at(eqn.invars[0], tuple(element)), working)
    offset = row_major(element, aval.shape)
    if all(d == 1 for d in aval.shape[op.axis + 1 :]):
        code = cumulative_fold(op, b, working, dtype)
        kept, along = index[: op.axis], index[op.axis :]
        lowering.emit_fold(result, kept, along, (x,), code, op.name, offset)
    else:
        _row_by_row(lowering, op, (index, element), x, result, working)


def _row_by_row(
    lowering: ItemBuilder,
    op: Cumulative,
    indices: tuple[tuple[Any, ...], list[Any]],
    x: Any,
    result: Buffer,
    working: Any,
) -> None:
    """Each row combined with what the rows before it come to, which is wide."""
    b, (index, element) = lowering.builder, indices
    shape, dtype = lowering.avals[result].shape, lowering.dtype(result)
    code = cumulative_fold(op, b, working, dtype)
    if code.order == "blocks":
        working = wide_dtype(working)
        code = cumulative_fold(op, b, working, dtype)
    columns = shape[: op.axis] + shape[op.axis + 1 :]
    aval = ShapedArray(columns, working)
    totals = lowering.new_buffer(aval, f"{result.name}.total")
    column = (*index[: op.axis], *index[op.axis + 1 :])
    here = row_major(column, columns)
    x = b.convert(x, working)
    total = b.guarded(
        b.compare("gt", index[op.axis], 0),
        lambda: code.combine((b.load(totals, here, working),), (x,))[0],
        x,
    )
    stores = (
        *lowering.stores(totals, here, total),
        *lowering.stores(result, row_major(element, shape), b.convert(total, dtype)),
    )
    independent = len(variables(index[: op.axis]))
    lowering.items.append(
        LoopItem(
            variables(index), stores, (),
            ordered=True, label=op.name, independent=independent,
        )
    )  # fmt: skip
