"""Which items share a kernel: the fusion plan.

Two items can share the loops over their first `shared` dims if each index of those
needs nothing that another index computes. The plan goes through the items in order and
puts each into a group that is there already, if

* nothing the item reads is computed after that group, nor is there a barrier between,
* values read from the group itself are at the same outer indices (`aligned`), so that
  the group's outer loops can go around both, and
* that leaves enough iterations of those loops for all threads, or little work.

In a kernel that walks rows, a function of each row is computed one number at a time. It
stays out, to be computed by vectors in a kernel of its own, if no later loop over the
row needs it (the logarithm of a sum) or no earlier one makes its argument.

Values that pass between items of one group then live in registers, or in a row of
memory. `FusionPlan.explain(a, b)` says why two items are together or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.compiler.fuse.groups import Candidates, FusionGroup
from curta.compiler.loops.index import Affine, LoopVar
from curta.compiler.loops.nodes import Buffer, Instr, walk
from curta.compiler.lower.item_lowering import LoweredItems
from curta.compiler.lower.items import Item, LoopItem, reads, written
from curta.compiler.targets import Tuning

Refusals = dict[tuple[Item, Item], str]
"""Why two items are not in one kernel."""


@dataclass(frozen=True)
class FusionPlan:
    """Groups in the order in which they run."""

    groups: tuple[FusionGroup, ...]
    items: tuple[Item, ...]
    tuning: Tuning

    @cached_property
    def refusals(self) -> Refusals:
        """Why other groups were not formed: of each item with all that it met."""
        result: Refusals = {}
        _fused(self.items, self.tuning, result)
        return result

    def explain(self, first: Item, second: Item) -> str:
        """Why two items are in one kernel or not."""
        for group in self.groups:
            if first in group.items and second in group.items:
                return f"fused: they share {group.shared} outer dims"
        reason = self.refusals.get((first, second)) or self.refusals.get(
            (second, first)
        )
        return reason or "not considered: another kernel runs between them"


def fuse(lowered: LoweredItems) -> FusionPlan:
    """Group the items of a program into kernels."""
    groups = _fused(lowered.items, lowered.tuning)
    return FusionPlan(tuple(groups), lowered.items, lowered.tuning)


def _fused(
    items: Sequence[Item], tuning: Tuning, refusals: Refusals | None = None
) -> list[FusionGroup]:
    """The groups of items; with `refusals`, each item asks all, and these are noted."""
    candidates = Candidates(tuning)
    groups = candidates.groups
    group_of: dict[Buffer, int] = {}
    alone = _functions_of_rows(items, tuning.many_rows)
    behind: dict[int, int] = {}  # how many groups there are before a barrier
    for item in items:
        touched = [*reads(item), *written(item)]
        at = None
        if isinstance(item, LoopItem):
            first = behind.setdefault(item.behind, len(groups)) if item.behind else 0
            earliest = max((group_of[b] for b in touched if b in group_of), default=0)
            earliest = max(earliest, first)
            asked: Iterable[int] = candidates.of(item, earliest, item in alone)
            if refusals is not None:
                asked = range(earliest, len(groups))
            at = _choose(item, groups, asked, refusals, item in alone)
        if at is None:
            at = len(groups)
            candidates.append(FusionGroup(item, tuning))
        else:
            candidates.changed(at, {*reads(item)})
        group_of.update((buffer, at) for buffer in written(item))
    return groups


def separate(lowered: LoweredItems) -> FusionPlan:
    """The plan that fuses nothing: every item is a kernel of its own."""
    groups = tuple(FusionGroup(item, lowered.tuning) for item in lowered.items)
    return FusionPlan(groups, lowered.items, lowered.tuning)


def _choose(
    item: LoopItem,
    groups: Sequence[FusionGroup],
    asked: Iterable[int],
    refusals: Refusals | None,
    alone: bool,
) -> int | None:
    """The group that the item joins, if any: the nearest one that can take it.

    An item that is better `alone` is not put into deeper loops than its own.
    """
    for at in asked:
        group = groups[at]
        if alone and group.depth > len(item.dims):
            shared, reason = None, "a costly function of rows, vectorised apart"
        elif group.only_rows and group.depth < len(item.dims):
            shared, reason = None, "it reads costly functions of rows, vectorised apart"
        else:
            shared, reason = _joined(item, group)
        if shared is not None:
            group.one_body = group.one_body and _in_body(item, group)
            group.add(item, shared)
            return at
        if refusals is not None:
            refusals.update(((other, item), reason) for other in group.items)
    return None


def _functions_of_rows(items: Sequence[Item], many: int) -> set[Item]:
    """Maps by costly functions over `many` indices, which no deeper map reads.

    A deeper map would go over its rows a second time. A deeper sum, of a product say,
    would have to compute the functions one by one.
    """
    result: set[Item] = set()
    depths: dict[Buffer, int] = {}  # of the deepest map that needs a buffer
    for item in reversed(items):
        if not isinstance(item, LoopItem):
            continue
        deepest = max((depths.get(s.buffer, 0) for s in item.written()), default=0)
        own = len(item.dims)
        for load in item.loads:
            if not item.folds:
                depths[load.buffer] = max(depths.get(load.buffer, 0), deepest, own)
        costly = any(
            isinstance(e, Instr) and e.name.startswith("math.")
            for e in walk([s.value for s in item.stores])
        )
        if costly and not item.folds and deepest <= own and item.work >= many:
            result.add(item)
    return result


def _joined(item: LoopItem, group: FusionGroup) -> tuple[int | None, str]:
    """How many outer dims the group would share with the item in it, or why not."""
    if group.closed:
        return None, group.closed
    if item.ordered:
        return None, "its updates are sequential"
    if item.partial:
        return None, "it writes a part of a value"
    first = group.items[0]
    assert isinstance(first, LoopItem)
    shared = _common(first.outer[: group.shared], item.outer)
    needed = [load for load in item.loads if load.buffer in group.stored]
    for load in needed:
        shared = aligned(load.offset, group.stored[load.buffer].offset, item, shared)
    if item.work + group.work <= group.tuning.shared_little:
        return shared, ""
    if not group.has_iterations(item, shared) and not (
        group.one_body and _in_body(item, group)
    ):
        iterations = math.prod(v.extent for v in item.outer[:shared])
        return None, f"they share too few independent iterations: {iterations}"
    return (shared, "") if needed else _siblings(item, group, shared)


def _in_body(item: LoopItem, group: FusionGroup) -> bool:
    """Whether all that is read from the group is read where it is stored."""
    if not group.has_nest(item):
        return False
    for load in item.loads:
        stored = group.stored.get(load.buffer)
        if stored and (load.buffer in group.folded or load.offset != stored.offset):
            return False
    return True


def _siblings(
    item: LoopItem, group: FusionGroup, shared: int
) -> tuple[int | None, str]:
    """Independent items share a kernel if that saves reading something twice."""
    if not group.has_nest(item):
        return None, "independent, and over different indices"
    here = {load.buffer for load in item.loads}
    if here and group.loaded and not here & group.loaded:
        return None, "independent, and they read nothing in common"
    return shared, ""


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
        outer = item.outer[:count]
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
