"""Long cumulative reductions, in blocks that threads share out.

Each block is reduced from its own beginning; then what came before it is taken in. That
is two passes over memory in place of a chain, and sums lose less to rounding: their
error grows with the length of a block and the number of blocks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.compiler.rewrite.inline import Function
from curta.compiler.targets import Target, Tuning
from curta.core.avals import ShapedArray
from curta.core.trace import typeof
from curta.primitives.cumulative import Cumulative
from curta.primitives.elementwise.comparison import eq
from curta.primitives.elementwise.select import select_n
from curta.primitives.shape import Iota
from curta.primitives.slicing import Pad, Slice
from curta.primitives.structure import BroadcastInDim, Reshape, exact_scalar


def in_blocks(
    op: Cumulative, avals: Sequence[ShapedArray], target: Target
) -> Function | None:
    """cumsum x -> cumsum of rows of x, plus what came before each, if x is long."""
    (x,), tuning = avals, target.tuning
    wide = x.dtype.kind == "c" or x.dtype.itemsize >= 4
    if op.axis != x.ndim - 1 or x.shape[-1] < tuning.scan_long or not wide:
        return None
    return lambda x: [_in_blocks(op, x, tuning)]


def _in_blocks(op: Cumulative, x: Any, tuning: Tuning) -> Any:
    """The reduction along the last dim."""
    *outer, size = typeof(x).shape
    axis, reverse = len(outer), op.reverse
    if size < tuning.scan_long:
        return op(x)
    blocks = -(-size // tuning.scan_block)
    gap = blocks * tuning.scan_block - size
    # Padding comes after all elements, in the order in which they are reduced.
    padded = _padded(x, (gap, 0) if reverse else (0, gap))
    rows = Reshape((*outer, blocks, tuning.scan_block))(padded)
    inside = dataclasses.replace(op, axis=axis + 1)(rows)
    whole = _part(inside, 0 if reverse else tuning.scan_block - 1)
    totals = _in_blocks(op, whole, tuning)
    before = _padded(totals, (-1, 1) if reverse else (1, -1))
    shape = typeof(inside).shape
    before = BroadcastInDim(shape, tuple(range(axis + 1)))(before)
    block = Iota(np.dtype(np.int32), shape, axis)()
    first = np.int32(blocks - 1 if reverse else 0)
    result = select_n(
        eq(block, BroadcastInDim(shape, ())(first)), op.joined(before, inside), inside
    )
    flat = Reshape((*outer, blocks * tuning.scan_block))(result)
    start = gap if reverse else 0
    low, high = (*[0] * axis, start), (*outer, start + size)
    return Slice(low, high, None)(flat)


def _padded(x: Any, sizes: tuple[int, int]) -> Any:
    """`x` with zeros before and after its last dim; negative sizes cut it."""
    if sizes == (0, 0):
        return x
    padding = [(0, 0, 0)] * (typeof(x).ndim - 1) + [(*sizes, 0)]
    return Pad(tuple(padding))(x, exact_scalar(0, typeof(x).dtype))


def _part(x: Any, index: int) -> Any:
    """`x[..., index]`."""
    *outer, _ = typeof(x).shape
    low, high = (*[0] * len(outer), index), (*outer, index + 1)
    return Reshape(tuple(outer))(Slice(low, high, None)(x))
