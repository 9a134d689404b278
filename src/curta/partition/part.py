"""Parts of values on one host, and resharding of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from curta.core.trace import typeof
from curta.hosts.group import HostGroup
from curta.partition.host_mesh import HostMesh, Split
from curta.partition.own_rows import first_row
from curta.partition.windows import Window, gathered, reached, shared_out, taken
from curta.primitives.host_collectives import HostExchange, HostGather
from curta.primitives.indexing.dynamic import DynamicSlice


class HostPart(NamedTuple):
    """The host's part of a value, and how the value is split over hosts.

    Dims that are not shared out equally have a window; there are no `windows` if
    all are.
    """

    value: Any
    split: Split
    windows: tuple[Window | None, ...] = ()

    def window(self, dim: int, hosts: HostMesh) -> Window:
        """Which rows of a dim that is cut the hosts have."""
        known = self.windows[dim] if self.windows else None
        if known is not None:
            return known
        rows = typeof(self.value).shape[dim]
        return Window(rows * hosts.size_of(self.split[dim]), rows, 0)

    def shape(self, hosts: HostMesh) -> tuple[int, ...]:
        """The shape of the whole value."""
        shape = typeof(self.value).shape
        return tuple(
            self.window(d, hosts).size if axes else shape[d]
            for d, axes in enumerate(self.split)
        )


class Fit(NamedTuple):
    """The rows that hosts along some axes are to have of a dim."""

    axes: tuple[Any, ...]
    window: Window
    rows: int


def windowed(
    value: Any, split: Split, windows: Sequence[Window | None], hosts: HostMesh
) -> HostPart:
    """A part some of whose dims have windows, which may be those of equal parts."""
    shape = typeof(value).shape
    result = tuple(
        None
        if w is None
        or (w.first, w.every) == (0, shape[d])
        and w.size == shape[d] * hosts.size_of(split[d])
        else w
        for d, w in enumerate(windows)
    )
    return HostPart(value, split, result if any(result) else ())


def whole(value: Any) -> HostPart:
    """A value that every host has."""
    return HostPart(value, ((),) * typeof(value).ndim)


def with_dim(
    part: HostPart,
    dim: int,
    value: Any,
    axes: tuple[Any, ...],
    hosts: HostMesh,
    window: Window | None = None,
) -> HostPart:
    """Another part, of which one dim has been made another."""
    windows = [*part.windows] or [None] * len(part.split)
    windows[dim] = window
    split = (*part.split[:dim], axes, *part.split[dim + 1 :])
    return windowed(value, split, windows, hosts)


def settled(part: HostPart, hosts: HostMesh, but: int = -1) -> HostPart:
    """The value in equal parts; whole in the dims that have none.

    A dim is left as it is, if one is named.
    """
    for d, window in enumerate(part.windows):
        if window is not None and d != but:
            part = with_dim(part, d, *equal(part, d, hosts), hosts)
    return part


def equal(part: HostPart, dim: int, hosts: HostMesh) -> tuple[Any, tuple[Any, ...]]:
    """The value with equal parts of a dim, or the whole dim, and the axes it has."""
    axes, window = part.split[dim], part.window(dim, hosts)
    group = hosts.group(axes)
    result = None
    if window.size % group.size == 0:
        every = window.size // group.size
        result = shared_out(part.value, dim, window, every, group)
    if result is None:
        return gathered(part.value, dim, window, group), ()
    return result, axes


def resharded(part: HostPart, target: Split, hosts: HostMesh) -> Any:
    """The host's part of the value for another split.

    First it is cut, which is free, then axes go from one dim to another, then parts
    are gathered.
    """
    for d, window in enumerate(part.windows):
        if window is not None and not target[d]:
            x = gathered(part.value, d, window, hosts.group(part.split[d]))
            part = with_dim(part, d, x, (), hosts)
    part = settled(part, hosts)
    return _moved_to(part.value, part.split, target, hosts)


def fitted(
    part: HostPart, target: Split, fits: Mapping[int, Fit], hosts: HostMesh
) -> Any:
    """The host's part for a split some of whose dims are to have certain rows."""
    kept = {d for d, fit in fits.items() if part.split[d] == fit.axes}
    for d, window in enumerate(part.windows):
        if window is not None and d not in kept:
            x, axes = part.value, part.split[d]
            if d in fits or not target[d]:
                x, axes = gathered(x, d, window, hosts.group(axes)), ()
            else:
                x, axes = equal(part, d, hosts)
            part = with_dim(part, d, x, axes, hosts)
    inner = tuple(
        axes if d not in fits else fits[d].axes if d in kept else ()
        for d, axes in enumerate(target)
    )
    x = _moved_to(part.value, part.split, inner, hosts)
    for d, fit in fits.items():
        group = hosts.group(fit.axes)
        window = part.window(d, hosts) if d in kept else None
        x = with_fit(x, d, window, fit, group)
    return x


