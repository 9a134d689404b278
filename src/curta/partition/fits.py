"""The rows that operands of one op have in common, where dims have windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from curta.core.op import Op
from curta.core.trace import typeof
from curta.partition.host_mesh import HostMesh
from curta.partition.part import Fit, HostPart, equal, with_dim
from curta.partition.windows import Window, filled, gathered, moved_rows
from curta.primitives.dot import DotGeneral
from curta.primitives.families import Reduction
from curta.primitives.monoids import MONOIDS
from curta.primitives.relation import Factors
from curta.primitives.structure import exact_scalar

Parts = Sequence[HostPart]


def common_fits(
    op: Op,
    rel: Factors,
    parts: Parts,
    hosts: HostMesh,
    given: Mapping[int, tuple[Any, ...]] | None = None,
) -> tuple[list[HostPart], dict[int, Fit]]:
    """For each factor of which an operand has a window, the rows that all are to have.

    The dims for which there are none are made equal parts, or whole. Factors whose
    axes are `given` are left alone.
    """
    parts = [*parts]
    given = given or {}
    axes: dict[int, tuple[Any, ...]] = {**given}
    for i, (part, dims) in enumerate(zip(parts, rel.operands, strict=True)):
        for d, window in enumerate(part.windows):
            if window is None or dims[d][:1] and dims[d][0] in given:
                continue
            own = part.split[d]
            members = hosts.size_of(own)
            taken = {n for f, names in axes.items() if (f,) != dims[d] for n in names}
            if (
                _may_have_rows(op, rel, dims[d], window, members)
                and axes.get(dims[d][0], own) == own
                and not taken & {*own}
            ):
                axes[dims[d][0]] = own
            elif _is_small(window):
                x = gathered(part.value, d, window, hosts.group(own))
                parts[i] = part = with_dim(part, d, x, (), hosts)
            else:
                part = with_dim(part, d, *equal(part, d, hosts), hosts)
                parts[i] = part
    fits = {
        f: _common(f, names, rel, parts, hosts)
        for f, names in axes.items()
        if f not in given
    }
    return parts, fits


def _is_small(window: Window) -> bool:
    return window.size == 1 or window.size * 4 <= window.every


def _may_have_rows(
    op: Op, rel: Factors, dim: tuple[int, ...], window: Window, members: int
) -> bool:
    """Whether the op may be taken on rows of a dim some of which are not there."""
    if len(dim) != 1 or dim[0] in rel.whole or _is_small(window):
        return False
    (f,) = dim
    everywhere = [d for dims in (*rel.operands, *rel.results) for d in dims]
    if any(f in d and len(d) > 1 for d in everywhere):
        return False
    if f in dict(rel.reduced):
        known = isinstance(op, (Reduction, DotGeneral))
        return known and window.size <= members * window.every
    return True


def _common(
    f: int, axes: tuple[Any, ...], rel: Factors, parts: Parts, hosts: HostMesh
) -> Fit:
    """The rows that cost the least to send."""
    uses = [
        (part.window(d, hosts), typeof(part.value).shape[d], typeof(part.value).size)
        for part, dims in zip(parts, rel.operands, strict=True)
        for d, dim in enumerate(dims)
        if dim == (f,) and part.split[d] == axes
    ]
    members = hosts.size_of(axes)
    best = min(
        (
            fit
            for window, _, _ in uses
            for fit in _candidates(
                axes,
                window,
                [use[:2] for use in uses],
                members,
                f in dict(rel.reduced),
            )
        ),
        key=lambda fit: _cost(fit, uses, members),
    )
    return best


def _candidates(
    axes: tuple[Any, ...],
    window: Window,
    uses: Sequence[tuple[Window, int]],
    members: int,
    once: bool,
) -> list[Fit]:
    """Candidate splits of rows over hosts: those that all uses have, or some."""
    size, every = window.size, window.every
    alike = [(w, rows) for w, rows in uses if w.every == every]
    result = []
    if not once:
        first = max(w.first for w, _ in alike)
        rows = min(w.first + rows for w, rows in alike) - first
        both = Window(size, every, first)
        if rows > 0 and both.reaches(rows, members):
            result.append(Fit(axes, both, rows))
    rows = max(every, size - (members - 1) * every)
    least = min(0, size - members * every)
    for first in [*(w.first for w, _ in alike), least // 2]:
        first = min(0, max(least, first))
        result.append(Fit(axes, Window(size, every, first), rows))
    return result


def _cost(
    fit: Fit, uses: Sequence[tuple[Window, int, int]], members: int
) -> tuple[int, int]:
    """How many elements are sent; of equals those in the middle are best."""
    total = 0
    for window, rows, elements in uses:
        sent = (members - 1) * rows
        if window.every == fit.window.every:
            sent = moved_rows(window, rows, fit.window.first, fit.rows, members)
        total += sent * (elements // rows)
    slack = members * fit.window.every - fit.window.size
    return total, abs(2 * fit.window.first + max(0, slack))


def fits_of(dims: Sequence[tuple[int, ...]], fits: Mapping[int, Fit]) -> dict[int, Fit]:
    """The rows of the dims of a value that has these factors."""
    return {d: fits[f] for d, dim in enumerate(dims) for f in dim if f in fits}


def windows_of(
    dims: Sequence[tuple[int, ...]], fits: Mapping[int, Fit]
) -> list[Window | None]:
    """The windows of the dims of a value that has these factors."""
    result = fits_of(dims, fits)
    return [result[d].window if d in result else None for d in range(len(dims))]


def with_fits(
    shape: Sequence[int], dims: Sequence[tuple[int, ...]], fits: Mapping[int, Fit]
) -> tuple[int, ...]:
    """The shape of a part with these rows."""
    result = fits_of(dims, fits)
    return tuple(result[d].rows if d in result else n for d, n in enumerate(shape))


def folding(
    x: Any,
    dims: Sequence[tuple[int, ...]],
    rel: Factors,
    fits: Mapping[int, Fit],
    hosts: HostMesh,
) -> Any:
    """A part with what a fold leaves alone in the rows that are not there."""
    kinds = dict(rel.reduced)
    for d, fit in fits_of(dims, fits).items():
        kind = kinds.get(dims[d][0])
        if kind is not None:
            dtype = typeof(x).dtype
            fill = exact_scalar(MONOIDS[kind].neutral(dtype), dtype)
            x = filled(x, d, fit.window, fill, hosts.group(fit.axes))
    return x
