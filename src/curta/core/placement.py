"""Placement: the part of an array's type that says where its elements are.

Most avals have none. Arrays split over an explicit mesh axis carry the split in their
type, and values in the body of a `shard_map` the manual axes over which they vary.
Ops know nothing of it: their `aval` rules see avals without placement, and the rules
of `primitives.partitioning`, which are installed here, add that of the result.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from curta.core.mesh import AbstractMesh
from curta.core.partition_spec import PartitionSpec, entry_axes

Entries = tuple[Any, ...]
_NO_AXES: frozenset[Any] = frozenset()


class Placement:
    """How an array is split over explicit axes, and over which manual ones it varies.

    `entries` has one entry for each dim, as a `PartitionSpec`, or is empty if no dim
    is split. Placements are interned; what says nothing is no Placement but None.
    """

    __slots__ = ("__weakref__", "entries", "mesh", "varying")

    mesh: AbstractMesh
    entries: Entries
    varying: frozenset[Any]

    def __repr__(self) -> str:
        return f"Placement({self.mesh}, {self.entries}, varying={set(self.varying)})"

    def __reduce__(self) -> Any:
        return placement, (self.mesh, self.entries, self.varying)

    def spec(self, rank: int) -> PartitionSpec:
        """The spec of an array of that rank."""
        return PartitionSpec(*(self.entries or (None,) * rank))

    def only_varying(self) -> Placement | None:
        """The same without the split."""
        return placement(self.mesh, (), self.varying)


def placement(
    mesh: AbstractMesh, entries: Iterable[Any], varying: Iterable[Any] = _NO_AXES
) -> Placement | None:
    """The placement of these parts, None if nothing is split and nothing varies."""
    split = tuple(entries)
    if not any(split):
        split = ()
    axes = frozenset(varying)
    if not split and not axes:
        return None
    key = (mesh, split, axes)
    found = _placements.get(key)
    if found is None:
        found = object.__new__(Placement)
        found.mesh, found.entries, found.varying = key
        found = _placements.setdefault(key, found)
    return found


_placements: weakref.WeakValueDictionary[Any, Placement] = weakref.WeakValueDictionary()


def shape_text(shape: Sequence[int], where: Placement | None) -> str:
    """`[8@x,2]`, and `{V:x}` after it for what varies."""
    if where is None:
        return f"[{','.join(map(str, shape))}]"
    entries = where.entries or (None,) * len(shape)
    dims = ",".join(
        str(n) if e is None else f"{n}@{_axes_text(entry_axes(e))}"
        for n, e in zip(shape, entries, strict=True)
    )
    varying = where.mesh.in_order(where.varying)
    return f"[{dims}]" + (f"{{V:{_axes_text(varying)}}}" if varying else "")


def _axes_text(axes: Sequence[Any]) -> str:
    text = ",".join(map(str, axes))
    return text if len(axes) == 1 else f"({text})"


# ---- the rules, which know the ops

_rules: list[Callable[..., Any]] = []


def set_rules(*rules: Callable[..., Any]) -> None:
    """Install what the functions below do; see `primitives.partitioning`."""
    _rules[:] = rules


def placed_out_aval(op: Any, avals: Sequence[Any]) -> Any:
    """What `op.aval` gives, with the placement that follows from the operands'."""
    if all(a.placement is None for a in avals):
        return op.aval(*avals)
    return _rules[0](op, avals)


def aligned(op: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The operands made to vary over the same manual axes, where the op needs it."""
    found: Sequence[Any] = _rules[1](op, args)
    return found


def placed_as(x: Any, have: Placement | None, want: Placement | None) -> Any:
    """A value of one placement, with another."""
    return x if have is want else _rules[2](x, have, want)
