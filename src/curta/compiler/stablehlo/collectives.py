"""Collectives: what devices exchange along the axes that `shard_map` maps over.

`shard_map` itself is Shardy's `manual_computation`, a region that each device runs on
its part, or with XLA's older partitioner a function between changes of shape.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta.compiler.stablehlo.attributes import UNIT, RawAttribute
from curta.compiler.stablehlo.constants import dense
from curta.compiler.stablehlo.elementwise import compare
from curta.compiler.stablehlo.ir import HloBlock, HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, lower_closed, rule
from curta.compiler.stablehlo.shape import full, slice_of
from curta.compiler.stablehlo.shardings import Manual
from curta.compiler.stablehlo.types import (
    element_of,
    element_type,
    tensor,
    with_element,
)
from curta.control.ragged_exchange import RaggedAllToAll
from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.core.stage import stage
from curta.primitives.collective import AxisIndex, Pmax, Pmin, Psum, PVary, Reducing
from curta.primitives.exchange import (
    AllGather,
    AllToAll,
    OwnPart,
    Pbroadcast,
    Pcollect,
    Ppermute,
    PsumScatter,
)

Groups = Sequence[Sequence[int]]

# The number that all collectives share: it says that they are between partitions.
CHANNEL = RawAttribute("#stablehlo.channel_handle<handle = 1, type = 1>")


def _manual(b: BlockBuilder, names: Sequence[Any]) -> Manual:
    """The mesh whose axes have these names; NameError if they are not mapped."""
    for name in names:
        if b.manual is None or name not in b.manual.mesh.axis_names:
            raise NameError(f"unbound axis name: {name}")
    assert b.manual is not None
    return b.manual


def replica_groups(b: BlockBuilder, names: Sequence[Any], groups: Any = None) -> Groups:
    """The numbers of the devices that exchange among each other along some axes.

    With `groups`, those at these positions of them.
    """
    mesh = _manual(b, names).mesh
    axes = [mesh.axis_names.index(n) for n in names]
    ids = np.arange(mesh.size).reshape(mesh.axis_sizes)
    ids = np.moveaxis(ids, axes, range(len(axes)))
    rows = ids.reshape(mesh.size_of(names), -1).T.tolist()
    if groups is None:
        return rows
    return [[row[i] for i in group] for row in rows for group in groups]


def _groups_attribute(groups: Groups) -> RawAttribute:
    """Groups as a matrix; those that are shorter end with -1."""
    columns = [*itertools.zip_longest(*groups, fillvalue=-1)]
    return dense(np.array(columns, np.int64).T)


def _reducer(b: BlockBuilder, name: str, x: HloValue) -> HloBlock:
    """The region that applies an operation to two elements; sums of bools are `or`."""
    element = with_element("tensor<>", element_of(x.type))
    name = "or" if name == "add" and element_of(x.type) == "i1" else name
    with b.region([element, element]) as inner:
        return inner.finish(inner.op(name, inner.block.arguments, element))


_REDUCERS: dict[type[Op], str] = {Psum: "add", Pmax: "maximum", Pmin: "minimum"}


@rule(*_REDUCERS)
def _all_reduce(b: BlockBuilder, op: Reducing, x: HloValue) -> HloValue:
    name = next(_REDUCERS[c] for c in type(op).__mro__ if c in _REDUCERS)
    return _reduced(b, name, x, replica_groups(b, op.axis_names, op.groups))


def _reduced(b: BlockBuilder, name: str, x: HloValue, groups: Groups) -> HloValue:
    reducer = _reducer(b, name, x)
    return _collective(
        b, "all_reduce", x, x.type, groups, reducer, use_global_device_ids=UNIT
    )


def _collective(
    b: BlockBuilder,
    name: str,
    x: HloValue,
    type_: str,
    groups: Groups,
    *regions: HloBlock,
    **attributes: Any,
) -> HloValue:
    (result,) = b.emit(
        f"stablehlo.{name}",
        [x],
        [type_],
        regions,
        channel_handle=CHANNEL,
        replica_groups=_groups_attribute(groups),
        **attributes,
    )
    return result


@rule(PVary)
def _unchanged(b: BlockBuilder, op: PVary, x: HloValue) -> HloValue:
    return x


@rule(AllGather)
def _all_gather(b: BlockBuilder, op: AllGather, x: HloValue) -> HloValue:
    if not op.tiled:
        shape = b.ins[0].shape
        dims = [i + (i >= op.dim) for i in range(len(shape))]
        shape = (*shape[: op.dim], 1, *shape[op.dim :])
        type_ = tensor(shape, element_type(b.ins[0].dtype))
        x = b.op("broadcast_in_dim", [x], type_, broadcast_dimensions=dims)
    groups = replica_groups(b, op.axis_names, op.groups)
    return _gathered(b, x, op.dim, groups, b.out_type)


def _gathered(
    b: BlockBuilder, x: HloValue, dim: int, groups: Groups, type_: str
) -> HloValue:
    options = {"all_gather_dim": dim, "use_global_device_ids": UNIT}
    return _collective(b, "all_gather", x, type_, groups, **options)


@rule(PsumScatter)
def _reduce_scatter(b: BlockBuilder, op: PsumScatter, x: HloValue) -> HloValue:
    shape = list(b.ins[0].shape)
    shape[op.dim] //= op.axis_size
    type_ = tensor(tuple(shape), element_type(b.ins[0].dtype))
    groups = replica_groups(b, op.axis_names, op.groups)
    options = {"scatter_dimension": op.dim, "use_global_device_ids": UNIT}
    reducer = _reducer(b, "add", x)
    result = _collective(b, "reduce_scatter", x, type_, groups, reducer, **options)
    return result if op.tiled else b.op("reshape", [result], b.out_type)


@rule(Ppermute)
def _permute(b: BlockBuilder, op: Ppermute, x: HloValue) -> HloValue:
    pairs = [
        (group[source], group[target])
        for group in replica_groups(b, op.axis_names)
        for source, target in op.perm
    ]
    return b.op(
        "collective_permute",
        [x],
        x.type,
        channel_handle=CHANNEL,
        source_target_pairs=dense(np.array(pairs, np.int64).reshape(-1, 2)),
    )


@rule(AllToAll)
def _all_to_all(b: BlockBuilder, op: AllToAll, x: HloValue) -> HloValue:
    groups = replica_groups(b, op.axis_names, op.groups)
    count = len(groups[0])
    shape, split, concat = list(b.ins[0].shape), op.split_dim, op.concat_dim
    element = element_type(b.ins[0].dtype)
    if count == 1:
        return x if op.tiled else b.op("reshape", [x], b.out_type)
    if not op.tiled:
        # A new dim of size 1 takes what comes in; the one that is split is left with 1.
        concat += concat > split
        split += concat <= split
        shape.insert(concat, 1)
        dims = [d for d in range(len(shape)) if d != concat]
        type_ = tensor(tuple(shape), element)
        x = b.op("broadcast_in_dim", [x], type_, broadcast_dimensions=dims)
    shape[split] //= count
    shape[concat] *= count
    parts = {"split_dimension": split, "concat_dimension": concat, "split_count": count}
    type_ = tensor(tuple(shape), element)
    x = _collective(b, "all_to_all", x, type_, groups, **parts)
    return x if op.tiled else b.op("reshape", [x], b.out_type)


@rule(Pbroadcast)
def _broadcast(b: BlockBuilder, op: Pbroadcast, x: HloValue) -> HloValue:
    groups = replica_groups(b, op.axis_names)
    if {*b.program.platforms} <= {"cuda", "rocm"}:
        first = [
            [group[op.source], *group[: op.source], *group[op.source + 1 :]]
            for group in groups
        ]
        return _collective(b, "collective_broadcast", x, x.type, first)
    # Others do not have it: everybody gets all, and takes the one.
    shape, element = b.ins[0].shape, element_type(b.ins[0].dtype)
    x = b.op("reshape", [x], tensor((1, *shape), element))
    x = _gathered(b, x, 0, groups, tensor((len(groups[0]), *shape), element))
    gathered = ShapedArray((len(groups[0]), *shape), b.ins[0].dtype)
    x = slice_of(b, x, gathered, [(op.source, op.source + 1)])
    return b.op("reshape", [x], b.out_type)


@rule(Pcollect)
def _collect(b: BlockBuilder, op: Pcollect, x: HloValue) -> HloValue:
    groups = replica_groups(b, op.axis_names)
    total = _reduced(b, "add", x, groups)
    target = b.constant(np.int32(op.target))
    index = axis_index(b, op.axis_names)
    mine = compare(b, "EQ", index, target, kind="SIGNED")
    return b.op("select", [mine, total, full(b, b.ins[0], 0)], x.type)


@rule(OwnPart)
def _own_part(b: BlockBuilder, op: OwnPart, x: HloValue) -> HloValue:
    shape, element = list(b.ins[0].shape), element_type(b.ins[0].dtype)
    size = shape[op.dim] // op.axis_size
    start = axis_index(b, op.axis_names)
    if size != 1:
        width = b.constant(np.int32(size))
        start = b.op("multiply", [start, width], start.type)
    zero = b.constant(np.int32(0))
    starts = [start if d == op.dim else zero for d in range(len(shape))]
    shape[op.dim] = size
    part = b.op(
        "dynamic_slice", [x, *starts], tensor(tuple(shape), element), slice_sizes=shape
    )
    return part if op.tiled else b.op("reshape", [part], b.out_type)


@rule(RaggedAllToAll)
def _ragged_all_to_all(b: BlockBuilder, op: RaggedAllToAll, *xs: HloValue) -> HloValue:
    if {*b.program.platforms} <= {"cuda", "rocm", "tpu"}:
        groups = _groups_attribute(replica_groups(b, op.axis_names, op.groups))
        return b.op(
            "custom_call",
            xs,
            b.out_type,
            call_target_name="ragged_all_to_all",
            api_version=RawAttribute("4 : i32"),
            backend_config={"channel_id": 1, "replica_groups": groups},
        )
    made: Callable[..., Any] = op._exchanged  # XLA has no such exchange on CPUs
    (result,) = lower_closed(b, stage(lambda *args: [made(*args)], b.ins), xs)
    return result


# ---------------------------------------------------------------- where we are


@rule(AxisIndex)
def _axis_index(b: BlockBuilder, op: AxisIndex) -> HloValue:
    return axis_index(b, op.axis_names)


def axis_index(b: BlockBuilder, names: Sequence[Any]) -> HloValue:
    """The index of the device along some axes, an int32."""
    mesh, axes = _manual(b, names)
    others = [n for n in mesh.axis_names if n not in axes]
    if mesh.size_of(names) == 1:
        return b.constant(np.int32(0))
    if mesh.size_of(others) == 1:
        return _index_along(b, names)
    # Which device it is can be asked only where all axes are mapped over.
    with b.region([]) as inner:
        inner.manual = Manual(mesh, frozenset(mesh.axis_names))
        inner.emit("sdy.return", [_index_along(inner, names)], [])
    sharding = f"<@{b.program.meshes.name(mesh.shape_tuple)}, []>"
    (result,) = b.emit(
        "sdy.manual_computation",
        [],
        ["tensor<i32>"],
        [inner.block],
        in_shardings="",
        out_shardings=sharding,
        manual_axes=others,
    )
    return result


def _index_along(b: BlockBuilder, names: Sequence[Any]) -> HloValue:
    mesh = _manual(b, names).mesh
    result: HloValue | None = None
    for name in names:
        axis = mesh.axis_names.index(name)
        behind = b.constant(np.uint32(math.prod(mesh.axis_sizes[axis + 1 :])))
        size = b.constant(np.uint32(mesh.axis_sizes[axis]))
        device = b.op("partition_id", [], size.type)
        device = b.op("divide", [device, behind], size.type)
        index = b.op("remainder", [device, size], size.type)
        if result is not None:
            before = b.op("multiply", [result, size], size.type)
            index = b.op("add", [before, index], size.type)
        result = index
    assert result is not None
    return b.op("convert", [result], "tensor<i32>")
