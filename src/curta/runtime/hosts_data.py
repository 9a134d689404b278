"""Elements that lie on several hosts (docs/design/hosts.md)."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.buffers import empty
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import Index, NamedSharding, Sharding
from curta.errors import DeletedArrayError
from curta.hosts.engine import of_process
from curta.partition.host_mesh import HostMesh, Split, host_mesh
from curta.runtime.exchange import exchanged
from curta.runtime.laid_out import sharding_in_order
from curta.runtime.remote_data import NDArray, RemoteData


@dataclass(frozen=True)
class HostLayout:
    """How the elements of an array are cut along a mesh of hosts."""

    mesh: HostMesh
    split: Split

    def parts(self, shape: tuple[int, ...]) -> dict[int, tuple[slice, ...]]:
        """Which part of an array of that shape each host has."""
        return _parts(self, shape)


@functools.lru_cache(1024)
def layout_on(mesh: HostMesh, split: Split) -> HostLayout:
    """The layout, one for equal ones: how arrays are laid out is asked by each call."""
    return HostLayout(mesh, split)


@functools.lru_cache(4096)
def _parts(layout: HostLayout, shape: tuple[int, ...]) -> dict[int, tuple[slice, ...]]:
    mesh, split = layout.mesh, layout.split
    return {host: mesh.index(host, shape, split) for host in mesh.hosts}


def stored_sharding(sharding: Sharding, aval: ShapedArray) -> Sharding:
    """The sharding of what is stored: terms of sums lie along dims in front."""
    named = sharding.named
    if named is None or not named.spec.unreduced:
        return sharding
    entries = named.spec.for_rank(aval.ndim).partitions
    return NamedSharding(named.mesh, PartitionSpec(*named.unreduced_axes, *entries))


def stored_shape(aval: ShapedArray, sharding: Sharding) -> tuple[int, ...]:
    """The shape of what is stored, with the dims for terms of sums."""
    named = sharding.named
    axes = () if named is None else named.unreduced_axes
    return (*[named.mesh.shape[n] for n in axes], *aval.shape)  # type: ignore


def layout_of(sharding: Sharding, aval: ShapedArray) -> HostLayout:
    """How hosts hold an array of a sharding."""
    shape = stored_shape(aval, sharding)
    named = stored_sharding(sharding, aval).named
    if named is None:
        return HostLayout(HostMesh((), (), sharding.hosts, ()), ((),) * len(shape))
    mesh = host_mesh(named.mesh)  # type: ignore[arg-type]
    return layout_on(mesh, mesh.of_sharding(named, shape))


def hosts_here(mesh: HostMesh) -> list[int]:
    """The hosts of this process: its own, or all if they are simulated."""
    here = of_process()
    if here.count == 1:
        return sorted(mesh.hosts)
    return [here.index] if here.index in mesh.hosts else []


class HostsData(RemoteData):
    """The elements of an array on several hosts: a buffer for each that is here.

    `parts` has for each host that this process is its part of the elements. Nobody
    writes to them, so that simulated hosts may share one. What was joined for somebody
    who read it is kept.
    """

    __slots__ = ("_joined", "aval", "layout", "parts", "sharding")

    def __init__(
        self,
        aval: ShapedArray,
        sharding: Sharding,
        layout: HostLayout,
        parts: Mapping[int, NDArray],
    ) -> None:
        self.aval: ShapedArray = aval
        self.sharding: Sharding = sharding
        self.layout: Any = layout
        self.parts: dict[int, NDArray] = dict(parts)
        self._joined: NDArray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what is stored, with the dims for terms of sums."""
        return stored_shape(self.aval, self.sharding)

    def wait(self) -> NDArray:
        """All elements; RuntimeError if other processes have some of them."""
        if self._joined is None:
            self._joined = self._join()
        return self._joined

    @property
    def is_here(self) -> bool:
        """Whether this process has all elements: on all its devices, or together."""
        return super().is_here or any(
            part.shape == self.shape for part in self.parts.values()
        )

    def gathered(self) -> NDArray:
        """All elements, gathered from the processes of its hosts."""
        whole = ((),) * len(self.shape)
        parts = self.at(HostLayout(HostMesh((), (), self.sharding.hosts, ()), whole))
        return next(iter(parts.values()))

    def _join(self) -> NDArray:
        self.check_here()
        if not self.parts:
            raise DeletedArrayError(self.aval.str_short())
        shape = self.shape
        for part in self.parts.values():
            if part.shape == shape:
                return part
        out = empty(shape, dtypes.physical_dtype(self.aval.dtype))
        indices = self.layout.parts(shape)
        for host, part in self.parts.items():
            out[indices[host]] = part
        return out

    def shard(self, device: Any, index: Any, term: Any = ()) -> NDArray:
        """The part on one device, in the memory of its host."""
        return self.region(device.host, (*[slice(k, k + 1) for k in term], *index))[
            (0,) * len(term)
        ]

    def region(self, host: int, index: Index) -> NDArray:
        """Some of the elements that a host has, by their index in the whole."""
        shape = self.shape
        have = self.layout.parts(shape)[host]
        within = []
        for wanted, own, size in zip(index, have, shape, strict=True):
            start, stop, _ = wanted.indices(size)
            within.append(slice(start - own.start, stop - own.start))
        return self.parts[host][tuple(within)]

    def at(self, layout: HostLayout) -> Mapping[int, NDArray]:
        """The parts by another layout, after hosts exchanged what they miss."""
        if layout is self.layout:
            return self.parts
        shape = self.shape
        have, want = self.layout.parts(shape), layout.parts(shape)
        if have == want:
            return self.parts
        pieces = {host: [index] for host, index in have.items()}
        data = {host: [part] for host, part in self.parts.items()}
        dtype = dtypes.physical_dtype(self.aval.dtype)
        return exchanged(pieces, data, want, dtype)

    def copy(self) -> HostsData:
        """The same elements in memory of their own."""
        parts = _shared({h: (id(x), x) for h, x in self.parts.items()}, own_copy)
        return HostsData(self.aval, self.sharding, self.layout, parts)

    def in_order(self, order: Sequence[int]) -> HostsData:
        """The elements of the array whose dims are these in another order."""
        front = len(self.shape) - self.aval.ndim
        axes = (*range(front), *[front + d for d in order])
        shape = tuple(self.aval.shape[d] for d in order)
        aval = self.aval.unplaced().update(shape=shape)
        split = tuple(self.layout.split[d] for d in axes)
        given = {h: (id(x), x.transpose(axes)) for h, x in self.parts.items()}
        return HostsData(
            aval,
            sharding_in_order(self.sharding, order),
            layout_on(self.layout.mesh, split),
            _shared(given, own_copy),
        )

    def shared(self) -> HostsData:
        return HostsData(self.aval, self.sharding, self.layout, self.parts)

    def delete(self) -> None:
        """Give the memory back."""
        self.parts.clear()
        self._joined = None

    @property
    def nbytes(self) -> int:
        """The bytes of the whole array."""
        itemsize = dtypes.physical_dtype(self.aval.dtype).itemsize
        return math.prod(self.shape) * itemsize

    def address(self) -> int:
        raise ValueError(
            "unsafe_buffer_pointer() is for arrays on one device: take the pointer of"
            " each of addressable_shards."
        )


