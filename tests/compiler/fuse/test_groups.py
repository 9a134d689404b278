"""Fusion: which items share a kernel, and what is refused with its reason."""

import math

from tests.compiler.printing import AVX2, ready

import curta
import curta.numpy as jnp
from curta.compiler.fuse.first_fit import FirstFit
from curta.compiler.fuse.fuse import fuse
from curta.compiler.fuse.groups import Candidates, FusionGroup
from curta.compiler.lower.item_lowering import lower_to_items
from curta.compiler.pretty import pretty_plan


def plan(fun, *types):
    return fuse(lower_to_items(ready(fun, *types).jaxpr, AVX2))


def test_softmax_is_one_group(prints):
    """Its three loops walk the same rows; what one hands on to the next is a row."""
    prints(
        pretty_plan(plan(lambda x: curta.nn.softmax(x), "f32[512,256]")),
        """
        group 0, 1 outer dims shared:
            v1 = reduce_max over i0:512 fold i1:256
            v2 = exp over i0:512 i1:256
            v3 = reduce_sum over i0:512 fold i1:256
            v4 = div over i0:512 i1:256
        """,
    )


def test_a_sum_over_all_rows_stands_apart(contains):
    """The second loop needs the sum of everything before it can begin."""
    contains(
        pretty_plan(plan(lambda x: x / jnp.sum(x), "f32[512,256]")),
        """
        group 0, 0 outer dims shared:
            v1 = reduce_sum over  fold i0:512 i1:256
        group 1, 2 outer dims shared:
            v2 = div over i0:512 i1:256
        apart: v1 = ... | v2 = ...: they share too few independent iterations: 1
        """,
    )


def test_a_group_grows_item_by_item():
    items = lower_to_items(
        ready(lambda x: (x.sum(1), x.max(1)), "f32[512,256]").jaxpr, AVX2
    )
    first, second = items.items
    group = FusionGroup(first, AVX2.tuning)
    assert group.loops() == [first]
    assert group.has_nest(second) and group.has_iterations(second, 1)
    group.add(second, 1)
    assert (group.items, group.shared) == ([first, second], 1)


def test_candidates_are_groups_that_may_take_an_item():
    items = lower_to_items(
        ready(lambda x: (x.sum(1), x.max(1)), "f32[512,256]").jaxpr, AVX2
    )
    first, second = items.items
    groups = Candidates(AVX2.tuning)
    groups.append(FusionGroup(first, AVX2.tuning))
    assert [*groups.of(second, 0, alone=False)] == [0]
    assert [*groups.of(second, 1, alone=False)] == []


def test_the_first_slot_with_a_small_number():
    """As a search from the left, in logarithmic time."""
    numbers = [5, 3, math.inf, 1, 4, 1, 9]
    tree = FirstFit()
    for slot, number in enumerate(numbers):
        tree.put(slot, number)
    tree.put(3, 2)
    numbers[3] = 2
    for start in range(len(numbers) + 1):
        for most in range(10):
            fits = [i for i, n in enumerate(numbers) if i >= start and n <= most]
            assert tree.first(start, most) == (fits[0] if fits else None)
