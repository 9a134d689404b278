"""The devices that a program is compiled for ahead of time.

>>> from curta.experimental import topologies
>>> there = topologies.get_attached_topology()
>>> topologies.make_mesh(there, (1,), ("x",)).axis_names
('x',)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta._base.on_demand import Listing, late, listed
from curta.api.meshes import create_device_mesh
from curta.core.mesh import Mesh
from curta.runtime.devices import Device, devices

__all__ = [
    "TopologyDescription",
    "get_attached_topology",
    "get_topology_desc",
    "make_mesh",
]
__dir__: Listing = listed(__all__)

# Plugins are looked for when somebody asks.
ahead_of_time: Any = late("curta.runtime.ahead_of_time")


class TopologyDescription:
    """A number of `devices` that work together.

    >>> from curta.experimental import topologies
    >>> topologies.get_attached_topology().devices
    [CpuDevice(id=0)]
    """

    def __init__(self, devices: list[Device]):
        self.devices = devices


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The topology of the devices of this process.

    >>> from curta.experimental import topologies
    >>> len(topologies.get_attached_topology().devices)
    1
    """
    return TopologyDescription(devices(platform))


def get_topology_desc(
    topology_name: str = "", platform: str | None = None, **options: Any
) -> TopologyDescription:
    """Devices of a plugin that need not be there.

    Shardings over them make `jit(f).lower(...).compile()` compile for them: what that
    gives says what it costs, and cannot be called.

    Args:
      topology_name: what the plugin calls it: `v5e:2x2`, say.
      platform: the platform of the plugin; TPU by default.
      options: further options of the plugin, such as `target_config` and `topology` for
        CUDA.

    Raises:
      NotImplementedError: the platform has no topologies, as the CPU.
      RuntimeError: there is no plugin of the platform.
      JaxRuntimeError: the plugin does not know the topology.

    Returns:
      The devices, as `TopologyDescription.devices`.

    >>> from curta.experimental import topologies
    >>> topologies.get_topology_desc(platform="cpu")
    Traceback (most recent call last):
        ...
    NotImplementedError: UNIMPLEMENTED: topology not implemented for ...
    """
    if platform == "cpu":
        raise NotImplementedError(
            "UNIMPLEMENTED: topology not implemented for platform 'cpu': programs are"
            " compiled for the processor they run on. See get_attached_topology; the"
            " setting jax_num_cpu_devices lets the CPU pose as several devices."
        )
    result = ahead_of_time.topology_devices(platform or "tpu", topology_name, options)
    return TopologyDescription(result)


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Sequence[int],
    axis_names: tuple[str, ...],
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """The devices of a topology as a mesh of this shape.

    Args:
      topo: what `get_topology_desc` or `get_attached_topology` gave.
      mesh_shape: the sizes of the axes.
      axis_names: their names.
      contiguous_submeshes: for networks of TPUs; changes nothing here.

    Returns:
      A mesh of all devices of the topology.

    Raises:
      ValueError: unless the product of the sizes is the number of devices.

    >>> from curta.experimental import topologies
    >>> topologies.make_mesh(topologies.get_attached_topology(), (1,), ("i",))
    Mesh(axis_sizes=(1,), axis_names=('i',), axis_types=(Auto,))
    """
    grid = create_device_mesh(
        mesh_shape, list(topo.devices), contiguous_submeshes=contiguous_submeshes
    )
    return Mesh(grid, axis_names)
