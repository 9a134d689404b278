"""Ties: results in the memory of an operand, with its contents as initial value."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from curta.compiler.loops.nodes import Buffer, Copy, Region, View, memory_of


def roots_of(
    ties: Mapping[Buffer, Buffer],
    arguments: Iterable[Buffer] = (),
    outputs: Iterable[Buffer] = (),
) -> dict[Buffer, Buffer]:
    """Return the buffer that stands for the memory of each tied buffer.

    That is the argument that lies there, or else the result of the program, or else
    the operand of the first tie.
    """
    first: dict[Buffer, Buffer] = {}
    for result, operand in ties.items():  # an operand is made before what it becomes
        first[result] = first.get(operand, operand)
    given = {*arguments}
    place = {first[b]: b for b in outputs if b in first and first[b] not in given}
    return {
        b: place.get(root, root)
        for b, root in (first | {root: root for root in place}).items()
        if b is not place.get(root, root)
    }


def without_idle_copies(region: Region, roots: Mapping[Buffer, Buffer]) -> Region:
    """Return the region without its copies from one buffer to the same memory."""

    def place(buffer: Buffer) -> tuple[object, ...]:
        memory, storage = memory_of(buffer), buffer.storage
        first = storage.first if isinstance(storage, View) else 0
        return roots.get(memory, memory), first

    body = tuple(
        s
        for s in region.body
        if not (isinstance(s, Copy) and place(s.to) == place(s.source))
    )
    return dataclasses.replace(region, body=body)
