"""Groups of items that share a kernel, and which of them an item may join.

To ask every group would make fusion quadratic. A group after those whose results an
item reads takes it either because both are little work, or because both walk the same
nest and read something in common; these groups are found by an index of each kind.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

from curta.compiler.fuse.first_fit import FirstFit
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Buffer, Store
from curta.compiler.lower.items import Item, LoopItem
from curta.compiler.targets import Tuning
from curta.core.dim import typical

Nest = tuple[LoopVar, ...]


class FusionGroup:
    """Items that share a kernel: the nests of all have the first `shared` dims.

    `one_body` says that they even share the whole nest, so that threads can split it
    where it suits, not only between iterations of the shared loops. An item that is not
    a loop is a group of its own.
    """

    only_rows: bool
    work: int

    def __init__(self, item: Item, tuning: Tuning) -> None:
        self.tuning = tuning
        self.items: list[Item] = []
        self.one_body = True
        self.stored: dict[Buffer, Store] = {}
        self.loaded: set[Buffer] = set()
        self.folded: set[Buffer] = set()
        self.nests: set[Nest] = set()
        self.folding: set[Nest] = set()  # the dims of its folds
        self.work: int = 0
        self.depth: int = 0
        # Whether all items are maps over many indices, such as the costly functions of
        # rows that `fuse` keeps apart.
        self.only_rows = True
        self.add(item, len(item.outer) if isinstance(item, LoopItem) else 0)

    def add(self, item: Item, shared: int) -> None:
        """Add an item to the group; all members share the first `shared` dims."""
        self.items.append(item)
        self.shared = shared
        if not isinstance(item, LoopItem):
            self.only_rows = False
            return
        self.stored.update((s.buffer, s) for s in item.written())
        self.loaded.update(e.buffer for e in item.loads)
        self.folded.update(s.buffer for f in item.folds for s in f.stores)
        self.nests.add(item.dims)
        if item.folds:
            self.folding.add(item.outer)
        self.work += item.work
        self.depth = max(self.depth, len(item.dims))
        long = item.work >= self.tuning.many_rows
        self.only_rows = self.only_rows and long and not item.folds

    def loops(self) -> list[LoopItem]:
        """The items; other items are groups of their own."""
        return [i for i in self.items if isinstance(i, LoopItem)]

    def has_nest(self, item: LoopItem) -> bool:
        """Whether the item and the group walk the same dims, and fold the same ones."""
        if self.nests != {item.dims}:
            return False
        return len(self.folding | ({item.outer} if item.folds else set())) <= 1

    @property
    def closed(self) -> str:
        """Why no item can join, whatever it is; "" if some can."""
        first = self.items[0]
        if not isinstance(first, LoopItem):
            return f"the kernel before it ({first.kind}) fuses with nothing"
        if first.ordered:
            return "the updates before it are sequential"
        if first.partial:
            return "the kernel before it writes a part of a value"
        most = self.tuning.most_items
        return f"the kernel has {most} items already" if len(self.items) >= most else ""

    def has_iterations(self, item: LoopItem, shared: int) -> bool:
        """Whether sharing so many dims leaves iterations for all threads."""
        iterations = math.prod(v.extent for v in item.outer[:shared])
        return typical(iterations) >= self.tuning.shared_iterations


_ALL, _NONE = "all groups of a nest", "groups that read nothing"


class Candidates:
    """The groups that may take an item, in order, without those that surely do not."""

    def __init__(self, tuning: Tuning) -> None:
        self.tuning = tuning
        self.groups: list[FusionGroup] = []
        # The work of small groups, to find the first with room for an item; by kind.
        self.little: dict[tuple[bool, int], FirstFit] = {}
        self.kinds: list[tuple[bool, int]] = []
        # Numbers of groups by nest and buffer read; outdated ones are pruned later.
        self.siblings: dict[tuple[Nest, Any], list[int]] = {}

    def append(self, group: FusionGroup) -> None:
        """Add a group after all others."""
        self.groups.append(group)
        self.kinds.append((group.only_rows, group.depth))
        if not group.closed:
            (nest,) = group.nests
            self._note(nest, _ALL, len(self.groups) - 1)
            if not group.loaded:
                self._note(nest, _NONE, len(self.groups) - 1)
        self.changed(len(self.groups) - 1, group.loaded)

    def changed(self, at: int, loaded: set[Buffer]) -> None:
        """Take in that a group has got an item, which reads `loaded`."""
        group = self.groups[at]
        kind = group.only_rows, group.depth
        if kind != self.kinds[at]:
            self.little[self.kinds[at]].put(at, math.inf)
            self.kinds[at] = kind
        work = math.inf if group.closed else group.work
        self.little.setdefault(kind, FirstFit()).put(at, work)
        if not group.closed and len(group.nests) == 1:
            (nest,) = group.nests
            for buffer in loaded:
                self._note(nest, buffer, at)

    def _note(self, nest: Nest, read: Any, at: int) -> None:
        numbers = self.siblings.setdefault((nest, read), [])
        if not numbers or numbers[-1] < at:
            numbers.append(at)
        elif numbers[bisect_left(numbers, at)] != at:
            insort(numbers, at)

    def of(self, item: LoopItem, earliest: int, alone: bool) -> Iterator[int]:
        """The numbers of groups that may take an item, from `earliest` on."""
        if item.ordered or item.partial or earliest >= len(self.groups):
            return
        yield earliest
        own, start = len(item.dims), earliest + 1
        sources = [
            self._little(tree, start, item.work)
            for (only_rows, deepest), tree in self.little.items()
            if not (alone and deepest > own) and not (only_rows and deepest < own)
        ]
        nest = item.dims
        read = {e.buffer for e in item.loads}
        for key in [*read, _NONE] if read else [_ALL]:
            if (nest, key) in self.siblings:
                sources.append(self._siblings(nest, key, start, item))
        last = earliest
        for at in heapq.merge(*sources):
            if at != last:
                yield at
            last = at

    def _little(self, tree: FirstFit, start: int, work: int) -> Iterator[int]:
        most = self.tuning.shared_little - work
        at = tree.first(start, most)
        while at is not None:
            yield at
            at = tree.first(at + 1, most)

    def _siblings(
        self, nest: Nest, key: Any, start: int, item: LoopItem
    ) -> Iterator[int]:
        numbers = self.siblings[nest, key]
        i = bisect_left(numbers, start)
        while i < len(numbers):
            group = self.groups[numbers[i]]
            shares = group.one_body or group.has_iterations(item, group.shared)
            if group.closed or len(group.nests) > 1:
                del numbers[i]  # for good: groups do not open again
                continue
            if shares:
                yield numbers[i]
            i += 1
