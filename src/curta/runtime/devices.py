"""Devices, and where arrays lie on them.

The CPU can pose as several devices (`jax_num_cpu_devices`), which share its memory and
its processors, and these as those of several hosts (`curta_simulate_hosts`). Other
platforms are those of plugins (runtime/pjrt), which are looked for when somebody first
asks for a device.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import field
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta._base.on_demand import late
from curta._base.once import once
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.mesh import Mesh, retyped
from curta.core.mesh_scope import concrete_mesh, get_abstract_mesh, get_concrete_mesh
from curta.core.sharding import (
    MEMORIES,
    NamedSharding,
    Sharding,
    checked_memory,
    default_sharding,
    in_memory,
    normalised,
    on_device,
    set_default_sharding,
)
from curta.errors import JaxRuntimeError
from curta.hosts.engine import of_process
from curta.runtime.host_runs import several_hosts
from curta.runtime.pjrt.presence import platforms, seen_platforms

plugins: Any = late("curta.runtime.pjrt.plugins")


@dataclass(frozen=True)
class Memory:
    """What a sharding of a memory kind names on a device: the memory of the host."""

    device: Any
    kind: str

    @property
    def platform(self) -> str:
        """The platform of the device."""
        return self.device.platform

    @property
    def process_index(self) -> int:
        """The process the device belongs to."""
        return self.device.process_index

    def addressable_by_devices(self) -> list[Any]:
        """The devices that can address this memory."""
        return [self.device]


@dataclass(frozen=True, repr=False)
class Device:
    """A device: memory that stores arrays, and the processor that computes with them.

    >>> devices()[0]
    CpuDevice(id=0)
    """

    id: int
    platform: str = "cpu"
    device_kind: str = "cpu"
    process_index: int = 0
    hardware: Any = field(default=None, compare=False)
    """The plugin's device, None for a CPU of our own compiler."""
    simulated_host: int | None = None
    """The host that the device poses to be on; None for that of its process."""
    topology: Any = None
    """What it is a device of if it need not be there: programs are compiled for it."""

    @property
    def platform_name(self) -> str:
        """The platform that programs are for: `cuda` where `platform` is `gpu`."""
        return "cpu" if self.hardware is None else self.hardware.client.platform

    @property
    def local_hardware_id(self) -> int:
        """The number of the device on this machine."""
        return self.id if self.hardware is None else self.hardware.local_hardware_id

    @property
    def host(self) -> int:
        """The host whose memory it uses (docs/design/hosts.md)."""
        host = self.simulated_host
        return self.process_index if host is None else host

    @property
    def host_id(self) -> int:
        """The process the device belongs to."""
        return self.process_index

    @property
    def client(self) -> Client:
        """The client, platform or topology of the device."""
        return self.topology or client(self.platform)

    def memory_stats(self) -> dict[str, int] | None:
        """Figures of memory use in bytes; the CPU keeps none."""
        return None if self.hardware is None else self.hardware.memory_stats()

    def addressable_memories(self) -> list[Memory]:
        """The memories that it reads, by the kinds that shardings name."""
        if self.hardware is None:
            return [Memory(self, kind) for kind in MEMORIES]
        return [Memory(self, m.kind) for m in self.hardware.memories]

    def default_memory(self) -> Memory:
        """The memory of arrays that no sharding says more of."""
        return self.addressable_memories()[0]

    def memory(self, kind: str) -> Memory:
        """The memory of a kind; JaxRuntimeError if there is none.

        >>> devices()[0].memory("pinned_host").addressable_by_devices()
        [CpuDevice(id=0)]
        """
        try:
            return Memory(self, checked_memory(kind, self))
        except ValueError as error:
            raise JaxRuntimeError(f"INVALID_ARGUMENT: {error}") from None

    def __getattr__(self, name: str) -> Any:
        # What the maker says of a device: `compute_capability`, `coords`, ...
        hardware = self.__dict__.get("hardware")
        if hardware is None or name not in hardware.attributes:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return hardware.attributes[name]

    def __repr__(self) -> str:
        return f"{self._name().capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self._name()}:{self.id}"

    def _name(self) -> str:
        return self.platform_name if self.platform == "gpu" else self.platform


class Client:
    """A platform: the state shared by its devices.

    >>> devices()[0].client.device_count()
    1
    """

    def __init__(self, platform: str):
        self.platform = platform
        self.platform_version = platform
        self.runtime_type = "curta"  # what runs programs: JAX says "pjrt_ifrt"

    def devices(self) -> list[Device]:
        """Its devices."""
        return devices(self.platform)

    def local_devices(self) -> list[Device]:
        """The devices of this process."""
        return local_devices(backend=self.platform)

    def device_count(self) -> int:
        """The number of devices of all processes."""
        return len(self.devices())

    def local_device_count(self) -> int:
        """The number of devices of this process."""
        return len(self.local_devices())

    def process_index(self) -> int:
        """The number of this process."""
        return of_process().index

    def __repr__(self) -> str:
        return f"Client({self.platform!r})"


@once
def client(platform: str) -> Client:
    """The one client of a platform."""
    return Client(platform)


# JAX's way of asking for several, which it hands on to XLA.
_FLAG = re.compile(r"--xla_force_host_platform_device_count=(\d+)")


@once
def _plugin_devices(name: str) -> tuple[Device, ...]:
    shown = plugins.platform_of(name).alias or name
    result = plugins.client(name).devices
    seen_platforms.add(name)
    return tuple(Device(d.id, shown, d.kind, d.process_index, d) for d in result)


