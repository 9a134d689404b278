"""Which dims of an array go together in a reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from curta.core.dim import is_multiple, is_same, is_symbolic_dim


def common_pieces(
    old: list[int], new: list[int]
) -> tuple[list[tuple[int, int, int]], list[int], list[int]]:
    """Common factors of two lists of dims with equal products: (old, new, size).

    They come from the outside, to where there are none any more, as in (2, 3) and
    (3, 2); what is left of each dim follows.
    """
    result = []
    left, right = [*old], [*new]
    i = j = 0
    while i < len(left) and j < len(right):
        # The outer part of the larger dim is what the smaller one is.
        size = _common_factor(left[i], right[j])
        if not is_same(size, 1):
            result.append((i, j, size))
            left[i], right[j] = left[i] // size, right[j] // size
        if not (is_same(left[i], 1) or is_same(right[j], 1)):
            break
        i, j = i + is_same(left[i], 1), j + is_same(right[j], 1)
    return result, left, right


def _common_factor(a: Any, b: Any) -> Any:
    """The greatest common divisor, as far as it is known of dims."""
    if not (is_symbolic_dim(a) or is_symbolic_dim(b)):
        return math.gcd(a, b)
    return a if is_multiple(b, a) else b if is_multiple(a, b) else 1


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
