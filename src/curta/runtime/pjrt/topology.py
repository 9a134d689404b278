"""Devices that need not be there, for compiling ahead of time."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, NoReturn

from curta._base.once import cached_property
from curta.errors import JaxRuntimeError
from curta.runtime.pjrt.devices import Description
from curta.runtime.pjrt.library import Library
from curta.runtime.pjrt.program import PluginModule, PluginProgram
from curta.runtime.pjrt.values import (
    NamedValues,
    Value,
    bytes_of,
    decode,
    pointers,
    text,
)


class KnownMemory(NamedTuple):
    """A memory of a device that need not be there: all that is known is its kind."""

    kind: str


class TopologyDevice(Description):
    """A device that need not be there: programs are compiled for it, and not run."""

    memories: ClassVar[tuple[KnownMemory, ...]] = tuple(
        map(KnownMemory, ("device", "pinned_host", "unpinned_host"))
    )
    local_hardware_id = -1

    def __init__(self, client: Topology, address: int) -> None:
        super().__init__(client.library, address)
        self.client = client

    def memory_stats(self) -> None:
        """Nothing is in its memory."""


class Topology:
    """Devices by kind and arrangement.

    `owner` is what frees it, a client; `create` makes one that frees itself.
    """

    def __init__(self, library: Library, address: int, owner: Any = None) -> None:
        self.library = library
        self.address = address
        self.owner = owner

    def __del__(self) -> None:
        if self.owner is None and not sys.is_finalizing():
            self._call("Destroy")

    def _call(self, what: str) -> Any:
        return self.library.call(f"TopologyDescription_{what}", topology=self.address)

    @cached_property
    def platform(self) -> str:
        result = self._call("PlatformName")
        return text(result.platform_name, result.platform_name_size)

    @cached_property
    def platform_version(self) -> str:
        result = self._call("PlatformVersion")
        return text(result.platform_version, result.platform_version_size)

    @cached_property
    def devices(self) -> list[TopologyDevice]:
        """Its devices, in the order that the plugin gives them."""
        result = self._call("GetDeviceDescriptions")
        addresses = pointers(result.descriptions, result.num_descriptions)
        return [TopologyDevice(self, address) for address in addresses]

    @cached_property
    def attributes(self) -> dict[str, Any]:
        result = self._call("Attributes")
        return decode(result.attributes, result.num_attributes)

    def check_open(self) -> NoReturn:
        """Raise JaxRuntimeError: nothing can run on devices that need not be there."""
        raise JaxRuntimeError(
            "UNIMPLEMENTED: the devices of a topology are there to compile for, by"
            " jit(f).lower(...).compile(): no array can be put on them, and no program"
            " run."
        )

    def put(self, *args: Any, **options: Any) -> NoReturn:
        """As `check_open`."""
        self.check_open()

    def serialize(self) -> bytes:
        """Bytes that identify the topology."""
        result = self._call("Serialize")
        data = ctypes.string_at(result.serialized_bytes, result.serialized_bytes_size)
        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        free(result.serialized_topology_deleter)(result.serialized_topology)
        return data

    def compile(self, program: str | bytes, options: bytes) -> PluginProgram:
        """Compile a module for these devices, without them."""
        module = PluginModule(self.library, program, options)
        result = self.library.call(
            "Compile", module.struct, topology=self.address, **module.arguments
        )
        return PluginProgram(self.library, result.executable)


def create(
    library: Library, name: str = "", options: Mapping[str, Value] | None = None
) -> Topology:
    """A topology by its name, `v5e:2x2` say, or by options of the plugin.

    Raises JaxRuntimeError if the plugin does not know it.
    """
    encoded = name.encode()
    named, data = NamedValues(options or {}), bytes_of(encoded)
    result = library.call(
        "TopologyDescription_Create",
        topology_name=ctypes.addressof(data),
        topology_name_size=len(encoded),
        create_options=named.address,
        num_options=named.count,
    )
    return Topology(library, result.topology)
