"""Which dims of an array go together in a reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence


def common_pieces(old: list[int], new: list[int]) -> list[tuple[int, int, int]] | None:
    """Common factors of two lists of dims with equal products: (old, new, size).

    None if there are none, as for (2, 3) and (3, 2).
    """
    found = []
    i = j = 0
    left, right = old[0], new[0]
    while True:
        size = math.gcd(left, right)
        if size != min(left, right):
            return None
        # The outer part of the larger dim is what the smaller one is.
        found.append((i, j, size))
        left, right = left // size, right // size
        if left == 1:
            i += 1
            left = old[i] if i < len(old) else 0
        if right == 1:
            j += 1
            right = new[j] if j < len(new) else 0
        if not left or not right:
            return found


def reshape_groups(
    before: Sequence[int], after: Sequence[int]
) -> list[tuple[list[int], list[int]]]:
    """The dims in groups that hold the same elements; those of size 1 are left out."""
    if 0 in before or 0 in after:
        return []
    old = [d for d, n in enumerate(before) if n != 1]
    new = [d for d, n in enumerate(after) if n != 1]
    groups = []
    while old and new:
        left, right = [old.pop(0)], [new.pop(0)]
        have, want = before[left[0]], after[right[0]]
        while have != want:
            if have < want:
                left.append(old.pop(0))
                have *= before[left[-1]]
            else:
                right.append(new.pop(0))
                want *= after[right[-1]]
        groups.append((left, right))
    return groups
