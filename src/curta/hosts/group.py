"""The hosts that meet in a collective."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property

Name = Any


@dataclass(frozen=True)
class HostGroup:
    """The hosts of a host mesh, which meet along some of its axes.

    `hosts` are their numbers in the order of the mesh, the last axis fastest. Hosts
    that differ only along `axes` form a group; within it they are in the order of
    `axes`, the last one fastest.
    """

    axis_names: tuple[Name, ...]
    axis_sizes: tuple[int, ...]
    hosts: tuple[int, ...]
    axes: tuple[Name, ...]

    @cached_property
    def size(self) -> int:
        """How many hosts meet."""
        sizes = dict(zip(self.axis_names, self.axis_sizes, strict=True))
        return math.prod(sizes[n] for n in self.axes)

    def along(self, axes: tuple[Name, ...]) -> HostGroup:
        """The same hosts, along other axes."""
        return HostGroup(self.axis_names, self.axis_sizes, self.hosts, axes)

    @cached_property
    def all_members(self) -> tuple[tuple[int, ...], ...]:
        """All groups, each with the numbers of its hosts in their order."""
        grid = np.array(self.hosts).reshape(self.axis_sizes)
        along = [self.axis_names.index(n) for n in self.axes]
        rest = [d for d in range(grid.ndim) if d not in along]
        rows = grid.transpose(*rest, *along).reshape(-1, self.size)
        return tuple(tuple(map(int, row)) for row in rows)

    def members(self, host: int) -> tuple[int, ...]:
        """The hosts that meet a host, in their order."""
        return next(row for row in self.all_members if host in row)

    def index(self, host: int) -> int:
        """The number of a host within its group."""
        return self.members(host).index(host)
