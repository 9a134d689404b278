"""Parts of values, as one host has them, and how they are made others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from curta.core.trace import typeof
from curta.partition.host_mesh import HostMesh, Split
from curta.primitives.elementwise import mul
from curta.primitives.host_collectives import HostExchange, HostGather, HostIndex
from curta.primitives.indexing.dynamic import DynamicSlice


class Part(NamedTuple):
    """The host's part of a value, and how the value is split over hosts."""

    value: Any
    split: Split


def whole(value: Any) -> Part:
    """A value that every host has."""
    return Part(value, ((),) * typeof(value).ndim)


def resharded(part: Part, target: Split, hosts: HostMesh) -> Any:
    """The host's part of the value for another split.

    First it is cut, which is free, then axes go from one dim to another, then parts
    are gathered.
    """
    x, split = part.value, list(part.split)
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
    starts[dim] = mul(HostIndex(group)(), np.int32(shape[dim]))
    return DynamicSlice(tuple(shape))(x, *starts)
