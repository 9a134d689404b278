"""Which results may replace an argument that the program was told to overwrite.

A result that is stored element by element may, if whatever else reads the argument
runs before: in an earlier kernel, in an earlier stage of the same turn of the loops
that it shares with the store, or in its stage at the same element. The program stays
as it is: whoever calls it passes one address for both.
"""

from __future__ import annotations

from curta.compiler.graph.fuse import Group, Plan, aligned
from curta.compiler.graph.itemise import InPlace, Program
from curta.compiler.graph.items import EqnItem, Item, LoopItem, reads, written
from curta.compiler.loops.assemble import stage_places
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
        stores = [(i, s) for i in group.loops() for s in i.writes if s.buffer is result]
        places = stage_places(group) if stores else {}
        for item in group.items:
            ours = result in written(item)
            if ours and not _stores_once(item):
                return False
            if argument in reads(item):
                if stored:
                    return False
                if stores and not _reads_in_turn(
                    item, argument, *stores[0], places, group
                ):
                    return False
            stored = stored or ours
    return stored


def _stores_once(item: Item) -> bool:
    if not isinstance(item, LoopItem) or item.ordered or item.partial:
        return False
    return len(item.writes) == 1


def _reads_in_turn(
    item: Item,
    argument: Buffer,
    storing: LoopItem,
    store: Store,
    places: dict[LoopItem, int],
    group: Group,
) -> bool:
    """Whether an item reads what it needs before its group replaces it."""
    assert isinstance(item, LoopItem)
    if places[item] > places[storing]:
        return False
    offsets = [e.offset for e in item.loads if e.buffer is argument]
    if places[item] == places[storing]:
        if item.folds and not storing.folds:  # a turn stores before it folds
            return False
        return all(offset == store.offset for offset in offsets)
    shared = group.shared
    return all(aligned(o, store.offset, item, shared) >= shared for o in offsets)
