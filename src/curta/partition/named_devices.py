"""The devices that a program names, by meshes and by single-device shardings.

They are named by ops, within calls and loops too, and by the shardings of results. A
program runs on one set of devices: naming others is refused, as in JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from curta.control.call_exported import refuse_devices
from curta.control.shard_map import ShardMap
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Jaxpr, jaxprs_of
from curta.core.memo import kept_with_jaxpr
from curta.core.mesh import AbstractMesh, Mesh
from curta.core.mesh_scope import concrete_mesh, scope
from curta.core.op import Op
from curta.core.sharding import NamedSharding, Sharding, SingleDeviceSharding
from curta.primitives.placing import DevicePut, Placing, ShardingConstraint

Shardings = Sequence[Sharding | None]


class NamedMesh(NamedTuple):
    """A mesh, perhaps without its devices, and what names it: an op, say."""

    mesh: Mesh | AbstractMesh
    by: str


class NamedDevices(NamedTuple):
    """Devices, and what names them."""

    devices: tuple[Any, ...]
    by: str


def mesh_among(shardings: Shardings) -> Mesh | None:
    """The mesh of the first sharding that has one."""
    for s in shardings:
        if isinstance(s, NamedSharding) and isinstance(s.mesh, Mesh):
            return s.mesh
    return None


def chosen_mesh(named: NamedMesh | None, shardings: Shardings) -> Mesh | None:
    """The mesh over which results are: that of the program, or of its arguments."""
    given = mesh_among(shardings)
    if named is None or (given and given.shape_tuple == named.mesh.shape_tuple):
        return given
    if isinstance(named.mesh, Mesh):
        return named.mesh
    return concrete_mesh(named.mesh, given) or scope().concrete or given


def needed_devices(
    named: NamedMesh | None, devices: Sequence[NamedDevices], shardings: Shardings
) -> tuple[NamedDevices, ...]:
    """The devices that a program names, by a mesh, or otherwise."""
    if named is None:
        return tuple(devices)
    mesh = named.mesh if isinstance(named.mesh, Mesh) else chosen_mesh(named, shardings)
    if mesh is None:
        return tuple(devices)
    first = NamedDevices(mesh.flat_devices, named.by)
    return (first, *(d for d in devices if d.devices != first.devices))


@kept_with_jaxpr
def named_mesh(jaxpr: Jaxpr) -> NamedMesh | None:
    """The mesh that a program names, if it names one."""
    for eqn in jaxpr.eqns_of(_may_name):
        result = mesh_of_op(eqn.op)
        if result is not None:
            return result
    return None


def _may_name(kind: type[Op]) -> bool:
    return kind.holds_jaxprs or issubclass(kind, Placing)


def mesh_of_op(op: Op) -> NamedMesh | None:
    """The mesh that an op names, itself or in its jaxprs."""
    if isinstance(op, ShardMap):
        return NamedMesh(op.mesh, _who(op))
    if isinstance(op, DevicePut):
        return None
    if isinstance(op, Placing) and isinstance(op.target, NamedSharding):
        mesh = op.target.mesh  # one without axes is over any devices
        return NamedMesh(mesh, _who(op)) if mesh.axis_names else None
    for jaxpr in jaxprs_of(op):
        result = named_mesh(jaxpr)
        if result is not None:
            return result
    return None


def named_devices(jaxpr: Jaxpr, out_shardings: Shardings = ()) -> list[NamedDevices]:
    """The devices that a program, or the sharding of its results, names."""
    result = {n.devices: n for n in _named_by_ops(jaxpr)}
    for s in out_shardings:
        if s is not None and not is_abstract(s):
            who = NamedDevices(s.devices, "explicit output sharding")
            result.setdefault(s.devices, who)
    return [*result.values()]


@kept_with_jaxpr
def _named_by_ops(jaxpr: Jaxpr) -> tuple[NamedDevices, ...]:
    result: dict[Any, NamedDevices] = {}
    for eqn in jaxpr.eqns_of(_may_name):
        for named in devices_of_op(eqn.op):
            result.setdefault(named.devices, named)
    return tuple(result.values())


def devices_of_op(op: Op) -> tuple[NamedDevices, ...]:
    """The devices that an op names, itself or in its jaxprs."""
    if isinstance(op, DevicePut):
        return ()
    if isinstance(op, Placing) and isinstance(op.target, SingleDeviceSharding):
        return (NamedDevices(op.target.devices, _who(op)),)
    if isinstance(op, (ShardMap, Placing)):
        named = mesh_of_op(op)
        if named is None or not isinstance(named.mesh, Mesh):
            return ()
        return (NamedDevices(named.mesh.flat_devices, named.by),)
    inner = (_named_by_ops(jaxpr) for jaxpr in jaxprs_of(op))
    return tuple(named for group in inner for named in group)


def _who(op: Op) -> str:
    nested = isinstance(op, ShardingConstraint) and op.of_call
    return f"{'jit' if nested else op.name} inside jit"


def is_abstract(sharding: Sharding) -> bool:
    """Whether it is over a mesh that names no devices."""
    return isinstance(sharding, NamedSharding) and not isinstance(sharding.mesh, Mesh)


def with_devices(sharding: Sharding, devices: Sequence[Any]) -> Sharding:
    """A sharding over a mesh without devices, over these; others stay as they are.

    Raises ValueError for more or fewer devices than the mesh has.
    """
    if not isinstance(sharding, NamedSharding) or isinstance(sharding.mesh, Mesh):
        return sharding
    mesh = sharding.mesh
    if mesh.size != len(devices):
        raise ValueError(
            f"The size of abstract mesh {mesh.size} in {sharding} must match the"
            f" length of device assignment: {len(devices)}"
        )
    grid = np.empty(len(devices), object)
    grid[:] = devices
    shape = tuple(size for _, size in mesh.shape_tuple)
    made = Mesh(grid.reshape(shape), mesh.axis_names, mesh.axis_types)
    return sharding.update(mesh=made)


def check_devices(
    name: str,
    avals: Sequence[ShapedArray],
    shardings: Shardings,
    needed: Sequence[NamedDevices] = (),
    arg_names: Sequence[str] = (),
    jaxpr: Jaxpr | None = None,
) -> None:
    """Raise ValueError if the arguments are not all on the same devices.

    `needed` are the devices that the program needs, and who needs them; `jaxpr` is the
    program, whose calls of exported functions say more.
    """
    devices_of = {i: s.devices for i, s in enumerate(shardings) if s is not None}
    for i, named in enumerate(needed):
        devices_of[~i] = named.devices
    if len({*devices_of.values()}) < 2:
        return
    if jaxpr is not None:
        placed = [len(d) for i, d in devices_of.items() if i >= 0]
        refuse_devices(jaxpr, max(placed, default=1))
    result = []
    first = next(iter(devices_of.values()))
    other = next(i for i, devices in devices_of.items() if devices != first)
    for i in (next(iter(devices_of)), other):
        devices = devices_of[i]
        ids = [d.id for d in devices]
        platform = devices[0].platform.upper()
        where = f"with device ids {ids} on platform {platform}"
        if i < 0:
            result.append(f"{needed[~i].by} {where}")
            continue
        arg = arg_names[i] if i < len(arg_names) else f"args[{i}]"
        shape = avals[i].unplaced().str_short()
        result.append(f"argument {arg} of {name} with shape {shape} and {where}")
    raise ValueError(
        "Received incompatible devices for jitted computation. Got"
        f" {' and '.join(result)}. Bring them to the same devices with device_put."
    )
