"""Ties: results that begin as an operand, and may take its memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from curta.compiler.loops.nodes import Buffer, Copy, Region, Statement, memory_of


def first_of(ties: Mapping[Buffer, Buffer]) -> dict[Buffer, Buffer]:
    """Return the value that each result begins as in the end, through all ties."""
    first: dict[Buffer, Buffer] = {}
    for result, operand in ties.items():  # an operand is made before what it becomes
        first[result] = first.get(operand, operand)
    return first


def without_idle_copies(
    region: Region, ties: Mapping[Buffer, Buffer], root: Callable[[Buffer], Buffer]
) -> Region:
    """Return the region without its copies from one buffer to the same memory.

    Copies to a result from the operand that it is tied to are left out if both have one
    root. If not, they are done unless the caller has passed one address for both.
    """

    def kept(s: Statement) -> Iterator[Statement]:
        tied = isinstance(s, Copy) and ties.get(memory_of(s.to))
        if not isinstance(s, Copy) or tied is not memory_of(s.source):
            yield s
        elif root(memory_of(s.to)) is not root(tied):
            yield dataclasses.replace(s, unless_same=True)

    body = tuple(s for statement in region.body for s in kept(statement))
    return dataclasses.replace(region, body=body)
