"""How the operands of an op are split over mesh axes, given how an output is.

A value that comes from nothing split, random bits say, may be made in the parts in
which it is needed. These rules say in which, for ops whose elements come from single
elements of their operands; for others nothing is wanted of operands.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.primitives.base import Elementwise
from curta.primitives.elementwise.convert import (
    BitcastConvertType,
    ConvertElementType,
    Identity,
)
from curta.primitives.elementwise.select import SelectN
from curta.primitives.partitioning import Entries, Sizes, reshaped
from curta.primitives.placing import Placing
from curta.primitives.shape import Rev, Squeeze
from curta.primitives.structure import AddAny, BroadcastInDim, Reshape, Transpose


@functools.singledispatch
def operand_entries(
    op: Op,
    out: ShapedArray,
    split: Entries,
    avals: Sequence[ShapedArray],
    size_of: Sizes,
) -> list[Entries]:
    """How each operand is to be split so that the output is; () where it may be any."""
    return [()] * len(avals)


@operand_entries.register(Elementwise)
@operand_entries.register(BitcastConvertType)
@operand_entries.register(ConvertElementType)
@operand_entries.register(Identity)
@operand_entries.register(Placing)
@operand_entries.register(AddAny)
@operand_entries.register(SelectN)
@operand_entries.register(Rev)
def _same(
    op: Op,
    out: ShapedArray,
    split: Entries,
    avals: Sequence[ShapedArray],
    size_of: Sizes,
) -> list[Entries]:
    def of_operand(aval: ShapedArray) -> Entries:
        if aval.ndim != out.ndim:
            return ()
        sizes = zip(split, aval.shape, out.shape)
        return tuple(e if size == whole else None for e, size, whole in sizes)

    return [of_operand(aval) for aval in avals]


@operand_entries.register
def _transpose(
    op: Transpose,
    out: ShapedArray,
    split: Entries,
    avals: Sequence[ShapedArray],
    size_of: Sizes,
) -> list[Entries]:
    entries = dict(zip(op.permutation, split, strict=True))
    return [tuple(entries[d] for d in range(out.ndim))]


@operand_entries.register
def _broadcast(
    op: BroadcastInDim,
    out: ShapedArray,
    split: Entries,
    avals: Sequence[ShapedArray],
    size_of: Sizes,
) -> list[Entries]:
    pairs = zip(op.broadcast_dimensions, avals[0].shape)
    return [tuple(split[d] if out.shape[d] == size else None for d, size in pairs)]


@operand_entries.register
def _squeeze(
    op: Squeeze,
    out: ShapedArray,
    split: Entries,
    avals: Sequence[ShapedArray],
    size_of: Sizes,
) -> list[Entries]:
    rank, left = avals[0].ndim, iter(split)
    gone = {d % rank for d in op.dimensions}
    return [tuple(None if d in gone else next(left) for d in range(rank))]


@operand_entries.register
def _reshape(
    op: Reshape,
    out: ShapedArray,
    split: Entries,
    avals: Sequence[ShapedArray],
    size_of: Sizes,
) -> list[Entries]:
    return [reshaped(out.shape, avals[0].shape, split, size_of) or ()]
