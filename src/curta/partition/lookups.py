"""Reads and writes at indices that are not known before, along dims that are cut.

A host reads the rows that it has, and zeros for others; a fold of bits over the hosts
joins what they have read. It writes the rows that it has, and drops others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Eqn
from curta.core.trace import typeof
from curta.partition.along import Partitioning, Parts, Splits, along_cut
from curta.partition.host_mesh import split_of
from curta.partition.local_ops import local_op
from curta.partition.own_rows import first_row
from curta.partition.part import HostPart, resharded, settled
from curta.partition.updates import read_at, updated_at, written_at
from curta.partition.windows import (
    below,
    between,
    chosen,
    dynamic_rows,
    padded_rows,
    rows_of,
)
from curta.primitives.elementwise import (
    add,
    and_,
    clamp,
    eq,
    ge,
    lt,
    not_,
    or_,
    sub,
)
from curta.primitives.elementwise.convert import (
    BitcastConvertType,
    convert_element_type,
)
from curta.primitives.elementwise.select import select_n
from curta.primitives.factors import factors
from curta.primitives.host_collectives import HostIndex
from curta.primitives.indexing.dynamic import DynamicSlice, DynamicUpdateSlice
from curta.primitives.indexing.gather import (
    CLIP,
    FILL_OR_DROP,
    Gather,
    Scattering,
)
from curta.primitives.indexing.numbers import window_sizes
from curta.primitives.shape import Iota
from curta.primitives.structure import BroadcastInDim, Reshape, exact_scalar, zeros

_INT32 = np.dtype("int32")


def _scalar_inside(start: Any, last: int) -> Any:
    """A start as an int32, moved to where a window is inside."""
    dtype = typeof(start).dtype
    low, high = exact_scalar(0, dtype), exact_scalar(last, dtype)
    return convert_element_type(clamp(low, start, high), _INT32)


def _joined_bits(
    partitioner: Partitioning, part: HostPart, axes: tuple[Any, ...], wanted: Any
) -> HostPart:
    """The sum over hosts of bits of which all but one have zeros."""
    aval = typeof(part.value)
    if aval.dtype.kind in "biu":
        return partitioner.folded(part, "or", axes, wanted)
    bits = np.dtype(f"uint{8 * aval.dtype.itemsize}")
    x = BitcastConvertType(bits)(part.value)
    result = partitioner.folded(part._replace(value=x), "or", axes, wanted)
    return result._replace(value=BitcastConvertType(aval.dtype)(result.value))


def _has_bits(aval: ShapedArray) -> bool:
    """Whether elements of this dtype may be joined as bits."""
    dtype = aval.dtype
    if not isinstance(dtype, np.dtype) or dtypes.issubdtype(dtype, dtypes.extended):
        return False
    return dtype.kind in "biu" or (
        dtypes.issubdtype(dtype, np.floating) and dtype.itemsize > 1
    )


@along_cut.register
def _gather(
    op: Gather, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    """Rows of a table that is cut, where fewer are read than the table has."""
    hosts, numbers = partitioner.hosts, op.dimension_numbers
    parts = [settled(part, hosts) for part in parts]
    table = parts[0]
    cut = [d for d in numbers.collapsed_slice_dims if table.split[d]]
    if len(cut) != 1 or not _has_bits(eqn.outvars[0].aval):
        return None
    (d,) = cut
    if d not in numbers.start_index_map:
        return None  # windows start at row 0 of the split dim
    axes = table.split[d]
    group, rows = hosts.group(axes), typeof(table.value).shape[d]
    avals, outs = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    rel = factors(op, avals, outs)
    taken = {rel.operands[0][d][0]: axes}
    result = partitioner.axes_of_factors(rel, parts, wanted, taken)
    splits = [split_of(dims, result) for dims in (*rel.operands, *rel.results)]
    shape = hosts.local_shape(outs[0].shape, splits[2])
    if 2 * np.prod(shape) > group.size * typeof(table.value).size:
        return None
    operand, indices = (
        resharded(part, split, hosts) for part, split in zip(parts, splits)
    )
    component = numbers.start_index_map.index(d)
    indices = _as_int32(indices)
    at = _component(indices, component)
    outside = _none_of(at, avals[0].shape[d])
    if op.mode is not FILL_OR_DROP:
        at, outside = _within(at, avals[0].shape[d]), None
    own = sub(at, _everywhere(first_row(group, rows), at))
    here = and_(ge(own, _everywhere(np.int32(0), at)), below(own, rows))
    own = _with_component(indices, component, _within(own, rows))
    local = local_op(op, [typeof(operand).shape, typeof(own).shape], [shape])
    x = local(operand, own)
    batch = tuple(i for i in range(len(shape)) if i not in numbers.offset_dims)
    rest = zeros(typeof(x))
    if outside is not None:  # the first host fills these in
        first = eq(HostIndex(group)(), np.int32(0))
        outside = and_(outside, _everywhere(first, outside))
        fill = exact_scalar(op.fill_value, typeof(x).dtype)
        rest = select_n(
            BroadcastInDim(shape, batch)(outside), rest, BroadcastInDim(shape, ())(fill)
        )
    x = select_n(BroadcastInDim(shape, batch)(here), rest, x)
    part = _joined_bits(partitioner, HostPart(x, splits[2]), axes, wanted[0])
    return [partitioner.refined(part, wanted[0])]


def _everywhere(scalar: Any, like: Any) -> Any:
    return BroadcastInDim(typeof(like).shape, ())(scalar)


def _none_of(at: Any, size: int) -> Any:
    """Which indices are outside of a dim."""
    return or_(lt(at, _everywhere(np.int32(0), at)), not_(below(at, size)))


def _within(at: Any, size: int) -> Any:
    """Indices moved inside of a dim."""
    return clamp(np.int32(0), at, np.int32(size - 1))


def _as_int32(indices: Any) -> Any:
    """Indices as int32, those of more bits moved to where an int32 can be."""
    dtype = typeof(indices).dtype
    if dtype == _INT32:
        return indices
    if dtype.itemsize > 4 or dtype.kind == "u" and dtype.itemsize == 4:
        bounds = np.iinfo(np.int32)
        low = 0 if dtype.kind == "u" else bounds.min
        limits = (exact_scalar(n, dtype) for n in (low, bounds.max))
        low_limit, high_limit = limits
        indices = clamp(low_limit, indices, high_limit)
    return convert_element_type(indices, _INT32)


def _component(indices: Any, component: int) -> Any:
    """One of the numbers of each index vector."""
    shape = typeof(indices).shape
    return Reshape(shape[:-1])(
        rows_of(indices, len(shape) - 1, component, component + 1)
    )


def _with_component(indices: Any, component: int, at: Any) -> Any:
    """Index vectors with one number replaced."""
    shape = typeof(indices).shape
    rank = len(shape)
    mask = BroadcastInDim(shape, (rank - 1,))(np.arange(shape[-1]) == component)
    return select_n(mask, indices, BroadcastInDim(shape, tuple(range(rank - 1)))(at))


def _moved_inside(op: Scattering, indices: Any, shape: Any, updates: Any) -> Any:
    """Index vectors moved to where their windows lie inside of the operand."""
    sizes = window_sizes(op.gather_numbers(), updates, len(shape))
    dims = op.dimension_numbers.scatter_dims_to_operand_dims
    last = np.array([shape[d] - sizes[d] for d in dims], _INT32)
    like = typeof(indices).shape
    low = BroadcastInDim(like, ())(np.int32(0))
    return clamp(low, indices, BroadcastInDim(like, (len(like) - 1,))(last))


@along_cut.register
def _scatter(
    op: Scattering, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    """Rows written of a table that is cut; one window at a known start is simpler."""
    known = written_at(op, partitioner, eqn, parts, wanted)
    if known is not None:
        return known
    hosts, numbers = partitioner.hosts, op.dimension_numbers
    parts = [settled(part, hosts) for part in parts]
    table = parts[0]
    cut = [d for d in numbers.inserted_window_dims if table.split[d]]
    if len(cut) != 1 or cut[0] not in numbers.scatter_dims_to_operand_dims:
        return None
    (d,) = cut
    axes = table.split[d]
    group, rows = hosts.group(axes), typeof(table.value).shape[d]
    avals, outs = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    rel = factors(op, avals, outs)
    folded = {f for f, _ in rel.reduced}
    rel = dataclasses.replace(rel, whole=rel.whole | folded, reduced=())
    given = {rel.operands[0][d][0]: axes}
    result = partitioner.axes_of_factors(rel, parts, wanted, given)
    splits = [split_of(dims, result) for dims in (*rel.operands, *rel.results)]
    x, indices, updates = (
        resharded(part, split, hosts) for part, split in zip(parts, splits)
    )
    component = numbers.scatter_dims_to_operand_dims.index(d)
    indices = _as_int32(indices)
    if op.mode is CLIP:  # clip in all dims, as the local op drops
        indices = _moved_inside(op, indices, avals[0].shape, avals[2].shape)
    at = _component(indices, component)
    at = sub(at, _everywhere(first_row(group, rows), at))
    indices = _with_component(indices, component, at)
    local = dataclasses.replace(op, mode=FILL_OR_DROP)
    return [
        partitioner.refined(HostPart(local(x, indices, updates), splits[0]), wanted[0])
    ]


@along_cut.register
def _dynamic_slice(
    op: DynamicSlice, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    """A few rows, that are on a host or two."""
    known = read_at(op, partitioner, eqn, parts, wanted)
    if known is not None:
        return known
    hosts, shape = partitioner.hosts, eqn.invars[0].aval.shape
    part = settled(parts[0], hosts)
    cut = [d for d, n in enumerate(shape) if op.slice_sizes[d] != n and part.split[d]]
    if len(cut) != 1 or not _has_bits(eqn.outvars[0].aval):
        return None
    (d,) = cut
    axes, count = part.split[d], op.slice_sizes[d]
    if 2 * count > shape[d]:
        return None
    group, rows = hosts.group(axes), typeof(part.value).shape[d]
    starts = [p.value for p in parts[1:]]
    start = _scalar_inside(starts[d], shape[d] - count)
    begin = first_row(group, rows)
    x = padded_rows(part.value, d, count, count)
    at = add(sub(start, begin), np.int32(count))
    x = dynamic_rows(x, d, clamp(np.int32(0), at, np.int32(rows + count)), count)
    local = typeof(x).shape
    sizes = tuple(
        n if k == d or part.split[k] else op.slice_sizes[k] for k, n in enumerate(local)
    )
    starts[d] = exact_scalar(0, typeof(starts[d]).dtype)
    x = DynamicSlice(sizes)(x, *starts)
    numbers = Iota(_INT32, (count,), 0)()
    numbers = add(numbers, _everywhere(sub(start, begin), numbers))
    here = between(numbers, 0, rows)
    x = chosen(here, d, x, exact_scalar(0, typeof(x).dtype))
    split = (*part.split[:d], (), *part.split[d + 1 :])
    result = _joined_bits(partitioner, HostPart(x, split), axes, wanted[0])
    return [partitioner.refined(result, wanted[0])]


@along_cut.register
def _dynamic_update(
    op: DynamicUpdateSlice,
    partitioner: Partitioning,
    eqn: Eqn,
    parts: Parts,
    wanted: Splits,
) -> Sequence[HostPart] | None:
    """Each host writes the rows of the update that it has."""
    known = updated_at(op, partitioner, eqn, parts, wanted)
    if known is not None:
        return known
    hosts = partitioner.hosts
    shape, sizes = eqn.invars[0].aval.shape, eqn.invars[1].aval.shape
    part = settled(parts[0], hosts)
    changed = [d for d, n in enumerate(shape) if sizes[d] != n]
    cut = [d for d in changed if part.split[d]]
    if len(cut) != 1 or 0 in sizes:
        return None
    (d,) = cut
    target = tuple(() if k in changed else axes for k, axes in enumerate(part.split))
    update = resharded(parts[1], target, hosts)
    group, rows = hosts.group(part.split[d]), typeof(part.value).shape[d]
    starts = [p.value for p in parts[2:]]
    start = _scalar_inside(starts[d], shape[d] - sizes[d])
    offset = sub(first_row(group, rows), start)  # of the first row here in the update
    at = add(offset, np.int32(rows))
    at = clamp(np.int32(0), at, np.int32(rows + sizes[d]))
    update = dynamic_rows(padded_rows(update, d, rows, rows), d, at, rows)
    starts[d] = exact_scalar(0, typeof(starts[d]).dtype)
    x = part.value
    before = DynamicSlice(typeof(update).shape)(x, *starts)
    numbers = Iota(_INT32, (rows,), 0)()
    numbers = add(numbers, _everywhere(offset, numbers))
    new = chosen(between(numbers, 0, sizes[d]), d, update, before)
    return [HostPart(op(x, new, *starts), part.split)]
