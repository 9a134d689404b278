"""Which results may replace an argument that the program was told to overwrite.

A result that is stored element by element may, if whatever else reads the argument
runs before, or in the same turn of the loops that it shares with the store. The program
stays as it is: whoever calls it passes one address for both.
"""

from __future__ import annotations

from curta.compiler.graph.fuse import Group, Plan, aligned
from curta.compiler.graph.itemise import InPlace, Program
from curta.compiler.graph.items import EqnItem, Item, LoopItem, reads, written
from curta.compiler.loops.nodes import Buffer, Store


def replaced_arguments(
    plan: Plan, program: Program, in_place: InPlace
) -> frozenset[int]:
    """Results that may be given the memory of their argument."""
    items = [item for group in plan.groups for item in group.items]
    if any(isinstance(item, EqnItem) for item in items):
        return frozenset()  # its results may be views of arguments
    return frozenset(
        out
        for i, out in in_place.items()
        if _may_replace(plan, program.inputs[i], program.outputs[out])
    )


def _may_replace(plan: Plan, argument: Buffer, result: Buffer) -> bool:
    """Whether all that reads the argument does so before the result is stored."""
    stored = False
    for group in plan.groups:
        stores = [s for i in group.loops() for s in i.writes if s.buffer is result]
        for item in group.items:
            ours = result in written(item)
            if ours and not _stores_once(item):
                return False
            if argument in reads(item):
                if stored:
                    return False
                if stores and not _reads_in_turn(item, argument, stores[0], group):
                    return False
            stored = stored or ours
    return stored


def _stores_once(item: Item) -> bool:
    simple = isinstance(item, LoopItem) and not item.ordered and not item.partial
    return simple and len(item.writes) == 1


def _reads_in_turn(item: Item, argument: Buffer, store: Store, group: Group) -> bool:
    """Whether an item reads the argument where its group replaces it in that turn."""
    assert isinstance(item, LoopItem)
    for load in item.loads:
        if load.buffer is not argument:
            continue
        if store in item.writes:
            if load.offset != store.offset:
                return False
        elif aligned(load.offset, store.offset, item, group.shared) < group.shared:
            return False
    return True
