"""The parts of an array that single devices hold."""

from __future__ import annotations

from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.compiler.layout_assignment import inverse
from curta.core.avals import ShapedArray, placed_aval
from curta.core.sharding import on_device
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.device_data import DeviceData
from curta.runtime.devices import Device
from curta.runtime.laid_out import LaidOutData
from curta.runtime.remote_data import RemoteData


def shards_of(x: ArrayImpl) -> list[Shard]:
    """The parts of an array on all its devices, in their order."""
    holders: dict[str, int] = {}
    result = []
    indices, terms = x.sharding.index_map(x.shape), [()]
    if x._has_terms():
        terms = x.sharding.term_indices()  # type: ignore[attr-defined]
    terms = terms if len(terms) == len(indices) else terms * len(indices)
    for (device, index), term in zip(indices.items(), terms, strict=True):
        part = f"{index} {term}"
        replica = holders[part] = holders.get(part, -1) + 1
        result.append(Shard(device, index, replica, x, term))
    return result


@dataclass(frozen=True, repr=False)
class Shard:
    """The part of an array on one device.

    `index` says where it is in the whole array; `replica_id` numbers the devices that
    hold the same part. Of an unreduced array `term` says which term of the sum it is.

    >>> import curta.numpy as jnp
    >>> [shard] = jnp.arange(3).addressable_shards
    >>> shard.index, shard.replica_id, shard.data
    ((slice(None, None, None),), 0, Array([0, 1, 2], dtype=int32))
    """

    device: Device
    index: tuple[slice, ...]
    replica_id: int
    whole: ArrayImpl
    term: tuple[int, ...] = ()

    @property
    def data(self) -> ArrayImpl | None:
        """The elements, on that device; None if it belongs to another process."""
        if self.device not in self.whole.sharding.addressable_devices:
            return None
        if self.whole.sharding.num_devices == 1 and not self.term:
            return self.whole
        aval, own = self.whole.aval, getattr(self.whole, "_pending", None)
        if type(own) is LaidOutData and type(own.stored) is DeviceData:
            order = own.major_to_minor
            index = tuple(self.index[d] for d in order)
            stored = own.stored.shard(self.device, index)
            shape = tuple(stored.aval.shape[d] for d in inverse(order))
            out = ShapedArray(shape, aval.dtype, aval.weak_type)
            out = placed_aval(out, stored.sharding)
            return wrap(LaidOutData(stored, order), out, stored.sharding)
        buffer = self.whole._buffer()
        if isinstance(buffer, RemoteData):
            data = buffer.shard(self.device, self.index, self.term)
            if isinstance(data, RemoteData):
                return wrap(data, data.aval, data.sharding)
            part = data
        else:
            where_it_is: Any = (*self.term, *self.index)
            part = self.whole._storage()[where_it_is]
        out = ShapedArray(part.shape, aval.dtype, aval.weak_type)
        where = on_device(self.device)
        if type(own) is LaidOutData:
            return wrap(own.like(part), out, where)
        return wrap(part, out, where)

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index},"
            f" replica_id={self.replica_id}, data={self.data})"
        )
