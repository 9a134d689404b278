"""Arguments of users that name devices, resolved to shardings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.core.array_layout import Format
from curta.core.mesh import AbstractMesh
from curta.core.mesh_scope import concrete_mesh, get_concrete_mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import NamedSharding, Sharding, on_device
from curta.runtime.devices import Device


def as_sharding(given: Any) -> Sharding | None:
    """The sharding that a user's `device` argument means; None if it means none.

    A device, a sharding, one in a format, a spec over the axes of the mesh in scope.
    Raises ValueError for anything else.
    """
    if isinstance(given, Format):
        given = given.sharding
    if isinstance(given, NamedSharding) and isinstance(given.mesh, AbstractMesh):
        mesh = concrete_mesh(given.mesh)
        return given if mesh is None else given.update(mesh=mesh)
    if given is None or isinstance(given, Sharding):
        return given
    if isinstance(given, Device):
        return on_device(given)
    if isinstance(given, PartitionSpec):
        return named(given, "device_put")
    raise ValueError(
        "`jax.device_put` only accepts `None`, `jax.sharding.Sharding`,"
        " `jax.Device`, `Format`, `jax.memory.Space` or a pytree of these values."
        f" Received invalid value: {given}"
    )


def named(spec: PartitionSpec, user: str) -> NamedSharding:
    """The sharding of a spec over the mesh in scope; ValueError if there is none."""
    mesh = get_concrete_mesh()
    if mesh.empty:
        raise ValueError(
            f"Please set a mesh via `jax.set_mesh` if a PartitionSpec is passed to"
            f" {user}: {spec} names axes of a mesh."
        )
    return NamedSharding(mesh, spec)


def device_grid(mesh_shape: Sequence[int], chosen: Sequence[Device]) -> Any:
    """Devices as an array of a shape."""
    grid = np.empty(len(chosen), object)
    grid[:] = chosen
    return grid.reshape(tuple(mesh_shape))
