"""Meshes: devices in a grid whose axes have names."""

from __future__ import annotations

import collections
import contextlib
import enum
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.on_demand import late
from curta._base.once import Interned, cached_property
from curta.hosts.engine import of_process

# Loaded late, as mesh_scope imports this module.
mesh_scope: Any = late("curta.core.mesh_scope")


class AxisType(enum.Enum):
    """Who decides how arrays are split over a mesh axis.

    `Auto`: the compiler, from how its inputs are. `Explicit`: the program; how an
    array is split is part of its type. `Manual`: the axis is mapped over, and the
    program sees one shard of it.

    >>> import curta
    >>> explicit = curta.sharding.AxisType.Explicit
    >>> mesh = curta.make_mesh((1,), ("i",), axis_types=(explicit,))
    >>> with curta.set_mesh(mesh):
    ...     print(curta.typeof(curta.device_put(curta.numpy.ones(2), curta.P("i"))))
    float32[2@i]
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class BaseMesh:
    """What meshes with and without devices share: axes with names, sizes and types."""

    axis_names: tuple[Any, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]

    @cached_property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        """The axes as pairs of name and size."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @cached_property
    def shape(self) -> Mapping[Any, int]:
        """The sizes of the axes by name."""
        return collections.OrderedDict(self.shape_tuple)

    @cached_property
    def types(self) -> Mapping[Any, AxisType]:
        """The types of the axes by name."""
        return dict(zip(self.axis_names, self.axis_types, strict=True))

    @property
    def size(self) -> int:
        """How many devices the mesh has; 0 if it has no axes."""
        return math.prod(self.axis_sizes) if self.axis_sizes else 0

    @property
    def empty(self) -> bool:
        """Whether the mesh has no devices."""
        return self.size == 0

    def _of_type(self, kind: AxisType) -> tuple[Any, ...]:
        return tuple(n for n, t in self.types.items() if t is kind)

    @cached_property
    def auto_axes(self) -> tuple[Any, ...]:
        """The axes that the compiler decides about."""
        return self._of_type(AxisType.Auto)

    @cached_property
    def explicit_axes(self) -> tuple[Any, ...]:
        """The axes that are part of arrays' types."""
        return self._of_type(AxisType.Explicit)

    @cached_property
    def manual_axes(self) -> tuple[Any, ...]:
        """The axes that are being mapped over."""
        return self._of_type(AxisType.Manual)

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether all axes are mapped over; False if there are none."""
        return bool(self.axis_types) and len(self.manual_axes) == len(self.axis_types)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether all axes are left to the compiler; False if there are none."""
        return bool(self.axis_types) and len(self.auto_axes) == len(self.axis_types)

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether all axes are part of types; False if there are none."""
        return bool(self.axis_types) and len(self.explicit_axes) == len(self.axis_types)

    def size_of(self, names: Sequence[Any]) -> int:
        """The product of the sizes of some axes."""
        return math.prod(self.shape[n] for n in names)

    def in_order(self, names: Any) -> tuple[Any, ...]:
        """A set of axes in the order in which the mesh has them."""
        return tuple(n for n in self.axis_names if n in names)

    def _axes_text(self) -> str:
        axes = ", ".join(f"'{n}': {s}" for n, s in self.shape_tuple)
        return f"{axes}, axis_types={self.axis_types}"


class Mesh(BaseMesh, contextlib.ContextDecorator):
    """A grid of devices whose axes have names.

    Args:
      devices: an array of devices, or nested sequences of them.
      axis_names: a name for each dim of `devices`.
      axis_types: an `AxisType` for each, `Auto` if left out.

    Equal meshes are one object. Raises ValueError if the numbers of names, types and
    dims differ.

    >>> import curta
    >>> curta.sharding.Mesh(curta.devices()[:1], ("x",))
    Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Auto,))
    """

    devices: np.ndarray[Any, Any]

    def __new__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Mesh:
        grid = devices if isinstance(devices, np.ndarray) else np.array(devices)
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if any(n is None for n in names):
            raise ValueError(f"Mesh axis names cannot be None. Got: {names}")
        if grid.ndim != len(names):
            raise ValueError(
                "Mesh requires the ndim of its first argument (`devices`) to equal the"
                " length of its second argument (`axis_names`), but got devices.ndim =="
                f" {grid.ndim} and len(axis_names) == {len(names)}."
            )
        types = _axis_types(names, axis_types, "Mesh")
        key = (tuple(grid.flat), grid.shape, names, types)
        result = _meshes.get(key)
        if result is None:
            result = object.__new__(cls)
            result.devices = grid.copy()
            result.devices.flags.writeable = False
            result.axis_sizes = grid.shape
            result.axis_names, result.axis_types = names, types
            result = _meshes.shared(key, result)
        return result

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    def update(
        self, devices: Any = None, axis_names: Any = None, axis_types: Any = None
    ) -> Mesh:
        """This mesh with some of its parts replaced."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    @property
    def size(self) -> int:
        """How many devices the mesh has."""
        none = not self.axis_names and self.devices.flat[0] is None
        return 0 if none else self.devices.size

    @property
    def is_scalar(self) -> bool:
        """Whether the mesh is one device and has no axes."""
        return self.size == 1 and not self.axis_names

    @cached_property
    def device_ids(self) -> np.ndarray[Any, Any]:
        """The numbers of the devices, in the shape of the mesh."""
        ids = [d.id for d in self.devices.flat]
        return np.array(ids, int).reshape(self.devices.shape)

    @property
    def local_devices(self) -> list[Any]:
        """The devices of this process."""
        here = of_process()
        return [d for d in self.devices.flat if d.process_index == here.index]

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh in this process.

        Raises ValueError if its devices are not a block of the mesh.
        """
        here = of_process()
        if here.count == 1 or self.empty:
            return self
        kind = [d.process_index == here.index for d in self.flat_devices]
        own = np.array(kind).reshape(self.devices.shape)
        block = tuple(
            slice(min(i, default=0), 1 + max(i, default=0)) for i in own.nonzero()
        )
        if not own[block].all():
            raise ValueError(
                "The devices of a process must be a block of the mesh, a contiguous"
                f" subcube, but those of process {here.index} are not one of {self}."
            )
        return Mesh(self.devices[block], self.axis_names, self.axis_types)

    @property
    def is_multi_process(self) -> bool:
        """Whether the devices belong to several processes."""
        return not self.empty and len({d.process_index for d in self.flat_devices}) > 1

    @cached_property
    def flat_devices(self) -> tuple[Any, ...]:
        """The devices in row-major order."""
        return tuple(self.devices.flat)

    @cached_property
    def abstract_mesh(self) -> AbstractMesh:
        """The axes without the devices."""
        if not self.axis_names:
            return EMPTY_ABSTRACT_MESH
        device = self.flat_devices[0]
        kind = AbstractDevice(device.device_kind, None, device.platform)
        return AbstractMesh(
            self.axis_sizes, self.axis_names, self.axis_types, abstract_device=kind
        )

    def __enter__(self) -> Mesh:
        mesh_scope.enter(self)
        return self

    def __exit__(self, *error: Any) -> None:
        mesh_scope.leave()

    def __str__(self) -> str:
        return "Mesh()" if self.empty else f"Mesh({self._axes_text()})"

    def __repr__(self) -> str:
        if self.empty:
            return "Mesh(axis_sizes=(), axis_names=())"
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names!r},"
            f" axis_types={self.axis_types})"
        )


@dataclass(frozen=True, repr=False)
class AbstractDevice:
    """The kind of the devices of a mesh.

    >>> from curta.sharding import AbstractDevice
    >>> AbstractDevice("cpu", None, "cpu")
    AbstractDevice(device_kind=cpu, num_cores=None, platform=cpu)
    """

    device_kind: str
    num_cores: int | None
    platform: str

    def text(self) -> str:
        """The fields as the text of an AbstractMesh has them."""
        return (
            f"device_kind={self.device_kind}, num_cores={self.num_cores},"
            f" platform={self.platform}"
        )

    def __repr__(self) -> str:
        return f"AbstractDevice({self.text()})"


class AbstractMesh(BaseMesh):
    """The axes of a mesh without its devices: what tracing needs to know.

    >>> import curta
    >>> curta.sharding.AbstractMesh((4, 2), ("x", "y"))
    AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto))
    """

    abstract_device: AbstractDevice | None

    def __new__(
        cls,
        axis_sizes: Sequence[int],
        axis_names: Any,
        axis_types: Any = None,
        *,
        abstract_device: AbstractDevice | None = None,
    ) -> AbstractMesh:
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        types = _axis_types(names, axis_types, "AbstractMesh")
        key = (tuple(axis_sizes), names, types, abstract_device)
        result = _abstract_meshes.get(key)
        if result is None:
            result = object.__new__(cls)
            result.axis_sizes, result.axis_names = key[0], names
            result.axis_types, result.abstract_device = types, abstract_device
            result = _abstract_meshes.shared(key, result)
        return result

    def __reduce__(self) -> Any:
        return _rebuild_abstract, (
            self.axis_sizes,
            self.axis_names,
            self.axis_types,
            self.abstract_device,
        )

    def update(
        self,
        axis_sizes: Any = None,
        axis_names: Any = None,
        axis_types: Any = None,
        **others: Any,
    ) -> AbstractMesh:
        """This mesh with some of its parts replaced."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            abstract_device=others.get("abstract_device", self.abstract_device),
        )

    def update_axis_types(self, name_to_type: Mapping[Any, AxisType]) -> AbstractMesh:
        """This mesh with the types of some axes replaced."""
        types = [name_to_type.get(n, t) for n, t in self.types.items()]
        return self.update(axis_types=tuple(types))

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh itself."""
        return self

    def _has_no(self, name: str) -> NoReturn:
        raise ValueError(f"AbstractMesh does not implement {name}")

    devices: ClassVar[Any] = property(lambda self: self._has_no("devices"))
    device_ids: ClassVar[Any] = property(lambda self: self._has_no("device_ids"))
    local_devices: ClassVar[Any] = property(lambda self: self._has_no("local_devices"))
    local_mesh: ClassVar[Any] = property(lambda self: self._has_no("local_mesh"))
    is_multi_process: ClassVar[Any] = property(
        lambda self: self._has_no("is_multi_process")
    )

    def __repr__(self) -> str:
        if not self.axis_names:
            return "AbstractMesh((), axis_types=())"
        device = "" if self.abstract_device is None else self.abstract_device.text()
        return f"AbstractMesh({self._axes_text()}{device and f', {device}'})"


_meshes: Interned[Mesh] = Interned()
_abstract_meshes: Interned[AbstractMesh] = Interned()


def _axis_types(names: Sequence[Any], types: Any, what: str) -> tuple[AxisType, ...]:
    if types is None:
        return (AxisType.Auto,) * len(names)
    types = types if isinstance(types, tuple) else (types,)
    if not all(isinstance(t, AxisType) for t in types):
        raise TypeError(
            f"axis_types passed to {what} must be of type `jax.sharding.AxisType`. Got"
            f" {types} of type {tuple(map(type, types))}"
        )
    if len(names) != len(types):
        raise ValueError(
            "Number of axis names should match the number of axis_types. Got"
            f" axis_names={tuple(names)} and axis_types={types}"
        )
    return types


def _rebuild_abstract(sizes: Any, names: Any, types: Any, device: Any) -> AbstractMesh:
    return AbstractMesh(sizes, names, types, abstract_device=device)


EMPTY_ABSTRACT_MESH = AbstractMesh((), ())
EMPTY_MESH = Mesh(np.empty((), dtype=object), ())


def same_axes(mesh: BaseMesh, other: BaseMesh) -> bool:
    """Whether two meshes have axes of the same names, sizes and types."""
    here = mesh.shape_tuple, mesh.axis_types
    return mesh is other or here == (other.shape_tuple, other.axis_types)


def retyped(mesh: Mesh, like: BaseMesh) -> Mesh:
    """The devices of a mesh, with the axes of another that has as many."""
    if same_axes(mesh, like) or like.size != mesh.size:
        return mesh
    return Mesh(mesh.devices.reshape(like.axis_sizes), like.axis_names, like.axis_types)


def last_made(abstract: AbstractMesh) -> Mesh | None:
    """The last mesh made that has these axes, if there is one."""
    made = [m for m in _meshes.values() if m.abstract_mesh is abstract]
    return made[-1] if made else None
