"""The placement of an op's results in types, and values brought to a placement.

How results are split is for `partitioning` to say, what is a sum for `unreduced_types`,
in which memory they are for `memory_types`; what varies over manual axes is what any
operand varies over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.manual_axes import ManualAxisType
from curta.core.mesh import AbstractMesh, same_axes
from curta.core.mesh_scope import get_abstract_mesh, scope
from curta.core.op import Op
from curta.core.partition_spec import PartitionSpec
from curta.core.placement import Placement, mesh_of, placement, set_rules, space_of
from curta.core.sharding import NamedSharding
from curta.core.trace import typeof
from curta.primitives.collective import AxisIndex, Collective, PVary
from curta.primitives.elementwise.comparison import eq
from curta.primitives.elementwise.select import SelectN
from curta.primitives.forbidden_collectives import refuse_collectives
from curta.primitives.memory_types import out_spaces
from curta.primitives.partitioning import out_entries
from curta.primitives.placing import DevicePut, Reshard
from curta.primitives.split_query import Entries, Query
from curta.primitives.structure import zeros
from curta.primitives.unreduced import (
    Preduced,
    ReducedVaryCast,
    UnreducedPsum,
    VaryUnreducedCast,
)
from curta.primitives.unreduced_types import out_sums


def _placed_out_aval(op: Any, avals: Sequence[ShapedArray]) -> Any:
    if op.places_outputs:
        result = op.aval(*avals)
        several = list(result) if op.multiple_results else [result]
        several = [_in_scope(a) for a in several]
    else:
        result = op.aval(*[a.unplaced() for a in avals])
        several = _with_placement(
            op, avals, result if op.multiple_results else [result]
        )
    if forbidden := config.jax_no_collectives:
        refuse_collectives(op, avals, several, forbidden)
    return several if op.multiple_results else several[0]


def _in_scope(aval: ShapedArray) -> ShapedArray:
    """The aval without manual axes that are not mapped over here."""
    where, around = aval.placement, get_abstract_mesh()
    if where is None or where.mesh is around:
        return aval
    outside = {*where.mesh.manual_axes} - {*around.manual_axes}
    if not outside and where.varying <= {*around.manual_axes}:
        return aval
    kept = where.update(
        varying=where.varying & {*around.manual_axes},
        unreduced=where.unreduced - outside,
        reduced=where.reduced - outside,
    )
    if outside and kept is not None and not kept.has_axes:
        kept = kept.update(mesh=around)
    return aval.update(placement=kept)


def _with_placement(
    op: Op, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray]
) -> list[ShapedArray]:
    placements = [a.placement for a in avals if a.placement is not None]
    spaces = out_spaces(op, avals, len(outs))
    mesh = _common_mesh(op, avals)
    varying = frozenset[Any]().union(*[p.varying for p in placements])
    split: Sequence[Entries] = [()] * len(outs)
    if any(p.entries for p in placements):
        entries = [a.sharding.spec.partitions for a in avals]
        strict = not scope().guesses
        query = Query(op, avals, entries, outs, mesh.size_of, strict)
        split = out_entries(query)
    unreduced, reduced = out_sums(op, avals)
    axes = varying, unreduced, reduced
    return [
        _in_scope(a.update(placement=placement(mesh, e, *axes, space)))
        for a, e, space in zip(outs, split, spaces, strict=True)
    ]


def _common_mesh(op: Op, avals: Sequence[ShapedArray]) -> AbstractMesh:
    """The mesh on which the results of an op are: that of the operands, or in scope.

    Raises ValueError for several, where types are to say how arrays are split.
    """
    around = get_abstract_mesh()
    placed = [a for a in avals if not mesh_of(a.placement).empty]
    if not placed:
        return around
    if scope().guesses:  # a recorded function keeps the mesh of its operands
        split = [a for a in placed if a.sharding.spec.used_axes()]
        return mesh_of((split or placed)[0].placement)
    meshes = [_seen_from(around, mesh_of(a.placement)) for a in placed]
    for mesh, aval in zip(meshes, placed, strict=True):
        if not around.empty and _conflict(mesh, around):
            raise ValueError(
                f"For primitive {op.name}, context mesh {around} should match the aval"
                f" mesh {mesh} for shape {aval.str_short()}. Use it where its mesh is"
                " in scope, or move it with jax.device_put or jax.sharding.reshard."
            )
        if _conflict(mesh, meshes[0]):
            raise ValueError(
                "Mesh for all inputs should be equal. Got one mesh:"
                f" {meshes[0]} and another mesh: {mesh}"
            )
    same = all(same_axes(mesh, meshes[0]) for mesh in meshes)
    return meshes[0] if same else around


def _seen_from(around: AbstractMesh, mesh: AbstractMesh) -> AbstractMesh:
    """A mesh as the body of a `shard_map` over it sees it: some axes are manual."""
    manual = {*around.manual_axes} ^ {*mesh.manual_axes}
    if not manual or mesh.shape_tuple != around.shape_tuple:
        return mesh
    other = [n for n in mesh.axis_names if mesh.types[n] is not around.types[n]]
    return around if manual.issuperset(other) else mesh


def _conflict(mesh: AbstractMesh, other: AbstractMesh) -> bool:
    automatic = mesh.are_all_axes_auto and other.are_all_axes_auto
    return not (automatic or same_axes(mesh, other))


def _aligned(op: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The operands, made to vary over all manual axes over which one of them does.

    Ops with jaxprs of their own take what these were traced for.
    """
    if not scope().checks_varying or isinstance(op, PVary):
        return args
    if op.places_outputs and not isinstance(op, Collective):
        return args
    mats = [typeof(x).mat for x in args]
    if not config.jax_auto_pcast:
        _check_alike(op, mats)
        return args
    wanted = frozenset[Any]().union(*[m.varying for m in mats])
    if isinstance(op, Collective) and not op.takes_sums:
        manual = {*get_abstract_mesh().manual_axes}
        named = {n for n in op.axis_names if n in manual}
        wanted |= named - frozenset[Any]().union(
            *[m.unreduced | m.reduced for m in mats]
        )
    return [_varying(x, wanted, m) for x, m in zip(args, mats, strict=True)]


