"""Ops as loop programs: regions that rules write, statement by statement."""

from __future__ import annotations

from typing import Any

from curta.compiler.graph.item_builder import ItemBuilder
from curta.compiler.graph.items import RegionItem
from curta.compiler.graph.routines import in_memory
from curta.compiler.loops.index import LoopVar, as_index
from curta.compiler.loops.nodes import For, LoopNest, Region, Store
from curta.core.jaxpr import Eqn


def permutation_items(lowering: ItemBuilder, eqn: Eqn) -> None:
    """`LUPivotsToPermutation`: numbers of rows, which are exchanged one by one."""
    b, (pivots,) = lowering.builder, eqn.invars
    source, (result,) = in_memory(lowering, pivots), lowering.results(eqn)
    count, size = pivots.aval.shape[-1], eqn.outvars[0].aval.shape[-1]
    each = LoopVar("each", result.size // max(1, size))
    row, step = LoopVar("row", size), LoopVar("step", count)
    first = as_index(each) * size

    def put(position: Any, value: Any) -> Store:
        return Store(result, first + position, value)

    start = LoopNest((), (put(row, b.index_value(row, result.dtype)),), ())
    pivot = b.load(source, as_index(each) * count + step, source.dtype)
    # Whatever the pivots are, only the rows are touched.
    bounds = b.const(0, pivot.dtype), b.const(size - 1, pivot.dtype)
    chosen = b.min(b.max(pivot, bounds[0]), bounds[1]).as_index()
    here, there = (b.load(result, first + i, result.dtype) for i in (step, chosen))
    exchange = LoopNest((), (put(step, there), put(chosen, here)), (), ordered=True)
    pairs = (row, start), (step, exchange)
    body = tuple(For(var, (), (nest,)) for var, nest in pairs if var.extent)
    region = Region((For(each, (), body),) if result.size else ())
    lowering.items.append(RegionItem(eqn, (source,), (result,), region))
