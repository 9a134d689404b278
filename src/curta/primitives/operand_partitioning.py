"""How the operands of an op are split over mesh axes, given how an output is.

A value that comes from nothing split, random bits say, may be made in the parts in
which it is needed. These rules say in which, for ops whose elements come from single
elements of their operands, and for products; for others nothing is wanted of operands.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.primitives.base import Elementwise
from curta.primitives.dot import DotGeneral
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


class Output(NamedTuple):
    """An output of an op with its split, and the operands with what theirs are."""

    aval: ShapedArray
    split: Entries
    operands: Sequence[ShapedArray]
    given: Sequence[Entries]
    size_of: Sizes


@functools.singledispatch
def operand_entries(op: Op, out: Output) -> list[Entries]:
    """How each operand is to be split so that the output is; () where it may be any."""
    return [()] * len(out.operands)


@operand_entries.register(Elementwise)
@operand_entries.register(BitcastConvertType)
@operand_entries.register(ConvertElementType)
@operand_entries.register(Identity)
@operand_entries.register(Placing)
@operand_entries.register(AddAny)
@operand_entries.register(SelectN)
@operand_entries.register(Rev)
def _same(op: Op, out: Output) -> list[Entries]:
    def of_operand(aval: ShapedArray) -> Entries:
        if aval.ndim != out.aval.ndim:
            return ()
        sizes = zip(out.split, aval.shape, out.aval.shape)
        return tuple(e if size == whole else None for e, size, whole in sizes)

    return [of_operand(aval) for aval in out.operands]


@operand_entries.register
def _transpose(op: Transpose, out: Output) -> list[Entries]:
    entries = dict(zip(op.permutation, out.split, strict=True))
    return [tuple(entries[d] for d in range(out.aval.ndim))]


@operand_entries.register
def _broadcast(op: BroadcastInDim, out: Output) -> list[Entries]:
    def of_dim(d: int, size: int) -> object:
        return out.split[d] if out.aval.shape[d] == size else None

    return [tuple(map(of_dim, op.broadcast_dimensions, out.operands[0].shape))]


@operand_entries.register
def _squeeze(op: Squeeze, out: Output) -> list[Entries]:
    rank, left = out.operands[0].ndim, iter(out.split)
    gone = {d % rank for d in op.dimensions}
    return [tuple(None if d in gone else next(left) for d in range(rank))]


@operand_entries.register
def _reshape(op: Reshape, out: Output) -> list[Entries]:
    before = out.operands[0].shape
    return [reshaped(out.aval.shape, before, out.split, out.size_of) or ()]


@operand_entries.register
def _dot(op: DotGeneral, out: Output) -> list[Entries]:
    """What both sum over is split as the other operand has it."""
    contracted, batched = op.dimension_numbers
    left = iter(out.split[len(batched[0]) :])
    wanted = []
    for i, aval in enumerate(out.operands):
        known = dict(zip(batched[i], out.split))
        pairs = zip(contracted[i], contracted[1 - i])
        known |= {d: out.given[1 - i][other] for d, other in pairs}
        wanted.append(
            tuple(known[d] if d in known else next(left) for d in range(aval.ndim))
        )
    return wanted
