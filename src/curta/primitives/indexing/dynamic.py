"""`dynamic_slice` and `dynamic_update_slice`: windows that start at scalar operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.key_use import FORWARD, Forward, KeyReuseSignature, Sink
from curta.core.op import BatchDims, Batched, Op
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.core.trace import typeof
from curta.primitives.base import check_same_dtypes
from curta.primitives.indexing.gather import CLIP, Gather
from curta.primitives.indexing.numbers import (
    Dims,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
)
from curta.primitives.indexing.scatter import Scatter
from curta.primitives.indexing.windows import WindowUpdate, clamp_start
from curta.primitives.joining import Concatenate
from curta.primitives.structure import BroadcastInDim, instantiate, zeros


@dataclass(frozen=True)
class DynamicSlice(Op):
    """A window of `slice_sizes` that starts at the scalar operands, moved inside."""

    name: ClassVar[str] = "dynamic_slice"
    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD
    slice_sizes: Dims

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        x, *starts = avals
        sizes = self.slice_sizes
        if len(sizes) != x.ndim or len(starts) != x.ndim:
            raise TypeError(
                "dynamic_slice slice_sizes and start_indices must have length equal to"
                f" the rank of operand, got slice_sizes {sizes} and {len(starts)}"
                f" indices for operand shape {x.shape}."
            )
        if any(s > d for s, d in zip(sizes, x.shape, strict=True)):
            raise TypeError(
                "slice slice_sizes must be less than or equal to operand shape, got"
                f" slice_sizes {sizes} for operand shape {x.shape}."
            )
        if any(s < 0 for s in sizes):
            raise TypeError(
                "slice slice_sizes must be greater than or equal to zero, got"
                f" slice_sizes of {sizes}."
            )
        _check_starts(self.name, starts)
        return x.update(shape=sizes)

    def eval(self, *args: Any) -> Any:
        x, *starts = args
        return x[_window(x.shape, starts, self.slice_sizes)]

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        x, *starts = operands
        source = []
        dims = zip(index, starts, x.aval.shape, self.slice_sizes, strict=True)
        for i, start, bound, size in dims:
            if size == bound:
                source.append(i)
                continue
            clamped, _ = clamp_start(b, start.at(()), bound - size)
            source.append(clamped.as_index() + i)
        return x.at(tuple(source))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self(*primals)
        if type(tangents[0]) is Zero:
            return out, zero_tangent(typeof(out))
        return out, self(tangents[0], *primals[1:])

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        x, *starts = args
        ct = dynamic_update_slice(zeros(x.aval), cotangent, *starts)
        return [ct, *[None] * len(starts)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        x, *starts = args
        every = tuple(range(len(starts)))
        op = Gather(
            GatherDimensionNumbers(every, (), every),
            self.slice_sizes,
            indices_are_sorted=True,
            unique_indices=True,
            mode=CLIP,
        )
        indices, indices_dim = _index_vectors(starts, dims[1:], axis.size)
        if dims[0] is None and indices_dim is None:
            return op(x, indices), None
        return op.batch(axis, [x, indices], [dims[0], indices_dim])

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        _check_window(self, checker, args[0], args[1:], self.slice_sizes)
        return self(*args)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((2,)), [((4,), "any"), _START]
        yield cls((1, 3)), [((3, 4), "any"), _START, _START]
        yield cls((0, 2)), [((2, 2), "any"), _START, _START]
        yield cls(()), [((), "any")]


class DynamicUpdateSlice(WindowUpdate):
    """The operand with a window, moved inside, replaced by the update."""

    name: ClassVar[str] = "dynamic_update_slice"
    replaces_window: ClassVar[bool] = True
    key_signature: ClassVar[KeyReuseSignature | None] = KeyReuseSignature(
        Sink(1), Forward(0, 0)
    )

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        x, update, *starts = avals
        if x.ndim != update.ndim:
            raise TypeError(
                "dynamic_update_slice update must have the same rank as operand, got"
                f" update shape {update.shape} for operand shape {x.shape}."
            )
        if x.ndim != len(starts):
            raise TypeError(
                "dynamic_update_slice start_indices must have length equal to the rank"
                f" of operand, got {len(starts)} indices for operand shape {x.shape}."
            )
        if any(u > d for u, d in zip(update.shape, x.shape, strict=True)):
            raise TypeError(
                "dynamic_update_slice update shape must be smaller than operand shape,"
                f" got update shape {update.shape} for operand shape {x.shape}."
            )
        check_same_dtypes(self.name, [x.dtype, update.dtype])
        _check_starts(self.name, starts)
        return x.update(weak_type=x.weak_type and update.weak_type)

    def eval(self, *args: Any) -> Any:
        x, update, *starts = args
        out = np.array(x)
        out[_window(x.shape, starts, update.shape)] = update
        return out

    def update_shape(self, *avals: ShapedArray) -> Dims:
        return avals[1].shape

    def lower_update(
        self, b: Any, index: tuple[Any, ...], *operands: Any
    ) -> tuple[tuple[Any, ...], Any, Any]:
        x, update, *starts = operands
        source = []
        sizes = zip(index, starts, x.aval.shape, update.aval.shape, strict=True)
        for i, start, bound, size in sizes:
            clamped, _ = clamp_start(b, start.at(()), bound - size)
            source.append(clamped.as_index() + i)
        return tuple(source), None, lambda old: update.at(index)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self(*primals)
        if type(tangents[0]) is Zero and type(tangents[1]) is Zero:
            return out, zero_tangent(typeof(out))
        return out, self(*map(instantiate, tangents[:2]), *primals[2:])

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        x, update, *starts = args
        aval = update.aval if is_linear(update) else typeof(update)
        to_operand = to_update = None
        nothing = zeros(ShapedArray(aval.shape, typeof(cotangent).dtype))
        if is_linear(x):
            to_operand = self(cotangent, nothing, *starts)
        if is_linear(update):
            to_update = DynamicSlice(aval.shape)(cotangent, *starts)
        return [to_operand, to_update, *[None] * len(starts)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        x, update, *starts = args
        every = tuple(range(len(starts)))
        op = Scatter(
            ScatterDimensionNumbers(every, (), every),
            indices_are_sorted=True,
            unique_indices=True,
            mode=CLIP,
        )
        indices, indices_dim = _index_vectors(starts, dims[2:], axis.size)
        return op.batch(axis, [x, indices, update], [dims[0], indices_dim, dims[1]])

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        x, update, *starts = args
        _check_window(self, checker, x, starts, typeof(update).shape)
        return self(*args)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(), [((4,), "any"), ((2,), "any"), _START]
        yield cls(), [((3, 4), "any"), ((1, 3), "any"), _START, _START]
        yield cls(), [((2, 2), "any"), ((0, 2), "any"), _START, _START]
        yield cls(), [((), "any"), ((), "any")]


dynamic_update_slice: DynamicUpdateSlice = DynamicUpdateSlice()

_START = ((), "index")


def _check_starts(name: str, starts: Sequence[ShapedArray]) -> None:
    if any(a.shape for a in starts):
        raise TypeError(
            f"start_indices arguments to {name} must be scalars, got indices of shapes"
            f" {[a.shape for a in starts]}"
        )
    result = [a.dtype for a in starts]
    if any(d != result[0] or not dtypes.issubdtype(d, np.integer) for d in result):
        raise TypeError(
            f"index arguments to {name} must be integers of the same type, got:"
            f" {', '.join(d.name for d in result)}"
        )


def _check_window(
    op: Op, checker: Any, x: Any, starts: Sequence[Any], sizes: Dims
) -> None:
    indices, _ = _index_vectors(starts, [None] * len(starts), 0)
    checker.starts(op, x, indices, tuple(range(len(starts))), sizes)


def _window(shape: Dims, starts: Sequence[Any], sizes: Dims) -> tuple[slice, ...]:
    result = []
    for start, size, bound in zip(starts, sizes, shape, strict=True):
        first = min(max(int(start), 0), bound - size)
        result.append(slice(first, first + size))
    return tuple(result)


def _index_vectors(
    starts: Sequence[Any], dims: Sequence[int | None], size: int
) -> tuple[Any, int | None]:
    """The scalars `starts` as index vectors, and their batch dim."""
    if not starts:
        return np.zeros(0, np.int32), None
    batched = any(d is not None for d in dims)
    shape = (size, 1) if batched else (1,)
    columns = [
        BroadcastInDim(shape, () if d is None else (0,))(s)
        for s, d in zip(starts, dims, strict=True)
    ]
    dim = 0 if batched else None
    if len(columns) == 1:
        return columns[0], dim
    return Concatenate(len(shape) - 1)(*columns), dim
