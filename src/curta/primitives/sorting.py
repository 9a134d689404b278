"""Sorting, and finding the greatest elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta._settings.api_version import MORE_PARAMETERS, Change
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.op import BatchDims, Batched, Op
from curta.core.tangents import Zero, zero_tangent
from curta.core.trace import typeof
from curta.primitives.base import ANY, check_dtype
from curta.primitives.indexing import Gather, GatherDimensionNumbers
from curta.primitives.shape import Iota, expand_dims
from curta.primitives.structure import BroadcastInDim, Reshape, move_dim


@dataclass(frozen=True)
class Sort(Op):
    """All operands reordered alike, so that the first `num_keys` of them ascend.

    Later keys decide where earlier ones are equal. Floats are ordered from -inf to
    inf and then NaN, with -0 equal to 0; complex numbers by real, then imaginary part.
    """

    name: ClassVar[str] = "sort"
    multiple_results: ClassVar[bool] = True
    dimension: int
    is_stable: bool = True
    num_keys: int = 1

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        if any(a.shape != avals[0].shape for a in avals):
            shapes = " ".join(str(a.shape) for a in avals)
            raise TypeError(f"Arguments to sort must have equal shapes, got: {shapes}")
        if not 1 <= self.num_keys <= len(avals):
            raise ValueError(f"sort of {len(avals)} arrays by {self.num_keys} keys")
        for key in avals[: self.num_keys]:
            if dtypes.issubdtype(key.dtype, dtypes.extended):
                raise TypeError(
                    f"lt_to does not accept dtype {key.dtype} at position 0: random"
                    " keys have no order. Sort the numbers that random.key_data gives."
                )
            check_dtype("lt_to", key.dtype, ANY, " at position 0")
        if not 0 <= self.dimension < avals[0].ndim:
            raise ValueError(
                f"dimension {self.dimension} of sort is out of bounds for operands of"
                f" shape {avals[0].shape}"
            )
        return avals

    def eval(self, *args: Any) -> Any:
        if len(args) == 1 and _equals_are_the_same(args[0]):
            return [np.sort(args[0], self.dimension)]
        if self.num_keys == 1 and args[0].dtype.kind != "c":
            order = _stable_order(_integers(args[0]), self.dimension)
        else:
            keys = [part for x in args[: self.num_keys] for part in _keys(x)]
            order = np.lexsort(keys[::-1], self.dimension)
        if order.ndim == 1:
            return [x[order] for x in args]
        return [np.take_along_axis(x, order, self.dimension) for x in args]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        shape = typeof(primals[0]).shape
        count = Iota(np.dtype(np.uint32), shape, self.dimension)()
        *outs, order = self(*primals, count)
        index = expand_dims(order, (len(shape),))
        op = _along(self.dimension, len(shape))
        return outs, [
            zero_tangent(typeof(x)) if type(t) is Zero else op(t, index)
            for x, t in zip(outs, tangents, strict=True)
        ]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        to, like = next(
            (d, x) for d, x in zip(dims, args, strict=True) if d is not None
        )
        shape = typeof(like).shape
        kept = tuple(i for i in range(len(shape)) if i != to)
        aligned = [
            BroadcastInDim(shape, kept)(x) if d is None else move_dim(x, d, to)
            for x, d in zip(args, dims, strict=True)
        ]
        dimension = self.dimension + (to <= self.dimension)
        op = dataclasses.replace(self, dimension=dimension)
        return op(*aligned), [to] * len(args)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        distinct = ("any", {"distinct": True})
        yield cls(0), [((5,), *distinct)]
        yield cls(1), [((3, 4), *distinct)]
        yield cls(0), [((4, 2), *distinct), ((4, 2), "any")]
        yield cls(0, num_keys=2), [((6,), "bool"), ((6,), *distinct), ((6,), "any")]
        yield cls(0), [((6,), "any", {"special": True})]
        yield cls(0), [((0,), "any")]


@dataclass(frozen=True)
class TopK(Op):
    """The `k` greatest elements along `axis`, descending, and their indices.

    Of equal elements the first comes first. NaN is the greatest, and 0 above -0.
    """

    name: ClassVar[str] = "top_k"
    arity: ClassVar[int | None] = 1
    multiple_results: ClassVar[bool] = True
    params_since: ClassVar[Mapping[str, Change]] = {"is_stable": MORE_PARAMETERS}
    k: int
    axis: int
    is_stable: bool = True  # as it was asked for; the order is always stable

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        (x,) = avals
        if dtypes.issubdtype(x.dtype, np.complexfloating):
            raise ValueError("top_k is not compatible with complex inputs.")
        check_dtype(self.name, x.dtype, ANY)
        if not x.shape:
            raise TypeError(f"top_k operand must have >= 1 dimension, got {x.shape}")
        shape = list(x.shape)
        if self.k > shape[self.axis]:
            raise ValueError(
                "k argument to top_k must be no larger than size along axis; got"
                f" k={self.k} with shape={shape} and axis={self.axis}"
            )
        largest = np.iinfo(np.int32).max
        if not is_symbolic_dim(shape[self.axis]) and shape[self.axis] > largest:
            raise ValueError(
                "top_k returns int32 indices, which will overflow for array dimensions"
                f" larger than the maximum int32 ({largest}). Got"
                f" operand.shape={x.shape}"
            )
        shape[self.axis] = self.k
        indices = ShapedArray(tuple(shape), np.dtype(np.int32), x.weak_type)
        return [x.update(shape=tuple(shape)), indices]

    def eval(self, *args: Any) -> Any:
        (x,) = args
        # Complement reverses the order of integers, and overflows nowhere.
        order = _stable_order(~_total_order(x), self.axis, self.k)
        return [np.take_along_axis(x, order, self.axis), order.astype(np.int32)]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        values, indices = self(*primals)
        tangent = take_along(tangents[0], indices, self.axis)
        return [values, indices], [tangent, zero_tangent(typeof(indices))]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None
        return TopK(self.k, self.axis + (dim <= self.axis), self.is_stable)(x), [
            dim,
            dim,
        ]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(2, 0), [((5,), "ordered", {"distinct": True})]
        yield cls(3, 1), [((2, 4), "ordered", {"distinct": True})]
        yield cls(4, 0), [((6,), "ordered", {"special": True})]
        yield cls(0, 0), [((3, 2), "ordered")]


def take_along(x: Any, indices: Any, axis: int) -> Any:
    """The elements of `x` at indices along `axis`."""
    shape = typeof(indices).shape
    return _along(axis, len(shape))(x, Reshape((*shape, 1))(indices))


def _along(axis: int, rank: int) -> Gather:
    """Reads, for every element, one at another index along `axis`."""
    rest = tuple(i for i in range(rank) if i != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), rest, rest)
    return Gather(numbers, (1,) * rank)


def _keys(x: Any) -> list[Any]:
    """Arrays that NumPy orders as `Sort` orders `x`."""
    if x.dtype.kind == "c":
        return [x.real, x.imag]
    if x.dtype == dtypes.bfloat16:
        return [x.astype(np.float32)]  # NumPy does not know its NaNs
    return [_widened(x)]


def _widened(x: Any) -> Any:
    """`x`, floats of a byte as float32, whose bits are in order whatever the dtype."""
    narrow = x.dtype.itemsize == 1 and dtypes.issubdtype(x.dtype, np.floating)
    return x.astype(np.float32) if narrow else x


def _equals_are_the_same(x: Any) -> bool:
    """Whether elements that are equal cannot be told apart, so that any sort will do.

    NumPy's sorts that are not stable are many times faster.
    """
    if x.dtype.kind in "iub":
        return True
    known = x.dtype.kind == "f" and x.dtype.itemsize > 1
    return known and not ((x == 0) & np.signbit(x)).any()


def _integers(x: Any) -> Any:
    """Integers (or booleans) ordered as `Sort` orders `x`."""
    if not dtypes.issubdtype(x.dtype, np.floating):
        return x
    x = _widened(x)
    zero, nan = x.dtype.type(0), x.dtype.type(np.nan)
    return _total_order(np.where(x == 0, zero, np.where(x != x, nan, x)))


def _total_order(x: Any) -> Any:
    """Integers ordered as the floats `x`, with -0 below 0 and NaN at the ends."""
    if not dtypes.issubdtype(x.dtype, np.floating):
        return x
    x = _widened(x)
    bits = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _stable_order(keys: Any, axis: int, count: int | None = None) -> Any:
    """The order that sorts the integers `keys`; its first `count` indices if given.

    A key of 32 bits and its index make one integer of 64: then no two are equal, and
    NumPy's fastest sort is stable.
    """
    size = keys.shape[axis]
    least = config.tuning.packed_sort
    if count is not None and 8 * count < size >= least and keys.size:
        return np.apply_along_axis(_first_indices, axis, keys, count)
    first = tuple(slice(count if d == axis else None) for d in range(keys.ndim))
    if keys.dtype.itemsize > 4 or keys.size < least:
        return np.argsort(keys, axis, kind="stable")[first]
    shape = [1] * keys.ndim
    shape[axis] = size
    wide = np.uint64 if keys.dtype.kind == "u" else np.int64
    packed = (keys.astype(wide) << 32) | np.arange(size, dtype=wide).reshape(shape)
    return (np.sort(packed, axis) & 0xFFFFFFFF).astype(np.intp)[first]


def _first_indices(keys: Any, count: int) -> Any:
    """The indices of the `count` least of `keys`, in order."""
    if not count:
        return np.zeros(0, np.intp)
    bound = np.partition(keys, count - 1)[count - 1]
    indices = np.flatnonzero(keys <= bound)
    return indices[np.argsort(keys[indices], kind="stable")[:count]]
