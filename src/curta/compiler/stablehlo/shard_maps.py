"""`shard_map`: a region that each device runs on its part of the operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.compiler.stablehlo.attributes import RawAttribute
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.lowering import (
    BlockBuilder,
    lower_closed,
    ordered_effects,
    rule,
)
from curta.compiler.stablehlo.shardings import (
    Manual,
    constrained,
    physical_rank,
    uses_shardy,
)
from curta.compiler.stablehlo.types import TOKEN, tensor_type
from curta.control.shard_map import ShardMap
from curta.core.avals import ShapedArray
from curta.core.mesh import AbstractMesh, AxisType
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import NamedSharding
from curta.core.tiling import tiling


@rule(ShardMap)
def _shard_map(b: BlockBuilder, op: ShardMap, *xs: HloValue) -> Sequence[HloValue]:
    body = op.delivered_body()
    mapped = b.manual.axes if b.manual else frozenset()
    manual = Manual(op.mesh.abstract_mesh, op.axes | mapped)
    if op.mesh.size_of(op.mesh.in_order(op.axes)) == 1:
        return _inlined(b, op, manual, body, xs)
    if not uses_shardy():
        return _between_shapes(b, op, manual, body, xs)
    effects = ordered_effects(body.effects)
    mesh = _with_manual_axes(op.mesh.abstract_mesh, mapped)
    whole = f"<@{b.program.meshes.name(mesh.shape_tuple)}, []>"
    ins, outs = (
        ", ".join([whole] * count + [*map(_sharding(b, op, mesh), specs, avals)])
        for count, specs, avals in (
            (len(b.numbers) + len(effects), op.in_specs, b.ins),
            (len(effects), op.out_specs, b.outs),
        )
    )
    tokens = [TOKEN] * len(effects)
    first = len(b.numbers)
    before = [*[x.type for x in b.numbers.values()], *tokens]
    with b.region([*before, *map(tensor_type, body.in_avals)]) as inner:
        inner.manual = manual
        arguments = inner.block.arguments
        inner.numbers = dict(zip(b.numbers, arguments))
        inner.tokens = dict(zip(effects, arguments[first:]))
        with op.inside():
            result = lower_closed(inner, body, arguments[len(before) :])
        inner.emit("sdy.return", [*inner.tokens.values(), *result], [])
    results = b.emit(
        "sdy.manual_computation",
        [*b.numbers.values(), *[b.tokens[e] for e in effects], *xs],
        [*tokens, *b.out_types],
        [inner.block],
        in_shardings=ins,
        out_shardings=outs,
        manual_axes=op.mesh.in_order(op.axes),
    )
    b.tokens.update(zip(effects, results))
    return results[len(effects) :]


def _inlined(
    b: BlockBuilder, op: ShardMap, manual: Manual, body: Any, xs: Sequence[HloValue]
) -> Sequence[HloValue]:
    """Over axes of one device there is nothing to divide."""
    outer, b.manual = b.manual, manual
    with op.inside():
        results = lower_closed(b, body, xs)
    b.manual = outer
    return results


def _with_manual_axes(mesh: AbstractMesh, axes: frozenset[Any]) -> AbstractMesh:
    return mesh.update_axis_types(dict.fromkeys(axes, AxisType.Manual))


def _sharding(b: BlockBuilder, op: ShardMap, mesh: AbstractMesh) -> Any:
    """What an operand's, or a result's, sharding is, as text."""
    partly = len(op.axes) < len(mesh.axis_names)

    def text(spec: PartitionSpec, aval: ShapedArray) -> RawAttribute:
        sharding = NamedSharding(mesh, _without_sums(spec))
        rank = physical_rank(aval)
        return b.program.meshes.sharding(sharding, rank, by_types=partly)

    return text


def _without_sums(spec: PartitionSpec) -> PartitionSpec:
    return PartitionSpec(*spec.partitions, unreduced=spec.unreduced)


# ------------------------------------------------- for XLA's older partitioner


def _between_shapes(
    b: BlockBuilder, op: ShardMap, manual: Manual, body: Any, xs: Sequence[HloValue]
) -> Sequence[HloValue]:
    """A function of the parts: operands change to their shape, and results back."""
    mesh = op.mesh.abstract_mesh
    free = len(op.axes) < len(mesh.axis_names)
    parts = []
    for x, spec, aval, part in zip(xs, op.in_specs, b.ins, body.in_avals, strict=True):
        dims = "unspecified_dims=[{}]".format(",".join(map(str, range(aval.ndim))))
        config = dims if free else ""
        by_hand = _manual_text(mesh, manual.axes, aval.ndim)
        x = constrained(b, x, NamedSharding(mesh, spec), aval.ndim, by_types=free)
        parts.append(
            _annotated(b, "SPMDFullToShardShape", x, tensor_type(part), by_hand, config)
        )
    with op.inside():
        function = b.program.function(body, "shmap_body", manual)
    result = b.emit("func.call", parts, function.result_types, callee=function.name)
    results = []
    for x, spec, aval in zip(result, op.out_specs, b.outs, strict=True):
        dims = "unspecified_dims=[{}]".format(",".join(map(str, range(aval.ndim))))
        config = dims if free else ""
        by_hand = _manual_text(mesh, manual.axes, aval.ndim)
        x = _annotated(b, "Sharding", x, x.type, by_hand, config)
        split = repr(NamedSharding(mesh, spec).tiling(aval.ndim))
        back = "SPMDShardToFullShape"
        results.append(_annotated(b, back, x, tensor_type(aval), split, config))
    return results


def _annotated(
    b: BlockBuilder, target: str, x: HloValue, type_: str, sharding: str, config: str
) -> HloValue:
    return b.op(
        "custom_call",
        [x],
        type_,
        call_target_name=target,
        backend_config=config,
        **{"mhlo.sharding": sharding},
    )


def _manual_text(mesh: AbstractMesh, axes: frozenset[Any], rank: int) -> str:
    """The older sharding of values that belong to each device."""
    if mesh.size_of([n for n in mesh.axis_names if n not in axes]) == 1:
        return "{manual}"
    axes_numbers = [i for i, n in enumerate(mesh.axis_names) if n in axes]
    text = repr(tiling(mesh.axis_sizes, [axes_numbers]))
    text = text.replace("devices=[", "devices=[" + "1," * rank)
    copies = "last_tile_dims={manual, replicated}"
    return text.replace("last_tile_dim_replicate", copies)
