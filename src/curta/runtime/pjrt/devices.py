"""The devices and memories of a plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from curta._base.once import cached_property
from curta.errors import JaxRuntimeError
from curta.runtime.pjrt.errors import status_of
from curta.runtime.pjrt.library import Library
from curta.runtime.pjrt.values import decode, pointers, text

if TYPE_CHECKING:
    from curta.runtime.pjrt.client import PluginClient


class Description:
    """What is known of a device, there or not: of a topology or a client."""

    def __init__(self, library: Library, address: int) -> None:
        self.library = library
        self.description = address

    def _ask(self, what: str) -> Any:
        return self.library.call(
            f"DeviceDescription_{what}", device_description=self.description
        )

    @cached_property
    def id(self) -> int:
        """A number, unique among all processes."""
        return self._ask("Id").id

    @cached_property
    def process_index(self) -> int:
        """The process whose device this is."""
        return self._ask("ProcessIndex").process_index

    @cached_property
    def kind(self) -> str:
        """The maker's name for it: `NVIDIA H100 80GB HBM3`."""
        result = self._ask("Kind")
        return text(result.device_kind, result.device_kind_size)

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """Coordinates, number of cores and the like."""
        result = self._ask("Attributes")
        return decode(result.attributes, result.num_attributes)

    def __repr__(self) -> str:
        result = self._ask("ToString")
        return text(result.to_string, result.to_string_size)


class PluginDevice(Description):
    """A device of a client."""

    def __init__(self, client: PluginClient, address: int) -> None:
        library = client.library
        result = library.call("Device_GetDescription", device=address)
        super().__init__(library, result.device_description)
        self.client = client
        self.address = address

    def _call(self, what: str) -> Any:
        return self.library.call(f"Device_{what}", device=self.address)

    @cached_property
    def local_hardware_id(self) -> int:
        """The number of the device on this machine; -1 if unknown."""
        return self._call("LocalHardwareId").local_hardware_id

    @cached_property
    def memories(self) -> list[PluginMemory]:
        """The memories that it can use."""
        result = self._call("AddressableMemories")
        addresses = pointers(result.memories, result.num_memories)
        return [self.client.memory_at(address) for address in addresses]

    @cached_property
    def default_memory(self) -> PluginMemory:
        """The memory where arrays lie if nothing is said."""
        return self.client.memory_at(self._call("DefaultMemory").memory)

    def memory(self, kind: str) -> PluginMemory:
        """The memory of a kind; JaxRuntimeError if there is none."""
        for memory in self.memories:
            if memory.kind == kind:
                return memory
        kinds = ", ".join(m.kind for m in self.memories)
        raise JaxRuntimeError(
            "INVALID_ARGUMENT: Could not find memory addressable by device"
            f" {self.kind}. Device {self.kind} can address the following memory kinds:"
            f" {kinds}. Got memory kind: {kind}"
        )

    def memory_stats(self) -> dict[str, int] | None:
        """Bytes in use, at the peak, at most; None where the plugin does not count."""
        try:
            result = self._call("MemoryStats")
        except JaxRuntimeError as error:
            if status_of(error) == "UNIMPLEMENTED":
                return None
            raise
        named = {name for name, _ in result._fields_}
        counted = {"bytes_in_use"}
        counted |= {n for n in named if getattr(result, f"{n}_is_set", False)}
        return {name: getattr(result, name) for name in sorted(counted)}


class PluginMemory:
    """A memory of a client: of kind `device`, `pinned_host`, `unpinned_host`."""

    def __init__(self, client: PluginClient, address: int) -> None:
        self.client = client
        self.library: Library = client.library
        self.address = address

    def _call(self, what: str) -> Any:
        return self.library.call(f"Memory_{what}", memory=self.address)

    @cached_property
    def id(self) -> int:
        return self._call("Id").id

    @cached_property
    def kind(self) -> str:
        result = self._call("Kind")
        return text(result.kind, result.kind_size)

    @property
    def devices(self) -> list[PluginDevice]:
        """The devices that can use it."""
        result = self._call("AddressableByDevices")
        addresses = pointers(result.devices, result.num_devices)
        return [self.client.device_at(address) for address in addresses]

    def __repr__(self) -> str:
        result = self._call("ToString")
        return text(result.to_string, result.to_string_size)
