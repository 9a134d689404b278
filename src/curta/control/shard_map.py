"""`ShardMap`: one program for all devices of a mesh, each on its shards.

The body is a jaxpr of one device's work. All devices run the same program on the
memory they share, so that running it is mapping it: over each axis of the mesh, as
`vmap` does, with the collectives as ordinary ops between the shards. Whatever a
transformation or the compiler does to a `ShardMap`, it does to that program.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from curta.control.call import Call, JaxprOp
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.mesh import (
    EMPTY_ABSTRACT_MESH,
    EMPTY_MESH,
    AbstractMesh,
    AxisType,
    Mesh,
    scope,
    within,
)
from curta.core.partition_spec import (
    UNCONSTRAINED,
    PartitionSpec,
    entry_axes,
    entry_of,
)
from curta.core.placement import placement
from curta.core.sharding import NamedSharding
from curta.core.stage import stage
from curta.core.trace import Trace, current_trace, typeof, use_trace
from curta.primitives.collective import rows_in_order
from curta.primitives.placing import ShardingConstraint
from curta.primitives.structure import Reshape, Transpose, batch_dim_at, reshape
from curta.transforms.jaxprs import batch_jaxpr, run_closed
from curta.transforms.vmap import BatchAxis, batch

Specs = tuple[PartitionSpec, ...]


class NamedAxes(Trace):
    """Puts the axes of a mesh in scope for what is staged under it."""

    def __init__(self, parent: Trace, sizes: Mapping[Any, int]):
        self.parent: Trace = parent
        self.sizes = sizes

    def axis_sizes(self) -> dict[Any, int]:
        return {**self.parent.axis_sizes(), **self.sizes}


@dataclasses.dataclass(frozen=True)
class ShardMap(JaxprOp):
    """`body` run by every device, on the shards that `in_specs` give it.

    `axes` are those of the mesh that are mapped over.
    """

    name: ClassVar[str] = "shard_map"
    param_names: ClassVar[Mapping[str, str | None]] = {
        "jaxpr": "body",
        "newly_manual_axes": "axes",
    }
    body: ClosedJaxpr
    mesh: Mesh | AbstractMesh
    in_specs: Specs
    out_specs: Specs
    axes: frozenset[Any]
    check_vma: bool

    def params(self) -> dict[str, Any]:
        return {
            "check_vma": self.check_vma,
            "in_specs": self.in_specs,
            "jaxpr": self.body.jaxpr,
            "mesh": self.mesh,
            "newly_manual_axes": self.axes,
            "out_specs": self.out_specs,
        }

    @property
    def jaxpr(self) -> ClosedJaxpr:  # type: ignore[override]
        """The program on whole arrays."""
        return whole_program(self)

    def with_jaxpr(self, jaxpr: ClosedJaxpr) -> Call:
        return Call(jaxpr, self.name)

    def batch(
        self, axis: Any, args: Sequence[Any], dims: Sequence[int | None]
    ) -> tuple[Any, Any]:
        own = axis.spmd or ()
        used = {n for s in self.in_specs for n in s.used_axes()}
        if used & {*own}:
            raise ValueError(
                "vmap spmd_axis_name cannot appear in shard_map in_specs: "
                f"{own} is in {self.in_specs}"
            )
        with self.scope():
            inner = axis._replace(size=axis.size // self.mesh.size_of(own))
            body, out_dims = batch_jaxpr(self.body, inner, tuple(dims))
        in_specs = [_with_dim(s, d, own) for s, d in zip(self.in_specs, dims)]
        out_specs = [_with_dim(s, d, own) for s, d in zip(self.out_specs, out_dims)]
        op = dataclasses.replace(
            self, body=body, in_specs=tuple(in_specs), out_specs=tuple(out_specs)
        )
        return op(*args), out_dims

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """What is in scope where the body is traced."""
        manual = dict.fromkeys(self.axes, AxisType.Manual)
        mesh = self.mesh.abstract_mesh.update_axis_types(manual)
        concrete = self.mesh if isinstance(self.mesh, Mesh) else scope().concrete
        sizes = {n: self.mesh.shape[n] for n in self.mesh.in_order(self.axes)}
        checks = self.check_vma
        with within(mesh, concrete=concrete, checks_varying=checks):
            with use_trace(NamedAxes(current_trace(), sizes)):
                yield

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        outs = []
        for inner, spec in zip(self.body.out_avals, self.out_specs, strict=True):
            parts = [self.mesh.size_of(axes) for axes in _dims(spec, inner.ndim)]
            shape = tuple(n * k for n, k in zip(inner.shape, parts, strict=True))
            out = ShapedArray(shape, inner.dtype, inner.weak_type)
            outs.append(out.update(placement=self._placement(inner, spec)))
        return outs

    def _placement(self, inner: ShapedArray, spec: PartitionSpec) -> Any:
        """Where an output is: how the mesh's explicit axes split it."""
        explicit = {n for n, t in self.mesh.types.items() if t is AxisType.Explicit}
        own = inner.placement.entries if inner.placement is not None else ()
        own = own or (None,) * inner.ndim
        entries = [
            entry_of(n for n in (*axes, *entry_axes(e)) if n in explicit)
            for axes, e in zip(_dims(spec, inner.ndim), own, strict=True)
        ]
        varying = inner.vma - self.axes
        return placement(self.mesh.abstract_mesh, entries, varying)


