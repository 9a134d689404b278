"""Slices, padding and joins along dims that are cut.

Rows stay where they are: a part says which ones it has (windows.py). Only what the
results need at their borders is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from curta.core.jaxpr import Eqn
from curta.core.trace import typeof
from curta.partition.along import Partitioning, Parts, Splits, along_cut
from curta.partition.fits import common_fits, fits_of, windows_of
from curta.partition.host_mesh import HostMesh, split_of
from curta.partition.part import Fit, HostPart, fitted, windowed, with_dim
from curta.partition.windows import (
    Window,
    below,
    chosen,
    positions,
    reached,
    rows_of,
)
from curta.primitives.joining import Concatenate
from curta.primitives.relation import named
from curta.primitives.slicing import Pad, Slice
from curta.primitives.windowed.sliding import dilated


@along_cut.register
def sliced(
    op: Slice, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    (part,), shape = parts, eqn.invars[0].aval.shape
    starts, limits = op.start_indices, op.limit_indices
    steps = op.strides or (1,) * len(starts)
    bounds = [*zip(starts, limits, steps, strict=True)]
    cut = [
        d for d, axes in enumerate(part.split) if axes and bounds[d] != (0, shape[d], 1)
    ]
    if not cut or 0 in eqn.outvars[0].aval.shape:
        return None
    for d in cut:
        result = _cut_rows(part, d, *bounds[d], partitioner.hosts)
        if result is None:
            return None
        part = result
    local = typeof(part.value).shape
    bounds = [
        (0, local[d], 1) if part.split[d] else bound for d, bound in enumerate(bounds)
    ]
    rest = Slice(*map(tuple, zip(*bounds, strict=True)))
    return [part._replace(value=rest(part.value))]


def _cut_rows(
    part: HostPart, dim: int, start: int, limit: int, step: int, hosts: HostMesh
) -> HostPart | None:
    """Rows of a dim that is cut, on the hosts that have them."""
    x, axes, window = part.value, part.split[dim], part.window(dim, hosts)
    if window.every % step:
        return None
    low = (start - window.first) % step
    first = (window.first + low - start) // step
    x = rows_of(x, dim, low, typeof(x).shape[dim], step)
    result = Window(-((start - limit) // step), window.every // step, first)
    return with_dim(part, dim, x, axes, hosts, result)


@along_cut.register
def _pad(
    op: Pad, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    part, fill = parts
    config = op.padding_config
    cut = [d for d, axes in enumerate(part.split) if axes and any(config[d])]
    if not cut or 0 in eqn.invars[0].aval.shape or 0 in eqn.outvars[0].aval.shape:
        return None
    for d in cut:
        result = _padded(part, d, config[d], fill.value, partitioner.hosts)
        if result is None:
            return None
        part = result
    rest = tuple((0, 0, 0) if d in cut else c for d, c in enumerate(config))
    x = part.value
    if any(map(any, rest)):
        x = Pad(rest)(x, fill.value)
    return [part._replace(value=x)]


def _padded(
    part: HostPart, dim: int, config: tuple[int, int, int], fill: Any, hosts: HostMesh
) -> HostPart | None:
    """A dim that is cut with padding, for which rows at borders are sent."""
    low, high, interior = config
    step = interior + 1
    axes, window = part.split[dim], part.window(dim, hosts)
    group = hosts.group(axes)
    have, last = typeof(part.value).shape[dim], (group.size - 1) * window.every
    inner = dilated(window.size, step)
    size = low + inner + high
    first = min(window.first, -(low // step) - bool(low % step))
    end = max(window.first + have, -((low - size) // step) - last)
    if end - first - have > window.every:
        return None
    around = fill if low > 0 or high > 0 else None
    x = reached(part.value, dim, window, first, end - first, group, around)
    if interior:
        spread = [(0, 0, 0)] * typeof(x).ndim
        spread[dim] = (0, interior, interior)
        x = Pad(tuple(spread))(x, fill)
    every, first = window.every * step, first * step + low
    return with_dim(part, dim, x, axes, hosts, Window(size, every, first))


@along_cut.register
def _concatenate(
    op: Concatenate, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    """Each operand is brought to the rows that the largest one has."""
    hosts, d = partitioner.hosts, op.dimension
    sizes = [v.aval.shape[d] for v in eqn.invars]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    cut = [i for i, part in enumerate(parts) if part.split[d]]
    if not cut or 0 in eqn.outvars[0].aval.shape:
        return None
    main = max(cut, key=lambda i: typeof(parts[i].value).size)
    axes, window = parts[main].split[d], parts[main].window(d, hosts)
    target = joined_rows(axes, window, starts[main], sum(sizes), hosts)
    if target is None:
        return None
    avals, outs = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    rank = range(outs[0].ndim)
    names = [[("along", i) if k == d else k for k in rank] for i in range(len(parts))]
    rel = named(avals, outs, names, [[None if k == d else k for k in rank]])
    own = {dims[d][0]: axes for dims in rel.operands}
    parts, fits = common_fits(op, rel, parts, hosts, own)
    given = own | {f: fit.axes for f, fit in fits.items()}
    assigned = partitioner.axes_of_factors(rel, parts, wanted, given)
    numbers = positions(*target, hosts.group(axes))
    result = None
    rows = [*zip(parts, rel.operands, starts, sizes, strict=True)]
    for part, dims, start, size in rows[::-1]:
        if size:
            window = Window(size, target.every, target.first - start)
            fit = Fit(axes, window, target.rows)
            split = split_of(dims, assigned)
            x = fitted(part, split, {**fits_of(dims, fits), d: fit}, hosts)
            here = None if result is None else below(numbers, start + size)
            result = x if here is None else chosen(here, d, x, result)
    split = split_of(rel.operands[main], assigned)
    windows = windows_of(rel.results[0], fits)
    windows[d] = Window(sum(sizes), target.every, target.first)
    return [windowed(result, split, windows, hosts)]


class JoinedRows(NamedTuple):
    """The rows that hosts have of a join."""

    every: int
    first: int
    rows: int


def joined_rows(
    axes: tuple[Any, ...], window: Window, start: int, size: int, hosts: HostMesh
) -> JoinedRows | None:
    """The rows of a join of which an operand from `start` on has a window.

    They are equal parts if they would be many more than the operand's; None if there
    are no equal parts either.
    """
    members, every = hosts.size_of(axes), window.every
    rows = max(every, size - (members - 1) * every)
    if rows <= 2 * every:
        least = min(0, size - members * every)
        return JoinedRows(every, min(0, max(least, window.first + start)), rows)
    if size % members:
        return None
    return JoinedRows(size // members, 0, size // members)
