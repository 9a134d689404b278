"""Which items share a kernel: the fusion plan.

Two items can share the loops over their first `shared` dims if each index of those
needs nothing that another index computes. The plan goes through the items in order and
puts each into a group that is there already, if

* nothing the item reads is computed after that group,
* what it reads from the group itself lies at the same outer indices (`aligned`), so
  that the group's outer loops can go around both, and
* that leaves enough turns of those loops to share out among threads, or little work.

In a kernel that walks rows, a function of each row is computed one number at a time. It
stays out, to be computed by vectors in a kernel of its own, if no later loop over the
row needs it (the logarithm of a sum) or no earlier one makes its argument.

Values that pass between items of one group then live in registers, or in a row of
memory. Every refusal is kept: `Plan.explain(a, b)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

from curta.compiler.graph.itemise import Program
from curta.compiler.graph.items import Item, LoopItem, reads, written
from curta.compiler.loops.index import Affine, LoopVar
from curta.compiler.loops.nodes import Buffer, Instr, Store, walk
from curta.config import config
from curta.lazy_dataclass import dataclass


@dataclass(eq=False)
class Group:
    """Items that share a kernel: the nests of all have the first `shared` dims.

    `one_body` says that they even share the whole nest, so that threads can split it
    where it suits, not only between turns of the shared loops.
    """

    items: list[Item]
    shared: int = 0
    one_body: bool = True
    stored: dict[Buffer, Store] = field(default_factory=dict)

    def loops(self) -> list[LoopItem]:
        """The items; other items are groups of their own."""
        return [i for i in self.items if isinstance(i, LoopItem)]


@dataclass(frozen=True)
class Plan:
    """Groups in the order in which they run, and why others were not formed."""

    groups: tuple[Group, ...]
    refusals: dict[tuple[Item, Item], str]

    def explain(self, first: Item, second: Item) -> str:
        """Why two items are in one kernel or not."""
        for group in self.groups:
            if first in group.items and second in group.items:
                return f"fused: they share {group.shared} outer dims"
        reason = self.refusals.get((first, second)) or self.refusals.get(
            (second, first)
        )
        return reason or "not considered: another kernel runs between them"


def fuse(program: Program) -> Plan:
    """Group the items of a program into kernels."""
    groups: list[Group] = []
    place: dict[Buffer, int] = {}
    refusals: dict[tuple[Item, Item], str] = {}
    alone = _functions_of_rows(program.items)
    for item in program.items:
        touched = [*reads(item), *written(item)]
        earliest = max((place[b] for b in touched if b in place), default=0)
        at = _choose(item, groups, earliest, refusals, item in alone)
        if at is None:
            at = len(groups)
            groups.append(Group([item], _depth(item)))
        if isinstance(item, LoopItem):
            groups[at].stored.update((s.buffer, s) for s in item.writes)
        place.update((buffer, at) for buffer in written(item))
    return Plan(tuple(groups), refusals)


def separate(program: Program) -> Plan:
    """The plan that fuses nothing: every item is a kernel of its own."""
    groups = [Group([item], _depth(item)) for item in program.items]
    return Plan(tuple(groups), {})


def _depth(item: Item) -> int:
    return len(item.dims) if isinstance(item, LoopItem) else 0


def _choose(
    item: Item,
    groups: list[Group],
    earliest: int,
    refusals: dict[tuple[Item, Item], str],
    alone: bool,
) -> int | None:
    """The group that the item joins, if any: the nearest one that can take it.

    An item that is better `alone` is not put into deeper loops than its own.
    """
    if not isinstance(item, LoopItem):
        return None
    for at in range(earliest, len(groups)):
        group = groups[at]
        if alone and any(_depth_of(i) > _depth_of(item) for i in group.loops()):
            shared, reason = None, "a function of each row, computed by vectors"
        elif _maps_of_rows(group, item):
            shared, reason = None, "it needs functions of rows, computed by vectors"
        else:
            shared, reason = _joined(item, group)
        if shared is not None:
            group.one_body = group.one_body and _in_body(item, group)
            group.items.append(item)
            group.shared = shared
            return at
        for other in group.items:
            refusals[other, item] = reason
    return None


def _depth_of(item: LoopItem) -> int:
    return len(item.dims + item.inner)


def _maps_of_rows(group: Group, item: LoopItem) -> bool:
    """Whether a group has only maps, of fewer dims than the item and many indices."""
    loops = group.loops()
    return bool(loops) and all(
        not i.folds
        and i.work >= config.tuning.many_rows
        and _depth_of(i) < _depth_of(item)
        for i in loops
    )


def _functions_of_rows(items: Sequence[Item]) -> set[Item]:
    """Maps by costly functions over many indices, of which no deeper loop reads."""
    found: set[Item] = set()
    depths: dict[Buffer, int] = {}  # of the deepest loop that needs a buffer
    for item in reversed(items):
        if not isinstance(item, LoopItem):
            continue
        deepest = max((depths.get(s.buffer, 0) for s in item.writes), default=0)
        own = _depth_of(item)
        for load in item.loads:
            depths[load.buffer] = max(depths.get(load.buffer, 0), deepest, own)
        costly = any(
            isinstance(e, Instr) and e.name.startswith("math.")
            for e in walk([s.value for s in item.stores])
        )
        if (
            costly
            and not item.folds
            and deepest <= own
            and item.work >= config.tuning.many_rows
        ):
            found.add(item)
    return found


def _joined(item: LoopItem, group: Group) -> tuple[int | None, str]:
    """How many outer dims the group would share with the item in it, or why not."""
    loops = group.loops()
    if len(loops) != len(group.items):
        return None, "an op that is no loop"
    if item.ordered or loops[0].ordered:
        return None, "updates in order"
    if item.partial or loops[0].partial:
        return None, "a part of a value"
    if len(loops) >= config.tuning.most_items:
        return None, f"the kernel has {config.tuning.most_items} items already"
    shared = _common(loops[0].dims[: group.shared], item.dims)
    needed = [load for load in item.loads if load.buffer in group.stored]
    for load in needed:
        shared = aligned(load.offset, group.stored[load.buffer].offset, item, shared)
    work = item.work + sum(i.work for i in loops)
    if work <= config.tuning.shared_little:
        return shared, ""
    turns = math.prod(v.extent for v in item.dims[:shared])
    if turns < config.tuning.shared_turns and not (
        group.one_body and _in_body(item, group)
    ):
        return None, f"only {turns} turns of the shared loops are independent"
    return (shared, "") if needed else _siblings(item, group, shared)


def _in_body(item: LoopItem, group: Group) -> bool:
    """Whether all that is read from the group is read where it is stored."""
    if not _same_nest(item, group):
        return False
    folded = {s.buffer for i in group.loops() for f in i.folds for s in f.stores}
    for load in item.loads:
        stored = group.stored.get(load.buffer)
        if stored and (load.buffer in folded or load.offset != stored.offset):
            return False
    return True


def _siblings(item: LoopItem, group: Group, shared: int) -> tuple[int | None, str]:
    """Independent items share a kernel if that saves reading something twice."""
    if not _same_nest(item, group):
        return None, "independent, and over different indices"
    here = {load.buffer for load in item.loads}
    there = {load.buffer for i in group.loops() for load in i.loads}
    if not here & there and here and there:
        return None, "independent, and they read nothing in common"
    return shared, ""


def _same_nest(item: LoopItem, group: Group) -> bool:
    """Whether the item and the group walk the same dims, and fold the same ones."""
    items = [*group.loops(), item]
    nests = {i.dims + i.inner for i in items}
    return len(nests) == 1 and len({i.dims for i in items if i.folds}) <= 1


def _common(first: tuple[LoopVar, ...], second: tuple[LoopVar, ...]) -> int:
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count


def aligned(read: Affine, stored: Affine, item: LoopItem, most: int) -> int:
    """For how many outer dims an element is read at the index where it was stored."""
    if read == stored:
        return most
    for count in range(most, 0, -1):
        outer = item.dims[:count]
        if _row(read, outer) is None or _row(stored, outer) is None:
            continue
        if all(read.coefficient(v) == stored.coefficient(v) for v in outer):
            span = min((abs(stored.coefficient(v)) for v in outer), default=0)
            row = _row(read, outer)
            assert row is not None
            low, high = row.bounds
            if 0 <= low and high < span:
                return count
    return 0


def _row(offset: Affine, outer: tuple[LoopVar, ...]) -> Affine | None:
    """The offset within a row; None if outer variables hide in other atoms."""
    rest = Affine(
        {a: k for a, k in offset.terms.items() if a not in outer}, offset.const
    )
    return None if any(a in outer for a in rest.atoms()) else rest