def own_copy(x: NDArray) -> NDArray:
    """The same elements in memory of their own."""
    out = empty(x.shape, x.dtype)
    np.copyto(out, x)
    return out


def _shared(given: Mapping[int, tuple[Any, Any]], make: Any) -> dict[int, Any]:
    """What is made for each host, of equal keys once."""
    made: dict[Any, Any] = {}
    result = {}
    for host, (key, x) in given.items():
        if key not in made:
            made[key] = make(x)
        result[host] = made[key]
    return result


def sliced(data: NDArray, layout: HostLayout) -> dict[int, NDArray]:
    """The parts of elements that are all here, for the hosts that are here."""
    indices = layout.parts(data.shape)

    def part(index: Index) -> NDArray:
        result = data[index]
        return data if result.shape == data.shape else own_copy(result)

    given = {h: (str(indices[h]), indices[h]) for h in hosts_here(layout.mesh)}
    return _shared(given, part)


def one_of_equal(
    parts: Mapping[int, NDArray], layout: HostLayout, shape: tuple[int, ...]
) -> dict[int, NDArray]:
    """The parts without replicas."""
    if len(parts) == 1:
        return dict(parts)
    indices = layout.parts(shape)
    return _shared({h: (str(indices[h]), x) for h, x in parts.items()}, lambda x: x)


def split(data: NDArray, aval: ShapedArray, sharding: Sharding) -> HostsData:
    """The elements of an array that is here, on the hosts of a sharding."""
    layout = layout_of(sharding, aval)
    return HostsData(aval, sharding, layout, sliced(data, layout))


def moved(given: HostsData, sharding: Sharding) -> HostsData:
    """The same elements, resharded."""
    layout = layout_of(sharding, given.aval)
    return HostsData(given.aval, sharding, layout, given.at(layout))


def assembled(
    aval: ShapedArray,
    sharding: Sharding,
    pieces: Mapping[Any, NDArray],
) -> HostsData:
    """An array of the parts on devices of this process, each of which gives its own."""
    layout = layout_of(sharding, aval)
    shape = aval.shape
    have: dict[int, list[Index]] = {}
    data: dict[int, list[NDArray]] = {}
    for device, index in sharding.index_map(shape).items():
        filled = _filled(index, shape)
        known = have.setdefault(device.host, [])
        if filled in known:
            continue
        known.append(filled)
        if device in pieces:
            data.setdefault(device.host, []).append(pieces[device])
    dtype = dtypes.physical_dtype(aval.dtype)
    parts = exchanged(have, data, layout.parts(shape), dtype)
    return HostsData(aval, sharding, layout, one_of_equal(parts, layout, shape))


def _filled(index: Index, shape: Sequence[int]) -> Index:
    """An index with all ends of its slices."""
    pairs = zip(index, shape, strict=True)
    return tuple(slice(*s.indices(n)[:2]) for s, n in pairs)
