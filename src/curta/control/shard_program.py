"""What runs a `shard_map`: one program of whole arrays, the body mapped over the mesh.

All devices run the same program on the memory they share, so that running it is
mapping it: over each axis of the mesh, as `vmap` does, with the collectives as
ordinary ops between the shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_with_jaxpr
from curta.core.mesh import EMPTY_ABSTRACT_MESH, EMPTY_MESH
from curta.core.mesh_scope import within
from curta.core.partition_spec import UNCONSTRAINED, PartitionSpec
from curta.core.sharding import NamedSharding
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.primitives.collective import rows_in_order
from curta.primitives.placing import ShardingConstraint
from curta.primitives.structure import Reshape, Transpose, batch_dim_at, reshape
from curta.transforms.jaxprs import run_closed
from curta.transforms.vmap import BatchAxis, batch


def dims_of(spec: PartitionSpec, rank: int) -> list[tuple[Any, ...]]:
    """The axes of each dim of an array of that rank."""
    return spec.for_rank(rank).axes_of_dims()


def whole_program(op: Any) -> ClosedJaxpr:
    """The body mapped over the axes of the mesh: a jaxpr of whole arrays."""
    return mapped_program(op, op.mesh)


@kept_with_jaxpr
def mapped_program(op: Any, mesh: Any, hosts: tuple[Any, ...] = ()) -> ClosedJaxpr:
    """The body mapped over the axes of a mesh, which may be that of one host's devices.

    Then `hosts` has, by axes, what takes collectives on to the others.
    """
    names = mesh.in_order(op.axes)
    body = op.delivered_body()
    laid = op if mesh is op.mesh else None
    used, mentioned = (
        [(frozenset(s.used_axes()) | s.unreduced) & op.axes for s in specs]
        for specs in (op.in_specs, op.out_specs)
    )
    parts = _Parts(mesh, op.axes)

    def mapped(level: int, args: Sequence[Any]) -> list[Any]:
        """Over the axes from `level` on; dims of those before are tracers' own."""
        if level == len(names):
            return run_closed(body, args)
        name = names[level]
        along = dict(hosts).get(name)
        axis = BatchAxis(mesh.shape[name], name, devices=True, hosts=along)
        dims = [0 if name in axes else None for axes in used]
        outs, out_dims = batch(lambda *xs: mapped(level + 1, xs), axis, args, dims)
        return [
            batch_dim_at(x, d, axis.size, 0) if name in axes else _any_of(x, d)
            for x, d, axes in zip(outs, out_dims, mentioned, strict=True)
        ]

    def run(*args: Any) -> list[Any]:
        with within(EMPTY_ABSTRACT_MESH, checks_varying=False, guesses=True):
            whole = [_laid_out(x, s, laid) for x, s in zip(args, op.in_specs)]
            outs = mapped(0, [_parted(x, s, parts) for x, s in zip(whole, op.in_specs)])
            whole = [_joined(x, s, parts) for x, s in zip(outs, op.out_specs)]
            return [_laid_out(x, s, laid) for x, s in zip(whole, op.out_specs)]

    avals = []
    for inner, spec in zip(op.body.in_avals, op.in_specs, strict=True):
        counts = [mesh.size_of(axes) for axes in dims_of(spec, inner.ndim)]
        shape = tuple(n * k for n, k in zip(inner.shape, counts, strict=True))
        shape = (*[mesh.shape[n] for n in _terms(spec, parts)], *shape)
        avals.append(ShapedArray(shape, inner.dtype, inner.weak_type))
    return stage(run, avals, op.body.jaxpr.debug_info)


class _Parts(NamedTuple):
    """A mesh, and the axes along which arrays are cut into parts."""

    mesh: Any
    axes: frozenset[Any]


def _terms(spec: PartitionSpec, op: Any) -> tuple[Any, ...]:
    """The axes along which an array has the terms of a sum, dims in front."""
    result: tuple[Any, ...] = op.mesh.in_order(spec.unreduced & op.axes)
    return result


def _laid_out(x: Any, spec: PartitionSpec, op: Any) -> Any:
    """The array, said to be split so: that holds for derivatives too."""
    if op is None:
        return x
    front = _terms(spec, op)
    entries: tuple[Any, ...] = spec.for_rank(typeof(x).ndim - len(front)).partitions
    if len(op.axes) < len(op.mesh.axis_names):
        if not op.mesh.auto_axes:
            return x  # how it is split over the other axes is for its type to say
        entries = tuple(UNCONSTRAINED if e is None else e for e in entries)
    target = NamedSharding(op.mesh, PartitionSpec(*front, *entries))
    return ShardingConstraint(target, EMPTY_MESH)(x)


def _any_of(x: Any, dim: int | None) -> Any:
    """The value of the first device, for what is said to be the same on all."""
    if dim is None:
        return x
    row = rows_in_order(batch_dim_at(x, dim, 1, 0), [0])
    return reshape(row, typeof(row).shape[1:])


def _axes_of(spec: PartitionSpec, rank: int, op: Any) -> list[tuple[Any, ...]]:
    return [tuple(n for n in axes if n in op.axes) for axes in dims_of(spec, rank)]


def _parted(x: Any, spec: PartitionSpec, op: Any) -> Any:
    """The shards of an array, along a dim in front for each axis it is split over."""
    shape, terms = typeof(x).shape, _terms(spec, op)
    whole = shape[len(terms) :]
    dims = _axes_of(spec, len(whole), op)
    if not any(dims):
        return x
    names = [*terms, *(n for axes in dims for n in (*axes, None))]
    sizes = list(shape[: len(terms)])
    for size, axes in zip(whole, dims, strict=True):
        sizes += [op.mesh.shape[n] for n in axes] + [size // op.mesh.size_of(axes)]
    front = [names.index(n) for n in op.mesh.in_order({*names} - {None})]
    rest = [d for d in range(len(sizes)) if d not in front]
    return _transposed(Reshape(tuple(sizes))(x), (*front, *rest))


def _joined(x: Any, spec: PartitionSpec, op: Any) -> Any:
    """The array of such shards."""
    terms = _terms(spec, op)
    count = len(spec.used_axes()) + len(terms)
    shape = typeof(x).shape
    dims = _axes_of(spec, len(shape) - count, op)
    if not any(dims):
        return x
    front = list(op.mesh.in_order({*terms, *(n for axes in dims for n in axes)}))
    order = [front.index(n) for n in terms]
    for d, axes in enumerate(dims):
        order += [front.index(n) for n in axes] + [len(front) + d]
    whole = [op.mesh.shape[n] for n in terms]
    for n, axes in zip(shape[len(front) :], dims, strict=True):
        whole.append(n * op.mesh.size_of(axes))
    return Reshape(tuple(whole))(_transposed(x, tuple(order)))


def _transposed(x: Any, order: tuple[int, ...]) -> Any:
    return x if order == tuple(range(len(order))) else Transpose(order)(x)
