"""Convolutions over a batch: the new dim becomes part of one that there is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from curta.core.trace import typeof
from curta.primitives.structure import Reshape, Transpose, zeros

if TYPE_CHECKING:
    from curta.primitives.convolution.op import ConvGeneralDilated


def split_dim(x: Any, dim: int, outer: int) -> Any:
    """`x` with a dim parted in two, the outer one of size `outer`."""
    shape = typeof(x).shape
    return Reshape((*shape[:dim], outer, shape[dim] // outer, *shape[dim + 1 :]))(x)


def merge_dims(x: Any, dim: int, target: int) -> Any:
    """`x` with `dim` made the outer part of another.

    `target` is the position of that one when `dim` is taken out.
    """
    shape = typeof(x).shape
    order = [d for d in range(len(shape)) if d != dim]
    merged = [shape[d] for d in order]
    merged[target] *= shape[dim]
    order.insert(target, dim)
    if order != list(range(len(shape))):
        x = Transpose(tuple(order))(x)
    return Reshape(tuple(merged))(x)


def batched_convolution(
    op: ConvGeneralDilated, axis: Any, args: Sequence[Any], dims: Sequence[int | None]
) -> tuple[Any, Any]:
    """The convolutions of a batch as one convolution."""
    (lhs, rhs), (lhs_dim, rhs_dim) = args, dims
    lhs_spec, rhs_spec, out_spec = op.dimension_numbers
    size = axis.size
    if size == 0:
        return _nothing(op, args, dims), 0
    if lhs_dim is not None and rhs_dim is not None:
        # The batch makes groups: each example sees its own kernel.
        if op.batch_group_count > 1:
            lhs = merge_dims(lhs, lhs_dim, lhs_spec[0])
            groups = {"batch_group_count": op.batch_group_count * size}
        else:
            lhs = merge_dims(lhs, lhs_dim, lhs_spec[1])
            groups = {"feature_group_count": op.feature_group_count * size}
        rhs = merge_dims(rhs, rhs_dim, rhs_spec[0])
        out = dataclasses.replace(op, **groups)(lhs, rhs)
        return split_dim(out, out_spec[1], size), out_spec[1]
    if lhs_dim is not None:
        lhs = _into_groups(lhs, lhs_dim, lhs_spec[0], op.batch_group_count)
        return split_dim(op(lhs, rhs), out_spec[0], size), out_spec[0]
    assert rhs_dim is not None
    groups_of_rhs = op.group_count
    rhs = _into_groups(rhs, rhs_dim, rhs_spec[0], groups_of_rhs)
    out = op(lhs, rhs)
    if groups_of_rhs == 1:
        return split_dim(out, out_spec[1], size), out_spec[1]
    out = split_dim(out, out_spec[1], groups_of_rhs)
    out = split_dim(out, out_spec[1] + 1, size)
    return merge_dims(out, out_spec[1], out_spec[1] + 1), out_spec[1]


def _into_groups(x: Any, dim: int, target: int, groups: int) -> Any:
    """`x` with its batch dim inside the groups that `target` is made of."""
    if groups == 1:
        return merge_dims(x, dim, target)
    x = split_dim(x, target + (dim <= target), groups)
    x = merge_dims(x, dim + (target < dim), target + 1)
    return merge_dims(x, target, target)


def _nothing(
    op: ConvGeneralDilated, args: Sequence[Any], dims: Sequence[int | None]
) -> Any:
    """The result of a batch of no examples."""
    avals = []
    for x, dim in zip(args, dims, strict=True):
        aval = typeof(x)
        if dim is not None:
            shape = aval.shape
            aval = aval.update(shape=(*shape[:dim], *shape[dim + 1 :]))
        avals.append(aval)
    out = op.aval(*avals)
    return zeros(out.update(shape=(0, *out.shape)))
