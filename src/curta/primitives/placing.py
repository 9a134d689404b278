"""Ops that say where a value is to be, and change none of its elements."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from curta._base.lazy_dataclass import dataclass
from curta.core.array_layout import Layout
from curta.core.avals import ShapedArray, placed_aval
from curta.core.effects import Effect, NamedEffect
from curta.core.key_use import FORWARD, KeyReuseSignature
from curta.core.mesh import AbstractMesh, Mesh
from curta.core.op import BatchDims, Batched, Op
from curta.core.partition_spec import (
    UNCONSTRAINED,
    PartitionSpec,
    entry_axes,
    entry_of,
)
from curta.core.placement import in_space, mesh_of, placement
from curta.core.sharding import MemorySpace, NamedSharding, Sharding, on_device
from curta.core.trace import typeof
from curta.primitives.elementwise.convert import Identity
from curta.primitives.families import Linear
from curta.primitives.structure import batch_dim_at


class Placing(Linear, Identity):
    """An op whose result is the operand, laid out by a sharding."""

    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD
    places_outputs: ClassVar[bool] = True
    target: Sharding

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        if dim is None or not isinstance(self.target, NamedSharding):
            return self(x), dim
        entries = list(self.target.spec.partitions)
        own = self.batch_entry(axis)
        if dim < len(entries) or own is not None:
            entries += [None] * (dim - len(entries))
            entries.insert(dim, own)
        target = self.target.update(spec=self.target.spec.update(entries))
        return self.with_dim(target, dim)(x), dim

    def with_dim(self, target: Sharding, dim: int) -> Placing:
        """The op on arrays that have one more dim, which `target` knows."""
        op: Any = self
        result: Placing = dataclasses.replace(op, target=target)
        return result

    def batch_entry(self, axis: Any) -> Any:
        """How the dim of a batch is split."""
        return entry_of(axis.spmd or ())


@dataclass(frozen=True)
class ShardingConstraint(Placing):
    """The operand, laid out by `target` where axes are left to the compiler.

    `of_call`: a nested `jit` has it so for an argument or a result. Such a value is
    moved there where no program is recorded, as by a call of that `jit` itself. It is
    to be stored in the order of the `layout`, if that says one.
    """

    name: ClassVar[str] = "sharding_constraint"
    param_names: ClassVar[Mapping[str, str | None]] = {
        "sharding": "target",
        "unconstrained_dims": None,
    }
    hidden_fields: ClassVar[tuple[str, ...]] = ("of_call",)
    target: Sharding
    context_mesh: Mesh | AbstractMesh
    of_call: bool = False
    layout: Layout | None = None

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        before = mesh_of(x.placement)
        known = before.explicit_axes or before.manual_axes
        if known or not isinstance(self.target, NamedSharding):
            return x
        mesh = self.target.mesh.abstract_mesh
        return x.update(placement=placement(mesh, (), space=x.memory_space))

    def batch_entry(self, axis: Any) -> Any:
        if axis.spmd is None:
            return UNCONSTRAINED
        spec = getattr(self.target, "spec", PartitionSpec())
        if {*axis.spmd} & {*spec.used_axes()}:
            raise ValueError(
                f"vmap spmd_axis_name {axis.spmd} cannot appear in"
                f" with_sharding_constraint spec, but got spec {spec}"
            )
        return entry_of(axis.spmd)

    def with_dim(self, target: Sharding, dim: int) -> Placing:
        layout = self.layout and _with_dim(self.layout, dim)
        return dataclasses.replace(self, target=target, layout=layout)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [self(cotangent)]

    def params(self) -> dict[str, Any]:
        spec = getattr(self.target, "spec", ())
        free = frozenset(d for d, e in enumerate(spec) if e is UNCONSTRAINED)
        return {**super().params(), "unconstrained_dims": free}


@dataclass(frozen=True)
class LayoutConstraint(Linear, Identity):
    """The operand, stored in the order of `layout`."""

    name: ClassVar[str] = "layout_constraint"
    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD
    layout: Layout

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        if dim is None:
            return self(x), dim
        return LayoutConstraint(_with_dim(self.layout, dim))(x), dim

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [self(cotangent)]


def _with_dim(layout: Layout, dim: int) -> Layout:
    """The layout of an array with one more dim, the major one."""
    order = [d + (d >= dim) for d in layout.order]
    return Layout((dim, *order))


@dataclass(frozen=True)
class Reshard(Placing):
    """The operand with another split over explicit axes."""

    name: ClassVar[str] = "reshard"
    param_names: ClassVar[Mapping[str, str | None]] = {"dst_sharding": "target"}
    target: NamedSharding

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        mesh = self.target.mesh.abstract_mesh
        explicit = {*mesh.explicit_axes}
        spec = self.target.spec.for_rank(x.ndim)
        entries = [
            entry_of(n for n in entry_axes(e) if n in explicit) for e in spec.partitions
        ]
        within = x.mat  # keep vma, unreduced and reduced
        unreduced = spec.unreduced & explicit | within.unreduced
        reduced = spec.reduced & explicit | within.reduced
        sums = unreduced, reduced
        where = placement(mesh, entries, x.vma, *sums, x.memory_space)
        return x.update(placement=where)

    def batch_entry(self, axis: Any) -> Any:
        return entry_of(axis.explicit)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        (x,) = args
        before = x.aval.placement
        split = before is not None and not before.mesh.empty
        mesh = before.mesh if split else self.target.mesh
        spec = x.aval.sharding.spec.dual()
        return [Reshard(NamedSharding(mesh, spec))(cotangent)]

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        return {}


_DEVICE_ALONE = {MemorySpace.Device}


class CopySemantics(enum.Enum):
    """What moving an array does with its memory, as jaxprs say."""

    REUSE_INPUT = enum.auto()
    ALWAYS_COPY = enum.auto()
    DONATE_INPUT = enum.auto()

    def __repr__(self) -> str:
        return f"ArrayCopySemantics.{self.name}"


@dataclass(frozen=True)
class DevicePut(Placing):
    """The operand on other devices, as `device_put` in a traced function says.

    `target` is a sharding, a device, a memory space, or None for where it is anyhow.
    Cotangents go back to `source`, where the operand was, if that is known.
    """

    name: ClassVar[str] = "device_put"
    param_names: ClassVar[Mapping[str, str | None]] = {
        "devices": "target",
        "copy_semantics": None,
        "srcs": None,
    }
    target: Any
    source: Any = None
    copies: CopySemantics = CopySemantics.REUSE_INPUT

    @property
    def sharding(self) -> Sharding | None:
        """The target, as a sharding if it names devices."""
        if self.target is None or isinstance(self.target, (MemorySpace, Sharding)):
            return self.target if isinstance(self.target, Sharding) else None
        return on_device(self.target)

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if isinstance(self.target, MemorySpace):
            return x.update(placement=in_space(x.placement, self.target))
        to = self.sharding
        return x if to is None or x.vma else placed_aval(x, to)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        (x,) = args
        back, space = self.source, x.aval.memory_space
        if back is None and {space, typeof(cotangent).memory_space} != _DEVICE_ALONE:
            back = space
        copy = CopySemantics.ALWAYS_COPY
        return [DevicePut(back, self.target, copy)(cotangent)]

    def params(self) -> dict[str, Any]:
        return {
            "copy_semantics": (self.copies,),
            "devices": (self.target,),
            "srcs": (self.source,),
        }


INSPECTS: Final[Effect] = NamedEffect("InspectSharding")
"""What programs have that show where a value is."""


@dataclass(frozen=True)
class InspectSharding(Op):
    """Shows a function where the operand is, once that is known."""

    name: ClassVar[str] = "inspect_sharding"
    multiple_results: ClassVar[bool] = True
    places_outputs: ClassVar[bool] = True
    callback: Any

    @property
    def effects(self) -> frozenset[Effect]:
        return frozenset([INSPECTS])

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return []

    def eval(self, *args: Any) -> Sequence[Any]:
        return []

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), []

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        return self(*args), []


@dataclass(frozen=True)
class ShardAlike(Op):
    """Two values of one shape, laid out alike."""

    name: ClassVar[str] = "shard_alike"
    multiple_results: ClassVar[bool] = True

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return avals

    def eval(self, *args: Any) -> Sequence[Any]:
        return args

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), tangents

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        moved = [
            batch_dim_at(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)
        ]
        return self(*moved), [0, 0]
