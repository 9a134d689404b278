"""Placement: the part of an array's type that says where its elements are.

Avals of arrays that are on no mesh have none. Those on a mesh carry its axes, and how
explicit ones split them; values in the body of a `shard_map` the manual axes over which
they vary.
What is not in the memory of devices says so by its memory space.
Both may be *unreduced* over axes: each device holds a term, and the value is their sum.
Cotangents of those are *reduced*: the same on all devices, and vice versa.
Ops know nothing of it: their `aval` rules see avals without placement, and the rules
of `primitives.placed_types`, which are installed here, add that of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from curta._base.once import Interned
from curta.config import config
from curta.core.mesh import EMPTY_ABSTRACT_MESH, AbstractMesh, same_axes
from curta.core.partition_spec import PartitionSpec, entry_axes, entry_of
from curta.core.sharding import MemorySpace

Entries = tuple[Any, ...]
_NO_AXES: frozenset[Any] = frozenset()


class Placement:
    """How an array is split over explicit axes, and over which manual ones it varies.

    The axes are those of `mesh`, which is empty for arrays on none. `entries` has one
    entry for each dim, as a `PartitionSpec`, or is empty if no dim is split.
    `unreduced` and `reduced` name axes of both kinds. `space` is the memory.
    Placements are interned; what says nothing is no Placement but None.
    """

    __slots__ = (
        "__weakref__",
        "entries",
        "mesh",
        "reduced",
        "space",
        "unreduced",
        "varying",
    )

    mesh: AbstractMesh
    entries: Entries
    varying: frozenset[Any]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]
    space: MemorySpace

    def __repr__(self) -> str:
        return (
            f"Placement({self.mesh}, {self.entries}, varying={set(self.varying)},"
            f" unreduced={set(self.unreduced)}, reduced={set(self.reduced)},"
            f" space={self.space})"
        )

    def __reduce__(self) -> Any:
        return placement, tuple(getattr(self, name) for name in _FIELDS)

    def update(self, **changes: Any) -> Placement | None:
        """This placement with some of its parts replaced."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        return placement(**{**fields, **changes})

    def spec(self, rank: int) -> PartitionSpec:
        """The spec of an array of that rank."""
        entries = self.entries or (None,) * rank
        if not (self.unreduced or self.reduced):
            return PartitionSpec(*entries)
        manual = {*self.mesh.manual_axes}
        sums = (self.unreduced - manual, self.reduced - manual)
        return PartitionSpec(*entries, unreduced=sums[0], reduced=sums[1])

    @property
    def has_axes(self) -> bool:
        """Whether it shards, reduces or varies over axes, beyond naming a mesh."""
        return bool(self.entries or self.varying or self.unreduced or self.reduced)

    def only_varying(self) -> Placement | None:
        """The same without the split."""
        return self.update(entries=())

    def dual(self) -> Placement | None:
        """That of cotangents."""
        if not (self.unreduced or self.reduced):
            return self
        return self.update(unreduced=self.reduced, reduced=self.unreduced)


_FIELDS = ("mesh", "entries", "varying", "unreduced", "reduced", "space")


def placement(
    mesh: AbstractMesh,
    entries: Iterable[Any],
    varying: Iterable[Any] = _NO_AXES,
    unreduced: Iterable[Any] = _NO_AXES,
    reduced: Iterable[Any] = _NO_AXES,
    space: MemorySpace = MemorySpace.Device,
) -> Placement | None:
    """The placement of these parts, None if they say nothing."""
    split = tuple(entries)
    if config.jax_remove_size_one_mesh_axis_from_type:
        kept = {n for n, size in mesh.shape_tuple if size > 1}
        split = tuple(entry_of(n for n in entry_axes(e) if n in kept) for e in split)
        varying = kept.intersection(varying)
        unreduced, reduced = kept.intersection(unreduced), kept.intersection(reduced)
    if not any(split):
        split = ()
    axes = frozenset(varying), frozenset(unreduced), frozenset(reduced)
    silent = mesh.empty and not split and not any(axes)
    if silent and space is MemorySpace.Device:
        return None
    key = (mesh, split, *axes, space)
    result = _placements.get(key)
    if result is None:
        result = object.__new__(Placement)
        for name, value in zip(_FIELDS, key, strict=True):
            setattr(result, name, value)
        result = _placements.shared(key, result)
    return result


