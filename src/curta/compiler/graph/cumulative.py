"""Cumulative reductions as work items.

Along the last dim they are running folds. Along another, the last dim is walked by
vectors, and each row is combined with the row before it, in an ordered loop.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from curta.compiler.graph.folds import simple_fold
from curta.compiler.graph.item_builder import ItemBuilder
from curta.compiler.graph.items import LoopItem
from curta.compiler.loops.element_types import computed_dtype
from curta.compiler.loops.index import Affine, as_index, row_major
from curta.compiler.loops.lower import loop_dims, variables
from curta.compiler.loops.nodes import Buffer
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
        combine = partial(op.combine, b)
        code = simple_fold(b, working, dtype, combine, op.identity(dtype))
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
    b, (index, element) = lowering.builder, indices
    shape, dtype = lowering.avals[result].shape, lowering.dtype(result)
    target = result
    if working != dtype:
        target = lowering.new_buffer(ShapedArray(shape, working), f"{result.name}.wide")

    def earlier() -> Affine:
        before = list(element)
        before[op.axis] = element[op.axis] + (1 if op.reverse else -1)
        return row_major(before, shape)

    value = b.guarded(
        b.compare("gt", index[op.axis], 0),
        lambda: op.combine(b, b.load(target, earlier(), working), x),
        x,
    )
    stores = lowering.stores(target, row_major(element, shape), value)
    independent = len(variables(index[: op.axis]))
    lowering.items.append(
        LoopItem(
            variables(index), stores, (),
            ordered=True, label=op.name, independent=independent,
        )
    )  # fmt: skip
    if target is not result:
        narrow = b.convert(lowering.load(target, index), dtype)
        lowering.emit_map(result, index, narrow, "convert")
