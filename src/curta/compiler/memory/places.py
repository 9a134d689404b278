"""Places: where a plan puts the buffers of a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from curta.compiler.loops.nodes import Buffer, memory_of
from curta.compiler.lower.item_builder import InPlace
from curta.compiler.lower.item_lowering import LoweredItems
from curta.compiler.memory.analysis import MemoryAliases
from curta.compiler.memory.arena import Arena

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

    def __init__(
        self,
        items: LoweredItems,
        memory: MemoryAliases,
        arena: Arena,
        may_overwrite: InPlace,
    ) -> None:
        self.memory, self.arena = memory, arena
        self._known: dict[Buffer, Place] = {}
        self._same: dict[Buffer, Buffer] = {
            memory.root(items.outputs[o]): items.inputs[i]
            for i, o in may_overwrite.items()
            if o in memory.in_place
        }

    def of(self, buffer: Buffer) -> Place:
        """Return the place of a buffer, or of the memory that it is a view of."""
        if buffer not in self._known:
            self._known[buffer] = self._place(memory_of(buffer))
        return self._known[buffer]

    def _place(self, buffer: Buffer) -> Place:
        root = self.memory.root(buffer)
        offset = self.arena.offsets.get(root)
        if offset is not None:
            return Place(ARENA, offset, offset + buffer.nbytes)
        return Place(self._same.get(root, root), 0, buffer.nbytes)

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
