"""Ops over the order of rows of a dim that is cut: running folds, argmax, reversals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.core.jaxpr import Eqn
from curta.core.trace import typeof
from curta.partition.along import Partitioning, Parts, Splits, along_cut
from curta.partition.host_mesh import HostMesh
from curta.partition.own_rows import first_row
from curta.partition.part import HostPart, settled, with_dim
from curta.partition.windows import (
    Window,
    dynamic_rows,
    filled,
    reached,
    rows_of,
)
from curta.primitives.cumulative import Cumulative
from curta.primitives.elementwise import add, clamp, eq
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.elementwise.select import select_n
from curta.primitives.host_collectives import HostGather, HostIndex, HostPermute
from curta.primitives.reduction import ArgReduction
from curta.primitives.shape import Rev, Squeeze, expand_dims
from curta.primitives.sorting import TopK, take_along
from curta.primitives.structure import BroadcastInDim, exact_scalar

Axes = tuple[Any, ...]


def _first_rows(part: HostPart, dim: int, hosts: HostMesh) -> HostPart | None:
    """A part whose rows of a dim are each on one host, from the first host on."""
    part = settled(part, hosts, but=dim)
    window, axes = part.window(dim, hosts), part.split[dim]
    group = hosts.group(axes)
    result = Window(window.size, window.every, 0)
    if not result.reaches(window.every, group.size):
        return None
    x = reached(part.value, dim, window, 0, window.every, group)
    return with_dim(part, dim, x, axes, hosts, result)


@along_cut.register
def _cumulative(
    op: Cumulative, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    """The running fold of each part, and before it the fold of the parts in front."""
    dim, hosts = op.axis, partitioner.hosts
    if not parts[0].split[dim] or eqn.invars[0].aval.dtype.kind == "V":
        return None
    part = _first_rows(parts[0], dim, hosts)
    if part is None:
        return None
    group = hosts.group(part.split[dim])
    window = part.window(dim, hosts)
    x = part.value
    dtype = typeof(x).dtype
    if part.windows and part.windows[dim]:
        if dtype.kind == "c" and op.name == "cumlogsumexp":
            return None
        fill = exact_scalar(op.identity(dtype), dtype)
        x = filled(x, dim, window, fill, group)
    local = op(x)
    rows = window.every
    end = rows_of(local, dim, *((0, 1) if op.reverse else (rows - 1, rows)))
    ends = op(HostGather(group, dim)(end))
    step = np.int32(1 if op.reverse else -1)
    neighbour = add(HostIndex(group)(), step)
    first = eq(HostIndex(group)(), np.int32(group.size - 1 if op.reverse else 0))
    neighbour = clamp(np.int32(0), neighbour, np.int32(group.size - 1))
    before = dynamic_rows(ends, dim, neighbour, 1)
    shape = typeof(x).shape
    before = BroadcastInDim(shape, tuple(range(len(shape))))(before)
    both = (local, before) if op.reverse else (before, local)
    mask = BroadcastInDim(shape, ())(first)
    return [part._replace(value=select_n(mask, op.joined(*both), local))]


@along_cut.register
def _arg_reduction(
    op: ArgReduction, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    """The extremum of each part and its index, then that of these."""
    (dim,), hosts = op.axes, partitioner.hosts
    if not parts[0].split[dim]:
        return None
    part = _first_rows(parts[0], dim, hosts)
    if part is None:
        return None
    group, window = hosts.group(part.split[dim]), part.window(dim, hosts)
    x = part.value
    dtype = typeof(x).dtype
    if part.windows:
        x = filled(x, dim, window, exact_scalar(op.identity(dtype), dtype), group)
    index = expand_dims(op(x), (dim,))
    best = take_along(x, index, dim)
    index = _numbered(index, window.every, group)
    best, index = (HostGather(group, dim)(y) for y in (best, index))
    winner = expand_dims(op(best), (dim,))
    result = Squeeze((dim,))(take_along(index, winner, dim))
    split = tuple(axes for d, axes in enumerate(part.split) if d != dim)
    return [partitioner.refined(HostPart(result, split), wanted[0])]


def _numbered(index: Any, every: int, group: Any) -> Any:
    """Indices in the whole dim, of indices in the rows of this host."""
    aval = typeof(index)
    start = first_row(group, every)
    start = convert_element_type(start, aval.dtype)
    return add(index, BroadcastInDim(aval.shape, ())(start))


@along_cut.register
def _greatest(
    op: TopK, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    """The greatest of each part, then those of these."""
    hosts, aval = partitioner.hosts, eqn.invars[0].aval
    dim = op.axis % aval.ndim
    part = settled(parts[0], hosts)
    axes = part.split[dim]
    members, rows = hosts.size_of(axes), typeof(part.value).shape[dim]
    kept = min(op.k, rows)
    if not axes or 2 * kept >= rows or not op.k:
        return None
    group = hosts.group(axes)
    best, index = TopK(kept, dim)(part.value)
    index = _numbered(index, rows, group)
    best, index = (HostGather(group, dim)(y) for y in (best, index))
    best, winner = TopK(op.k, dim)(best)
    assert members * kept >= op.k
    split = (*part.split[:dim], (), *part.split[dim + 1 :])
    result = [best, take_along(index, winner, dim)]
    pairs = zip(result, wanted, strict=True)
    return [partitioner.refined(HostPart(x, split), want) for x, want in pairs]


@along_cut.register
def _rev(
    op: Rev, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    """Parts are exchanged with those at the other end."""
    (part,), hosts = parts, partitioner.hosts
    cut = [d for d in op.dimensions if part.split[d]]
    if not cut or 0 in eqn.outvars[0].aval.shape:
        return None
    for d in cut:
        window, axes = part.window(d, hosts), part.split[d]
        group, rows = hosts.group(axes), typeof(part.value).shape[d]
        last = group.size - 1
        pairs = tuple((k, last - k) for k in range(group.size))
        first = window.size - last * window.every - window.first - rows
        x = HostPermute(group, pairs)(part.value)
        result = Window(window.size, window.every, first)
        part = with_dim(part, d, x, axes, hosts, result)
    return [part._replace(value=op(part.value))]
