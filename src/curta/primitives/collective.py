"""Operations along a named axis: between the examples of a mapped function.

A collective waits in the jaxpr of one example until the axis is mapped; its `batch`
rule then turns it into ordinary ops on the whole batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from curta.core.avals import ShapedArray
from curta.core.op import Op
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


class Collective(Op):
    """An op of one array along the named axes `axis_names`."""

    axis_names: tuple[Name, ...]

    def aval(self, *avals: ShapedArray) -> Any:
        (x,) = avals
        return x

    def eval(self, *args: Any) -> NoReturn:
        names = ", ".join(map(str, self.axis_names))
        raise NameError(
            f"unbound axis name: {names}. Call the function that uses {self.name} under"
            " vmap or pmap with this axis_name."
        )

    def batch(
        self, axis: Any, args: Sequence[Any], dims: Sequence[int | None]
    ) -> tuple[Any, Any]:
        (x,), (dim,) = args, dims
        if axis.name in self.axis_names:
            return self.over(axis, x, dim)
        return self.beside(axis, x, dim)

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        """The op where its own axis is the one being mapped."""
        self._missing("batch")

    def beside(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        """The op where another axis is being mapped."""
        return self(x), dim


class Reducing(Collective):
    """A collective that folds all examples into one value for all of them."""

    def fold(self, x: Any, dims: tuple[int, ...]) -> Any:
        """The fold over the batch dims of `x`."""
        self._missing("batch")

    def repeated(self, x: Any, size: int) -> Any:
        """The fold of `size` equal examples."""
        return x

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        out = self.repeated(x, axis.size) if dim is None else self.fold(x, (dim,))
        rest = tuple(n for n in self.axis_names if n != axis.name)
        return (type(self)(rest)(out) if rest else out), None  # type: ignore[call-arg]

    def params(self) -> dict[str, Any]:
        return {"axes": self.axis_names, "axis_index_groups": None}


@dataclasses.dataclass(frozen=True)
class Psum(Linear, Reducing):
    """The sum over the examples."""

    name: ClassVar[str] = "psum"
    makes_nan: ClassVar[bool] = True
    axis_names: tuple[Name, ...]

    def fold(self, x: Any, dims: tuple[int, ...]) -> Any:
        return reduce_sum(x, dims)

    def repeated(self, x: Any, size: int) -> Any:
        return mul(x, np.asarray(size, typeof(x).dtype)[()])

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [self(cotangent)]


@dataclasses.dataclass(frozen=True)
class Pmax(Reducing):
    """The largest of the examples."""

    name: ClassVar[str] = "pmax"
    axis_names: tuple[Name, ...]

    def fold(self, x: Any, dims: tuple[int, ...]) -> Any:
        return ReduceMax(dims)(x)


@dataclasses.dataclass(frozen=True)
class Pmin(Reducing):
    """The smallest of the examples."""

    name: ClassVar[str] = "pmin"
    axis_names: tuple[Name, ...]

    def fold(self, x: Any, dims: tuple[int, ...]) -> Any:
        return ReduceMin(dims)(x)


@dataclasses.dataclass(frozen=True)
class AxisIndex(Op):
    """The place of the example along the axis."""

    name: ClassVar[str] = "axis_index"
    axis_name: Name

    @property
    def axis_names(self) -> tuple[Name, ...]:
        """The axis, as the other collectives have it."""
        return (self.axis_name,)

    def aval(self, *avals: ShapedArray) -> Any:
        return ShapedArray((), np.dtype("int32"))

    def batch(
        self, axis: Any, args: Sequence[Any], dims: Sequence[int | None]
    ) -> tuple[Any, Any]:
        return Iota(np.dtype("int32"), (axis.size,), 0)(), 0


@dataclasses.dataclass(frozen=True)
class AllGather(Linear, Collective):
    """The values of all examples, along a new dim (or `tiled`: one after the other)."""

    name: ClassVar[str] = "all_gather"
    axis_names: tuple[Name, ...]
    axis_size: int
    dim: int
    tiled: bool

    def aval(self, *avals: ShapedArray) -> Any:
        shape = list(avals[0].shape)
        if self.tiled:
            shape[self.dim] *= self.axis_size
        else:
            shape.insert(self.dim, self.axis_size)
        return avals[0].update(shape=tuple(shape))

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        if dim is None:
            x = broadcast_batch(x, axis.size, self.dim)
        else:
            x = move_dim(x, dim, self.dim)
        return (_merged(x, self.dim) if self.tiled else x), None

    def beside(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        op = dataclasses.replace(self, dim=self.dim + 1)
        return op(move_dim(x, dim, 0)), 0

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        op = PsumScatter(self.axis_names, self.axis_size, self.dim, self.tiled)
        return [op(cotangent)]


@dataclasses.dataclass(frozen=True)
class PsumScatter(Linear, Collective):
    """The sum over the examples, of which each gets its slice along a dim."""

    name: ClassVar[str] = "reduce_scatter"
    axis_names: tuple[Name, ...]
    axis_size: int
    dim: int
    tiled: bool

    def aval(self, *avals: ShapedArray) -> Any:
        shape = list(avals[0].shape)
        if self.tiled:
            shape[self.dim] //= self.axis_size
        else:
            del shape[self.dim]
        return avals[0].update(shape=tuple(shape))

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        size = axis.size
        x = mul(x, _number(x, size)) if dim is None else reduce_sum(x, (dim,))
        return (_parted(x, self.dim, size) if self.tiled else x), self.dim

    def beside(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        op = dataclasses.replace(self, dim=self.dim + 1)
        return op(move_dim(x, dim, 0)), 0

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        op = AllGather(self.axis_names, self.axis_size, self.dim, self.tiled)
        return [op(cotangent)]


@dataclasses.dataclass(frozen=True)
class Ppermute(Linear, Collective):
    """Each example's value handed to another; those that get none have zeros."""

    name: ClassVar[str] = "ppermute"
    axis_names: tuple[Name, ...]
    perm: tuple[tuple[int, int], ...]

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        x = batch_dim_at(x, dim, axis.size, 0)
        source = {target: s for s, target in self.perm}
        rest = typeof(x).shape[1:]
        nothing = full(typeof(x).update(shape=(1, *rest)), 0)
        rows = [
            _row(x, source[i]) if i in source else nothing for i in range(axis.size)
        ]
        return Concatenate(0)(*rows), 0

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        back = tuple((target, source) for source, target in self.perm)
        return [Ppermute(self.axis_names, back)(cotangent)]


