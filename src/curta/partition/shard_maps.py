"""`shard_map` on one host: its body mapped over the host's devices.

A collective first has what these devices hold, along the dim of the mapped axis, and
then goes on between hosts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.control.shard_map import ShardMap
from curta.control.shard_program import mapped_program
from curta.core.avals import ShapedArray
from curta.core.mesh import AbstractMesh
from curta.core.partition_spec import PartitionSpec
from curta.core.trace import typeof
from curta.partition.host_mesh import HostMesh, Split
from curta.partition.own_rows import first_row
from curta.partition.part import HostPart, own_slice, resharded
from curta.primitives.collective import Pmax, Pmin, Psum
from curta.primitives.elementwise import add
from curta.primitives.exchange import AllToAll, Ppermute, PsumScatter
from curta.primitives.host_collectives import (
    HostExchange,
    HostGather,
    HostPermute,
    HostReduce,
    HostReduceScatter,
)
from curta.primitives.structure import BroadcastInDim, batch_dim_at, reshape
from curta.transforms.jaxprs import run_closed

_KINDS = {Psum: "sum", Pmax: "max", Pmin: "min"}


def on_one_host(
    op: ShardMap,
    hosts: HostMesh,
    parts: Sequence[HostPart],
    outs: Sequence[ShapedArray],
) -> list[HostPart] | None:
    """The results on one host; None if its devices do not hold one part of each."""
    sizes = hosts.local_sizes
    if [*sizes] != [*op.mesh.axis_names] or any(
        op.mesh.shape[n] != k * hosts.sizes.get(n, 1) for n, k in sizes.items()
    ):
        return None
    shapes = [_whole_shape(part, hosts) for part in parts]
    ins = [_split(op, s, shape, hosts) for s, shape in zip(op.in_specs, shapes)]
    result = [_split(op, s, a.shape, hosts) for s, a in zip(op.out_specs, outs)]
    if None in ins or None in result:
        return None
    local = AbstractMesh(tuple(sizes.values()), tuple(sizes), op.mesh.axis_types)
    along = tuple((n, AlongHosts(hosts, n)) for n in hosts.axis_names if n in op.axes)
    program = mapped_program(op, local, along)
    values = [resharded(part, s, hosts) for part, s in zip(parts, ins) if s is not None]
    results = run_closed(program, values)
    return [HostPart(x, s) for x, s in zip(results, result) if s is not None]


def _whole_shape(part: HostPart, hosts: HostMesh) -> tuple[int, ...]:
    pairs = zip(typeof(part.value).shape, part.split, strict=True)
    return tuple(n * hosts.size_of(axes) for n, axes in pairs)


def _split(
    op: ShardMap, spec: PartitionSpec, shape: Sequence[int], hosts: HostMesh
) -> Split | None:
    """How hosts hold what a spec says; None if that is more than their devices do."""
    if spec.unreduced & op.axes:
        return None
    entries = [
        tuple(n for n in axes if n in op.axes)
        for axes in spec.for_rank(len(shape)).axes_of_dims()
    ]
    split = hosts.split(entries, shape)
    wanted = tuple(tuple(n for n in axes if n in hosts.sizes) for axes in entries)
    return split if split == wanted else None


@dataclass(frozen=True)
class AlongHosts:
    """What takes collectives along the axis `name` of a mesh on to other hosts."""

    hosts: HostMesh
    name: Any

    @property
    def group(self) -> Any:
        """The hosts that meet."""
        return self.hosts.group((self.name,))

    def numbered(self, count: Any) -> Any:
        """The numbers along the axis of the devices of this host."""
        (size,) = typeof(count).shape
        first = first_row(self.group, size)
        return add(count, BroadcastInDim((size,), ())(first))

    def met(
        self, op: Any, axis: Any, args: Sequence[Any], dims: Sequence[int | None]
    ) -> tuple[Any, Any]:
        """A collective over the axis, of which `axis` has this host's devices."""
        if all(d is None for d in dims):
            # Replicated operands: no communication.
            size = axis.size * self.group.size
            out, dim = op.batch(axis._replace(size=size, hosts=None), args, dims)
            return self._own(out, dim, axis.size)
        if len(args) == 1 and getattr(op, "groups", None) is None:
            result = self._direct(op, axis, args[0], dims[0])
            if result is not None:
                return result
        rows = [
            x if d is None else HostGather(self.group, 0)(_front(x, d, axis.size))
            for x, d in zip(args, dims, strict=True)
        ]
        everywhere = [None if d is None else 0 for d in dims]
        size = axis.size * self.group.size
        out, dim = op.batch(axis._replace(size=size, hosts=None), rows, everywhere)
        return self._own(out, dim, axis.size)

    def _own(self, out: Any, dim: Any, size: int) -> tuple[Any, Any]:
        """Of results for all devices, those of this host."""
        if isinstance(out, (list, tuple)):
            pairs = [self._own(x, d, size) for x, d in zip(out, dim, strict=True)]
            return [x for x, _ in pairs], [d for _, d in pairs]
        if dim is None:
            return out, None
        rows = batch_dim_at(out, dim, size * self.group.size, 0)
        return own_slice(rows, 0, (self.name,), self.hosts), 0

    def _direct(
        self, op: Any, axis: Any, x: Any, dim: int | None
    ) -> tuple[Any, Any] | None:
        """The collectives that need not gather what all devices hold."""
        kind = next((k for c, k in _KINDS.items() if isinstance(op, c)), None)
        if kind is not None:
            out, _ = dataclasses.replace(op, axis_names=(axis.name,)).over(
                axis._replace(hosts=None), x, dim
            )
            out = HostReduce(self.group, kind)(out)
            rest = tuple(n for n in op.axis_names if n != axis.name)
            return (
                dataclasses.replace(op, axis_names=rest)(out) if rest else out
            ), None
        if axis.size > 1 or len(op.axis_names) > 1:
            return None
        row = _front(x, dim, 1)
        row = reshape(row, typeof(row).shape[1:])
        out = self._of_one(op, row)
        return None if out is None else (reshape(out, (1, *typeof(out).shape)), 0)

    def _of_one(self, op: Any, x: Any) -> Any:
        """A collective of hosts with one device each, on the shard of that device."""
        if isinstance(op, Ppermute):
            return HostPermute(self.group, op.perm)(x)
        if isinstance(op, PsumScatter):
            out = HostReduceScatter(self.group, "sum", op.dim)(x)
            shape = typeof(out).shape
            kept = shape if op.tiled else (*shape[: op.dim], *shape[op.dim + 1 :])
            return reshape(out, kept)
        if isinstance(op, AllToAll) and op.tiled:
            return HostExchange(self.group, op.split_dim, op.concat_dim)(x)
        return None


def _front(x: Any, dim: int | None, size: int) -> Any:
    return batch_dim_at(x, dim, size, 0)
