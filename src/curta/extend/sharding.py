"""`GSPMDSharding`: an array shared out by numbers of devices, without a mesh."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta._base.on_demand import Listing, own
from curta._base.once import cached_property
from curta.core.mesh import AxisType, Mesh
from curta.core.partition_spec import PartitionSpec, entry_of
from curta.core.sharding import NamedSharding, Sharding, checked_memory
from curta.core.tiling import Tiling, tiling

__dir__: Listing = own(__name__)


class GSPMDSharding(Sharding):
    """An array whose tiles are on numbered devices.

    Args:
      devices: the devices that the tiling numbers.
      op_sharding: the `Tiling`, as `sharding._to_xla_hlo_sharding(rank)` gives it.

    Computations see it as the split over a mesh with the axes `_axis_0`, `_axis_1`, ...
    that it is, and so are their results.

    Raises:
      TypeError: for anything but a tiling, XLA's messages among them.
      ValueError: if it is for another number of devices.
      NotImplementedError: if the devices hold the terms of sums.

    >>> import curta
    >>> mesh = curta.make_mesh((1,), ("x",))
    >>> rows = curta.NamedSharding(mesh, curta.P("x"))
    >>> GSPMDSharding(rows.devices, rows._to_xla_hlo_sharding(2))
    GSPMDSharding({replicated}, memory_kind=device)
    """

    def __init__(
        self,
        devices: Sequence[Any],
        op_sharding: Tiling,
        *,
        memory_kind: str | None = None,
    ):
        if not isinstance(op_sharding, Tiling):
            raise TypeError(
                "GSPMDSharding takes the tiling that a sharding gives, by"
                " `_to_xla_hlo_sharding(rank)`, not"
                f" {op_sharding} of type {type(op_sharding)}"
            )
        self._devices = tuple(devices)
        if op_sharding.num_devices() != len(self._devices):
            raise ValueError(
                f"GSPMDSharding got {len(self._devices)} devices for the tiling"
                f" {op_sharding} over {op_sharding.num_devices()}"
            )
        if op_sharding.terms:
            raise NotImplementedError(
                f"GSPMDSharding of terms of sums, {op_sharding}: use a NamedSharding"
                " over explicit axes."
            )
        self._tiling = op_sharding
        if memory_kind is not None:
            self.memory_kind: str = checked_memory(memory_kind, self._devices[0])

    @classmethod
    def get_replicated(
        cls, device_assignment: Sequence[Any], *, memory_kind: str | None = None
    ) -> GSPMDSharding:
        """The whole array on each of the devices."""
        whole = tiling([len(device_assignment)], [])
        return cls(device_assignment, whole, memory_kind=memory_kind)

    def __reduce__(self) -> Any:
        make = functools.partial(GSPMDSharding, memory_kind=self.memory_kind)
        return make, (self._devices, self._tiling)

    @property
    def devices(self) -> tuple[Any, ...]:
        return self._devices

    @property
    def is_fully_replicated(self) -> bool:
        return self._tiling.is_replicated()

    def tiling(self, rank: int) -> Tiling:
        given = self._tiling
        missing = ((),) * (rank - len(given.dims))
        return Tiling(given.sizes, given.dims[:rank] + missing, given.terms)

    @cached_property
    def named(self) -> NamedSharding:
        sizes = self._tiling.sizes or (1,)
        names = [f"_axis_{i}" for i in range(len(sizes))]
        grid = np.array(self._devices, object).reshape(sizes)
        mesh = Mesh(grid, names, axis_types=(AxisType.Auto,) * len(names))
        entries = [entry_of(names[a] for a in axes) for axes in self._tiling.dims]
        return NamedSharding(mesh, PartitionSpec(*entries))

    def check_compatible_aval(self, aval_shape: Sequence[int]) -> None:
        needed = 0 if self.is_fully_replicated else len(self._tiling.dims)
        if len(aval_shape) < needed:
            raise ValueError(
                f"Sharding {self} is only valid for values of rank at least {needed},"
                f" but was applied to a value of rank {len(aval_shape)}"
            )

    def with_memory_kind(self, kind: str) -> GSPMDSharding:
        return GSPMDSharding(self._devices, self._tiling, memory_kind=kind)

    @property
    def _key(self) -> Any:
        layout = None if self.is_fully_replicated else self._tiling
        return layout, self.memory_kind, self._devices

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GSPMDSharding) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"GSPMDSharding({self._tiling}, memory_kind={self.memory_kind})"