@dataclasses.dataclass(frozen=True)
class AllToAll(Linear, Collective):
    """Slices along `split_dim` handed out, what comes in put along `concat_dim`."""

    name: ClassVar[str] = "all_to_all"
    axis_names: tuple[Name, ...]
    axis_size: int
    split_dim: int
    concat_dim: int
    tiled: bool

    def aval(self, *avals: ShapedArray) -> Any:
        shape = list(avals[0].shape)
        if self.tiled:
            shape[self.split_dim] //= self.axis_size
            shape[self.concat_dim] *= self.axis_size
        else:
            del shape[self.split_dim]
            shape.insert(self.concat_dim, self.axis_size)
        return avals[0].update(shape=tuple(shape))

    def over(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        x = batch_dim_at(x, dim, axis.size, 0)
        if self.tiled:
            x = _parted(x, self.split_dim + 1, axis.size)
        # Senders are dim 0, receivers the slices: the two change places.
        x = move_dim(x, self.split_dim + 1, 0)
        x = move_dim(x, 1, self.concat_dim + 1)
        return (_merged(x, self.concat_dim + 1) if self.tiled else x), 0

    def beside(self, axis: Any, x: Any, dim: int | None) -> tuple[Any, int | None]:
        op = dataclasses.replace(
            self, split_dim=self.split_dim + 1, concat_dim=self.concat_dim + 1
        )
        return op(move_dim(x, dim, 0)), 0

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        op = dataclasses.replace(
            self, split_dim=self.concat_dim, concat_dim=self.split_dim
        )
        return [op(cotangent)]


def _number(x: Any, value: int) -> Any:
    return np.asarray(value, typeof(x).dtype)[()]


def _merged(x: Any, dim: int) -> Any:
    """Dims `dim` and `dim + 1` as one."""
    shape = typeof(x).shape
    return reshape(x, (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))


def _parted(x: Any, dim: int, size: int) -> Any:
    """Dim `dim` as two, the first of `size`."""
    shape = typeof(x).shape
    return reshape(x, (*shape[:dim], size, shape[dim] // size, *shape[dim + 1 :]))


def _row(x: Any, i: int) -> Any:
    shape = typeof(x).shape
    start = (i, *(0 for _ in shape[1:]))
    return Slice(start, (i + 1, *shape[1:]), None)(x)
