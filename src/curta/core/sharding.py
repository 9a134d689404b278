"""Shardings: how the elements of an array are laid out over devices.

They are frozen values: equal ones may be keys of one cache. All devices share the
memory of the host, so that a sharded array is one buffer, and its shards are parts
of it.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from typing import Any

from curta._base.once import cached_property
from curta.core.mesh import AbstractMesh, Mesh
from curta.core.partition_spec import UNCONSTRAINED, PartitionSpec
from curta.core.tiling import Tiling, tiling
from curta.hosts.engine import of_process

Index = tuple[slice, ...]
_MEMORY = "device"
MEMORIES = ("device", "pinned_host", "unpinned_host")


class MemorySpace(enum.Enum):
    """A kind of memory: that of devices, or that of their host.

    >>> import curta
    >>> x = curta.device_put(curta.numpy.arange(3), curta.memory.Space.Host)
    >>> x
    Array([0, 1, 2], dtype=int32)
    """

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"

    @property
    def kind(self) -> str:
        """The memory kind of shardings; ValueError for `Any`, which has none."""
        if self is MemorySpace.Any:
            raise ValueError(
                "MemorySpace.Any does not say where an array is to be: name"
                " MemorySpace.Device or MemorySpace.Host."
            )
        return "pinned_host" if self is MemorySpace.Host else _MEMORY

    @staticmethod
    def of_kind(kind: str | None) -> MemorySpace:
        """That of a memory kind of shardings: of devices, unless it is pinned."""
        return MemorySpace.Host if kind == "pinned_host" else MemorySpace.Device


class IndivisibleError(ValueError):
    """A dim that a sharding cannot cut into equal parts."""


class Sharding:
    """How the elements of an array are laid out over devices.

    `memory_kind` names the memory of the devices that holds them. All names mean the
    memory of the host; it is None where there are no devices.

    >>> from curta import numpy as jnp, sharding
    >>> isinstance(jnp.arange(3).sharding, sharding.Sharding)
    True
    """

    memory_kind: str | None = _MEMORY

    @property
    def devices(self) -> tuple[Any, ...]:
        """The devices, in the order in which the shards are listed."""
        raise NotImplementedError("Subclasses should implement this method.")

    @property
    def device_set(self) -> set[Any]:
        """The devices that hold a part of the array."""
        return set(self.devices)

    @property
    def addressable_devices(self) -> set[Any]:
        """The devices of this process that hold a part of the array."""
        return set(self._addressable_device_assignment)

    @cached_property
    def hosts(self) -> tuple[int, ...]:
        """The hosts in whose memory there are parts of the array."""
        return tuple(sorted({d.host for d in self.devices}))

    @property
    def num_devices(self) -> int:
        """How many devices hold a part of the array."""
        return len(self.devices)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can reach all devices."""
        devices = self.devices
        return bool(devices) and len(self._addressable_device_assignment) == len(
            devices
        )

    @property
    def has_addressable_devices(self) -> bool:
        """Whether this process can reach any of the devices."""
        return bool(self._addressable_device_assignment)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        raise NotImplementedError("Subclasses should implement this method.")

    def tiling(self, rank: int) -> Tiling:
        """How the devices share an array of that rank out."""
        raise NotImplementedError("Subclasses should implement this method.")

    def parts(self, rank: int) -> tuple[int, ...]:
        """Into how many parts each dim of an array of that rank is cut."""
        return self.tiling(rank).parts

    @property
    def named(self) -> NamedSharding | None:
        """The same over a mesh whose axes have names; None for a device alone."""
        return None

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        """Raise ValueError if arrays of that shape cannot be laid out so."""

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the part on one device; IndivisibleError if there is none."""
        self.check_compatible_aval(global_shape)
        shape = tuple(global_shape)
        parts = self.parts(len(shape))
        for dim, (size, count) in enumerate(zip(shape, parts, strict=True)):
            if size % count:
                raise IndivisibleError(
                    f"Sharding {self} implies that array axis {dim} is partitioned"
                    f" {count} times, but the dimension size is {size} (full shape:"
                    f" {shape}, per-dimension tiling factors: {list(parts)} should"
                    " evenly divide the shape)"
                )
        return tuple(n // k for n, k in zip(shape, parts, strict=True))

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """Which part of an array of `global_shape` each device holds.

        Raises NotImplementedError if they hold the terms of a sum.
        """
        return self.index_map(global_shape)

    def index_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """As `devices_indices_map`; where devices hold terms, the part they are of."""
        rank = len(global_shape)
        sizes, parts = self.shard_shape(global_shape), self.parts(rank)
        return {
            device: tuple(
                slice(None) if k == 1 else slice(i * n, (i + 1) * n)
                for i, n, k in zip(index, sizes, parts, strict=True)
            )
            for device, index in zip(
                self.devices, self.tiling(rank).coordinates, strict=True
            )
        }

    def addressable_devices_indices_map(
        self, global_shape: Sequence[int]
    ) -> dict[Any, Index]:
        """As `devices_indices_map`, for the devices of this process."""
        indices = self.devices_indices_map(global_shape)
        return {d: indices[d] for d in self._addressable_device_assignment}

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether both lay an array of `ndim` dims out alike."""
        if self is other:
            return True
        return (
            self.devices == other.devices
            and self.memory_kind == other.memory_kind
            and self.tiling(ndim) == other.tiling(ndim)
        )

    def with_memory_kind(self, kind: str) -> Sharding:
        """This sharding with a memory of another name; ValueError for unknown ones."""
        raise NotImplementedError("Subclasses should implement this method.")

    @property
    def _device_assignment(self) -> tuple[Any, ...]:
        return self.devices

    @property
    def _addressable_device_assignment(self) -> tuple[Any, ...]:
        here = of_process()
        if here.count == 1:
            return self.devices
        return tuple(d for d in self.devices if d.process_index == here.index)

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Tiling:
        return self.tiling(num_dimensions)

    def _to_sdy_sharding(self, num_dimensions: int) -> PartitionSpec:
        spec = self.named.spec if self.named else PartitionSpec()
        return spec.for_rank(num_dimensions)