def _with_dim(
    spec: PartitionSpec, dim: int | None, axes: tuple[Any, ...]
) -> PartitionSpec:
    """The spec of an array with one more dim, split over `axes`."""
    if dim is None:
        return spec
    entries = list(spec.partitions)
    entries += [None] * (dim - len(entries))
    entries.insert(dim, entry_of(axes))
    while entries and entries[-1] is None and len(entries) > len(spec):
        entries.pop()
    return spec.update(entries)


def _dims(spec: PartitionSpec, rank: int) -> list[tuple[Any, ...]]:
    """The axes of each dim of an array of that rank."""
    return spec.for_rank(rank).axes_of_dims()


@functools.lru_cache(maxsize=2048)
def whole_program(op: ShardMap) -> ClosedJaxpr:
    """The body mapped over the axes of the mesh: a jaxpr of whole arrays."""
    names = op.mesh.in_order(op.axes)
    used = [frozenset(s.used_axes()) & op.axes for s in op.in_specs]
    mentioned = [frozenset(s.used_axes()) & op.axes for s in op.out_specs]

    def mapped(level: int, args: Sequence[Any]) -> list[Any]:
        """Over the axes from `level` on; dims of those before are tracers' own."""
        if level == len(names):
            return run_closed(op.body, args)
        name = names[level]
        axis = BatchAxis(op.mesh.shape[name], name, devices=True)
        dims = [0 if name in axes else None for axes in used]
        outs, found = batch(lambda *xs: mapped(level + 1, xs), axis, args, dims)
        return [
            batch_dim_at(x, d, axis.size, 0) if name in axes else _any_of(x, d)
            for x, d, axes in zip(outs, found, mentioned, strict=True)
        ]

    def run(*args: Any) -> list[Any]:
        with within(EMPTY_ABSTRACT_MESH, checks_varying=False, guesses=True):
            whole = [_laid_out(x, s, op) for x, s in zip(args, op.in_specs)]
            outs = mapped(0, [_parted(x, s, op) for x, s in zip(whole, op.in_specs)])
            whole = [_joined(x, s, op) for x, s in zip(outs, op.out_specs)]
            return [_laid_out(x, s, op) for x, s in zip(whole, op.out_specs)]

    avals = []
    for inner, spec in zip(op.body.in_avals, op.in_specs, strict=True):
        parts = [op.mesh.size_of(axes) for axes in _dims(spec, inner.ndim)]
        shape = tuple(n * k for n, k in zip(inner.shape, parts, strict=True))
        avals.append(ShapedArray(shape, inner.dtype, inner.weak_type))
    return stage(run, avals, op.body.jaxpr.debug_info)


def _laid_out(x: Any, spec: PartitionSpec, op: ShardMap) -> Any:
    """The array, said to be split so: that holds for derivatives too."""
    entries: tuple[Any, ...] = spec.for_rank(typeof(x).ndim).partitions
    if len(op.axes) < len(op.mesh.axis_names):
        entries = tuple(UNCONSTRAINED if e is None else e for e in entries)
    target = NamedSharding(op.mesh, PartitionSpec(*entries))
    return ShardingConstraint(target, EMPTY_MESH)(x)


def _any_of(x: Any, dim: int | None) -> Any:
    """The value of the first device, for what is said to be the same on all."""
    if dim is None:
        return x
    row = rows_in_order(batch_dim_at(x, dim, 1, 0), [0])
    return reshape(row, typeof(row).shape[1:])


def _axes_of(spec: PartitionSpec, rank: int, op: ShardMap) -> list[tuple[Any, ...]]:
    return [tuple(n for n in axes if n in op.axes) for axes in _dims(spec, rank)]


def _parted(x: Any, spec: PartitionSpec, op: ShardMap) -> Any:
    """The shards of an array, along a dim in front for each axis it is split over."""
    shape = typeof(x).shape
    dims = _axes_of(spec, len(shape), op)
    if not any(dims):
        return x
    names = [n for axes in dims for n in (*axes, None)]
    sizes = []
    for size, axes in zip(shape, dims, strict=True):
        sizes += [op.mesh.shape[n] for n in axes] + [size // op.mesh.size_of(axes)]
    front = [names.index(n) for n in op.mesh.in_order({*names} - {None})]
    rest = [d for d in range(len(sizes)) if d not in front]
    return _transposed(Reshape(tuple(sizes))(x), (*front, *rest))


def _joined(x: Any, spec: PartitionSpec, op: ShardMap) -> Any:
    """The array of such shards."""
    count = len(spec.used_axes())
    shape = typeof(x).shape
    dims = _axes_of(spec, len(shape) - count, op)
    if not any(dims):
        return x
    front = list(op.mesh.in_order({n for axes in dims for n in axes}))
    order: list[int] = []
    for d, axes in enumerate(dims):
        order += [front.index(n) for n in axes] + [len(front) + d]
    whole = [
        n * op.mesh.size_of(axes)
        for n, axes in zip(shape[len(front) :], dims, strict=True)
    ]
    return Reshape(tuple(whole))(_transposed(x, tuple(order)))


def _transposed(x: Any, order: tuple[int, ...]) -> Any:
    return x if order == tuple(range(len(order))) else Transpose(order)(x)
