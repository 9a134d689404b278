"""The arena: one block of memory for the temporaries of a program.

Each temporary has a live range, from the work that stores it first to the last one that
touches it. Offsets are given by first fit in the order of the works.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from curta._base.lazy_dataclass import dataclass
from curta.compiler.loops.bufferize import ALIGNMENT
from curta.compiler.loops.nodes import Buffer
from curta.compiler.sized import Computed, PerSizes, Sizes, number
from curta.compiler.targets import Tuning
from curta.core.dim import is_symbolic_dim, max_dim


class LiveRange(NamedTuple):
    """The first and the last work that touch a buffer."""

    first: int
    last: int


def live_ranges(
    steps: Sequence[Iterable[Buffer]], outside: Collection[Buffer]
) -> dict[Buffer, LiveRange]:
    """Return the live ranges of what the steps touch, but for buffers `outside`."""
    result: dict[Buffer, LiveRange] = {}
    for at, touched in enumerate(steps):
        for buffer in touched:
            if buffer not in outside:
                first = result[buffer].first if buffer in result else at
                result[buffer] = LiveRange(first, at)
    return result


@dataclass(frozen=True)
class Arena:
    """Offsets of temporaries in one block of memory, and their live ranges."""

    offsets: Mapping[Buffer, Any]
    size: Any
    on_stack: bool
    ranges: Mapping[Buffer, LiveRange]

    @property
    def needed(self) -> Any:
        """The bytes that the caller provides: 0 if it is on the stack."""
        return 0 if self.on_stack else self.size


def plan_arena(
    ranges: Mapping[Buffer, LiveRange],
    reused: Mapping[Buffer, Buffer],
    tuning: Tuning,
) -> Arena:
    """Return offsets for buffers: the first gap that fits.

    A buffer whose memory is `reused` takes that of another one, if both are in the
    arena and the one ends where the other begins.
    """
    block: dict[Buffer, Buffer] = {}  # buffer -> the first buffer in the same memory
    ends: dict[Buffer, int] = {}  # those -> the last step that uses the memory
    for b, (first, last) in ranges.items():
        old = reused.get(b, b)
        there = old in block and ranges[old].first < first == ranges[old].last
        block[b] = block[old] if there else b
        ends[block[b]] = last
    wanted = [(ranges[b].first, end, aligned_size(b)) for b, end in ends.items()]
    numbers = {b: i for i, b in enumerate(ends)}
    if not any(is_symbolic_dim(size) for *_, size in wanted):
        starts, end = _first_fit(wanted)
        on_stack = end <= tuning.stack_arena
        offsets = {b: starts[numbers[block[b]]] for b in ranges}
        return Arena(offsets, end, on_stack, ranges)
    fitted = PerSizes(
        lambda s: _first_fit([(a, z, number(x, s)) for a, z, x in wanted])
    )
    computed = {b: Computed(_offset(fitted, numbers[block[b]])) for b in ranges}
    return Arena(computed, Computed(lambda sizes: fitted(sizes)[1]), False, ranges)


def _offset(fitted: PerSizes, i: int) -> Callable[[Sizes], int]:
    return lambda sizes: fitted(sizes)[0][i]


def _first_fit(wanted: Sequence[tuple[int, int, int]]) -> tuple[list[int], int]:
    """Offsets of blocks, from first and last steps and bytes, and the end."""
    offsets: list[int] = []
    gaps = _Gaps()
    dying: list[tuple[int, int, int]] = []  # last step, offset and bytes of live blocks
    for begins, last, size in wanted:
        while dying and dying[0][0] < begins:
            gaps.free(*heapq.heappop(dying)[1:])
        offsets.append(gaps.take(size))
        heapq.heappush(dying, (last, offsets[-1], size))
    return offsets, gaps.end


class _Gaps:
    """The unused gaps of a block of memory, which has no end."""

    def __init__(self) -> None:
        self.end = 0  # the first byte that was never used
        self.starts: list[int] = []  # of gaps before `end`, sorted
        self.sizes: dict[int, int] = {}

    def take(self, size: int) -> int:
        """Use the first gap of some size; where it begins."""
        for i, start in enumerate(self.starts):
            left = self.sizes[start] - size
            if left < 0:
                continue
            del self.sizes[start], self.starts[i]
            if left:
                self.starts.insert(i, start + size)
                self.sizes[start + size] = left
            return start
        start = self.end
        if self.starts and self.starts[-1] + self.sizes[self.starts[-1]] == start:
            start = self.starts.pop()
            del self.sizes[start]
        self.end = start + size
        return start

    def free(self, start: int, size: int) -> None:
        """Free a range of the arena, merged with adjacent free ranges."""
        i = bisect_left(self.starts, start)
        if i < len(self.starts) and self.starts[i] == start + size:
            size += self.sizes.pop(self.starts.pop(i))
        if i and self.starts[i - 1] + self.sizes[self.starts[i - 1]] == start:
            self.sizes[self.starts[i - 1]] += size
            return
        self.starts.insert(i, start)
        self.sizes[start] = size


def aligned_size(buffer: Buffer) -> int:
    """The bytes of a buffer, rounded up to whole cache lines."""
    return -(-max_dim(buffer.nbytes, 1) // ALIGNMENT) * ALIGNMENT
