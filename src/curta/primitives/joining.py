"""Ops that join arrays along a dim and take them apart: concatenate, split, stack.

Concatenate and split are each other's transposes, and so are stack and unstack.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.key_use import FORWARD, KeyReuseSignature, Sink, Source
from curta.core.op import BatchDims, Batched, Op
from curta.core.tangents import Zero, is_linear
from curta.core.trace import typeof
from curta.primitives.base import check_same_dtypes
from curta.primitives.structure import batch_dim_at, instantiate
from curta.primitives.taylor import joined_terms


class _Joining(Op):
    """What concatenate and stack share: linear in all their operands."""

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), self(*map(instantiate, tangents))

    def taylor(self, k: int, out: Sequence[Any], *series: Sequence[Any]) -> Any:
        return joined_terms(self, k, series)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        parts = self.parts(cotangent, args)
        return [p if is_linear(x) else None for p, x in zip(parts, args, strict=True)]

    def key_use(self, avals: Sequence[ShapedArray]) -> KeyReuseSignature:
        if len(avals) == 1:
            return FORWARD
        return KeyReuseSignature(*[Sink(i) for i in range(len(avals))], Source(0))

    def parts(self, joined: Any, args: Sequence[Any]) -> Any:
        """What was joined, taken apart again."""
        raise NotImplementedError


class _Parting(Op):
    """What split and unstack share: one operand, a list of results."""

    arity: ClassVar[int | None] = 1
    multiple_results: ClassVar[bool] = True

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), self(*tangents)

    def key_use(self, avals: Sequence[ShapedArray]) -> KeyReuseSignature:
        count = len(self.aval(*avals))
        return KeyReuseSignature(Sink(0), *[Source(i) for i in range(count)])


@dataclass(frozen=True)
class Concatenate(_Joining):
    """The operands one after another along `dimension`."""

    name: ClassVar[str] = "concatenate"
    dimension: int

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        if not avals:
            raise TypeError("concatenate expects at least one operand, got 0.")
        shapes = ", ".join(str(a.shape) for a in avals)
        k, first = self.dimension, avals[0].shape
        if len({a.ndim for a in avals}) != 1:
            raise TypeError(
                "Cannot concatenate arrays with different numbers of dimensions: got"
                f" {shapes}."
            )
        if not 0 <= k < len(first):
            raise TypeError(
                f"concatenate dimension out of bounds: dimension {k} for shapes"
                f" {shapes}."
            )
        if len({(a.shape[:k], a.shape[k + 1 :]) for a in avals}) != 1:
            raise TypeError(
                "Cannot concatenate arrays with shapes that differ in dimensions other"
                f" than the one being concatenated: concatenating along dimension {k}"
                f" for shapes {shapes}."
            )
        check_same_dtypes("concatenate", [a.dtype for a in avals])
        shape = (*first[:k], sum(a.shape[k] for a in avals), *first[k + 1 :])
        return ShapedArray(shape, avals[0].dtype, all(a.weak_type for a in avals))

    def eval(self, *args: Any) -> Any:
        return np.concatenate(args, self.dimension)

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        k = self.dimension
        position = index[k]
        offsets = self._offsets([x.aval.shape for x in operands])
        present = [
            (x, start)
            for x, start in zip(operands, offsets, strict=False)
            if x.aval.shape[k]
        ]
        value = None
        for x, start in reversed(present):  # the first operand's test is outermost
            size = x.aval.shape[k]
            there = partial(x.at, (*index[:k], position + -start, *index[k + 1 :]))
            inside = b.compare("lt", position, start + size)
            if size == 1 or len(present) == 1:  # nothing else could be read
                value = there() if value is None else b.select(inside, there(), value)
                continue
            if start:
                inside = b.and_(b.compare("ge", position, start), inside)
            outside = b.const(0, x.aval.dtype) if value is None else value
            value = b.guarded(inside, there, outside)
        return value

    def _offsets(self, shapes: Sequence[tuple[int, ...]]) -> list[int]:
        sizes = (s[self.dimension] for s in shapes)
        return list(itertools.accumulate(sizes, initial=0))

    def parts(self, joined: Any, args: Sequence[Any]) -> Any:
        sizes = [aval_of(x).shape[self.dimension] for x in args]
        return Split(tuple(sizes), self.dimension)(joined)

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        moved = [
            batch_dim_at(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)
        ]
        return Concatenate(self.dimension + 1)(*moved), 0

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(0), [((2,), "any"), ((3,), "any")]
        yield cls(1), [((2, 1), "any"), ((2, 0), "any"), ((2, 3), "any")]
        yield cls(0), [((2, 2), "any")]


@dataclass(frozen=True)
class Split(_Parting):
    """Consecutive parts of the given `sizes` along `axis`."""

    name: ClassVar[str] = "split"
    sizes: tuple[int, ...]
    axis: int

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        (x,) = avals
        if any(s < 0 for s in self.sizes):
            raise ValueError(
                f"Sizes passed to split must be nonnegative, got {list(self.sizes)}"
            )
        if sum(self.sizes) != x.shape[self.axis]:
            raise ValueError(
                f"Sum of sizes {sum(self.sizes)} must be equal to dimension"
                f" {self.axis} of the operand shape {list(x.shape)}"
            )
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        return [x.update(shape=(*before, s, *after)) for s in self.sizes]

    def eval(self, *args: Any) -> Any:
        bounds = list(itertools.accumulate(self.sizes))[:-1]
        return np.split(args[0], bounds, self.axis) if self.sizes else []

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        if all(type(ct) is Zero for ct in cotangent):
            return [None]
        return [Concatenate(self.axis)(*map(instantiate, cotangent))]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None
        out = Split(self.sizes, self.axis + (self.axis >= dim))(x)
        return out, [dim] * len(self.sizes)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((1, 2), 0), [((3,), "any")]
        yield cls((2, 0, 1), 1), [((2, 3), "any")]


@dataclass(frozen=True)
class Stack(_Joining):
    """The operands, of one shape, along a new dim at position `axis`."""

    name: ClassVar[str] = "stack"
    axis: int

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        if not avals:
            raise ValueError("stack expects at least one operand, got 0.")
        shapes = ", ".join(str(a.shape) for a in avals)
        if len({a.ndim for a in avals}) != 1:
            raise ValueError(
                "Cannot stack arrays with different numbers of dimensions: got"
                f" {shapes}."
            )
        if len({a.shape for a in avals}) != 1:
            raise ValueError(
                f"All input arrays must have the same shape. Got {shapes}."
            )
        check_same_dtypes("stack", [a.dtype for a in avals])
        shape = list(avals[0].shape)
        shape.insert(self.axis, len(avals))
        weak_type = all(a.weak_type for a in avals)
        return ShapedArray(tuple(shape), avals[0].dtype, weak_type)

    def eval(self, *args: Any) -> Any:
        return np.stack(args, self.axis)

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        position = index[self.axis]
        source = (*index[: self.axis], *index[self.axis + 1 :])
        value = operands[-1].at(source)
        for k in reversed(range(len(operands) - 1)):
            here = b.compare("eq", position, k)
            value = b.select(here, operands[k].at(source), value)
        return value

    def parts(self, joined: Any, args: Sequence[Any]) -> Any:
        return Unstack(self.axis)(joined)

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        dim = dims[0]
        if dim is not None and all(d == dim for d in dims):
            before = self.axis <= dim
            return Stack(self.axis + (not before))(*args), dim + before
        moved = [
            batch_dim_at(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)
        ]
        return Stack(self.axis + 1)(*moved), 0

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(0), [((2,), "any"), ((2,), "any")]
        yield cls(1), [((2, 3), "any")] * 3
        yield cls(0), [((), "any"), ((), "any")]
        yield cls(1), [((0,), "any"), ((0,), "any")]


@dataclass(frozen=True)
class Unstack(_Parting):
    """The slices along `axis`, without that dim."""

    name: ClassVar[str] = "unstack"
    axis: int

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        (x,) = avals
        if not x.shape:
            raise ValueError(
                "unstack requires arrays with rank > 0, however a scalar array of"
                f" shape {x.shape} was passed."
            )
        shape = (*x.shape[: self.axis], *x.shape[self.axis + 1 :])
        return [x.update(shape=shape)] * x.shape[self.axis]

    def eval(self, *args: Any) -> Any:
        return list(np.moveaxis(args[0], self.axis, 0))

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        if all(type(ct) is Zero for ct in cotangent):
            return [None]
        return [Stack(self.axis)(*map(instantiate, cotangent))]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None
        before = self.axis < dim
        out = Unstack(self.axis + (not before))(x)
        return out, [dim - before] * len(out)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(0), [((2, 3), "any")]
        yield cls(1), [((2, 2), "any")]
        yield cls(0), [((3,), "any")]


def aval_of(x: Any) -> ShapedArray:
    """The aval of a value or of the placeholder of a linear argument."""
    return x.aval if is_linear(x) else typeof(x)