_placements: Interned[Placement] = Interned()


def agree(where: Placement | None, other: Placement | None) -> bool:
    """Whether values of both placements may go by one name.

    Of the meshes only those matter that types say something about.
    """
    if where is other:
        return True
    mesh, other_mesh = mesh_of(where), mesh_of(other)
    explicit = mesh.explicit_axes or other_mesh.explicit_axes
    known = not (mesh.empty or other_mesh.empty)
    if explicit and known and not same_axes(mesh, other_mesh):
        return False
    return besides_mesh(where) == besides_mesh(other)


def besides_mesh(where: Placement | None) -> tuple[Any, ...]:
    """All that is said but the mesh: a key of what is laid out alike."""
    if where is None:
        return (), _NO_AXES, _NO_AXES, _NO_AXES, MemorySpace.Device
    return where.entries, where.varying, where.unreduced, where.reduced, where.space


def mesh_of(where: Placement | None) -> AbstractMesh:
    """The mesh on which values of a placement are, an empty one if they are on none."""
    return EMPTY_ABSTRACT_MESH if where is None else where.mesh


def space_of(where: Placement | None) -> MemorySpace:
    """The memory in which values of a placement are."""
    return MemorySpace.Device if where is None else where.space


def in_space(where: Placement | None, space: MemorySpace) -> Placement | None:
    """The placement in another memory."""
    if where is None:
        return placement(EMPTY_ABSTRACT_MESH, (), space=space)
    return where if where.space is space else where.update(space=space)


def shape_text(shape: Sequence[int], where: Placement | None) -> str:
    """`[8@x,2]`, after it `{V:x}` for what varies, U or R for sums.

    Memory that is not that of devices comes before it, `<host>`.
    """
    if where is None:
        return f"[{','.join(map(str, shape))}]"
    entries = where.entries or (None,) * len(shape)
    dims = ",".join(
        str(n) if e is None else f"{n}@{_axes_text(entry_axes(e))}"
        for n, e in zip(shape, entries, strict=True)
    )
    kinds = {"V": where.varying, "U": where.unreduced, "R": where.reduced}
    parts = [
        f"{kind}:{_axes_text(where.mesh.in_order(axes))}"
        for kind, axes in kinds.items()
        if axes
    ]
    space = where.space
    memory = "" if space is MemorySpace.Device else f"<{space.name.lower()}>"
    return f"{memory}[{dims}]" + (f"{{{', '.join(parts)}}}" if parts else "")


def _axes_text(axes: Sequence[Any]) -> str:
    text = ",".join(map(str, axes))
    return text if len(axes) == 1 else f"({text})"


# ---- the rules, which know the ops

_rules: list[Callable[..., Any]] = []


def set_rules(*rules: Callable[..., Any]) -> None:
    """Install what the functions below do; see `primitives.placed_types`."""
    _rules[:] = rules


def placed_out_aval(op: Any, avals: Sequence[Any]) -> Any:
    """What `op.aval` gives, with the placement that follows from the operands'."""
    plain = config.curta_mesh_context is None and not config.jax_no_collectives
    if plain and all(a.placement is None for a in avals):
        return op.aval(*avals)
    return _rules[0](op, avals)


def aligned(op: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The operands made to vary over the same manual axes, where the op needs it."""
    result: Sequence[Any] = _rules[1](op, args)
    return result


def placed_as(x: Any, have: Placement | None, want: Placement | None) -> Any:
    """A value of one placement, with another."""
    return x if have is want else _rules[2](x, have, want)
