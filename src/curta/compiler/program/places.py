"""Places: where a plan puts the buffers of a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from curta.compiler.loops.nodes import Buffer, memory_of
from curta.compiler.program.program import Program

ARENA = "arena"


class Place(NamedTuple):
    """A range of bytes in the arena, or in an array of the caller."""

    base: object
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.end - self.start


class Places:
    """The places of the buffers of one program.

    A result that may be given the memory of an argument has the same base.
    """

    def __init__(self, program: Program) -> None:
        self.program, items = program, program.items
        self._known: dict[Buffer, Place] = {}
        self._same: dict[Buffer, Buffer] = {}
        given = {o: i for i, o in program.may_overwrite.items()}
        for out in program.in_place:
            result = items.outputs[out]
            root = program.roots.get(result, result)
            self._same[root] = items.inputs[given[out]]
        donated = {i for i, o in program.may_overwrite.items()
                   if program.often or o in program.in_place}  # fmt: skip
        kept = (b for i, b in enumerate(items.inputs) if i not in donated)
        self._kept: set[Buffer] = {*kept, *items.consts}

    def of(self, buffer: Buffer) -> Place:
        """Return the place of a buffer, or of the memory that it is a view of."""
        if buffer not in self._known:
            self._known[buffer] = self._place(memory_of(buffer))
        return self._known[buffer]

    def _place(self, buffer: Buffer) -> Place:
        root = self.program.roots.get(buffer, buffer)
        offset = self.program.arena.offsets.get(root)
        if offset is not None:
            return Place(ARENA, offset, offset + buffer.nbytes)
        return Place(self._same.get(root, root), 0, buffer.nbytes)

    def may_write(self, buffer: Buffer) -> bool:
        """Whether the program may write where a buffer lies."""
        return self.of(buffer).base not in self._kept

    def overlapping(
        self, touched: Iterable[Buffer], written: Iterable[Buffer]
    ) -> Iterator[tuple[Buffer, Buffer]]:
        """Yield each buffer that is touched with each written one in its bytes."""
        by_base: dict[object, list[Buffer]] = {}
        for buffer in touched:
            by_base.setdefault(self.of(buffer).base, []).append(buffer)
        for other in written:
            at = self.of(other)
            for buffer in by_base.get(at.base, ()):
                own = self.of(buffer)
                if own.start < at.end and at.start < own.end:
                    yield buffer, other