def with_fit(
    x: Any, dim: int, window: Window | None, fit: Fit, group: HostGroup
) -> Any:
    """The rows of a dim that are to be here; all hosts have it if it has no window."""
    if window is not None:
        if window.every == fit.window.every:
            return reached(x, dim, window, fit.window.first, fit.rows, group)
        if (fit.window.first, fit.window.every) == (0, fit.rows):
            result = shared_out(x, dim, window, fit.rows, group)
            if result is not None:
                return result
        x = gathered(x, dim, window, group)
    return taken(x, dim, fit.window.every, fit.window.first, fit.rows, group)


def _moved_to(x: Any, given: Split, target: Split, hosts: HostMesh) -> Any:
    split = list(given)
    while tuple(split) != target:
        if (step := _cut(split, target)) is not None:
            d, axis = step
            x = own_slice(x, d, (axis,), hosts)
            split[d] += (axis,)
        elif (pair := _moved(split, target)) is not None:
            source, to, axis = pair
            x = HostExchange(hosts.group((axis,)), to, source)(x)
            split[source] = split[source][:-1]
            split[to] += (axis,)
        else:
            d = next(
                i for i, axes in enumerate(split) if axes != target[i][: len(axes)]
            )
            kept = _common(split[d], target[d])
            x = HostGather(hosts.group(split[d][kept:]), d)(x)
            split[d] = split[d][:kept]
    return x


def _common(axes: Sequence[Any], others: Sequence[Any]) -> int:
    """How many axes two sequences begin with alike."""
    pairs = zip(axes, others)
    return next(
        (i for i, (a, b) in enumerate(pairs) if a != b), min(len(axes), len(others))
    )


def _cut(split: Sequence[Any], target: Split) -> tuple[int, Any] | None:
    """A dim that may be cut along its next axis."""
    used = {n for axes in split for n in axes}
    for d, (axes, wanted) in enumerate(zip(split, target, strict=True)):
        if len(axes) < len(wanted) and axes == wanted[: len(axes)]:
            if wanted[len(axes)] not in used:
                return d, wanted[len(axes)]
    return None


def _moved(split: Sequence[Any], target: Split) -> tuple[int, int, Any] | None:
    """A dim whose last axis is the next one of another."""
    for source, axes in enumerate(split):
        if len(axes) > _common(axes, target[source]):
            for to, wanted in enumerate(target):
                n = len(split[to])
                if split[to] == wanted[:n] and axes[-1:] == wanted[n : n + 1]:
                    return source, to, axes[-1]
    return None


def own_slice(x: Any, dim: int, axes: Sequence[Any], hosts: HostMesh) -> Any:
    """The host's own slice of a value that all hosts along `axes` have."""
    group = hosts.group(axes)
    shape = list(typeof(x).shape)
    shape[dim] //= group.size
    zero = np.int32(0)
    starts: list[Any] = [zero] * len(shape)
    starts[dim] = first_row(group, shape[dim])
    return DynamicSlice(tuple(shape))(x, *starts)