def _check_alike(op: Any, mats: Sequence[ManualAxisType]) -> None:
    result = list(dict.fromkeys(m.varying for m in mats))
    if len(result) > 1:
        raise ValueError(
            f"Primitive {op.name} requires varying manual axes to match, but got"
            f" {[set(f) for f in result]}. Cast the operands with jax.lax.pcast, or set"
            " jax_auto_pcast."
        )


def varying_over(x: Any, axes: frozenset[Any]) -> Any:
    """A value that varies over these manual axes too."""
    return _varying(x, axes, typeof(x).mat)


def _varying(x: Any, axes: frozenset[Any], mat: ManualAxisType) -> Any:
    mesh = get_abstract_mesh()
    if shared := axes & mat.reduced:
        x = ReducedVaryCast(mesh.in_order(shared))(x)
    missing = axes - mat.varying - mat.reduced
    return PVary(mesh.in_order(missing))(x) if missing else x


def _placed_as(x: Any, have: Placement | None, want: Placement | None) -> Any:
    rank = typeof(x).ndim
    before, after = (
        PartitionSpec(*[None] * rank) if w is None else w.spec(rank)
        for w in (have, want)
    )
    if before is not after:
        mesh = want.mesh if want is not None else have.mesh  # type: ignore[union-attr]
        x = Reshard(NamedSharding(mesh, after))(x)
    if space_of(want) is not space_of(have):
        x = DevicePut(space_of(want))(x)
    if not scope().checks_varying:
        return x
    return _manually_as(x, typeof(x).update(placement=want).mat)


def _manually_as(x: Any, want: ManualAxisType) -> Any:
    """A value converted to this type; unreduced axes not in it are reduced."""
    mesh, have = get_abstract_mesh(), typeof(x).mat
    if done := have.unreduced - want.unreduced:
        x = UnreducedPsum(mesh.in_order(done))(x)
    if terms := want.unreduced - have.unreduced:
        if same := terms - have.varying:
            x = _first_alone(x, same)
        x = VaryUnreducedCast(mesh.in_order(terms))(x)
    if counted := want.reduced - have.reduced - have.varying:
        x = Preduced(mesh.in_order(counted))(x)
    return varying_over(x, want.varying)


def _first_alone(x: Any, axes: frozenset[Any]) -> Any:
    """A value that all devices have, with zeros on all but the first along the axes."""
    x = varying_over(x, axes)
    for name in get_abstract_mesh().in_order(axes):
        first = eq(AxisIndex(name, True)(), np.int32(0))
        x = SelectN()(first, zeros(typeof(x)), x)
    return x


def install_placement_rules() -> None:
    """Let tracing know how ops place their results."""
    set_rules(_placed_out_aval, _aligned, _placed_as)
