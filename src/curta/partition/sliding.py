"""Windows that slide along dims that are cut: hosts send the rows at borders.

Which rows of an operand a row of the result is made of is said by the relation of
dims (`Windowed`), so that one rule is enough for all such ops.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from curta.core.jaxpr import Eqn
from curta.core.trace import typeof
from curta.partition.along import Partitioning, Parts, Splits, along_cut
from curta.partition.fits import common_fits, fits_of, windows_of
from curta.partition.host_mesh import HostMesh, split_of
from curta.partition.part import Fit, HostPart, fitted, windowed
from curta.partition.windows import Window, filled, moved_rows, rows_of
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.factors import factors
from curta.primitives.relation import Factors, Windowed
from curta.primitives.structure import exact_scalar
from curta.primitives.windowed.reductions import WindowReduction
from curta.primitives.windowed.selection import (
    SelectAndGatherAdd,
    SelectAndScatterAdd,
)
from curta.primitives.windowed.sliding import dilated


class _Slide(NamedTuple):
    """A windowed dim of which hosts along some axes have rows.

    `fits` are those of operands, by operand and dim; hosts have the rows `out` of the
    result, or a term of a sum if it is None; of those that the op gives, `kept` ones.
    """

    axes: tuple[Any, ...]
    fits: dict[tuple[int, int], Fit]
    out: Fit | None
    padding: tuple[int, int]
    kept: tuple[int, int] | None = None


@along_cut.register(ConvGeneralDilated)
@along_cut.register(WindowReduction)
@along_cut.register(SelectAndGatherAdd)
@along_cut.register(SelectAndScatterAdd)
def _slid(
    op: Any, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    hosts = partitioner.hosts
    avals, outs = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    if any(0 in a.shape for a in (*avals, *outs)):
        return None
    rel = factors(op, avals, outs)
    slides: dict[Windowed, _Slide] = {}
    for dim in rel.windowed:
        slide = _along(dim, outs[0].shape[dim.result], parts, hosts)
        used = {n for s in slides.values() for n in s.axes}
        if slide is not None and not used & {*slide.axes}:
            slides[dim] = slide
    if not slides:
        return None
    return _applied(op, partitioner, rel, slides, eqn, parts, wanted)


def _along(dim: Windowed, size: int, parts: Parts, hosts: HostMesh) -> _Slide | None:
    """The rows that hosts are to have; None if they would send too many."""
    number, d = dim.operands[0]
    cut = [(i, k) for i, k in dim.operands if parts[i].split[k]]
    kernel = None
    if dim.kernel is not None and parts[dim.kernel[0]].split[dim.kernel[1]]:
        kernel = parts[dim.kernel[0]]
    if cut:
        number, d = cut[0]
    elif kernel is None:
        return None
    if dim.spread:
        return _spread(dim, size, parts, hosts)
    part = parts[number]
    if dim.kernel is not None:
        own = part.window(d, hosts).every if cut else 0
        i, k = dim.kernel
        rows = (dim.extent - 1) // dim.kernel_dilation + 1
        if kernel is not None or dim.extent > own:
            return _over_kernel(dim, size, rows, parts, hosts)
    return _over_result(dim, size, part.split[d], part.window(d, hosts), parts, hosts)


def _over_result(
    dim: Windowed,
    size: int,
    axes: tuple[Any, ...],
    window: Window,
    parts: Parts,
    hosts: HostMesh,
) -> _Slide | None:
    """Each host makes its rows of the result."""
    members = hosts.size_of(axes)
    if window.every * dim.dilation % dim.stride:
        return None
    every = window.every * dim.dilation // dim.stride
    rows = max(every, size - (members - 1) * every)
    if rows > 2 * every:
        return None
    least = min(0, size - members * every)
    number, d = dim.operands[0]
    result = []
    for first in dict.fromkeys((least // 2, 0, least)):
        need = (rows - 1) * dim.stride + dim.extent
        start = first * dim.stride - dim.low
        begin = start // dim.dilation
        lead = start - begin * dim.dilation
        count = (need + lead - 1) // dim.dilation + 1
        high = need + lead - dilated(count, dim.dilation)
        fit = Fit(axes, Window(window.size, window.every, begin), count)
        out = Fit(axes, Window(size, every, first), rows)
        slide = _Slide(axes, dict.fromkeys(dim.operands, fit), out, (-lead, high))
        result.append((_sent(slide, parts, hosts), slide))
    sent, best = min(result, key=lambda pair: pair[0])
    gathering = (members - 1) * window.every * len(dim.operands)
    return best if sent <= gathering else None


def _spread(dim: Windowed, size: int, parts: Parts, hosts: HostMesh) -> _Slide | None:
    """Each host makes its rows of what the rows of windows are spread over."""
    (_, d), source = dim.operands[1], parts[0]
    axes = parts[1].split[d] or source.split[d]
    step = dim.stride
    if parts[1].split[d]:
        every = parts[1].window(d, hosts).every
    else:
        every = source.window(d, hosts).every * step
    members = hosts.size_of(axes)
    if every % step or members * every < size:
        return None
    first = min(0, size - members * every) // 2
    least = -((dim.extent - 1 - first - dim.low) // step)
    least = min(least, (first + dim.low) // step)
    last = (first + every - 1 + dim.low) // step
    begin = least * step - dim.low
    rows = max((last - least) * step + dim.extent, first + every - begin)
    count = source.shape(hosts)[d]
    fits = {
        dim.operands[0]: Fit(
            axes, Window(count, every // step, least), last - least + 1
        ),
        dim.operands[1]: Fit(axes, Window(size, every, begin), rows),
    }
    out = Fit(axes, Window(size, every, first), every)
    kept = (first - begin, first - begin + every)
    slide = _Slide(axes, fits, out, (0, 0), kept)
    gathering = (members - 1) * (every + every // step)
    return slide if _sent(slide, parts, hosts) <= gathering else None


def _over_kernel(
    dim: Windowed, size: int, rows: int, parts: Parts, hosts: HostMesh
) -> _Slide | None:
    """Each host has rows of the kernel, and makes a term of every row of the result."""
    assert dim.kernel is not None
    (number, d), (i, k), step = dim.operands[0], dim.kernel, dim.kernel_dilation
    axes = parts[number].split[d] or parts[i].split[k]
    if dim.dilation != 1 or parts[i].split[k] not in ((), axes):
        return None
    members = hosts.size_of(axes)
    if parts[i].split[k]:
        window = parts[i].window(k, hosts)
        every, first = window.every, window.first
    else:
        every, first = parts[number].window(d, hosts).every // step, 0
    # A row that is not there would be a 0, which makes NaN of an infinity.
    if first or members * every != rows:
        return None
    count = (size - 1) * dim.stride + (every - 1) * step + 1
    source = parts[number].shape(hosts)[d]
    fit = Fit(axes, Window(source, every * step, -dim.low), count)
    own = Fit(axes, Window(rows, every, 0), every)
    slide = _Slide(axes, {(number, d): fit, (i, k): own}, None, (0, 0))
    gathering = (members - 1) * (every * step + every)
    return slide if _sent(slide, parts, hosts) <= gathering else None


def _sent(slide: _Slide, parts: Parts, hosts: HostMesh) -> int:
    """How many rows each host sends."""
    total, members = 0, hosts.size_of(slide.axes)
    for (i, d), fit in slide.fits.items():
        if parts[i].split[d] == fit.axes:
            window = parts[i].window(d, hosts)
            if window.every != fit.window.every:
                total += (members - 1) * window.every
                continue
            have = typeof(parts[i].value).shape[d]
            total += moved_rows(window, have, fit.window.first, fit.rows, members)
    return total


def _applied(
    op: Any,
    partitioner: Partitioning,
    rel: Factors,
    slides: dict[Windowed, _Slide],
    eqn: Eqn,
    parts: Parts,
    wanted: Splits,
) -> Sequence[HostPart]:
    """The op on the rows that slides say, and what other factors say."""
    hosts = partitioner.hosts
    outs = [v.aval for v in eqn.outvars]
    given = {}
    for slide in slides.values():
        for i, d in slide.fits:
            given[rel.operands[i][d][0]] = slide.axes
    parts, fits = common_fits(op, rel, parts, hosts, given)
    given |= {f: fit.axes for f, fit in fits.items()}
    axes = partitioner.axes_of_factors(rel, parts, wanted, given)
    values = [
        _operand(op, i, part, rel.operands[i], axes, fits, slides, hosts)
        for i, part in enumerate(parts)
    ]
    local = op
    for dim, slide in slides.items():
        local = _with_padding(local, dim, slide.padding)
    result_axes = dict(axes)
    for dim, slide in slides.items():
        for f in rel.results[0][dim.result]:
            if slide.out is not None:
                fits = {**fits, f: slide.out}
                result_axes[f] = slide.axes
    splits = [split_of(dims, result_axes) for dims in rel.results]
    results = partitioner.applied(local, rel, outs, values, splits, fits)
    for dim, slide in slides.items():
        if slide.kept is not None:
            results = [rows_of(x, dim.result, *slide.kept) for x in results]
    result = [
        windowed(x, split, windows_of(dims, fits), hosts)
        for x, split, dims in zip(results, splits, rel.results, strict=True)
    ]
    folds = [(kind, axes[f]) for f, kind in rel.reduced if axes.get(f)]
    folds += [("sum", s.axes) for s in slides.values() if s.out is None]
    return _folded(partitioner, result, folds, wanted)


def _folded(
    partitioner: Partitioning,
    results: Sequence[HostPart],
    folds: Sequence[tuple[str, tuple[Any, ...]]],
    wanted: Splits,
) -> Sequence[HostPart]:
    for kind, along in folds:
        results = [
            partitioner.folded(part, kind, along, want)
            for part, want in zip(results, wanted, strict=True)
        ]
    return [partitioner.refined(part, want) for part, want in zip(results, wanted)]


def _operand(
    op: Any,
    number: int,
    part: HostPart,
    dims: Sequence[tuple[int, ...]],
    axes: Mapping[int, tuple[Any, ...]],
    fits: Mapping[int, Fit],
    slides: Mapping[Windowed, _Slide],
    hosts: HostMesh,
) -> Any:
    """The rows of an operand that hosts need, filled where there are none."""
    own = {
        d: fit
        for slide in slides.values()
        for (i, d), fit in slide.fits.items()
        if i == number
    }
    split = split_of(dims, axes)
    x = fitted(part, split, {**fits_of(dims, fits), **own}, hosts)
    dtype = typeof(x).dtype
    fill = exact_scalar(_fill(op, number, dtype), dtype)
    for d, fit in own.items():
        x = filled(x, d, fit.window, fill, hosts.group(fit.axes))
    return x


def _fill(op: Any, operand: int, dtype: Any) -> Any:
    """The fill value of rows outside of the array."""
    if isinstance(op, WindowReduction):
        return op.identity(dtype)
    if isinstance(op, (SelectAndGatherAdd, SelectAndScatterAdd)) and operand == 1:
        return op.worst(dtype)
    return 0


def _with_padding(op: Any, dim: Windowed, padding: tuple[int, int]) -> Any:
    """The op with other padding in front of a dim and behind."""
    d = dim.result
    if isinstance(op, ConvGeneralDilated):
        d = op.dimension_numbers.out_spec.index(d) - 2
    result = [*op.padding]
    result[d] = padding
    return dataclasses.replace(op, padding=tuple(result))
