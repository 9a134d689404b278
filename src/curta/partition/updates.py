"""Windows at known starts, read and written along dims that are cut.

Each host writes what falls on its rows; the rows of the update that it lacks are sent.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from curta.core.evaluate import as_numpy, evaluate_op
from curta.core.jaxpr import Eqn, as_operand
from curta.core.trace import typeof
from curta.partition.along import Partitioning, Parts, Splits
from curta.partition.fits import common_fits, fits_of, windows_of
from curta.partition.host_mesh import HostMesh, split_of
from curta.partition.part import Fit, HostPart, fitted, windowed
from curta.partition.stencils import joined_rows, sliced
from curta.partition.windows import Window, between, padded_rows, positions
from curta.primitives.base import Elementwise
from curta.primitives.elementwise import and_
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.elementwise.select import SelectN, select_n
from curta.primitives.indexing.dynamic import DynamicSlice, DynamicUpdateSlice
from curta.primitives.indexing.gather import Scattering
from curta.primitives.joining import Concatenate
from curta.primitives.relation import named
from curta.primitives.shape import Iota
from curta.primitives.slicing import Slice
from curta.primitives.structure import BroadcastInDim, Reshape


def known_integers(parts: Parts) -> list[int] | None:
    """The integers that scalars or vectors have, if they are known."""
    result: list[int] = []
    for part in parts:
        if not isinstance(part.value, (np.ndarray, np.generic, int)):
            return None
        result += np.ravel(part.value).tolist()
    return result


def known_results(eqn: Eqn, parts: Parts) -> list[HostPart] | None:
    """The results of an eqn that are a few integers, if its operands are known."""
    (out, *others) = eqn.outvars
    aval = out.aval
    if others or not isinstance(eqn.op, _FEW) or getattr(aval, "size", 9) > _MOST:
        return None
    if getattr(aval.dtype, "kind", "V") not in "iub" or known_integers(parts) is None:
        return None
    pairs = zip(parts, eqn.invars, strict=True)
    result = evaluate_op(eqn.op, [as_numpy(part.value, v.aval) for part, v in pairs])
    known = as_operand(np.asarray(result[0]), aval)
    return [HostPart(known, ((),) * aval.ndim)]


_MOST = 8  # maximum rank: there is a scalar index for each dim
_FEW = (BroadcastInDim, Concatenate, ConvertElementType, Elementwise, SelectN)


def read_at(
    op: DynamicSlice, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    starts = known_integers(parts[1:])
    if starts is None:
        return None
    bounds = zip(starts, op.slice_sizes, eqn.invars[0].aval.shape, strict=True)
    starts = [max(0, min(start, n - size)) for start, size, n in bounds]
    limits = [start + n for start, n in zip(starts, op.slice_sizes, strict=True)]
    op_at = Slice(tuple(starts), tuple(limits))
    return sliced(op_at, partitioner, eqn, parts[:1], wanted)


def updated_at(
    op: DynamicUpdateSlice,
    partitioner: Partitioning,
    eqn: Eqn,
    parts: Parts,
    wanted: Splits,
) -> Sequence[HostPart] | None:
    operand, update, *rest = parts
    starts = known_integers(rest)
    if starts is None:
        return None
    sizes = eqn.invars[1].aval.shape
    bounds = zip(starts, sizes, eqn.invars[0].aval.shape, strict=True)
    starts = [max(0, min(start, n - size)) for start, size, n in bounds]
    return _written(partitioner, eqn, operand, update, starts, sizes, None, wanted)


def written_at(
    op: Scattering, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    """One window, at a known start inside of the operand."""
    operand, indices, update = parts
    numbers = op.dimension_numbers
    vector = known_integers([indices])
    if vector is None or eqn.invars[1].aval.ndim != 1 or numbers.operand_batching_dims:
        return None
    shape = eqn.invars[0].aval.shape
    starts = [0] * len(shape)
    for d, start in zip(numbers.scatter_dims_to_operand_dims, vector, strict=True):
        starts[d] = start
    inserted = numbers.inserted_window_dims
    if [*numbers.update_window_dims] != [*range(len(update.split))]:
        return None
    left = iter(range(len(update.split)))
    update_dims = [None if d in inserted else next(left) for d in range(len(shape))]
    source = eqn.invars[2].aval.shape
    sizes = [1 if k is None else source[k] for k in update_dims]
    bounds = zip(starts, sizes, shape, strict=True)
    if any(not 0 <= start <= n - size for start, size, n in bounds):
        return None
    local = typeof(update.value).shape
    x = update.value
    if inserted:
        x = Reshape(tuple(1 if k is None else local[k] for k in update_dims))(x)
    windows = update.windows or (None,) * len(local)
    update = windowed(
        x,
        tuple(() if k is None else update.split[k] for k in update_dims),
        [None if k is None else windows[k] for k in update_dims],
        partitioner.hosts,
    )
    return _written(
        partitioner, eqn, operand, update, starts, sizes, op.element_op, wanted
    )


class _Target(NamedTuple):
    """Where rows of a dim are written: its window, and the rows that are here."""

    fit: Fit
    start: int


def _written(
    partitioner: Partitioning,
    eqn: Eqn,
    operand: HostPart,
    update: HostPart,
    starts: Sequence[int],
    sizes: Sequence[int],
    combine: Any,
    wanted: Splits,
) -> Sequence[HostPart] | None:
    """The operand with a window written at a known start."""
    hosts, shape = partitioner.hosts, eqn.invars[0].aval.shape
    if 0 in sizes:
        return None
    changed = [d for d, n in enumerate(shape) if sizes[d] != n]
    targets = _targets(operand, update, starts, shape, changed, hosts)
    if not targets:
        return None
    rank = range(len(shape))
    avals = [eqn.invars[0].aval, eqn.invars[0].aval.update(shape=tuple(sizes))]
    names = [[*rank], [("part", d) if d in changed else d for d in rank]]
    rel = named(avals, [avals[0]], names, [[*rank]])
    given = {
        dims[d][0]: t.fit.axes for d, t in targets.items() for dims in rel.operands
    }
    parts, fits = common_fits(eqn.op, rel, [operand, update], hosts, given)
    given |= {f: fit.axes for f, fit in fits.items()}
    assigned = partitioner.axes_of_factors(rel, parts, wanted, given)
    values = []
    for i, (part, dims) in enumerate(zip(parts, rel.operands, strict=True)):
        split = split_of(dims, assigned)
        if i:
            split = tuple(
                () if d in changed and d not in targets else own
                for d, own in enumerate(split)
            )
        own = {d: _own_fit(t, i, sizes[d]) for d, t in targets.items()}
        values.append(fitted(part, split, {**fits_of(dims, fits), **own}, hosts))
    split = split_of(rel.operands[0], assigned)
    result = _combined(values, starts, sizes, changed, targets, combine, hosts)
    windows = windows_of(rel.results[0], fits)
    for d, target in targets.items():
        windows[d] = target.fit.window
    return [windowed(result, split, windows, hosts)]


def _targets(
    operand: HostPart,
    update: HostPart,
    starts: Sequence[int],
    shape: Sequence[int],
    changed: Sequence[int],
    hosts: HostMesh,
) -> dict[int, _Target] | None:
    """The cut dims along which windows are written; None if one has no rows."""
    result: dict[int, _Target] = {}
    for d in changed:
        if operand.split[d] or update.split[d]:
            fit = _target(operand, update, d, starts[d], shape[d], hosts)
            used = {n for target in result.values() for n in target.fit.axes}
            if fit is None or used & {*fit.axes}:
                return None
            result[d] = _Target(fit, starts[d])
    return result


def _target(
    operand: HostPart,
    update: HostPart,
    dim: int,
    start: int,
    size: int,
    hosts: HostMesh,
) -> Fit | None:
    """The rows that hosts are to have of a dim: those of the operand, if it is cut."""
    if operand.split[dim]:
        rows = typeof(operand.value).shape[dim]
        return Fit(operand.split[dim], operand.window(dim, hosts), rows)
    axes, window = update.split[dim], update.window(dim, hosts)
    result = joined_rows(axes, window, start, size, hosts)
    if result is None:
        return None
    return Fit(axes, Window(size, result.every, result.first), result.rows)


def _own_fit(target: _Target, operand: int, size: int) -> Fit:
    """The rows of the operand, or those of the update that are written there."""
    axes, window, rows = target.fit
    if not operand:
        return target.fit
    return Fit(axes, Window(size, window.every, window.first - target.start), rows)


def _combined(
    values: Sequence[Any],
    starts: Sequence[int],
    sizes: Sequence[int],
    changed: Sequence[int],
    targets: dict[int, _Target],
    combine: Any,
    hosts: HostMesh,
) -> Any:
    """The update in the rows where it goes, the operand in the rest."""
    x, update = values
    shape = typeof(x).shape
    masks = []
    for d in changed:
        if d in targets:
            axes, window, rows = targets[d].fit
            numbers = positions(window.every, window.first, rows, hosts.group(axes))
        else:
            high = shape[d] - starts[d] - sizes[d]
            update = padded_rows(update, d, starts[d], high)
            numbers = Iota(np.dtype("int32"), (shape[d],), 0)()
        inside = between(numbers, starts[d], starts[d] + sizes[d])
        masks.append(BroadcastInDim(shape, (d,))(inside))
    new = update if combine is None else combine(x, update)
    return select_n(functools.reduce(and_, masks), x, new)
