"""Ops that only rearrange or repeat elements: squeeze, rev, tile, iota."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray, dtype_name
from curta.core.key_use import FORWARD, KeyReuseSignature
from curta.core.op import BatchDims, Batched, Op
from curta.core.shapes import check_nonnegative
from curta.core.trace import typeof
from curta.primitives.families import Linear
from curta.primitives.structure import BroadcastInDim, Reshape, reduce_sum


@dataclass(frozen=True)
class Squeeze(Linear):
    """Drops dims of size 1."""

    name: ClassVar[str] = "squeeze"
    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD
    dimensions: tuple[int, ...]

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        dims = self.dimensions
        if len(set(dims)) != len(dims):
            raise ValueError(f"dimensions are not unique: {dims}")
        if not all(0 <= d < x.ndim for d in dims):
            raise ValueError(
                f"dimensions outside range [0, ndim): {dims} for an operand of"
                f" shape {x.shape}"
            )
        if any(x.shape[d] != 1 for d in dims):
            raise ValueError(
                "cannot select an axis to squeeze out which has size not equal to"
                f" one, got shape={x.shape} and dimensions={dims}"
            )
        return x.update(shape=tuple(d for i, d in enumerate(x.shape) if i not in dims))

    def eval(self, *args: Any) -> Any:
        return args[0].squeeze(self.dimensions)

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        (x,) = operands
        kept = iter(index)
        return x.at(
            tuple(0 if i in self.dimensions else next(kept) for i in range(x.aval.ndim))
        )

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [expand_dims(cotangent, self.dimensions)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None
        dropped = tuple(d + (d >= dim) for d in self.dimensions)
        return Squeeze(dropped)(x), dim - sum(d < dim for d in dropped)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((0,)), [((1, 3), "any")]
        yield cls((0, 2)), [((1, 3, 1), "any")]
        yield cls((1,)), [((0, 1), "any")]
        yield cls((0,)), [((1,), "any")]


@dataclass(frozen=True)
class Rev(Linear):
    """Reverses the order of elements along `dimensions`."""

    name: ClassVar[str] = "rev"
    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD
    dimensions: tuple[int, ...]

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        dims = self.dimensions
        if len(set(dims)) != len(dims):
            raise TypeError(f"rev dimensions must be unique, got {dims}.")
        check_nonnegative("rev dimensions", dims)
        if any(d >= x.ndim for d in dims):
            raise TypeError(
                "rev dimensions must all be less than operand ndim, got dimensions"
                f" {dims} for operand ndim {x.ndim}."
            )
        return x

    def eval(self, *args: Any) -> Any:
        return np.flip(args[0], self.dimensions)

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        (x,) = operands
        return x.at(
            tuple(
                (d - 1) + i * -1 if k in self.dimensions else i
                for k, (i, d) in enumerate(zip(index, x.aval.shape, strict=True))
            )
        )

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [self(cotangent)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None
        return Rev(tuple(d + (d >= dim) for d in self.dimensions))(x), dim

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((0,)), [((3,), "any")]
        yield cls((0, 2)), [((2, 3, 2), "any")]
        yield cls(()), [((), "any")]
        yield cls((1,)), [((2, 0), "any")]


def check_repetitions(reps: Sequence[Any], ndim: int) -> None:
    """Raise TypeError unless there is an entry for each dim."""
    if len(reps) != ndim:
        raise TypeError(
            f"reps length must be equal to the ndim of x, got len(reps)={len(reps)} and"
            f" x.ndim={ndim}."
        )


@dataclass(frozen=True)
class Tile(Linear):
    """The operand laid side by side, `reps[i]` times along dim i."""

    name: ClassVar[str] = "tile"
    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD
    reps: tuple[int, ...]

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        check_repetitions(self.reps, x.ndim)
        check_nonnegative("tile reps", self.reps)
        shape = tuple(d * r for d, r in zip(x.shape, self.reps, strict=True))
        return x.update(shape=shape)

    def eval(self, *args: Any) -> Any:
        return np.tile(args[0], self.reps)

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        (x,) = operands
        return x.at(
            tuple(
                i if r == 1 else i % d
                for i, d, r in zip(index, x.aval.shape, self.reps, strict=True)
            )
        )

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        (x,) = args
        pairs = zip(self.reps, x.aval.shape, strict=True)
        repeated = Reshape(tuple(k for pair in pairs for k in pair))(cotangent)
        return [reduce_sum(repeated, tuple(range(0, 2 * x.aval.ndim, 2)))]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None
        return Tile((*self.reps[:dim], 1, *self.reps[dim:]))(x), dim

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((2,)), [((3,), "any")]
        yield cls((2, 3)), [((2, 2), "any")]
        yield cls(()), [((), "any")]
        yield cls((2, 0)), [((1, 2), "any")]


@dataclass(frozen=True)
class Iota(Op):
    """Counts 0, 1, 2 ... along `dimension` of an array of `shape`."""

    name: ClassVar[str] = "iota"
    param_names: ClassVar[Mapping[str, str | None]] = {"sharding": None}
    dtype: Any
    shape: tuple[int, ...]
    dimension: int

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        if not dtypes.issubdtype(self.dtype, np.number):
            raise TypeError(
                f"iota does not accept dtype {dtype_name(self.dtype)}. Accepted"
                " dtypes are subtypes of integer, floating, complexfloating."
            )
        check_nonnegative("iota shape", self.shape)
        if not 0 <= self.dimension < len(self.shape):
            raise ValueError(
                "iota dimension must be between 0 and len(shape), got"
                f" dimension={self.dimension} for shape={self.shape}"
            )
        return ShapedArray(self.shape, self.dtype)

    def eval(self, *args: Any) -> Any:
        size = self.shape[self.dimension]
        kept = [1] * len(self.shape)
        kept[self.dimension] = size
        # NumPy counts only in its own dtypes; assignment wraps what overflows.
        out = np.empty(self.shape, self.dtype)
        out[...] = np.arange(size).reshape(kept)
        return out

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        return b.index_value(index[self.dimension], self.dtype)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(np.dtype("int32"), (3,), 0), []
        yield cls(np.dtype("float32"), (2, 3), 1), []
        yield cls(np.dtype("uint8"), (2, 0), 0), []


# ---- functions over these ops


def expand_dims(x: Any, dimensions: Sequence[int]) -> Any:
    """`x` with dims of size 1 at positions `dimensions` of the output."""
    aval = typeof(x)
    if not dimensions:
        return x
    rank = aval.ndim + len(dimensions)
    kept = tuple(i for i in range(rank) if i not in dimensions)
    shape = [1] * rank
    for i, d in zip(kept, aval.shape, strict=True):
        shape[i] = d
    return BroadcastInDim(tuple(shape), kept)(x)