class SingleDeviceSharding(Sharding):
    """The whole array on one device.

    >>> import curta
    >>> curta.sharding.SingleDeviceSharding(curta.devices()[0])
    SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)
    """

    def __init__(self, device: Any, *, memory_kind: str | None = None):
        self.device = device
        if memory_kind is not None:
            self.memory_kind: str = checked_memory(memory_kind, device)

    @property
    def devices(self) -> tuple[Any, ...]:
        return (self.device,)

    @property
    def is_fully_replicated(self) -> bool:
        return True

    def tiling(self, rank: int) -> Tiling:
        return Tiling((), ((),) * rank)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SingleDeviceSharding)
            and self.device == other.device
            and self.memory_kind == other.memory_kind
        )

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self.device, self.memory_kind))

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        return SingleDeviceSharding(self.device, memory_kind=kind)

    def __repr__(self) -> str:
        return (
            f"SingleDeviceSharding(device={self.device!r},"
            f" memory_kind={self.memory_kind})"
        )


@functools.lru_cache(4096)
def on_device(device: Any, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """The sharding of whole arrays on a device; one object for each device.

    >>> import curta
    >>> [device] = curta.devices()[:1]
    >>> curta.sharding.make_single_device_sharding(device).device_set == {device}
    True
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)


def in_memory(sharding: Sharding, aval: Any) -> Sharding:
    """The sharding in the memory that the type of an array says."""
    kind = aval.memory_space.kind
    same = sharding.memory_kind in (kind, None)
    return sharding if same else sharding.with_memory_kind(kind)


_default: list[Callable[[Any], Sharding]] = []


def set_default_sharding(find: Callable[[Any], Sharding]) -> None:
    """Install what says where arrays are that were placed nowhere in particular."""
    _default[:] = [find]


def default_sharding(aval: Any = None) -> Sharding:
    """Where arrays are that were placed nowhere in particular; see runtime/devices."""
    return _default[0](aval)


class NamedSharding(Sharding):
    """An array split over the axes of a mesh.

    Args:
      mesh: the devices in a grid with named axes, or an AbstractMesh.
      spec: a `PartitionSpec`: which axes each dim is split over.

    Raises:
      TypeError: for other types.
      ValueError: if the spec names an axis that the mesh has not, or one twice.

    >>> import curta
    >>> mesh = curta.make_mesh((1,), ("x",))
    >>> curta.NamedSharding(mesh, curta.P("x")).shard_shape((8, 2))
    (8, 2)
    """

    def __init__(
        self,
        mesh: Mesh | AbstractMesh,
        spec: PartitionSpec,
        *,
        memory_kind: str | None = None,
        _logical_device_ids: Any = None,
    ):
        if not isinstance(mesh, (Mesh, AbstractMesh)):
            raise TypeError(
                "NamedSharding requires a `jax.sharding.Mesh` or"
                f" `jax.sharding.AbstractMesh`, but got {mesh} of type {type(mesh)}"
            )
        if not isinstance(spec, PartitionSpec):
            raise TypeError(
                "Unexpected type of `spec`: NamedSharding requires a"
                " `jax.sharding.PartitionSpec` (jax.P), but got"
                f" {spec} of type {type(spec)}"
            )
        _check_spec(mesh, spec)
        spec.refuse_extrema()
        self.mesh = mesh
        self.spec = spec
        device = mesh.flat_devices[0] if isinstance(mesh, Mesh) else None
        if memory_kind is not None:
            self.memory_kind = checked_memory(memory_kind, device)
        elif device is None:
            self.memory_kind = None

    def __reduce__(self) -> Any:
        make = functools.partial(NamedSharding, memory_kind=self.memory_kind)
        return make, (self.mesh, self.spec)

    @property
    def devices(self) -> tuple[Any, ...]:
        if isinstance(self.mesh, AbstractMesh):
            raise ValueError(
                "device_set is not implemented for `jax.sharding.AbstractMesh`."
            )
        return self.mesh.flat_devices

    @property
    def num_devices(self) -> int:
        return self.mesh.size

    @cached_property
    def is_fully_replicated(self) -> bool:
        if self.spec.unreduced:
            return self.mesh.size == 1
        return self.mesh.size_of(self.spec.used_axes()) == 1

    @cached_property
    def unreduced_axes(self) -> tuple[Any, ...]:
        """The axes along which each device holds a term of a sum, in their order."""
        return self.mesh.in_order(self.spec.unreduced)

    @cached_property
    def replicated_axes(self) -> frozenset[Any]:
        """The axes that nothing is split over."""
        used = {*self.spec.used_axes(), *self.spec.unreduced, *self.spec.reduced}
        return frozenset(self.mesh.axis_names) - used

    def tiling(self, rank: int) -> Tiling:
        return _tiling(self.mesh.axis_names, self.mesh.axis_sizes, self.spec, rank)

    @property
    def named(self) -> NamedSharding:
        return self

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        if self.spec.unreduced:
            raise NotImplementedError(
                f"device_indices_map doesn't work with unreduced: {self.spec}. Sum over"
                " the axes first, with jax.sharding.reshard."
            )
        return self.index_map(global_shape)

    def term_indices(self) -> list[tuple[int, ...]]:
        """For each device, which of the terms along the unreduced axes it holds."""
        axes = tuple((self.mesh.axis_names.index(n),) for n in self.unreduced_axes)
        return Tiling(self.mesh.axis_sizes, axes).coordinates

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        if len(aval_shape) < len(self.spec):
            scalars = " For scalars the PartitionSpec should be P()"
            raise ValueError(
                f"Sharding {self} is only valid for values of rank at least"
                f" {len(self.spec)}, but was applied to a value of rank"
                f" {len(aval_shape)}." + ("" if aval_shape else scalars)
            )

    def update(self, **changes: Any) -> NamedSharding:
        """This sharding with another mesh, spec or memory."""
        spec = changes.get("spec", self.spec)
        if not isinstance(spec, PartitionSpec):
            spec = PartitionSpec(*spec)
        kind = changes.get("memory_kind", self.memory_kind)
        return NamedSharding(changes.get("mesh", self.mesh), spec, memory_kind=kind)

    def with_memory_kind(self, kind: str) -> NamedSharding:
        return self.update(memory_kind=kind)

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        if not isinstance(other, NamedSharding):
            return super().is_equivalent_to(other, ndim)
        abstract = isinstance(self.mesh, AbstractMesh)
        if abstract != isinstance(other.mesh, AbstractMesh):
            return False
        return (
            (abstract or self.devices == other.devices)
            and self.memory_kind == other.memory_kind
            and self.tiling(ndim) == other.tiling(ndim)
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, NamedSharding)
            and self.spec is other.spec
            and self.mesh is other.mesh
            and self.memory_kind == other.memory_kind
        )

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __repr__(self) -> str:
        kind = "" if self.memory_kind is None else f", memory_kind={self.memory_kind}"
        return f"NamedSharding(mesh={self.mesh!s}, spec={self.spec}{kind})"


@functools.lru_cache(4096)
def _tiling(
    names: tuple[Any, ...], sizes: tuple[int, ...], spec: PartitionSpec, rank: int
) -> Tiling:
    dims = [[names.index(n) for n in axes] for axes in spec.axes_of_dims()]
    dims += [[]] * (rank - len(dims))
    return tiling(sizes, dims, [i for i, n in enumerate(names) if n in spec.unreduced])


def checked_memory(kind: str, device: Any) -> str:
    """The memory kind; ValueError, which names the device, for unknown ones."""
    if kind in MEMORIES:
        return kind
    known = ", ".join(MEMORIES)
    if device is None:
        raise ValueError(
            f"Got invalid memory kind: {kind}. Valid memory kinds are: {known}"
        )
    raise ValueError(
        f"Could not find memory addressable by device {device.device_kind}. Device"
        f" {device.device_kind} can address the following memory kinds: {known}. Got"
        f" memory kind: {kind}"
    )


def _check_spec(mesh: Mesh | AbstractMesh, spec: PartitionSpec) -> None:
    used = spec.used_axes()
    for what, sums in (("Unreduced", spec.unreduced), ("Reduced", spec.reduced)):
        if not sums <= {*mesh.axis_names}:
            raise ValueError(
                f"{what} axes {set(sums)} is not found in mesh.axis_names="
                f"{mesh.axis_names}. Got pspec={spec}"
            )
        if sums and not sums <= {*mesh.explicit_axes}:
            raise ValueError(
                f"{what} axes can only refer to mesh axes that is of type `Explicit`."
                f" Got {what.lower()} axes: {set(sums)} and mesh: {mesh}"
            )
    for name in used:
        if name not in mesh.axis_names:
            raise ValueError(
                f"Resource axis: {name} of {spec} is not found in mesh:"
                f" {mesh.axis_names}."
            )
    check_distinct(spec)
    if UNCONSTRAINED in spec.partitions and not mesh.auto_axes:
        raise ValueError(
            f"{spec} cannot contain `P.UNCONSTRAINED` when no mesh axis_types are"
            f" `Auto`. Got mesh axis_types: {mesh.axis_types}"
        )


def check_distinct(spec: PartitionSpec) -> None:
    """Raise DuplicateSpecError if an axis splits a spec's dims more than once."""
    used = spec.used_axes()
    for name in used:
        if used.count(name) > 1:
            raise DuplicateSpecError(
                "A single NamedSharding spec specification can map every mesh axis to"
                f" at most one positional dimension, but {spec} has duplicate entries"
                f" for `{name}`"
            )


class DuplicateSpecError(ValueError):
    """A spec that splits two dims, or one twice, over the same axis."""


def normalised(spec: PartitionSpec) -> PartitionSpec:
    """The spec without the entries at its end that split nothing."""
    entries = list(spec.partitions)
    while entries and entries[-1] is None:
        entries.pop()
    return spec.update(entries)
