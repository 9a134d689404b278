"""Collectives that move data between the examples of a mapped function."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.effects import Effect, NamedEffect
from curta.core.mesh_scope import get_abstract_mesh, scope
from curta.core.op import BatchDims, Batched, Op
from curta.core.placement import placement
from curta.core.trace import current_trace, typeof
from curta.primitives.collective import (
    Collective,
    Groups,
    Name,
    PVary,
    rows_in_order,
)
from curta.primitives.effects import TOKEN
from curta.primitives.families import Linear
from curta.primitives.structure import (
    batch_dim_at,
    broadcast_batch,
    move_dim,
    reduce_sum,
    reshape,
)

Pairs = tuple[tuple[int, int], ...]
MESSAGES = NamedEffect("SingleSideCollective")


@dataclass(frozen=True)
class AllGather(Linear, Collective):
    """The values of all examples, along a new dim (or `tiled`: one after the other)."""

    name: ClassVar[str] = "all_gather"
    param_names: ClassVar[Mapping[str, str | None]] = {
        **Collective.param_names,
        "all_gather_dimension": "dim",
    }
    axis_names: tuple[Name, ...]
    axis_size: int
    dim: int
    tiled: bool
    groups: Groups | None = None

    def out_aval(self, x: ShapedArray) -> ShapedArray:
        shape = list(x.shape)
        if self.tiled:
            shape[self.dim] *= self.axis_size
        else:
            shape.insert(self.dim, self.axis_size)
        return x.update(shape=tuple(shape))

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        if dim is None:
            x = broadcast_batch(x, axis.size, self.dim)
        else:
            x = move_dim(x, dim, self.dim)
        return (_merged(x, self.dim) if self.tiled else x), None

    def with_leading_dim(self) -> AllGather:
        return dataclasses.replace(self, dim=self.dim + 1)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        op = PsumScatter(
            self.axis_names, self.axis_size, self.dim, self.tiled, self.groups
        )
        return [op(cotangent)]


@dataclass(frozen=True)
class AllGatherInvariant(AllGather):
    """The values of all shards, known to be the same for all."""

    name: ClassVar[str] = "all_gather_invariant"

    def varying(self, before: frozenset[Any], names: frozenset[Any]) -> frozenset[Any]:
        return before - names

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        own = OwnPart(self.axis_names, self.axis_size, self.dim, self.tiled)
        return [own(PVary(self.axis_names)(cotangent))]


@dataclass(frozen=True)
class OwnPart(Linear, Collective):
    """Of a value that all examples have, the slice of each: all_gather undone."""

    name: ClassVar[str] = "own_part"
    axis_names: tuple[Name, ...]
    axis_size: int
    dim: int
    tiled: bool

    def out_aval(self, x: ShapedArray) -> ShapedArray:
        return PsumScatter.out_aval(self, x)  # type: ignore[arg-type]

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        if dim is not None:
            x = rows_in_order(move_dim(x, dim, 0), [0])
            x = reshape(x, typeof(x).shape[1:])
        return (_parted(x, self.dim, axis.size) if self.tiled else x), self.dim

    def with_leading_dim(self) -> OwnPart:
        return dataclasses.replace(self, dim=self.dim + 1)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        op = AllGather(self.axis_names, self.axis_size, self.dim, self.tiled)
        return [op(cotangent)]


@dataclass(frozen=True)
class PsumScatter(Linear, Collective):
    """The sum over the examples, of which each gets its slice along a dim."""

    name: ClassVar[str] = "reduce_scatter"
    param_names: ClassVar[Mapping[str, str | None]] = {
        **Collective.param_names,
        "scatter_dimension": "dim",
    }
    axis_names: tuple[Name, ...]
    axis_size: int
    dim: int
    tiled: bool
    groups: Groups | None = None

    def out_aval(self, x: ShapedArray) -> ShapedArray:
        shape = list(x.shape)
        if self.tiled:
            shape[self.dim] //= self.axis_size
        else:
            del shape[self.dim]
        return x.update(shape=tuple(shape))

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        size = axis.size
        x = reduce_sum(batch_dim_at(x, dim, size, 0), (0,))
        return (_parted(x, self.dim, size) if self.tiled else x), self.dim

    def with_leading_dim(self) -> PsumScatter:
        return dataclasses.replace(self, dim=self.dim + 1)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        op = AllGather(
            self.axis_names, self.axis_size, self.dim, self.tiled, self.groups
        )
        return [op(cotangent)]


@dataclass(frozen=True)
class Ppermute(Linear, Collective):
    """Each example's value handed to another; those that get none have zeros."""

    name: ClassVar[str] = "ppermute"
    axis_names: tuple[Name, ...]
    perm: tuple[tuple[int, int], ...]

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        x = batch_dim_at(x, dim, axis.size, 0)
        source = {target: s for s, target in self.perm}
        dtype = typeof(x).dtype
        if len(source) < axis.size and isinstance(dtype, dtypes.ExtendedDType):
            raise TypeError(
                f"ppermute of {dtype} must hand a key to each of {axis.size}"
                f" examples: there are no zeros among keys. Got perm {self.perm}"
            )
        return rows_in_order(x, [source.get(i) for i in range(axis.size)]), 0

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        back = tuple((target, source) for source, target in self.perm)
        return [Ppermute(self.axis_names, back)(cotangent)]


