"""Random numbers over hosts: each makes its own, the same as if it made all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.core.jaxpr import Eqn
from curta.core.trace import typeof
from curta.partition.along import Partitioning, Parts, Splits, along_cut
from curta.partition.own_rows import first_row
from curta.partition.part import HostPart, resharded, settled
from curta.primitives.random_bits.ops import RandomBits, RandomPart, RandomSplit


@along_cut.register(RandomBits)
@along_cut.register(RandomSplit)
def _drawn(
    op: Any, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    """Keys keep their split; each host draws its part of the numbers of a key."""
    hosts = partitioner.hosts
    keys = settled(parts[0], hosts)
    rank = len(keys.split)
    used = {n for axes in keys.split for n in axes}
    own = wanted[0][rank:]
    if not any(own) or used & {n for axes in own for n in axes}:
        return None
    if not op.impl.lowers or not op.partitionable:
        return None
    front = wanted[0][:rank] if not used else keys.split
    x = resharded(keys, front, hosts)
    shape = hosts.local_shape(op.shape, own)
    dims = tuple(d for d, axes in enumerate(own) if axes)
    starts = [first_row(hosts.group(own[d]), shape[d]) for d in dims]
    result = RandomPart(op, shape, dims)(x, *starts)
    assert typeof(result).shape[rank:] == shape
    return [HostPart(result, (*front, *own))]
