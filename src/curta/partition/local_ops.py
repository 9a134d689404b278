"""Ops on the parts of one host: with the sizes of parts in their parameters."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.core.op import Op
from curta.partition.host_mesh import HostMesh
from curta.partition.own_rows import first_row
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.elementwise import add, convert_element_type, mul
from curta.primitives.host_collectives import HostIndex
from curta.primitives.indexing.dynamic import DynamicSlice
from curta.primitives.indexing.gather import Gather
from curta.primitives.indexing.numbers import window_dims
from curta.primitives.shape import Iota
from curta.primitives.slicing import Slice
from curta.primitives.structure import BroadcastInDim, Reshape

Shape = tuple[int, ...]


@functools.singledispatch
def local_op(op: Op, shapes: Sequence[Shape], outs: Sequence[Shape]) -> Any:
    """The op for operands and results of the shapes of parts.

    `shapes` are those of the operands here, `outs` those that the results are to have.
    """
    return op


@local_op.register(BroadcastInDim)
@local_op.register(Iota)
@local_op.register(Reshape)
def _shaped(op: Any, shapes: Sequence[Shape], outs: Sequence[Shape]) -> Any:
    return dataclasses.replace(op, shape=outs[0])


@local_op.register
def _slice(op: Slice, shapes: Sequence[Shape], outs: Sequence[Shape]) -> Any:
    """Dims that are cut are not split."""
    limits = [
        n if out == n and start == 0 else limit
        for n, out, start, limit in zip(
            shapes[0], outs[0], op.start_indices, op.limit_indices, strict=True
        )
    ]
    return dataclasses.replace(op, limit_indices=tuple(limits))


@local_op.register
def _dynamic_slice(
    op: DynamicSlice, shapes: Sequence[Shape], outs: Sequence[Shape]
) -> Any:
    return DynamicSlice(outs[0])


@local_op.register
def _gather(op: Gather, shapes: Sequence[Shape], outs: Sequence[Shape]) -> Any:
    sizes = list(op.slice_sizes)
    for d in window_dims(op.dimension_numbers, len(sizes)):
        sizes[d] = min(sizes[d], shapes[0][d])
    return dataclasses.replace(op, slice_sizes=tuple(sizes))


@local_op.register
def _convolution(
    op: ConvGeneralDilated, shapes: Sequence[Shape], outs: Sequence[Shape]
) -> Any:
    """Groups of features, or of the batch, may be on several hosts."""
    left, right, out = op.dimension_numbers
    lhs, rhs = shapes
    if op.feature_group_count > 1:
        groups = lhs[left[1]] // rhs[right[1]]
        return dataclasses.replace(op, feature_group_count=groups)
    if op.batch_group_count > 1:
        parts = lhs[left[0]] // outs[0][out[0]]
        return dataclasses.replace(op, batch_group_count=parts)
    return op


def local_iota(op: Iota, shape: Shape, axes: Sequence[Any], hosts: HostMesh) -> Any:
    """The host's part of the numbers along a dim that is split along `axes`."""
    if not axes:
        return dataclasses.replace(op, shape=shape)()
    size, group = shape[op.dimension], hosts.group(axes)
    if op.dtype.kind in "iu" and op.dtype.itemsize == 8:
        first = mul(
            convert_element_type(HostIndex(group)(), op.dtype),
            np.asarray(size, op.dtype)[()],
        )
        count = dataclasses.replace(op, shape=shape)()
        return add(count, BroadcastInDim(shape, ())(first))
    count = Iota(np.dtype("int32"), shape, op.dimension)()
    first = first_row(group, size)
    return convert_element_type(add(count, BroadcastInDim(shape, ())(first)), op.dtype)