@dataclass(frozen=True)
class Pbroadcast(Linear, Collective):
    """The value of the example number `source`, for all."""

    name: ClassVar[str] = "pbroadcast"
    axis_names: tuple[Name, ...]
    source: int

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        x = batch_dim_at(x, dim, axis.size, 0)
        row = rows_in_order(x, [self.source])
        return reshape(row, typeof(row).shape[1:]), None

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [Pcollect(self.axis_names, self.source)(cotangent)]


@dataclass(frozen=True)
class Pcollect(Linear, Collective):
    """The sum over the examples for the one of number `target`, zeros for others."""

    name: ClassVar[str] = "pcollect"
    axis_names: tuple[Name, ...]
    target: int

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        total = reduce_sum(batch_dim_at(x, dim, axis.size, 0), (0,))
        row = reshape(total, (1, *typeof(total).shape))
        rows = [0 if i == self.target else None for i in range(axis.size)]
        return rows_in_order(row, rows), 0

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [Pbroadcast(self.axis_names, self.target)(cotangent)]


@dataclass(frozen=True)
class AllToAll(Linear, Collective):
    """Slices along `split_dim` handed out, what comes in put along `concat_dim`."""

    name: ClassVar[str] = "all_to_all"
    param_names: ClassVar[Mapping[str, str | None]] = {
        **Collective.param_names,
        "split_axis": "split_dim",
        "concat_axis": "concat_dim",
    }
    hidden_fields: ClassVar[tuple[str, ...]] = ("axis_size",)
    axis_names: tuple[Name, ...]
    split_dim: int
    concat_dim: int
    tiled: bool
    groups: Groups | None = None
    axis_size: int = 0

    def __post_init__(self) -> None:
        # A jaxpr shows the axis that it is, and not how many examples exchange.
        if not isinstance(self.axis_names, tuple):
            object.__setattr__(self, "axis_names", (self.axis_names,))
        if not self.axis_size:
            size = len(self.groups[0]) if self.groups else self._examples()
            object.__setattr__(self, "axis_size", size)

    def _examples(self) -> int:
        sizes = current_trace().axis_sizes()
        if any(n not in sizes for n in self.axis_names):
            self.eval()
        return math.prod(sizes[n] for n in self.axis_names)

    def out_aval(self, x: ShapedArray) -> ShapedArray:
        shape = list(x.shape)
        if self.tiled:
            shape[self.split_dim] //= self.axis_size
            shape[self.concat_dim] *= self.axis_size
        else:
            del shape[self.split_dim]
            shape.insert(self.concat_dim, self.axis_size)
        return x.update(shape=tuple(shape))

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        x = batch_dim_at(x, dim, axis.size, 0)
        if self.tiled:
            x = _parted(x, self.split_dim + 1, axis.size)
        # Senders are dim 0, receivers the slices: the two are exchanged.
        x = move_dim(x, self.split_dim + 1, 0)
        x = move_dim(x, 1, self.concat_dim + 1)
        return (_merged(x, self.concat_dim + 1) if self.tiled else x), 0

    def with_leading_dim(self) -> AllToAll:
        return dataclasses.replace(
            self, split_dim=self.split_dim + 1, concat_dim=self.concat_dim + 1
        )

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        op = dataclasses.replace(
            self, split_dim=self.concat_dim, concat_dim=self.split_dim
        )
        return [op(cotangent)]

    def params(self) -> dict[str, Any]:
        return {**super().params(), "axis_name": self.axis_names[0]}


class Message(Op):
    """One side of messages from and to the examples of `perm`.

    What is received is made of what was sent before a program is mapped over its
    devices: see control/messages.py.
    """

    places_outputs: ClassVar[bool] = True
    param_names: ClassVar[Mapping[str, str | None]] = {"axis_name": "axis_names"}
    axis_names: tuple[Name, ...]
    perm: Pairs

    @property
    def effects(self) -> frozenset[Effect]:
        return frozenset({MESSAGES})

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        raise NotImplementedError(
            f"{self.name} currently only supports manual sharding: send and receive"
            " along an axis of shard_map or pmap, within one function, not under vmap"
            " in it."
        )


@dataclass(frozen=True)
class Psend(Message, Collective):
    """Sends the operand; a token that comes after it."""

    name: ClassVar[str] = "psend"
    axis_names: tuple[Name, ...]
    perm: Pairs

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return TOKEN


@dataclass(frozen=True)
class Precv(Message):
    """What the example was sent, zeros for those that nothing was sent to."""

    name: ClassVar[str] = "precv"
    axis_names: tuple[Name, ...]
    out_shape: ShapedArray
    perm: Pairs

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        if avals[0].dtype != TOKEN.dtype:
            raise TypeError(
                "precv comes after a token, as psend and create_token make them; got"
                f" {avals[0].str_short()}."
            )
        if not scope().checks_varying:
            return self.out_shape
        mesh = get_abstract_mesh()
        names = {*self.axis_names} & {*mesh.manual_axes}
        return self.out_shape.update(placement=placement(mesh, (), names))


def _merged(x: Any, dim: int) -> Any:
    """Dims `dim` and `dim + 1` as one."""
    shape = typeof(x).shape
    return reshape(x, (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))


def _parted(x: Any, dim: int, size: int) -> Any:
    """Dim `dim` as two, the first of `size`."""
    shape = typeof(x).shape
    return reshape(x, (*shape[:dim], size, shape[dim] // size, *shape[dim + 1 :]))
