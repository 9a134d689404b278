"""Exchange of the parts of an array between hosts.

What every host has and wants is known to all, so that each works out alike who sends
what to whom. In round k each host sends to the k-th one after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from curta.core.buffers import empty
from curta.core.sharding import Index
from curta.hosts.engine import current
from curta.hosts.group import HostGroup
from curta.runtime.host_runs import on_each_host
from curta.runtime.remote_data import NDArray

Pieces = Mapping[int, Sequence[Index]]
"""For each host the pieces of an array that it has, by their index."""


class Transfer(NamedTuple):
    """Elements that one host sends to another, by their global index."""

    source: int
    target: int
    piece: int
    index: Index  # type: ignore[assignment]  # a method of tuples, which nobody calls


def exchanged(
    have: Pieces,
    data: Mapping[int, Sequence[NDArray]],
    want: Mapping[int, Index],
    dtype: np.dtype[Any],
) -> dict[int, NDArray]:
    """The wanted part of each host that is here.

    `have` says for every host which pieces of the array it has, `data` has those of
    the hosts that are here. Pieces of different hosts are the same or apart; together
    they are all that is wanted.
    """
    transfers = planned(have, want)
    meeting = sorted({host for t in transfers for host in (t.source, t.target)})

    def run(host: int) -> NDArray | None:
        own = list(zip(have.get(host, ()), data.get(host, ()), strict=True))
        result = None
        if host in want:
            result = _of_own(own, want[host], dtype)
        if host in meeting:
            _send(host, meeting, transfers, own, want.get(host), result, dtype)
        return result

    result = on_each_host(sorted({*want, *meeting}), run, meet=bool(transfers))
    return {host: part for host, part in result.items() if part is not None}


def planned(have: Pieces, want: Mapping[int, Index]) -> list[Transfer]:
    """The transfers of an exchange, without replicas and what the target has."""
    holders: dict[str, list[tuple[int, int, Index]]] = {}
    for host, pieces in have.items():
        for number, index in enumerate(pieces):
            holders.setdefault(str(index), []).append((host, number, index))
    result = []
    for target, wanted in want.items():
        for of_piece in holders.values():
            common = _common(of_piece[0][2], wanted)
            if common is None or any(host == target for host, _, _ in of_piece):
                continue
            source, number, _ = of_piece[target % len(of_piece)]
            result.append(Transfer(source, target, number, common))
    return result


def _common(one: Index, other: Index) -> Index | None:
    """What two parts have in common, None if that is nothing."""
    pairs = zip(one, other, strict=True)
    result = tuple(slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in pairs)
    return None if any(s.start >= s.stop for s in result) else result


def _within(index: Index, outer: Index) -> Index:
    """An index relative to the part that an outer one is."""
    pairs = zip(index, outer, strict=True)
    return tuple(slice(s.start - o.start, s.stop - o.start) for s, o in pairs)


def _shape(index: Index) -> tuple[int, ...]:
    return tuple(s.stop - s.start for s in index)


def _of_own(
    own: Sequence[tuple[Index, NDArray]], wanted: Index, dtype: np.dtype[Any]
) -> NDArray:
    """The wanted part, with those elements that the host has."""
    for index, piece in own:
        if index == wanted:
            return piece
    out = empty(_shape(wanted), dtype)
    for index, piece in own:
        common = _common(index, wanted)
        if common is not None:
            out[_within(common, wanted)] = piece[_within(common, index)]
    return out


def _send(
    host: int,
    meeting: Sequence[int],
    transfers: Sequence[Transfer],
    own: Sequence[tuple[Index, NDArray]],
    wanted: Index | None,
    out: NDArray | None,
    dtype: np.dtype[Any],
) -> None:
    """Send and receive, in rounds, what `transfers` say."""
    count = len(meeting)
    own_rank = meeting.index(host)
    group = HostGroup(("hosts",), (count,), tuple(meeting), ("hosts",))
    rounds: dict[int, dict[int, list[Transfer]]] = {}
    for t in transfers:
        start = meeting.index(t.source)
        step = (meeting.index(t.target) - start) % count
        rounds.setdefault(step, {}).setdefault(start, []).append(t)
    for step, by_source in sorted(rounds.items()):
        sizes = [sum(_bytes(t.index, dtype) for t in ts) for ts in by_source.values()]
        packet = np.empty(max(sizes), np.uint8)
        at = 0
        for t in by_source.get(own_rank, ()):
            index, piece = own[t.piece]
            part = np.ascontiguousarray(piece[_within(t.index, index)])
            packet[at : at + part.nbytes] = part.reshape(-1).view(np.uint8)
            at += part.nbytes
        pairs = [(start, (start + step) % count) for start in sorted(by_source)]
        packet, at = current().permute(group, pairs, packet), 0
        for t in by_source.get((own_rank - step) % count, ()):
            assert out is not None and wanted is not None
            size = _bytes(t.index, dtype)
            part = packet[at : at + size].view(dtype).reshape(_shape(t.index))
            out[_within(t.index, wanted)] = part
            at += size


def _bytes(index: Index, dtype: np.dtype[Any]) -> int:
    return math.prod(_shape(index)) * dtype.itemsize
