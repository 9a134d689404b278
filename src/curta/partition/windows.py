"""Parts of dims that hosts do not share out equally: slices, what is padded.

The rows of a dim keep their hosts when some are cut off or added: host k of a group
holds, of a dim of `size` rows, those from k * every + first on, as many as its array
has. Rows before the first and after the last one of the dim are not there: what the
array has instead is of no meaning. Where hosts hold more than `every` rows, they hold
those at their borders several times: these are halos.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.trace import typeof
from curta.hosts.group import HostGroup
from curta.partition.own_rows import first_row
from curta.primitives.barrier import OptimizationBarrier
from curta.primitives.elementwise import add, and_, ge, lt
from curta.primitives.elementwise.select import select_n
from curta.primitives.host_collectives import HostGather, HostPermute
from curta.primitives.indexing.dynamic import DynamicSlice
from curta.primitives.joining import Concatenate
from curta.primitives.shape import Iota
from curta.primitives.slicing import Pad, Slice
from curta.primitives.structure import BroadcastInDim, Reshape, zeros


@dataclass(frozen=True)
class Window:
    """Which rows of a dim hosts have: see the module's text."""

    size: int
    every: int
    first: int

    def reaches(self, rows: int, members: int) -> bool:
        """Whether each row is on some host, if each has so many."""
        last = (members - 1) * self.every + self.first + rows
        return self.first <= 0 and last >= self.size and rows >= self.every


class Piece(NamedTuple):
    """Rows from row `start` of a host on, which go to the host `step` before it."""

    step: int
    start: int
    rows: int
    pairs: tuple[tuple[int, int], ...]


