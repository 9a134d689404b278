"""The schedule of a kernel or a region: how its loops run, as plain data.

`compiler/schedule/` decides it from shapes, costs and the target. The code generator
(`llvm/`) reads it and decides nothing.

The indices of a kernel's parallel loops are its iterations, and `grain` iterations are
a chunk, the unit that threads take. The number of chunks depends on shapes alone, never
on the number of threads. Within an iteration the nests run one after the other. One
variable of each is walked by vectors:

*rows*: the last dim of the nest. Folds accumulate in registers.
*columns*: the last parallel dim, for folds over the other dims of row-major arrays.
Folds accumulate in rows of memory that stay in the first-level cache.

A vector is usually wider than a register of the machine. LLVM cuts it into several,
which are independent chains that hide the latency of instructions.
"""

from __future__ import annotations

import math
from typing import Literal

from curta._base.lazy_dataclass import dataclass
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import For, While
from curta.compiler.loops.summation import SumOrder
from curta.core.dim import max_dim

How = Literal["serial", "vector", "unrolled", "selected", "tile", "together"]
Tail = Literal["none", "masked", "overlap", "scalar", "by row"]
Accumulate = Literal["lanes", "staged", "row", "tile", "flat", "registers"]


@dataclass(frozen=True)
class Loop:
    """How one loop runs.

    Fields:
        var: the index, with its extent.
        how:
            serial: index by index.
            vector: `factor` indices are the lanes of a vector.
            unrolled: an iteration has the code of `factor` indices.
            selected: the indices for which the guard of a nest holds are collected
                first, of `factor` at a time; only those run.
            tile: `factor` indices, of this loop and of the vector loop, are a square
                that is transposed in registers.
            together: the folds of `factor` rows end in the lanes of one vector.
        factor: see `how`.
        tail: what becomes of the indices that do not fill a vector or block.
            none: all are full.
            masked: they are the lanes of a vector under a mask.
            overlap: the last vector ends where the loop does. Its first lanes
                compute again what the vector before it has computed.
            scalar: they run index by index.
            by row: they run for one row at a time.
        tail_factor: the lanes of the vector of the tail.
        joined: True if the tail is part of the loop, whose every vector has the mask or
            may overlap: half the code. Otherwise it has code of its own.
        head: indices before the first vector, so that stores begin at cache lines.
    """

    var: LoopVar
    how: How = "serial"
    factor: int = 1
    tail: Tail = "none"
    tail_factor: int = 0
    joined: bool = False
    head: int = 0


@dataclass(frozen=True)
class NestSchedule:
    """How a nest runs.

    Fields:
        loops: the loops inside of those that the nest keeps, outermost first.
        lanes: the width of the vectors.
        accumulate: where folds have their accumulators.
            lanes: in registers, which are the lanes of a vector.
            staged: the same; the elements of a block go to the stack first, as vectors
                are not as wide as the order of the sum asks for (summing_rows.py).
            row: a row of memory has one for each column (column_nests.py).
            tile: rows of memory have those of a block (summing_columns.py).
            flat: the same; vectors go along all rows as one (flat_columns.py).
            registers: in registers, for the few rows that there are.
        rows: the rows of columns (`flat`: the rows of a block as one) that are added
            up together, or the rows of a block whose code is written out.
        streamed: positions of the stores that bypass the caches.
        order: the order of sums in blocks, or None.
    """

    loops: tuple[Loop, ...]
    lanes: int = 1
    accumulate: Accumulate = "lanes"
    rows: int = 1
    streamed: tuple[int, ...] = ()
    order: SumOrder | None = None


@dataclass(frozen=True)
class Schedule:
    """How a kernel or a region runs; see the module's text.

    Fields:
        outer: the parallel loops, outermost first: of a kernel its dims but `column`,
            of a region its lane or parts.
        split: the long dim that an iteration takes `piece` indices of, or None.
        piece: see `split`.
        column: the parallel dim that is walked by vectors, or None.
        nests: the schedules of the nests of a kernel.
        grain: the iterations of a chunk.
        block: how an iteration runs several indices of the last of `outer`, or None.
        polls: loops of a region that poll for cancellation, each with the iterations
            between two polls, a power of two.
        polls_between: the same for the iterations of the region; 0 if it never polls.
        takes_token: True if the code, or a program that it calls, polls.
        scalars: the elements of a value of a region up to which each has a register of
            its own; a value of more is one vector.
        inlined_math: the registers of vector math that a region writes inline; after
            these it calls functions.
    """

    outer: tuple[LoopVar, ...] = ()
    split: LoopVar | None = None
    piece: int = 1
    column: LoopVar | None = None
    nests: tuple[NestSchedule, ...] = ()
    grain: int = 1
    block: Loop | None = None
    polls: tuple[tuple[For | While, int], ...] = ()
    polls_between: int = 0
    takes_token: bool = False
    scalars: int = 0
    inlined_math: int = 0

    @property
    def pieces(self) -> int:
        return 1 if self.split is None else -(-self.split.extent // self.piece)

    @property
    def iterations(self) -> int:
        extents = [v.extent for v in self.outer]
        if self.block is not None:
            extents[-1] = -(-extents[-1] // self.block.factor)
        return math.prod(extents) * self.pieces

    @property
    def chunks(self) -> int:
        return max_dim(1, -(-self.iterations // self.grain))

    @property
    def together(self) -> bool:
        """Whether the folds of several rows end in one vector."""
        return self.block is not None and self.block.how == "together"
