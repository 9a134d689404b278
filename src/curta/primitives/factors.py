"""The factors of each op (`relation`): which dims go together, said here and only here.

The ops that have no rule here are whole in all dims.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from curta.core.avals import ShapedArray
from curta.core.dim import is_same
from curta.core.op import Op
from curta.primitives.barrier import OptimizationBarrier
from curta.primitives.base import Elementwise
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.cumulative import Cumulative
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.convert import (
    BitcastConvertType,
    ConvertElementType,
    Identity,
)
from curta.primitives.elementwise.select import SelectN
from curta.primitives.families import Reduction
from curta.primitives.fft import Fft
from curta.primitives.indexing.dynamic import DynamicSlice, DynamicUpdateSlice
from curta.primitives.indexing.gather import Gather, ScatterAdd, Scattering
from curta.primitives.indexing.numbers import window_dims
from curta.primitives.joining import Concatenate, Split, Stack, Unstack
from curta.primitives.linalg.family import MatrixOp
from curta.primitives.linalg.triangular import TriangularSolve
from curta.primitives.monoids import XOR
from curta.primitives.placing import ShardAlike
from curta.primitives.random_bits.ops import FrontBatched
from curta.primitives.reduction import ArgReduction
from curta.primitives.relation import (
    Along,
    Avals,
    Dim,
    Factors,
    NamedFactors,
    Windowed,
    named,
)
from curta.primitives.reshaping import common_pieces, reshape_groups
from curta.primitives.shape import Iota, Rev, Squeeze, Tile
from curta.primitives.slicing import Pad, Slice
from curta.primitives.sorting import Sort, TopK
from curta.primitives.structure import AddAny, BroadcastInDim, Reshape, Transpose
from curta.primitives.windowed.reductions import WindowReduction
from curta.primitives.windowed.selection import (
    SelectAndGatherAdd,
    SelectAndScatterAdd,
)
from curta.primitives.windowed.sliding import dilated


@functools.singledispatch
def factors(op: Op, avals: Avals, outs: Avals) -> Factors:
    """The factors of an op, of operands and results of these avals."""
    return named(
        avals, outs, [[None] * a.ndim for a in avals], [[None] * a.ndim for a in outs]
    )


@factors.register(Elementwise)
@factors.register(ConvertElementType)
@factors.register(AddAny)
@factors.register(SelectN)
@factors.register(Identity)
@factors.register(ShardAlike)
def _elementwise(op: Op, avals: Avals, outs: Avals) -> Factors:
    """Dims at the same position are one factor; single elements go with all others."""
    return _aligned(tuple(a.shape for a in avals), tuple(a.shape for a in outs))


Shapes = tuple[tuple[int, ...], ...]


@functools.lru_cache(4096)
def _aligned(shapes: Shapes, outs: Shapes) -> Factors:
    shape = outs[0]

    def names(own: tuple[int, ...]) -> list[Any]:
        if len(own) != len(shape):
            return [None] * len(own)
        pairs = zip(own, shape, strict=True)
        return [d if n == size else None for d, (n, size) in enumerate(pairs)]

    table = NamedFactors()
    ins = tuple(table.dims(names(own), own) for own in shapes)
    result = tuple(table.dims(names(own), own) for own in outs)
    return Factors(tuple(table.sizes), ins, result, whole=frozenset(table.whole))


@factors.register(BitcastConvertType)
@factors.register(FrontBatched)
def _for_each(op: Op, avals: Avals, outs: Avals) -> Factors:
    """Dims for the parts of elements, or for what is drawn from keys, stay whole."""
    return _leading(avals, outs, min(avals[0].ndim, outs[0].ndim))


def _leading(avals: Avals, outs: Avals, count: int) -> Factors:
    """The first `count` dims mapped one to one, the others not sharded."""
    names = [[*range(count), *[None] * (a.ndim - count)] for a in (*avals, *outs)]
    return named(avals, outs, names[: len(avals)], names[len(avals) :])


@factors.register
def _barrier(op: OptimizationBarrier, avals: Avals, outs: Avals) -> Factors:
    dims = [[(i, d) for d in range(a.ndim)] for i, a in enumerate(avals)]
    return named(avals, outs, dims, dims)


@factors.register
def _broadcast(op: BroadcastInDim, avals: Avals, outs: Avals) -> Factors:
    pairs = zip(op.broadcast_dimensions, avals[0].shape, strict=True)
    source = [d if n == op.shape[d] else None for d, n in pairs]
    rest = [[None] * a.ndim for a in avals[1:]]
    return named(avals, outs, [source, *rest], [range(len(op.shape))])


@factors.register
def _iota(op: Iota, avals: Avals, outs: Avals) -> Factors:
    rest = [[None] * a.ndim for a in avals]
    return named(avals, outs, rest, [range(len(op.shape))])


@factors.register
def _transpose(op: Transpose, avals: Avals, outs: Avals) -> Factors:
    return named(avals, outs, [range(avals[0].ndim)], [op.permutation])


@factors.register
def _squeeze(op: Squeeze, avals: Avals, outs: Avals) -> Factors:
    rank = avals[0].ndim
    gone = {d % rank for d in op.dimensions}
    dims = [None if d in gone else d for d in range(rank)]
    return named(avals, outs, [dims], [[d for d in range(rank) if d not in gone]])


def kept(avals: Avals, outs: Avals, changed: Iterable[int]) -> Factors:
    """All dims of the first operand mapped, but those `changed` whole."""
    changed = {*changed}

    def names(aval: ShapedArray) -> list[Any]:
        return [None if d in changed else d for d in range(aval.ndim)]

    alike = avals[0].ndim
    ins = [names(a) if a.ndim == alike else [None] * a.ndim for a in avals]
    return named(avals, outs, ins, map(names, outs))


def _along(rel: Factors, dims: Iterable[int], results: int = 1) -> Factors:
    """With dims of results that lie as those of the first operand do."""
    result = (Along(((0, d),), d, k) for d in dims for k in range(results))
    return dataclasses.replace(rel, along=tuple(result))


def _sliding(
    avals: Avals, outs: Avals, dims: Iterable[int], windowed: Iterable[Windowed]
) -> Factors:
    """All dims mapped but some whose rows are made of windows of operands."""
    rel = kept(avals, outs, dims)
    return dataclasses.replace(rel, windowed=tuple(windowed))


@factors.register
def _rev(op: Rev, avals: Avals, outs: Avals) -> Factors:
    return _along(kept(avals, outs, op.dimensions), op.dimensions)


@factors.register
def _tile(op: Tile, avals: Avals, outs: Avals) -> Factors:
    return kept(avals, outs, [d for d, n in enumerate(op.reps) if n != 1])


@factors.register
def _slice(op: Slice, avals: Avals, outs: Avals) -> Factors:
    """Single rows at known indices are windows."""
    steps = op.strides or (1,) * avals[0].ndim
    changed, starts = _resized(avals[0], outs[0]), op.start_indices
    windowed = (Windowed(((0, d),), d, steps[d], -starts[d]) for d in changed)
    return _sliding(avals, outs, changed, windowed)


def _resized(x: ShapedArray, out: ShapedArray) -> list[int]:
    return [d for d, n in enumerate(x.shape) if n != out.shape[d]]


@factors.register
def _pad(op: Pad, avals: Avals, outs: Avals) -> Factors:
    """Rows of padding are of windows without rows of the operand."""
    config = op.padding_config
    changed = [d for d, around in enumerate(config) if any(around)]
    windowed = (
        Windowed(((0, d),), d, 1, config[d][0], dilation=config[d][2] + 1)
        for d in changed
    )
    return _sliding(avals, outs, changed, windowed)


@factors.register(DynamicSlice)
@factors.register(DynamicUpdateSlice)
def _at_indices(op: Op, avals: Avals, outs: Avals) -> Factors:
    part = outs[0] if isinstance(op, DynamicSlice) else avals[1]
    changed = _resized(avals[0], part)
    return _along(kept(avals, outs, changed), changed)


@factors.register
def _concatenate(op: Concatenate, avals: Avals, outs: Avals) -> Factors:
    """An operand has the rows of the result from its start on."""
    d = op.dimension
    starts = itertools.accumulate((a.shape[d] for a in avals), initial=0)
    windowed = (
        Windowed(((i, d),), d, 1, start) for i, start in zip(range(len(avals)), starts)
    )
    return _sliding(avals, outs, [d], windowed)


@factors.register
def _split(op: Split, avals: Avals, outs: Avals) -> Factors:
    d, starts = op.axis, itertools.accumulate(op.sizes, initial=0)
    windowed = (
        Windowed(((0, d),), d, 1, -start, number=k)
        for k, start in zip(range(len(outs)), starts)
    )
    return _sliding(avals, outs, [d], windowed)


@factors.register
def _stack(op: Stack, avals: Avals, outs: Avals) -> Factors:
    dims = [*range(avals[0].ndim)]
    result: list[Any] = [*dims[: op.axis], None, *dims[op.axis :]]
    return named(avals, outs, [dims] * len(avals), [result])


@factors.register
def _unstack(op: Unstack, avals: Avals, outs: Avals) -> Factors:
    dims: list[Any] = [*range(avals[0].ndim)]
    rest = dims[: op.axis] + dims[op.axis + 1 :]
    dims[op.axis] = None
    return named(avals, outs, [dims], [rest] * len(outs))


@factors.register
def _reduction(op: Reduction, avals: Avals, outs: Avals) -> Factors:
    rest = [d for d in range(avals[0].ndim) if d not in op.axes]
    if op.monoid is XOR:  # no all-reduce by XOR
        return named(avals, outs, [_but(range(avals[0].ndim), op.axes)], [rest])
    kinds = dict.fromkeys(op.axes, op.monoid.name)
    return named(avals, outs, [range(avals[0].ndim)], [rest], kinds)


def _but(dims: Iterable[int], gone: Sequence[int]) -> list[Any]:
    return [None if d in gone else d for d in dims]


@factors.register
def _arg_reduction(op: ArgReduction, avals: Avals, outs: Avals) -> Factors:
    dims = _but(range(avals[0].ndim), op.axes)
    return named(avals, outs, [dims], [[d for d in dims if d is not None]])


@factors.register
def _cumulative(op: Cumulative, avals: Avals, outs: Avals) -> Factors:
    return _along(kept(avals, outs, [op.axis]), [op.axis])


@factors.register
def _sort(op: Sort, avals: Avals, outs: Avals) -> Factors:
    d = op.dimension
    along = (Along(((i, d),), d, i) for i in range(len(outs)))
    return dataclasses.replace(kept(avals, outs, [d]), along=tuple(along))


@factors.register
def _greatest(op: TopK, avals: Avals, outs: Avals) -> Factors:
    d = op.axis % avals[0].ndim
    return _along(kept(avals, outs, [d]), [d], len(outs))


@factors.register
def _fft(op: Fft, avals: Avals, outs: Avals) -> Factors:
    rank = avals[0].ndim
    return kept(avals, outs, range(rank - len(op.fft_lengths), rank))


@factors.register
def _matrices(op: MatrixOp, avals: Avals, outs: Avals) -> Factors:
    return _leading(avals, outs, avals[0].ndim - op.ranks[0])


@factors.register
def _triangular_solve(op: TriangularSolve, avals: Avals, outs: Avals) -> Factors:
    """Each column of b is solved for alone, or each row."""
    a: list[Any] = [*range(avals[0].ndim - 2), None, None]
    b: list[Any] = [*range(avals[1].ndim)]
    b[-2 if op.left_side else -1] = None
    # The unknowns lie as the coefficients of a do, of which each is one.
    rank, flipped = avals[0].ndim, op.left_side == op.transpose_a
    unknown = rank - 2 if op.left_side else rank - 1
    along = Along(((0, rank - 1 if flipped else rank - 2),), unknown)
    return dataclasses.replace(named(avals, outs, [a, b], [b]), along=(along,))


@factors.register
def _dot(op: DotGeneral, avals: Avals, outs: Avals) -> Factors:
    contracted, batched = op.dimension_numbers
    left: list[Any] = [("left", d) for d in range(avals[0].ndim)]
    right: list[Any] = [("right", d) for d in range(avals[1].ndim)]
    for pairs in (contracted, batched):
        for i, j in zip(*pairs, strict=True):
            right[j] = left[i]
    result = [left[i] for i in batched[0]]
    gone = ({*contracted[0], *batched[0]}, {*contracted[1], *batched[1]})
    result += [n for d, n in enumerate(left) if d not in gone[0]]
    result += [n for d, n in enumerate(right) if d not in gone[1]]
    kinds = {left[i]: "sum" for i in contracted[0]}
    return named(avals, outs, [left, right], [result], kinds)


@factors.register
def _convolution(op: ConvGeneralDilated, avals: Avals, outs: Avals) -> Factors:
    """Of features in groups, the groups are the outer factor.

    So are groups of the batch, which go to groups of output features.
    """
    (left, right, out), table = op.dimension_numbers, NamedFactors()
    none: Dim = ()
    lhs, rhs, result = ([none] * a.ndim for a in (*avals, *outs))
    groups, parts = op.feature_group_count, op.batch_group_count
    outer: Dim = ()
    if groups > 1 or parts > 1:
        outer = table.dim("groups", max(groups, parts))
    batch = table.dim("batch", avals[0].shape[left[0]] // parts)
    channels = table.dim("channels", avals[1].shape[right[1]])
    features = table.dim("features", avals[1].shape[right[0]] // max(groups, parts))
    lhs[left[0]] = (*outer, *batch) if parts > 1 else batch
    lhs[left[1]] = (*outer, *channels) if groups > 1 else channels
    rhs[right[0]] = result[out[1]] = (*outer, *features)
    rhs[right[1]] = channels
    result[out[0]] = batch
    windowed = []
    for i, (a, b, c) in enumerate(zip(left[2:], right[2:], out[2:], strict=True)):
        lhs[a] = table.dim(None, avals[0].shape[a])
        rhs[b] = table.dim(None, avals[1].shape[b])
        result[c] = table.dim(None, outs[0].shape[c])
        dilation = op.rhs_dilation[i]
        extent = dilated(avals[1].shape[b], dilation)
        low, stride = op.padding[i][0], op.window_strides[i]
        steps = (stride, low, extent, op.lhs_dilation[i])
        windowed.append(Windowed(((0, a),), c, *steps, (1, b), dilation))
    return Factors(
        tuple(table.sizes),
        (tuple(lhs), tuple(rhs)),
        (tuple(result),),
        ((channels[0], "sum"),),
        frozenset(table.whole),
        windowed=tuple(windowed),
    )


@factors.register(WindowReduction)
@factors.register(SelectAndGatherAdd)
@factors.register(SelectAndScatterAdd)
def _windows(op: Any, avals: Avals, outs: Avals) -> Factors:
    """Dims whose windows are single elements are mapped."""
    window = op.window
    spread = isinstance(op, SelectAndScatterAdd)
    changed = [
        d
        for d, size in enumerate(avals[0].shape)
        if window.dimensions[d] != 1 or size != (outs[0], avals[-1])[spread].shape[d]
    ]
    windowed = (
        Windowed(
            tuple((i, d) for i in range(len(avals))),
            d,
            window.strides[d],
            window.padding[d][0],
            dilated(window.dimensions[d], window.window_dilation[d]),
            window.base_dilation[d],
            spread=spread,
        )
        for d in changed
    )
    return _sliding(avals, outs, changed, windowed)


@factors.register
def _gather(op: Gather, avals: Avals, outs: Avals) -> Factors:
    numbers = op.dimension_numbers
    operand: list[Any] = [None] * avals[0].ndim
    indices: list[Any] = [("index", d) for d in range(avals[1].ndim - 1)] + [None]
    result: list[Any] = [None] * outs[0].ndim
    windows = window_dims(numbers, avals[0].ndim)
    for to, d in zip(numbers.offset_dims, windows, strict=True):
        if op.slice_sizes[d] == avals[0].shape[d]:
            operand[d] = result[to] = ("window", d)
    for d, i in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        operand[d] = indices[i]
    rest = (d for d in range(outs[0].ndim) if d not in numbers.offset_dims)
    for to, name in zip(rest, indices):
        result[to] = name
    return named(avals, outs, [operand, indices], [result])


@factors.register
def _scatter(op: Scattering, avals: Avals, outs: Avals) -> Factors:
    """Parts of the updates are only added up, others would depend on their order."""
    numbers = op.dimension_numbers
    rank = avals[0].ndim
    gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    windows = [d for d in range(rank) if d not in gone]
    operand: list[Any] = [None] * rank
    adds = isinstance(op, ScatterAdd)
    indices: list[Any] = [None] * avals[1].ndim
    if adds:
        indices[:-1] = [("index", d) for d in range(len(indices) - 1)]
    updates: list[Any] = [None] * avals[2].ndim
    for at, d in zip(numbers.update_window_dims, windows, strict=True):
        if avals[2].shape[at] == avals[0].shape[d]:
            operand[d] = updates[at] = ("window", d)
    batching = numbers.scatter_indices_batching_dims
    for d, i in zip(numbers.operand_batching_dims, batching, strict=True):
        operand[d] = indices[i] = ("batch", i)
    rest = (d for d in range(avals[2].ndim) if d not in numbers.update_window_dims)
    for at, name in zip(rest, indices):
        updates[at] = name
    kinds = {n: "sum" for n in indices if adds and n and n[0] == "index"}
    dims = [operand, indices, updates]
    rel = named(avals, outs, dims, [operand], kinds, [0] if kinds else [])
    return _along(rel, [d for d, name in enumerate(operand) if name is None])


@factors.register
def _reshape(op: Reshape, avals: Avals, outs: Avals) -> Factors:
    """Dims of the same elements, in groups, have their common factors.

    Where these end, what is left of the dims is whole.
    """
    sizes: list[int] = []
    source: list[Dim] = [()] * avals[0].ndim
    result: list[Dim] = [()] * outs[0].ndim
    whole: set[int] = set()
    for old, new in reshape_groups(avals[0].shape, outs[0].shape):
        pieces, *rests = common_pieces(
            [avals[0].shape[d] for d in old], [outs[0].shape[d] for d in new]
        )
        for i, j, size in pieces:
            sizes.append(size)
            source[old[i]] += (len(sizes) - 1,)
            result[new[j]] += (len(sizes) - 1,)
        sides = zip((source, result), (old, new), rests, strict=True)
        for side, group, sizes_left in sides:
            for d, size in zip(group, sizes_left, strict=True):
                if not is_same(size, 1):
                    side[d] += (_add(sizes, size, whole),)
    rest = tuple(tuple((_add(sizes, n, whole),) for n in a.shape) for a in avals[1:])
    return Factors(
        tuple(sizes),
        (tuple(source), *rest),
        (tuple(result),),
        (),
        frozenset(whole),
    )


def _add(sizes: list[int], size: int, whole: set[int]) -> int:
    whole.add(len(sizes))
    sizes.append(size)
    return len(sizes) - 1
