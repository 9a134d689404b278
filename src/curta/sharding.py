"""Device meshes and shardings of arrays over them."""

from curta.api.meshes import get_mesh, set_mesh
from curta.api.placing import auto_axes, explicit_axes, reshard
from curta.core.manual_axes import ManualAxisType
from curta.core.mesh import AbstractDevice, AbstractMesh, AxisType, Mesh
from curta.core.mesh_scope import (
    get_abstract_mesh,
    no_collectives,
    use_abstract_mesh,
)
from curta.core.partition_spec import PartitionSpec, UnreducedKind
from curta.core.sharding import (
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    on_device as make_single_device_sharding,
)

__all__ = [
    "AbstractDevice",
    "AbstractMesh",
    "AxisType",
    "ManualAxisType",
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "UnreducedKind",
    "auto_axes",
    "explicit_axes",
    "get_abstract_mesh",
    "get_mesh",
    "make_single_device_sharding",
    "no_collectives",
    "reshard",
    "set_mesh",
    "use_abstract_mesh",
]
