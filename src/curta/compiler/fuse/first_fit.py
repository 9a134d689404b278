"""The first of many slots with a small enough number: a tree of least numbers."""

from __future__ import annotations

import math


class FirstFit:
    """Numbers in slots 0, 1, 2, ...; infinite where none was put.

    Both methods take steps by the logarithm of the greatest slot.

    >>> work = FirstFit()
    >>> for slot, number in enumerate([7, 3, 5, 1]):
    ...     work.put(slot, number)
    >>> work.first(0, 5), work.first(2, 5), work.first(0, 0)
    (1, 2, None)
    """

    def __init__(self) -> None:
        # A segment tree: node i is the minimum of nodes 2i and 2i + 1; the second half
        # are leaves, the slots.
        self._least: list[float] = [math.inf, math.inf]

    def put(self, slot: int, number: float) -> None:
        """Put a number into a slot."""
        while slot >= len(self._least) // 2:
            self._grow()
        node = slot + len(self._least) // 2
        self._least[node] = number
        while node > 1:
            node //= 2
            self._least[node] = min(self._least[2 * node], self._least[2 * node + 1])

    def first(self, start: int, most: float) -> int | None:
        """The first slot from `start` on with a number up to `most`."""
        least, size = self._least, len(self._least) // 2
        if start >= size:
            return None
        node = start + size
        while least[node] > most:
            while node & 1:  # a right child: ascend, then go to the sibling
                node >>= 1
            if not node:
                return None
            node += 1
        while node < size:
            node *= 2
            if least[node] > most:
                node += 1
        return node - size

    def _grow(self) -> None:
        leaves = self._least[len(self._least) // 2 :]
        leaves += [math.inf] * len(leaves)
        tree = [math.inf] * len(leaves) + leaves
        for node in range(len(leaves) - 1, 0, -1):
            tree[node] = min(tree[2 * node], tree[2 * node + 1])
        self._least = tree
