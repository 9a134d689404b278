"""The hosts that a mesh of devices lies on, and how values are cut along them."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.core.mesh import Mesh
from curta.core.partition_spec import entry_axes
from curta.core.sharding import NamedSharding, Sharding
from curta.hosts.group import HostGroup

NDArray = np.ndarray[Any, Any]
Name = Any
Split = tuple[tuple[Name, ...], ...]
"""For each dim the axes of the host mesh along which it is cut, outer first."""


@dataclass(frozen=True)
class HostMesh:
    """A mesh of hosts: the axes of a mesh of devices along which the host changes.

    `local` is how many devices of one host there are along each axis of the mesh of
    devices. All are on one host each if the devices are not in blocks by hosts; then
    there are no axes.
    """

    axis_names: tuple[Name, ...]
    axis_sizes: tuple[int, ...]
    hosts: tuple[int, ...]
    local: tuple[tuple[Name, int], ...]

    @cached_property
    def sizes(self) -> dict[Name, int]:
        """How many hosts there are along each axis."""
        return dict(zip(self.axis_names, self.axis_sizes, strict=True))

    @cached_property
    def local_sizes(self) -> dict[Name, int]:
        """How many devices of one host there are along each axis."""
        return dict(self.local)

    def size_of(self, axes: Sequence[Name]) -> int:
        """How many hosts there are along some axes."""
        return math.prod(self.sizes[n] for n in axes)

    def group(self, axes: Sequence[Name]) -> HostGroup:
        """The hosts that meet along some axes."""
        return HostGroup(self.axis_names, self.axis_sizes, self.hosts, tuple(axes))

    @cached_property
    def everyone(self) -> HostGroup:
        """All hosts, in one group."""
        return HostGroup(("hosts",), (len(self.hosts),), self.hosts, ("hosts",))

    def split(self, entries: Sequence[Any], shape: Sequence[int]) -> Split:
        """How hosts hold an array whose dims are split over these axes of devices.

        An axis behind one with several local devices would cut what a host has
        into pieces that are not next to each other; along such axes it is whole.
        So are dims without elements.
        """
        used: set[Any] = set()
        result = []
        for entry, size in zip(entries, shape, strict=True):
            axes: list[Any] = []
            for n in entry_axes(entry):
                if n in self.sizes and n not in used and n not in axes:
                    if not size or size % self.size_of([*axes, n]):
                        break
                    axes.append(n)
                if self.local_sizes.get(n, 1) > 1:
                    break
            used.update(axes)
            result.append(tuple(axes))
        return tuple(result)

    def of_sharding(self, sharding: Sharding | None, shape: Sequence[int]) -> Split:
        """How hosts hold an array of a sharding; whole if it is of no mesh."""
        if not isinstance(sharding, NamedSharding):
            return ((),) * len(shape)
        return self.split(sharding.spec.for_rank(len(shape)).axes_of_dims(), shape)

    def local_shape(self, shape: Sequence[int], split: Split) -> tuple[int, ...]:
        """The shape of the part of one host."""
        pairs = zip(shape, split, strict=True)
        return tuple(n // self.size_of(axes) for n, axes in pairs)

    def index(self, host: int, shape: Sequence[int], split: Split) -> tuple[slice, ...]:
        """The part of an array that a host has."""
        result = []
        for n, axes in zip(shape, split, strict=True):
            size = n // self.size_of(axes)
            k = self.group(axes).index(host) if axes else 0
            result.append(slice(k * size, (k + 1) * size))
        return tuple(result)


def host_mesh(mesh: Mesh) -> HostMesh:
    """The hosts of a mesh of devices."""
    return grouped(mesh, tuple(d.host for d in mesh.flat_devices))


@functools.lru_cache(1024)
def grouped(mesh: Mesh, host_of: tuple[int, ...]) -> HostMesh:
    """The hosts of a mesh, given that of each device in the order of the mesh."""
    hosts = np.array(host_of).reshape(mesh.axis_sizes)
    names = mesh.axis_names
    counts = _blocks(hosts)
    if counts is None:
        return HostMesh((), (), tuple(sorted({*map(int, hosts.ravel())})), ())
    steps = [n // k for n, k in zip(hosts.shape, counts, strict=True)]
    grid = hosts[tuple(slice(None, None, s) for s in steps)]
    axes = [d for d, n in enumerate(counts) if n > 1]
    return HostMesh(
        tuple(names[d] for d in axes),
        tuple(counts[d] for d in axes),
        tuple(map(int, grid.ravel())),
        tuple(zip(names, steps, strict=True)),
    )


def _blocks(hosts: NDArray) -> list[int] | None:
    """How many blocks of equal hosts there are along each dim.

    None if equal hosts are not in equal blocks.
    """
    counts = []
    for d, size in enumerate(hosts.shape):
        rows = np.moveaxis(hosts, d, 0).reshape(size, -1)
        counts.append(1 + int((rows[1:] != rows[:-1]).any(axis=1).sum()))
    if any(n % k for n, k in zip(hosts.shape, counts, strict=True)):
        return None
    whole = hosts
    for d, (n, k) in enumerate(zip(hosts.shape, counts, strict=True)):
        whole = whole.take(np.arange(n) // (n // k) * (n // k), axis=d)
    regular = np.array_equal(whole, hosts)
    return counts if regular and len({*hosts.flat}) == math.prod(counts) else None


def split_of(
    dims: Sequence[Sequence[int]], axes: Mapping[int, tuple[Name, ...]]
) -> Split:
    """How a value is split: each dim along the axes of its factors, the outer first."""
    return tuple(tuple(n for f in dim for n in axes.get(f, ())) for dim in dims)
