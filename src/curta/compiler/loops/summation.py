"""The order of a sum: one function of shape and target, read by all that adds up.

The elements of a reduction are numbered along its axes, the last axis fastest. Element
`i` goes to accumulator `i % lanes`. An accumulator takes in `steps` elements one after
the other, and what they come to is added to the `groups` before. A block is what all
accumulators take in so: `lanes * steps * groups` elements. Its accumulators are then
combined in pairs: `i` with `i + n/2` while there are more than `register` of them, and
then neighbors, `2i` with `2i + 1`. The results of blocks are taken in one after the
other, in float64, and rounded at the end.

There are two numbers of accumulators (`Fold.order`):

*blocks*: the lanes of some registers; for sums along rows, and of narrow rows.

*strips*: one. That is the order of reductions with many columns, kept dims behind the
reduced ones, whose vectors go along the columns.

Invariant: nothing else decides the order. Loops along rows or columns, narrow rows,
blocks of rows, pieces for threads and code in registers all follow it, so the bits of
a sum depend on shape, axes, dtype and target, and on nothing around it. An accumulator
that has no element holds the identity, which changes no other. So blocks of `lanes`
columns each are the same as strips of the rows that `lanes` rows make together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from curta._base.lazy_dataclass import dataclass
from curta.compiler.targets import Target, Tuning
from curta.core.dim import is_symbolic_dim

T = TypeVar("T")

BLOCKED = ("blocks", "strips")
"""The orders of folds that this module is about."""
WIDE = "f64"
"""The kind in which the results of blocks are added up."""


@dataclass(frozen=True)
class SumOrder:
    """How many accumulators a block has, and how many elements each takes in.

    `register` accumulators or fewer are combined with their neighbors: so many results
    of short rows share a register. At most `most_staged` elements go to the stack.
    """

    lanes: int
    register: int
    steps: int
    groups: int
    most_staged: int

    @property
    def strips(self) -> SumOrder:
        """The order with one accumulator."""
        return replace(self, lanes=1, register=1)

    @property
    def group(self) -> int:
        """The elements that are added up one after the other, of all accumulators."""
        return self.lanes * self.steps

    @property
    def block(self) -> int:
        """The elements of a block."""
        return self.group * self.groups

    @property
    def staged(self) -> int:
        """The elements that are kept in memory at once: groups of a part of a block."""
        most = max(1, self.most_staged // self.group)
        return self.group * min(self.groups, most)

    @property
    def running(self) -> int:
        """The elements of a running sum between which nothing is wide."""
        return max(1, self.lanes // 2)

    def accumulators(self, count: int) -> int:
        """A power of two: how many accumulators `count` elements of a block need."""
        if is_symbolic_dim(count) or count >= self.lanes:
            return self.lanes
        return 1 << max(0, int(count) - 1).bit_length()

    def widths(self, count: int) -> tuple[int, ...]:
        """The vectors, widest first, whose lanes may be the accumulators.

        Half as many lanes as accumulators do where these have one element each: taking
        in a second vector is the first step of combining them.
        """
        most = self.accumulators(count)
        known = not is_symbolic_dim(count) and count <= self.lanes
        return (most, most // 2) if known and most > self.register else (most,)

    def is_one_group(self, count: int) -> bool:
        """Whether so many elements are known to be in one group."""
        return not is_symbolic_dim(count) and count <= self.group

    def is_one_block(self, count: int) -> bool:
        """Whether so many elements are known to be in one block."""
        return not is_symbolic_dim(count) and count <= self.block

    def total(self, terms: Sequence[T], start: T, combine: Callable[[T, T], T]) -> T:
        """The terms of a group as one, written out; `start` is the identity."""
        assert len(terms) <= self.group
        sums: list[T | None] = [None] * self.accumulators(len(terms))
        for i, x in enumerate(terms):
            before = sums[i % len(sums)]
            sums[i % len(sums)] = x if before is None else combine(before, x)

        def both(x: T | None, y: T | None) -> T | None:
            return x if y is None else y if x is None else combine(x, y)

        while len(sums) > self.register:
            half = len(sums) // 2
            sums = [both(x, y) for x, y in zip(sums[:half], sums[half:], strict=True)]
        while len(sums) > 1:
            sums = [both(x, y) for x, y in zip(sums[::2], sums[1::2], strict=True)]
        (result,) = sums
        # A sum begins with 0, which matters if all terms are -0.0.
        return start if result is None else combine(start, result)


def sum_order(target: Target, kind: str = "blocks") -> SumOrder:
    """The order of sums on a machine, which follows from the width of its vectors.

    `kind` is the order of a fold (nodes.py).
    """
    tuning = target.tuning
    register = max(1, target.vector_bytes // 4)
    lanes = register * tuning.sum_vectors
    steps, groups = tuning.sum_steps, tuning.sum_groups
    order = SumOrder(lanes, register, steps, groups, tuning.sum_staged)
    return order.strips if kind == "strips" else order


def sum_kind(columns: int, tuning: Tuning) -> Literal["blocks", "strips"]:
    """The order of a reduction with kept dims of so many elements behind it."""
    many = not is_symbolic_dim(columns) and columns >= tuning.narrow_row
    return "strips" if many else "blocks"


def count_of(extents: Sequence[int]) -> int:
    """The number of elements of a loop over dims."""
    return math.prod(extents)
