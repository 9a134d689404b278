"""Find the results that may reuse the buffer of a donated argument.

Results of a kernel may reuse the buffer of a temporary as well.

A result that is stored element by element may, if whatever else reads the argument runs
before: in an earlier kernel, in an earlier nest of the same iteration of the loops
that it shares with the store, or in its nest at the same element. Any result may if
nothing reads the argument. The program stays as it is: its caller passes one
address for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from curta.compiler.fuse.assemble import nest_numbers
from curta.compiler.fuse.fuse import FusionPlan, aligned
from curta.compiler.fuse.groups import FusionGroup
from curta.compiler.loops.index import Affine
from curta.compiler.loops.nodes import Buffer, Store
from curta.compiler.lower.item_builder import InPlace
from curta.compiler.lower.item_lowering import LoweredItems
from curta.compiler.lower.items import Item, LoopItem, reads, written

ItemNumber = tuple[int, int]
"""A group and an item of it, by their order."""


def replaced_arguments(
    plan: FusionPlan, lowered: LoweredItems, in_place: InPlace
) -> frozenset[int]:
    """Results that may be given the memory of their argument."""
    if not in_place:
        return frozenset()
    uses = _Uses(plan, lowered.roots)
    return frozenset(
        out
        for i, out in in_place.items()
        if uses.may_replace(lowered.inputs[i], uses.memory(lowered.outputs[out]))
    )


Replaceable = Mapping[Buffer, Sequence[Buffer]]
"""For what a kernel computes, the values whose memory it may take."""


def replaceable_temporaries(
    plan: FusionPlan, roots: Mapping[Buffer, Buffer]
) -> Replaceable:
    """Which values that nothing reads after a kernel its results may replace.

    The planner of the arena decides whether both are there, and which one gets the
    memory.
    """
    uses = _Uses(plan, roots)
    last = {b: at[-1][0] for b, at in uses.readers.items()}
    result: dict[Buffer, list[Buffer]] = {}
    for g, group in enumerate(plan.groups):
        items = group.loops()
        dying: dict[object, list[Buffer]] = {}
        for b in dict.fromkeys(uses.memory(b) for i in items for b in reads(i)):
            if last[b] == g and uses.is_before(b, g):
                dying.setdefault(_layout_of(b), []).append(b)
        for new in dict.fromkeys(uses.memory(b) for i in items for b in written(i)):
            if last.get(new, g) == g:  # in registers, or a result of the program
                continue
            asked = dying.get(_layout_of(new), [])[:_ASKED]
            old = next((b for b in asked if uses.may_replace(b, new)), None)
            if old is not None:
                result[new] = [old]
                dying[_layout_of(new)].remove(old)
    return result


_ASKED = 4  # maximum candidates for a result's memory


def _layout_of(buffer: Buffer) -> object:
    """What buffers have in common which may take each other's memory."""
    return buffer.size, buffer.dtype.itemsize


class _Uses:
    """Where the items of a plan read and write buffers."""

    def __init__(self, plan: FusionPlan, roots: Mapping[Buffer, Buffer]) -> None:
        self.plan, self.roots = plan, roots
        self.readers: dict[Buffer, list[ItemNumber]] = {}
        self.writers: dict[Buffer, list[ItemNumber]] = {}
        self.nests: dict[int, dict[LoopItem, int]] = {}
        for g, group in enumerate(plan.groups):
            for i, item in enumerate(group.items):
                _note(self.readers, map(self.memory, reads(item)), (g, i))
                _note(self.writers, map(self.memory, written(item)), (g, i))

    def memory(self, buffer: Buffer) -> Buffer:
        """The buffer that stands for the memory of another one."""
        return self.roots.get(buffer, buffer)

    def is_before(self, buffer: Buffer, group: int) -> bool:
        """Whether a buffer is written in earlier groups only."""
        return all(g < group for g, _ in self.writers.get(buffer, ()))

    def may_replace(self, argument: Buffer, result: Buffer) -> bool:
        """Whether all that reads the argument does so before the result is stored."""
        readers = self.readers.get(argument, [])
        writers = self.writers.get(result, [])
        if not readers or not writers:
            return bool(writers)
        (g, _), group = writers[0], self.plan.groups[writers[0][0]]
        storing = self._item(writers[0])
        if len(writers) > 1 or not _stores_once(storing) or readers[-1] > writers[0]:
            return False
        assert isinstance(storing, LoopItem)
        within = [self._item(at) for at in readers if at[0] == g]
        return all(
            _reads_in_iteration(
                item,
                self._offsets(item, argument),
                storing,
                next(storing.written()),
                self._nests(g),
                group,
            )  # fmt: skip
            for item in within
        )

    def _offsets(self, item: Item, argument: Buffer) -> list[Affine]:
        assert isinstance(item, LoopItem)
        return [e.offset for e in item.loads if self.memory(e.buffer) is argument]

    def _item(self, at: ItemNumber) -> Item:
        return self.plan.groups[at[0]].items[at[1]]

    def _nests(self, group: int) -> dict[LoopItem, int]:
        """The nest of each item of a group, found once."""
        if group not in self.nests:
            self.nests[group] = nest_numbers(self.plan.groups[group])
        return self.nests[group]


def _note(
    uses: dict[Buffer, list[ItemNumber]], buffers: Iterable[Buffer], at: ItemNumber
) -> None:
    for buffer in buffers:
        uses.setdefault(buffer, []).append(at)


def _stores_once(item: Item) -> bool:
    if not isinstance(item, LoopItem) or item.ordered or item.partial:
        return False
    return len([*item.written()]) == 1


def _reads_in_iteration(
    item: Item,
    offsets: Sequence[Affine],
    storing: LoopItem,
    store: Store,
    nests: dict[LoopItem, int],
    group: FusionGroup,
) -> bool:
    """Whether an item reads what it needs before its group replaces it."""
    assert isinstance(item, LoopItem)
    if nests[item] > nests[storing]:
        return False
    if nests[item] == nests[storing]:
        if item.folds and not storing.folds:  # an iteration stores before it folds
            return False
        return all(offset == store.offset for offset in offsets)
    shared = group.shared
    return all(aligned(o, store.offset, item, shared) >= shared for o in offsets)
