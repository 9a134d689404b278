"""Lanes across rows: a nest of short folds is vectorised along its outer loop.

By vectors along the last inner dim a row of ten elements fills part of a vector, each
of its folds ends in a few shuffles, and what is computed once a row is a scalar. So
where rows are short, a vector takes the same element of as many rows (D. Nuzman and
A. Zaks, Outer-loop vectorization: revisited for short SIMD architectures, 2008). What
lies along rows in memory, a *line* of each, is transposed in registers on the way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from curta.compiler.loops.costs import compute_size, cost, kernel_cost, weight
from curta.compiler.loops.index import Affine, LoopVar
from curta.compiler.loops.nodes import (
    Buffer,
    Const,
    DataIndex,
    Expr,
    IndexValue,
    Kernel,
    LoopNest,
    walk,
)
from curta.compiler.loops.schedule import Schedule, Vectors, chains_of, is_running
from curta.config import config
from curta.core.dim import is_symbolic_dim, max_dim, typical
from curta.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Line:
    """The elements of a row that lie side by side: from `start` on, so many."""

    buffer: Buffer
    start: Affine
    extent: int


Lines = Mapping[tuple[Buffer, Affine], Line]
"""The line that an element, at an offset in a buffer, belongs to."""


def vectorise_outer(
    kernel: Kernel, plan: Schedule, vector_bytes: int, often: bool
) -> Schedule:
    """The schedule with lanes across rows, if that is less to do."""
    tuning = config.tuning
    if plan.column or plan.block > 1 or plan.split or vector_bytes < 32:
        return plan
    if not plan.outer or not any(s.folds for s in kernel.nests):
        return plan
    lanes = native_lanes(kernel, vector_bytes)
    # Vectorised along rows, folds end in shuffles: that cost counts, too.
    by_rows = _cost_by_rows(kernel, lanes) * math.prod(v.extent for v in plan.outer)
    if (
        typical(max_dim(kernel_cost(kernel), by_rows)) < tuning.little_cost
        and not often
    ):
        return plan
    if typical(plan.outer[-1].extent) < tuning.outer_blocks * lanes:
        return plan
    lines = lines_of(kernel, plan.outer[-1])
    if lines is None or not all(_has_masks(x, vector_bytes) for x in lines.values()):
        return plan
    if typical(_cost(kernel, lines, lanes)) >= typical(_cost_by_rows(kernel, lanes)):
        return plan
    heaviest = max(cost(s) + _combining(s) for s in kernel.nests)
    lanes *= min(2, chains_of(heaviest))
    sizes = (x.extent * x.buffer.dtype.itemsize for x in {*lines.values()})
    if lanes * sum(sizes) > tuning.outer_bytes:
        return plan
    return replace(
        plan,
        vectors=tuple(Vectors(lanes, False) for _ in kernel.nests),
        block=lanes,
        outer_lanes=True,
        grain=-(-plan.grain // lanes),
    )


def _has_masks(line: Line, vector_bytes: int) -> bool:
    """Whether part of a vector can be read: AVX2 has no masks of bytes."""
    return vector_bytes == 64 or line.buffer.dtype.itemsize >= 4


def native_lanes(kernel: Kernel, vector_bytes: int) -> int:
    """The lanes of a register for the widest values of a kernel."""
    roots = [e for s in kernel.nests for f in s.folds for e in f.combined]
    body = [e for s in kernel.nests for e in s.body]
    sizes = [compute_size(e) for e in [*body, *walk(roots)] if not _is_index(e)]
    return vector_bytes // max(sizes, default=4)


def _is_index(expr: Expr) -> bool:
    return isinstance(expr, (IndexValue, Const))


def lines_of(kernel: Kernel, row: LoopVar) -> Lines | None:
    """The lines of a kernel whose rows are lanes; None if it has other accesses."""
    lines: dict[tuple[Buffer, Affine], Line] = {}
    stored: dict[tuple[Buffer, Affine], bool] = {}
    buffers = set(kernel.stored())
    for nest in kernel.nests:
        if not _is_short(nest):
            return None
        inner = nest.dims[0] if nest.dims else None
        folded = {s for f in nest.folds for s in f.stores}
        for store in nest.written():
            key = store.buffer, store.offset
            line = _line(*key, row, None if store in folded else inner)
            if store.where is not None or line is None:
                return None
            if line.extent:
                lines[key] = line
            # Later nests can use the stored value if the store is of a whole row.
            stored[key] = bool(line.extent) or store in folded or inner is None
        for load in nest.loads:
            key = load.buffer, load.offset
            line = _line(*key, row, inner)
            if line is None or (line.extent and load.where is not None):
                return None
            if load.buffer in buffers and not stored.get(key):
                return None
            if line.extent:
                lines[key] = line
    return lines


def _is_short(nest: LoopNest) -> bool:
    """Whether a nest is a short loop, or none, with nothing else to it."""
    if nest.ordered or nest.kept or len(nest.dims) > 1 or is_running(nest):
        return False
    if any(is_symbolic_dim(v.extent) for v in nest.dims):
        return False
    return all(v.extent <= config.tuning.outer_row for v in nest.dims)


def _line(
    buffer: Buffer, offset: Affine, row: LoopVar, inner: LoopVar | None
) -> Line | None:
    """The line of an access, of extent 0 if lanes lie side by side; None if neither."""
    if any(isinstance(a, DataIndex) for a in offset.atoms()):
        return None
    for atom in offset.terms:
        if atom not in (row, inner) and {row, inner} & {*atom.as_index().atoms()}:
            return None
    apart = offset.coefficient(row)
    if apart in (0, 1):
        return Line(buffer, offset, 0)
    if inner is None or apart < 0 or offset.coefficient(inner) != 1:
        return None
    if buffer.dtype.kind not in "biuf" or buffer.dtype == "float16":
        return None
    return Line(buffer, offset - inner, inner.extent)


def _combining(nest: LoopNest) -> int:
    """What it costs to combine two accumulators of each fold."""
    return sum(1 + sum(map(weight, walk(f.in_order))) for f in nest.folds)


def _cost_by_rows(kernel: Kernel, lanes: int) -> float:
    """What a row costs, by vectors along it."""
    total = 0
    for nest in kernel.nests:
        extent = nest.dims[0].extent if nest.dims else 1
        total += cost(nest) * -(-extent // lanes)
        levels = math.ceil(math.log2(min(typical(extent), lanes)))
        accumulators = sum(len(f.initial) for f in nest.folds)
        total += levels * (2 * accumulators + _combining(nest))
    return total


def _cost(kernel: Kernel, lines: Lines, lanes: int) -> float:
    """What a row costs, if a vector is of as many rows as lanes."""
    total = 0.0
    for nest in kernel.nests:
        extent = nest.dims[0].extent if nest.dims else 1
        total += (cost(nest) + _combining(nest)) * extent / lanes
    # Values between nests stay transposed: no shuffles.
    within = {e.buffer for e in kernel.loads()} & set(kernel.stored())
    for line in dict.fromkeys(x for x in lines.values() if x.buffer not in within):
        for _, width, size in squares(line.extent, lanes):
            moved = lanes + size * int(math.log2(size)) + lanes - lanes // size
            # Shuffles take nearly two operations each, measured.
            total += 1.8 * (moved + 2 * width) / lanes
    return total


def squares(extent: int, lanes: int) -> Iterator[tuple[int, int, int]]:
    """How lines are transposed: parts of them, by first element, width and size.

    The size is the least power of two that has the width.
    """
    for first in range(0, extent, lanes):
        width = min(lanes, extent - first)
        yield first, width, max(2, 1 << (width - 1).bit_length())
