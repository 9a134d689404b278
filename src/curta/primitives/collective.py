"""Operations along a named axis: between the examples of a mapped function.

A collective waits in the jaxpr of one example until the axis is mapped; its `batch`
rule then turns it into ordinary ops on the whole batch. Here are those that fold the
examples into one value; `exchange` has those that move data between them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.axis_names import unbound_axis
from curta.core.manual_axes import ManualAxisType
from curta.core.mesh_scope import get_abstract_mesh, scope
from curta.core.op import BatchDims, Batched, Op
from curta.core.placement import placement
from curta.core.trace import typeof
from curta.primitives.elementwise import mul
from curta.primitives.families import Linear
from curta.primitives.joining import Concatenate
from curta.primitives.reduction import ReduceMax, ReduceMin
from curta.primitives.shape import Iota
from curta.primitives.slicing import Slice
from curta.primitives.structure import (
    batch_dim_at,
    broadcast_batch,
    full,
    move_dim,
    reduce_sum,
    reshape,
)

Name = Any
Groups = tuple[tuple[int, ...], ...]
AXES = {"axes": "axis_names", "axis_index_groups": "groups"}
"""The parameters of folds, by the names under which a jaxpr prints them."""


class Collective(Op):
    """An op of one array along the named axes `axis_names`.

    With `groups`, it runs within each of these groups of examples.
    """

    places_outputs: ClassVar[bool] = True
    meets: ClassVar[bool] = True
    """Whether devices wait for each other in it."""
    takes_sums: ClassVar[bool] = False
    """Whether operands are unreduced or reduced over its axes; else they vary."""
    param_names: ClassVar[Mapping[str, str | None]] = {
        "axis_name": "axis_names",
        "axis_index_groups": "groups",
    }
    axis_names: tuple[Name, ...]

    def aval(self, *avals: ShapedArray) -> Any:
        (x,) = avals
        out = self.out_aval(x)
        if not scope().checks_varying:
            return out
        mesh = get_abstract_mesh()
        names = frozenset(self.axis_names) & {*mesh.manual_axes}
        if not self.takes_sums:
            self._check_no_sums(x, names)
        entries = out.placement.entries if out.placement else ()
        result = self.manual_type(x, names)
        axes = result.varying, result.unreduced, result.reduced
        where = placement(mesh, entries, *axes, out.memory_space)
        return out.update(placement=where)

    def _check_no_sums(self, x: ShapedArray, names: frozenset[Any]) -> None:
        name = self.name.removesuffix("_p")
        for kind in ("unreduced", "reduced"):
            if getattr(x.mat, kind) & names:
                raise ValueError(
                    f"{name} cannot accept args which are {kind}. Got"
                    f" {x.str_short(True)} and axes={set(names)}"
                )

    def out_aval(self, x: ShapedArray) -> ShapedArray:
        """The aval of the result, up to the axes over which it varies."""
        return x

    def varying(self, before: frozenset[Any], names: frozenset[Any]) -> frozenset[Any]:
        """The manual axes over which the result varies."""
        return before | names

    def manual_type(self, x: ShapedArray, names: frozenset[Any]) -> ManualAxisType:
        """How the result relates to manual axes, of which the op names some."""
        return x.mat.update(varying=self.varying(x.mat.varying, names))

    def eval(self, *args: Any) -> NoReturn:
        raise NameError(unbound_axis(self.axis_names[0], self.name))

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        if axis.name not in self.axis_names:
            return self.beside(axis, x, dim)
        if axis.hosts is not None:
            return axis.hosts.met(self, axis, args, dims)
        groups = getattr(self, "groups", None)
        if groups is not None:
            return _over_groups(self, groups, axis, x, dim)
        return self.over(axis, x, dim)

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        """The collective over the axis that is being mapped."""
        self._missing("batch")

    def beside(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        """The op where another axis is being mapped."""
        if dim is None:
            return self(x), None
        return self.with_leading_dim()(move_dim(x, dim, 0)), 0

    def with_leading_dim(self) -> Op:
        """The op on examples that have one more dim in front."""
        return self


def _over_groups(
    op: Any, groups: Groups, axis: Any, x: Any, dim: int | None
) -> tuple[Any, int | None]:
    """A collective within groups: the groups are a batch of their own beside it."""
    order = [*itertools.chain(*groups)]
    if sorted(order) != [*range(axis.size)]:
        raise ValueError(
            "axis_index_groups must cover all indices exactly once, got"
            f" {list(map(list, groups))} for an axis of size {axis.size}"
        )
    x = batch_dim_at(x, dim, axis.size, 0)
    if isinstance(op, Reducing):
        return _folds(op, groups, x), 0
    if len({len(g) for g in groups}) > 1:
        raise ValueError(
            "axis_index_groups must all be the same size, got"
            f" {list(map(list, groups))}"
        )
    shape = (len(groups), len(groups[0]))
    x = rows_in_order(x, order)
    x = reshape(x, (*shape, *typeof(x).shape[1:]))
    inner = dataclasses.replace(op, groups=None).with_leading_dim()
    out, out_dim = inner.over(axis._replace(size=shape[1]), x, 1)
    # Examples keep the dim of the groups in front of their own.
    out = (
        broadcast_batch(out, shape[1], 1)
        if out_dim is None
        else move_dim(out, out_dim, 1)
    )
    out = reshape(out, (axis.size, *typeof(out).shape[2:]))
    back = sorted(range(axis.size), key=order.__getitem__)
    return rows_in_order(out, back), 0


def _folds(op: Reducing, groups: Groups, x: Any) -> Any:
    """For each example the fold of its group."""
    folds = [op.fold(rows_in_order(x, g), (0,)) for g in groups]
    rows = [reshape(f, (1, *typeof(f).shape)) for f in folds]
    of_example = [k for _, k in sorted((i, k) for k, g in enumerate(groups) for i in g)]
    return rows_in_order(Concatenate(0)(*rows), of_example)


def rows_in_order(x: Any, order: Sequence[int | None]) -> Any:
    """Rows of `x` one after the other, zeros where None."""
    if [*order] == [*range(typeof(x).shape[0])]:
        return x
    aval = typeof(x).update(shape=(1, *typeof(x).shape[1:]))
    nothing = full(aval, 0) if None in order else None
    return Concatenate(0)(*[nothing if i is None else _row(x, i) for i in order])


def _row(x: Any, i: int) -> Any:
    shape = typeof(x).shape
    start = (i, *(0 for _ in shape[1:]))
    return Slice(start, (i + 1, *shape[1:]), None)(x)


class Reducing(Collective):
    """A collective that folds all examples into one value for all of them."""

    param_names: ClassVar[Mapping[str, str | None]] = AXES
    groups: Groups | None

    def varying(self, before: frozenset[Any], names: frozenset[Any]) -> frozenset[Any]:
        return before - names

    def fold(self, x: Any, dims: tuple[int, ...]) -> Any:
        """The fold over the batch dims of `x`."""
        self._missing("batch")

    def repeated(self, x: Any, size: int) -> Any:
        """The fold of `size` equal examples."""
        return x

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        out = self.repeated(x, axis.size) if dim is None else self.fold(x, (dim,))
        rest = tuple(n for n in self.axis_names if n != axis.name)
        op: Any = dataclasses.replace(self, axis_names=rest)  # type: ignore[type-var]
        return (op(out) if rest else out), None

    def beside(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        return self(x), dim


@dataclass(frozen=True)
class Psum(Linear, Reducing):
    """The sum over the examples."""

    name: ClassVar[str] = "psum"
    makes_nan: ClassVar[bool] = True
    axis_names: tuple[Name, ...]
    groups: Groups | None = None

    def fold(self, x: Any, dims: tuple[int, ...]) -> Any:
        return reduce_sum(x, dims)

    def repeated(self, x: Any, size: int) -> Any:
        return mul(x, np.asarray(size, typeof(x).dtype)[()])

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [self(cotangent)]


@dataclass(frozen=True)
class PsumInvariant(Psum):
    """The sum over shards that vary, known to be the same for all.

    Its transpose only says that the cotangent varies, as each shard counts once.
    """

    name: ClassVar[str] = "psum_invariant"
    hidden_fields: ClassVar[tuple[str, ...]] = ("groups",)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [PVary(self.axis_names)(cotangent)]


@dataclass(frozen=True)
class PVary(Linear, Collective):
    """A value that is the same for all shards, taken as one that varies."""

    name: ClassVar[str] = "pvary"
    param_names: ClassVar[Mapping[str, str | None]] = AXES
    meets: ClassVar[bool] = False
    axis_names: tuple[Name, ...]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        rest = tuple(n for n in self.axis_names if n != axis.name)
        op = dataclasses.replace(self, axis_names=rest)
        return (op(*args) if rest else args[0]), dims[0]

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [PsumInvariant(self.axis_names)(cotangent)]


@dataclass(frozen=True)
class Pmax(Reducing):
    """The largest of the examples."""

    name: ClassVar[str] = "pmax"
    axis_names: tuple[Name, ...]
    groups: Groups | None = None

    def fold(self, x: Any, dims: tuple[int, ...]) -> Any:
        return ReduceMax(dims)(x)


@dataclass(frozen=True)
class Pmin(Reducing):
    """The smallest of the examples."""

    name: ClassVar[str] = "pmin"
    axis_names: tuple[Name, ...]
    groups: Groups | None = None

    def fold(self, x: Any, dims: tuple[int, ...]) -> Any:
        return ReduceMin(dims)(x)


@dataclass(frozen=True)
class AxisIndex(Op):
    """The index of the example along the axis; `varies` over it, if types say so."""

    name: ClassVar[str] = "axis_index"
    hidden_fields: ClassVar[tuple[str, ...]] = ("varies",)
    places_outputs: ClassVar[bool] = True
    axis_name: Name
    varies: bool = False

    @property
    def axis_names(self) -> tuple[Name, ...]:
        """The axis, as the other collectives have it."""
        return (self.axis_name,)

    def aval(self, *avals: ShapedArray) -> Any:
        over = [self.axis_name] if self.varies else ()
        where = placement(get_abstract_mesh(), (), over)
        return ShapedArray((), np.dtype("int32"), placement=where)

    def eval(self, *args: Any) -> NoReturn:
        raise NameError(unbound_axis(self.axis_name, self.name))

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        count = Iota(np.dtype("int32"), (axis.size,), 0)()
        return (count if axis.hosts is None else axis.hosts.numbered(count)), 0
