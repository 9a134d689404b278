"""Devices, and where arrays lie on them.

There is one kind of device so far, the CPU. It can pose as several devices
(`jax_num_cpu_devices`), which share its memory and its processors.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from curta.config import config


@dataclasses.dataclass(frozen=True, repr=False)
class Device:
    """A place where arrays are held and computed with.

    >>> devices()[0]
    CpuDevice(id=0)
    """

    id: int
    platform: str = "cpu"
    device_kind: str = "cpu"
    process_index: int = 0

    @property
    def local_hardware_id(self) -> int:
        """The number of the device on this machine."""
        return self.id

    @property
    def host_id(self) -> int:
        """The process the device belongs to."""
        return self.process_index

    def memory_stats(self) -> None:
        """Figures of memory use; the CPU keeps none."""
        return None

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"


class Sharding:
    """How the elements of an array are laid out over devices."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, repr=False)
class SingleDeviceSharding(Sharding):
    """The whole array on one device."""

    device: Device
    memory_kind: str | None = "unpinned_host"

    @property
    def device_set(self) -> set[Device]:
        """The devices that hold a part of the array."""
        return {self.device}

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices of this process that hold a part of the array."""
        return {self.device}

    @property
    def num_devices(self) -> int:
        """How many devices hold a part of the array."""
        return 1

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return True

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can reach all devices."""
        return True

    def devices_indices_map(
        self, global_shape: tuple[int, ...]
    ) -> dict[Device, tuple[slice, ...]]:
        """Which part of an array of `global_shape` each device holds."""
        return {self.device: (slice(None),) * len(global_shape)}

    addressable_devices_indices_map = devices_indices_map

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the part on one device."""
        return tuple(global_shape)

    def __repr__(self) -> str:
        return (
            f"SingleDeviceSharding(device={self.device!r},"
            f" memory_kind={self.memory_kind})"
        )


@functools.cache
def _cpu_devices() -> tuple[Device, ...]:
    return tuple(Device(i) for i in range(max(1, config.jax_num_cpu_devices)))


def devices(backend: str | None = None) -> list[Device]:
    """All devices, or those of the platform `backend`.

    Raises RuntimeError if there is no such platform.

    >>> devices("cpu")
    [CpuDevice(id=0)]
    """
    if backend not in (None, "cpu"):
        raise RuntimeError(
            f"Unknown backend: '{backend}' requested, but no platforms that are"
            f" instances of {backend} are present. Platforms present are: cpu"
        )
    return list(_cpu_devices())


def local_devices(
    process_index: int | None = None,
    backend: str | None = None,
    host_id: int | None = None,
) -> list[Device]:
    """The devices of this process."""
    wanted = host_id if process_index is None else process_index
    if wanted not in (None, 0):
        raise ValueError(f"Unknown process_index {wanted}: the only process is 0")
    return devices(backend)


def device_count(backend: str | None = None) -> int:
    """How many devices there are."""
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """How many devices this process has."""
    return len(local_devices(backend=backend))


def process_index(backend: str | None = None) -> int:
    """The number of this process among the cooperating ones."""
    return 0


def process_count(backend: str | None = None) -> int:
    """How many processes cooperate."""
    return 1


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of the cooperating processes."""
    return [0]


def default_backend() -> str:
    """The platform that runs what is placed nowhere in particular."""
    return "cpu"


def default_device() -> Device:
    """The device of new arrays; see `jax_default_device`."""
    wanted = config.jax_default_device
    if wanted is None:
        return _cpu_devices()[0]
    return devices(wanted)[0] if isinstance(wanted, str) else wanted


def as_device(place: Any) -> Device | None:
    """The device that a user's `device` argument names; None if it names none.

    Raises ValueError for what is neither a device nor a sharding.
    """
    if place is None or isinstance(place, Device):
        return place
    if isinstance(place, SingleDeviceSharding):
        return place.device
    raise ValueError(
        "`jax.device_put` only accepts `None`, `jax.sharding.Sharding`,"
        " `jax.Device`, `Format`, `jax.memory.Space` or a pytree of these values."
        f" Received invalid value: {place}"
    )
