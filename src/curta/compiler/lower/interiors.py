"""Halos behind the interior: what needs nothing of other hosts comes before the wait.

A map that reads rows of other hosts is cut at its seams (index_set_splitting.py). Its
interior reads only what is here; the borders wait for the halos. Both are one eqn, so
`overlap`, which orders eqns, has all of it behind the `HostDone` of the halos. Here,
among items, the parts of values that need nothing awaited go before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from curta.compiler.loops.nodes import Buffer
from curta.compiler.lower.items import Item, LoopItem, RegionItem, reads, written
from curta.compiler.lower.ties import first_of


def interiors_first(
    items: Sequence[Item], ties: Mapping[Buffer, Buffer]
) -> tuple[Item, ...]:
    """Return the items with interiors before the halos are waited for.

    What `ties` connect may share memory, and keeps its order.
    """
    if not any(map(_waits, items)):
        return tuple(items)
    result: list[Item] = []
    roots = first_of(ties)
    for item in items:
        at = _before_waits(item, result, roots) if _is_part(item) else len(result)
        result.insert(at, item)
    return tuple(result)


def _waits(item: Item) -> bool:
    return isinstance(item, RegionItem) and item.eqn.op.waits_for_hosts


def _is_part(item: Item) -> bool:
    """Whether it writes a disjoint part of a buffer that other eqns write as well."""
    return isinstance(item, LoopItem) and item.partial


def _before_waits(
    part: Item, before: Sequence[Item], roots: Mapping[Buffer, Buffer]
) -> int:
    """The position of a part: before all waits but those it depends on."""

    def memory(buffers: Sequence[Buffer]) -> set[Buffer]:
        return {roots.get(b, b) for b in buffers}

    read, own, result = memory(reads(part)), memory(written(part)), len(before)
    for at in range(len(before) - 1, -1, -1):
        other = before[at]
        made = memory(written(other))
        if made & read or own & memory(reads(other)):
            break
        if made & own and not _is_part(other):
            break
        if _waits(other):
            result = at
    return result
