"""Memories of devices, by the kinds that shardings name."""

from __future__ import annotations

from typing import Any

from curta.lazy_dataclass import dataclass


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
        """The devices that read it as this memory."""
        return [self.device]