def _cpu_devices() -> tuple[Device, ...]:
    count, hosts = config.jax_num_cpu_devices, config.curta_simulate_hosts
    if count < 1:
        given = _FLAG.findall(os.environ.get("XLA_FLAGS", ""))
        count = max(1, int(given[-1])) if given else hosts
    return _virtual_devices(count, min(hosts, count), of_process().count)


@once
def _virtual_devices(count: int, hosts: int, processes: int) -> tuple[Device, ...]:
    """The CPU devices of all processes, each of which has as many.

    Those of one process are in blocks on its simulated hosts.
    """
    if hosts > 1 and processes > 1:
        raise RuntimeError(
            f"curta_simulate_hosts={hosts} in a program of {processes} processes: hosts"
            " are simulated in one process."
        )
    return tuple(
        Device(
            process * count + i,
            process_index=process,
            simulated_host=i * hosts // count if hosts > 1 else None,
        )
        for process in range(processes)
        for i in range(count)
    )


def devices_are_counted() -> bool:
    """Whether anything has asked yet how many devices there are."""
    return _virtual_devices.cache_info().currsize > 0 or has_plugin_devices()


_REMEDY = (
    " A plugin brings the devices of a platform: pip install 'curta[cuda13]',"
    " 'curta[rocm7]' or 'curta[tpu]'. JAX_PLATFORMS=cuda makes it an error, with the"
    " reason, if an installed one finds none."
)


def devices(backend: str | None = None) -> list[Device]:
    """Return all devices, or all devices of the platform `backend`.

    Raises RuntimeError if there is no such platform.

    >>> devices("cpu")
    [CpuDevice(id=0)]
    """
    known = platforms()
    name = known[0] if backend is None else backend
    if name == "gpu":  # a name for more than one platform
        name = next((n for n in ("cuda", "rocm") if n in known), name)
    if name == "cpu" and name in known:
        return list(_cpu_devices())
    if name in known:
        return list(_plugin_devices(name))
    if name == "gpu":
        raise RuntimeError(
            "Unknown backend: 'gpu' requested, but no platforms that are instances of"
            f" gpu are present. Platforms present are: {','.join(known)}.{_REMEDY}"
        )
    raise RuntimeError(
        f"Unknown backend {backend}. Available backends are {[*known]}.{_REMEDY}"
    )


def local_devices(
    process_index: int | None = None,
    backend: str | None = None,
    host_id: int | None = None,
) -> list[Device]:
    """Return the devices of this process, or of another.

    Args:
      process_index, host_id: a process's number; by default this one's.
      backend: the platform, "cpu"; by default all that there are.

    Returns:
      A list of devices.

    Raises:
      ValueError: for a process that is not there.
      RuntimeError: for an unknown backend.

    >>> import curta
    >>> curta.local_devices()[0]
    CpuDevice(id=0)
    """
    here = of_process()
    wanted = host_id if process_index is None else process_index
    if wanted is not None and wanted not in range(here.count):
        raise ValueError(
            f"Unknown process_index {wanted}: there are {here.count} processes"
        )
    wanted = here.index if wanted is None else wanted
    return [d for d in devices(backend) if d.process_index == wanted]


def default_device() -> Device:
    """The device of new arrays; see `jax_default_device`.

    >>> from curta.extend import backend
    >>> backend.get_default_device()
    CpuDevice(id=0)
    """
    wanted = config.jax_default_device
    if wanted is None:
        return local_devices()[0]
    return local_devices(backend=wanted)[0] if isinstance(wanted, str) else wanted


def has_plugin_devices() -> bool:
    """Whether devices of plugins were asked for."""
    return bool(seen_platforms)


def may_be_remote() -> bool:
    """Whether there may be arrays on devices of plugins, or on several hosts."""
    return has_plugin_devices() or several_hosts()


def default_is_host() -> bool:
    """Whether our own compiler runs what is placed nowhere in particular."""
    wanted = config.jax_default_device
    if wanted is None:
        return platforms()[0] == "cpu"
    return default_device().hardware is None


def _default_sharding(aval: ShapedArray | None) -> Sharding:
    """The default device; for an array all devices of a mesh in scope."""
    if config.curta_mesh_context is None or aval is None:
        return on_device(default_device())
    mesh, abstract = get_concrete_mesh(), get_abstract_mesh()
    if aval.placement is not None and not aval.placement.mesh.empty:
        mesh = concrete_mesh(aval.placement.mesh) or mesh
    elif not abstract.empty:
        mesh = retyped(mesh, abstract)
    return on_device(default_device()) if mesh.empty else over_mesh(mesh, aval)


set_default_sharding(_default_sharding)


def first_sharding(aval: ShapedArray) -> Sharding:
    """Where arrays are that were made with neither a device nor a mesh in scope."""
    where = aval.placement
    mesh = None if where is None else concrete_mesh(where.mesh)
    return on_device(local_devices()[0]) if mesh is None else over_mesh(mesh, aval)


def placing_of(aval: ShapedArray) -> Sharding:
    """Where arrays of a type are: as the type says, or nowhere in particular."""
    where = aval.placement
    mesh = None
    if where is not None and not where.mesh.empty:
        mesh = concrete_mesh(where.mesh)
    result = default_sharding(aval) if mesh is None else over_mesh(mesh, aval)
    return in_memory(result, aval)


@functools.lru_cache(4096)
def over_mesh(mesh: Mesh, aval: ShapedArray) -> NamedSharding:
    """The sharding over a mesh that the type of an array says."""
    spec = aval.sharding.spec.for_rank(aval.ndim)
    return NamedSharding(mesh, spec if mesh.explicit_axes else normalised(spec))
