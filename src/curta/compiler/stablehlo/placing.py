"""Ops that say where a value is to be."""

from __future__ import annotations

from collections.abc import Sequence

from curta.compiler.stablehlo.attributes import RawAttribute, layouts
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.lowering import FRONTEND, BlockBuilder, annotate, rule
from curta.compiler.stablehlo.shardings import (
    constrained,
    constrained_by_type,
    physical_rank,
    uses_shardy,
)
from curta.control.compute_on import ComputeOn
from curta.core.array_layout import Layout
from curta.core.partition_spec import entry_axes, entry_of
from curta.core.sharding import MemorySpace, Sharding
from curta.primitives.elementwise.convert import XlaMetadataValue
from curta.primitives.placing import (
    DevicePut,
    InspectSharding,
    LayoutConstraint,
    Reshard,
    ShardAlike,
    ShardingConstraint,
)


@rule(ShardingConstraint, keys=True)
def _constraint(b: BlockBuilder, op: ShardingConstraint, x: HloValue) -> HloValue:
    target, where = op.target, b.outs[0].placement
    if target.named and where is not None and where.entries:
        # Axes of the type are in front of those left to the compiler.
        spec = target.named.spec.for_rank(b.outs[0].ndim)
        entries = [
            e if own is None else entry_of((*entry_axes(own), *entry_axes(e)))
            for e, own in zip(spec.partitions, where.entries, strict=True)
        ]
        target = target.named.update(spec=spec.update(entries))
    placed = constrained(b, x, target, physical_rank(b.ins[0]))
    return placed if op.layout is None else _stored(b, placed, op.layout)


@rule(LayoutConstraint)
def _layout(b: BlockBuilder, op: LayoutConstraint, x: HloValue) -> HloValue:
    return _stored(b, x, op.layout)


def _stored(b: BlockBuilder, x: HloValue, layout: Layout) -> HloValue:
    """A value in the order of a layout; of the operand nothing is known, as in JAX."""
    return b.op(
        "custom_call",
        [x],
        x.type,
        call_target_name="LayoutConstraint",
        backend_config="",
        operand_layouts=layouts([[*reversed(range(b.ins[0].ndim))]]),
        result_layouts=layouts([layout.order]),
    )


@rule(Reshard, keys=True)
def _reshard(b: BlockBuilder, op: Reshard, x: HloValue) -> HloValue:
    if b.outs[0].placement is not None:
        return constrained_by_type(b, x, b.outs[0])
    target = op.target
    if target.mesh.are_all_axes_auto or target.mesh.are_all_axes_manual:
        return x
    return constrained(b, x, target, physical_rank(b.ins[0]), by_types=True)


@rule(XlaMetadataValue, keys=True)
def _noted(b: BlockBuilder, op: XlaMetadataValue, x: HloValue) -> HloValue:
    """The operation that made the value gets the notes."""
    annotate(b.block.operations, [x], dict(op.xla_metadata_kvs))
    return x


@rule(DevicePut, keys=True)
def _device_put(b: BlockBuilder, op: DevicePut, x: HloValue) -> HloValue:
    if "cpu" in b.program.platforms:
        return x  # where a program runs is said from outside
    if isinstance(op.target, MemorySpace):
        return in_memory(b, x, op.target.kind)
    kind = getattr(op.target, "memory_kind", None)
    if kind in (None, "device"):
        return x
    assert isinstance(op.target, Sharding)
    x = constrained(b, x, op.target, physical_rank(b.ins[0]))
    return in_memory(b, x, kind)


@rule(ComputeOn)
def _compute_on(b: BlockBuilder, op: ComputeOn, *xs: HloValue) -> Sequence[HloValue]:
    """A call with a note that says where it runs."""
    kind, _, stream = op.compute_type.partition(":")
    if kind == "gpu_stream":
        notes = {"_xla_stream_annotation": stream, "inlineable": "false"}
    else:
        notes = {"_xla_compute_type": _COMPUTE_TYPES[kind]}
        if kind == "device":
            notes["inlineable"] = "false"
    results = b.call(op.jaxpr, "compute_on", xs)
    call = b.block.operations[-1]
    call.attributes = {**call.attributes, FRONTEND: notes}
    return results


_COMPUTE_TYPES = {
    "device_host": "host",
    "device": "dense",
    "tpu_sparsecore": "sparseoffload",
}


def in_memory(b: BlockBuilder, x: HloValue, kind: str) -> HloValue:
    """A value in a memory of that kind."""
    return b.op(
        "custom_call",
        [x],
        x.type,
        call_target_name="annotate_device_placement",
        backend_config="",
        has_side_effect=True,
        **{FRONTEND: {"_xla_buffer_placement": kind}},
    )


@rule(InspectSharding, keys=True)
def _inspect(b: BlockBuilder, op: InspectSharding, x: HloValue) -> Sequence[HloValue]:
    return []  # it is shown by Curta, which knows it


@rule(ShardAlike, keys=True)
def _alike(
    b: BlockBuilder, op: ShardAlike, x: HloValue, y: HloValue
) -> Sequence[HloValue]:
    group = b.program.new_group()
    if uses_shardy():
        for value in (x, y):
            b.emit("sdy.sharding_group", [value], [], group_id=group)
        return [x, y]
    return [
        b.op(
            "custom_call",
            [value],
            value.type,
            call_target_name="Sharding",
            backend_config="",
            has_side_effect=True,
            **{"mhlo.sharding": RawAttribute(f'"{{unknown shard_as {group}}}"')},
        )
        for value in (x, y)
    ]