def pieces(
    window: Window, have: int, first: int, rows: int, members: int
) -> list[Piece]:
    """Where hosts that have rows of a window find others, from `first` on."""
    result = []
    at, end = first, first + rows
    own_end = window.first + have
    while at < end:
        if at < window.first:
            step = (at - window.first) // window.every
            start = at - window.first - step * window.every
            until = min(end, at + window.every - start, window.first)
        elif at < own_end:
            step, start, until = 0, at - window.first, min(end, own_end)
        else:
            step = -((own_end - 1 - at) // window.every)
            start = at - window.first - step * window.every
            until = min(end, at + have - start)
        pairs = tuple(
            (k + step, k)
            for k in range(members)
            if 0 <= k + step < members
            and k * window.every + at < window.size
            and k * window.every + until > 0
        )
        result.append(Piece(step, start, until - at, pairs))
        at = until
    return result


def moved_rows(window: Window, have: int, first: int, rows: int, members: int) -> int:
    """The number of rows a host sends so that each has those from `first` on."""
    result = pieces(window, have, first, rows, members)
    return sum(p.rows for p in result if p.step and p.pairs)


def reached(
    x: Any,
    dim: int,
    window: Window,
    first: int,
    rows: int,
    group: HostGroup,
    fill: Any = None,
) -> Any:
    """Other rows of a dim, from k * every + first on, of which hosts have a window.

    Rows that are not there are of no meaning, or `fill`; as only pieces with such rows
    are looked through, that is cheap where they are few.
    """
    parts, at = [], first
    for piece in pieces(window, typeof(x).shape[dim], first, rows, group.size):
        if piece.step and not piece.pairs:
            part = zeros(with_rows(typeof(x), dim, piece.rows))
        else:
            part = rows_of(x, dim, piece.start, piece.start + piece.rows)
            part = HostPermute(group, piece.pairs)(part) if piece.step else part
        if fill is not None:
            here = Window(window.size, window.every, at)
            part = filled(part, dim, here, fill, group)
            if piece.step:  # few rows: compute them once, before their readers
                (part,) = OptimizationBarrier()(part)
        parts.append(part)
        at += piece.rows
    return joined(parts, dim)


def joined(parts: Sequence[Any], dim: int) -> Any:
    """Arrays one after the other along a dim."""
    return parts[0] if len(parts) == 1 else Concatenate(dim)(*parts)


def with_rows(aval: ShapedArray, dim: int, rows: int) -> ShapedArray:
    """The aval with so many rows along a dim."""
    shape = (*aval.shape[:dim], rows, *aval.shape[dim + 1 :])
    return ShapedArray(shape, aval.dtype, aval.weak_type)


def rows_of(x: Any, dim: int, start: int, limit: int, stride: int = 1) -> Any:
    """The rows of an array from `start` to `limit`."""
    shape = typeof(x).shape
    if (start, limit, stride) == (0, shape[dim], 1):
        return x
    starts, limits, steps = [0] * len(shape), [*shape], [1] * len(shape)
    starts[dim], limits[dim], steps[dim] = start, limit, stride
    return Slice(tuple(starts), tuple(limits), tuple(steps))(x)


def padded_rows(x: Any, dim: int, low: int, high: int) -> Any:
    """The array with rows of zeros along a dim."""
    if not (low or high):
        return x
    aval = typeof(x)
    config = [(0, 0, 0)] * aval.ndim
    config[dim] = (low, high, 0)
    return Pad(tuple(config))(x, zeros(ShapedArray((), aval.dtype)))


def dynamic_rows(x: Any, dim: int, start: Any, rows: int) -> Any:
    """So many rows from `start` on, an int32."""
    shape = [*typeof(x).shape]
    shape[dim] = rows
    starts: list[Any] = [np.int32(0)] * len(shape)
    starts[dim] = start
    return DynamicSlice(tuple(shape))(x, *starts)


def taken(x: Any, dim: int, every: int, first: int, rows: int, group: HostGroup) -> Any:
    """The rows k * every + first ... on host k, of a dim that all hosts have whole."""
    size = typeof(x).shape[dim]
    low = max(0, -first)
    high = max(0, (group.size - 1) * every + first + rows - size)
    start = first_row(group, every)
    start = add(start, np.int32(low + first))
    return dynamic_rows(padded_rows(x, dim, low, high), dim, start, rows)


def gathered(x: Any, dim: int, window: Window, group: HostGroup) -> Any:
    """The whole dim, of which hosts have a window."""
    rows = typeof(x).shape[dim]
    last, count = group.size - 1, group.size
    if rows > window.every and count * window.every + window.first >= window.size:
        x, rows = rows_of(x, dim, 0, window.every), window.every
    owner = [
        (max(0, min(p - window.first, last * window.every)) // window.every)
        for p in (0, window.size - 1)
    ]
    if owner[1] - owner[0] < min(2, last):
        return joined(_sent_to_all(x, dim, window, owner, group), dim)
    x = HostGather(group, dim)(x)
    if rows > window.every:
        tail = rows_of(x, dim, last * rows + window.every, count * rows)
        shape = typeof(x).shape
        split = (*shape[:dim], count, rows, *shape[dim + 1 :])
        x = rows_of(Reshape(split)(x), dim + 1, 0, window.every)
        x = Reshape((*shape[:dim], count * window.every, *shape[dim + 1 :]))(x)
        x = joined([x, tail], dim)
    return rows_of(x, dim, -window.first, window.size - window.first)


def _sent_to_all(
    x: Any, dim: int, window: Window, owner: Sequence[int], group: HostGroup
) -> list[Any]:
    """The rows of a dim that are on one host, or on two, from each of them."""
    parts, at = [], 0
    for k in range(owner[0], owner[1] + 1):
        start = at - window.first - k * window.every
        left = window.size - at
        rows = left if k == owner[1] else window.every - start
        part = rows_of(x, dim, start, start + rows)
        pairs = tuple((k, i) for i in range(group.size))
        parts.append(HostPermute(group, pairs)(part))
        at += rows
    return parts


def shared_out(
    x: Any, dim: int, window: Window, every: int, group: HostGroup
) -> Any | None:
    """Equal parts of `every` rows, of a dim of which hosts have a window.

    None if that would move more than gathering the dim.
    """
    have, members = typeof(x).shape[dim], group.size
    if every == window.every:
        if moved_rows(window, have, 0, every, members) > (members - 1) * every:
            return None
        return reached(x, dim, window, 0, every, group)
    drift = (members - 1) * (every - window.every)
    first, rows = min(0, drift), every + abs(drift)
    if moved_rows(window, have, first, rows, members) > (members - 1) * every:
        return None
    x = reached(x, dim, window, first, rows, group)
    start = first_row(group, every - window.every)
    return dynamic_rows(x, dim, add(start, np.int32(-first)), every)


def positions(every: int, first: int, rows: int, group: HostGroup) -> Any:
    """The numbers of the rows that this host has, an int32 each."""
    count = Iota(np.dtype("int32"), (rows,), 0)()
    start = add(first_row(group, every), np.int32(first))
    return add(count, BroadcastInDim((rows,), ())(start))


def between(numbers: Any, start: int, limit: int) -> Any:
    """Which numbers are in a range."""
    shape = typeof(numbers).shape
    low = BroadcastInDim(shape, ())(np.int32(start))
    return and_(ge(numbers, low), below(numbers, limit))


def below(numbers: Any, limit: int) -> Any:
    """Which numbers are less."""
    return lt(numbers, BroadcastInDim(typeof(numbers).shape, ())(np.int32(limit)))


def chosen(rows: Any, dim: int, x: Any, other: Any) -> Any:
    """`x` in the rows that are true, `other`, an array or a scalar, in the rest."""
    shape = typeof(x).shape
    if not typeof(other).ndim:
        other = BroadcastInDim(shape, ())(other)
    return select_n(BroadcastInDim(shape, (dim,))(rows), other, x)


def filled(x: Any, dim: int, window: Window, fill: Any, group: HostGroup) -> Any:
    """A part with `fill` in the rows that are not there."""
    rows = typeof(x).shape[dim]
    last = (group.size - 1) * window.every + window.first + rows
    if window.first >= 0 and last <= window.size:
        return x
    numbers = positions(window.every, window.first, rows, group)
    return chosen(between(numbers, 0, window.size), dim, x, fill)
