"""Programs for devices of a topology: they are compiled there, and not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from curta.core.jaxpr import ClosedJaxpr
from curta.errors import JaxRuntimeError
from curta.partition.destinations import Destinations
from curta.partition.named_devices import Shardings
from curta.runtime.backends import CompileOptions
from curta.runtime.devices import Client, Device
from curta.runtime.donation import find_donation
from curta.runtime.pjrt import plugins
from curta.runtime.pjrt.backend import lower_for_devices
from curta.runtime.pjrt.errors import status_of
from curta.runtime.pjrt.platforms import platform_of
from curta.runtime.pjrt.presence import seen_platforms
from curta.runtime.pjrt.program import PluginProgram
from curta.runtime.pjrt.topology import Topology, create


class TopologyClient(Client):
    """What the devices of one topology have in common."""

    def __init__(self, platform: str, topology: Topology) -> None:
        super().__init__(platform)
        self.platform_version: str = topology.platform_version
        self.runtime_type = "compile_only_runtime"
        self._devices = [
            Device(d.id, platform, d.kind, d.process_index, d, topology=self)
            for d in topology.devices
        ]

    def devices(self) -> list[Any]:
        """The devices of the topology."""
        return list(self._devices)

    def local_devices(self) -> list[Any]:
        """None of them is there."""
        return []


def topology_devices(platform: str, name: str, options: Mapping[str, Any]) -> list[Any]:
    """The devices of a topology that the plugin of a platform knows.

    Raises:
      RuntimeError: there is no such plugin.
      NotImplementedError: it knows no topologies.
      JaxRuntimeError: it does not know this one.
    """
    plugin = plugins.find(platform)
    try:
        topology = create(plugin.library(), name, options)
    except JaxRuntimeError as error:
        if status_of(error) == "UNIMPLEMENTED":
            raise NotImplementedError(str(error)) from None
        raise
    shown = platform_of(plugin.name).alias or plugin.name
    seen_platforms.add(plugin.name)
    return TopologyClient(shown, topology).devices()


class ProgramAhead:
    """A program compiled for devices of a topology; calling it raises JaxRuntimeError.

    Args:
      closed: the program.
      to: where its arguments and results are to be.
      given: the shardings of the arguments.
      donated: which arguments results may overwrite.
      options: flags of XLA by name.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        to: Destinations,
        given: Shardings,
        donated: Sequence[bool],
        options: Mapping[str, Any],
    ) -> None:
        devices = to.devices(given)
        self.destinations = to
        self.consumed: Any = find_donation(closed, donated) if any(donated) else {}
        self._topology: Topology = devices[0].hardware.client
        outs = to.results(given)
        where = CompileOptions(to.function, devices, given, outs, self.consumed)
        program = lower_for_devices(closed, where)
        self.executable: PluginProgram = self._topology.compile(
            program.text, program.options(options)
        )

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        self._topology.check_open()

    def read_alone(self, placed: Shardings) -> Shardings:
        """The shardings of the arguments, None for those that are not read."""
        return self.destinations.read_alone(placed)
