"""The structural ops that the transformations themselves are made of.

Broadcasting and summing are each other's transposes, so they live in one file,
with reshape, transpose and `add_any` (the sum of two cotangents).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.key_use import FORWARD, KeyReuseSignature
from curta.core.op import BatchDims, Batched, Op
from curta.core.placement import agree, placed_as
from curta.core.shapes import check_nonnegative
from curta.core.tangents import Zero, is_linear
from curta.core.trace import base_trace, typeof, use_trace
from curta.primitives.families import Linear, Reduction
from curta.primitives.monoids import SUM, Monoid


@dataclass(frozen=True)
class BroadcastInDim(Linear):
    """Operand dim i becomes dim `broadcast_dimensions[i]` of a larger `shape`."""

    name: ClassVar[str] = "broadcast_in_dim"
    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD
    param_names: ClassVar[Mapping[str, str | None]] = {"sharding": None}
    shape: tuple[int, ...]
    broadcast_dimensions: tuple[int, ...]

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        shape, dims = self.shape, self.broadcast_dimensions
        check_nonnegative("broadcast_in_dim shape", shape)
        check_nonnegative("broadcast_in_dim broadcast_dimensions", dims)
        if len(dims) != x.ndim:
            raise TypeError(
                "broadcast_in_dim broadcast_dimensions must have length equal to"
                f" operand ndim; got broadcast_dimensions {dims} for operand ndim"
                f" {x.ndim}."
            )
        if len(shape) < x.ndim:
            raise TypeError(
                "broadcast_in_dim target broadcast shape must have equal or higher rank"
                f" to the operand shape; got operand ndim {x.ndim} and target broadcast"
                f" ndim {len(shape)}."
            )
        if any(d >= len(shape) for d in dims):
            raise TypeError(
                "broadcast_in_dim broadcast_dimensions must be a subset of output"
                f" dimensions, got {dims} for operand ndim {x.ndim} and shape {shape}."
            )
        if any(d not in (1, shape[k]) for d, k in zip(x.shape, dims, strict=True)):
            raise TypeError(
                "broadcast_in_dim operand dimension sizes must either be 1, or be"
                " equal to their corresponding dimensions in the target broadcast"
                f" shape; got operand of shape {x.shape}, target broadcast shape"
                f" {shape}, broadcast_dimensions {dims} "
            )
        if any(a >= b for a, b in itertools.pairwise(dims)):
            raise TypeError(
                "broadcast_in_dim broadcast_dimensions must not contain duplicates, and"
                f" must ascend, got broadcast_dimensions {dims}"
            )
        return x.update(shape=self.shape)

    def eval(self, *args: Any) -> Any:
        (x,) = args
        kept = [1] * len(self.shape)
        for size, d in zip(x.shape, self.broadcast_dimensions, strict=True):
            kept[d] = size
        out = np.empty(self.shape, x.dtype)
        out[...] = x.reshape(kept)
        return out

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        (x,) = operands
        return x.at(
            tuple(
                0 if size == 1 else index[d]
                for size, d in zip(x.aval.shape, self.broadcast_dimensions, strict=True)
            )
        )

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        (x,) = args
        shape = x.aval.shape
        # Dims of size 1 are summed with the new ones, and put back afterwards.
        long = tuple(i for i, d in enumerate(shape) if d != 1)
        kept = [self.broadcast_dimensions[i] for i in long]
        ct = reduce_sum(
            cotangent, tuple(d for d in range(len(self.shape)) if d not in kept)
        )
        return [ct if len(long) == len(shape) else BroadcastInDim(shape, long)(ct)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        x = move_dim(x, dim, 0)
        shape = (axis.size, *self.shape)
        broadcast_dims = (0, *(d + 1 for d in self.broadcast_dimensions))
        return BroadcastInDim(shape, broadcast_dims)(x), 0

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        dims = self.broadcast_dimensions
        return {"broadcast_dimensions": dims} if dims else {}

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((2, 3), (1,)), [((3,), "any")]
        yield cls((2, 3), (0, 1)), [((2, 1), "any")]
        yield cls((2, 3), ()), [((), "any")]
        yield cls((0, 3), (1,)), [((3,), "any")]


@dataclass(frozen=True)
class Reshape(Linear):
    """The same elements in row-major order, in another shape."""

    name: ClassVar[str] = "reshape"
    renames_memory: ClassVar[bool] = True
    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD
    param_names: ClassVar[Mapping[str, str | None]] = {
        "new_sizes": "shape",
        "dimensions": None,
        "sharding": None,
    }
    shape: tuple[int, ...]

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if any(d < 0 for d in self.shape):
            raise TypeError(
                f"reshape new_sizes must all be positive, got {self.shape}."
            )
        if math.prod(self.shape) != x.size:
            raise TypeError(
                "reshape total size must be unchanged, got new_sizes"
                f" {self.shape} for shape {x.shape}."
            )
        return x.update(shape=self.shape)

    def eval(self, *args: Any) -> Any:
        (x,) = args
        return x.reshape(self.shape)

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        (x,) = operands
        return x.at(b.reshape_index(index, self.shape, x.aval.shape))

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        (x,) = args
        return [reshape(cotangent, x.aval.shape)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        x = move_dim(args[0], dims[0], 0)
        return Reshape((axis.size, *self.shape))(x), 0

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((6,)), [((2, 3), "any")]
        yield cls((3, 1, 2)), [((2, 3), "any")]
        yield cls(()), [((1, 1), "any")]
        yield cls((0, 5)), [((5, 0), "any")]


@dataclass(frozen=True)
class Transpose(Linear):
    """Output dim i is operand dim `permutation[i]`."""

    name: ClassVar[str] = "transpose"
    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD
    permutation: tuple[int, ...]

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if sorted(self.permutation) != list(range(x.ndim)):
            raise TypeError(
                "transpose permutation isn't a permutation of operand dimensions, got"
                f" permutation {self.permutation} for operand shape {x.shape}."
            )
        return x.update(shape=tuple(x.shape[p] for p in self.permutation))

    def eval(self, *args: Any) -> Any:
        (x,) = args
        return x.transpose(self.permutation)

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        (x,) = operands
        source: list[Any] = [0] * len(index)
        for i, p in zip(index, self.permutation, strict=True):
            source[p] = i
        return x.at(tuple(source))

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        inverse = sorted(range(len(self.permutation)), key=self.permutation.__getitem__)
        return [Transpose(tuple(inverse))(cotangent)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None
        permutation = (dim, *(p + (p >= dim) for p in self.permutation))
        return Transpose(permutation)(x), 0

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((1, 0)), [((2, 3), "any")]
        yield cls((2, 0, 1)), [((2, 3, 4), "any")]
        yield cls(()), [((), "any")]


@dataclass(frozen=True)
class ReduceSum(Reduction):
    """The sum over `axes`."""

    name: ClassVar[str] = "reduce_sum"
    compiled_above: ClassVar[str] = "compiled_transform"  # one order, one result
    makes_nan: ClassVar[bool] = True
    param_names: ClassVar[Mapping[str, str | None]] = {"out_sharding": None}
    monoid: ClassVar[Monoid] = SUM

    def out_dtype(self, dtype: Any) -> Any:
        if not dtypes.issubdtype(dtype, np.number):
            raise TypeError(
                "reduce_sum does not accept dtype"
                f" {dtype.name}. Accepted dtypes are subtypes of number."
            )
        return dtype

    def eval(self, *args: Any) -> Any:
        (x,) = args
        out = np.add.reduce(x, self.axes, dtype=dtypes.summing_dtype(x.dtype))
        if out.size == x.size:  # a single term is the sum, even if it is -0.0
            return x.reshape(out.shape)
        return out.astype(x.dtype, copy=False)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), self(*tangents)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        (x,) = args
        if not x.aval.shape:
            return [cotangent]
        kept = tuple(i for i in range(x.aval.ndim) if i not in self.axes)
        return [BroadcastInDim(x.aval.shape, kept)(cotangent)]


class AddAny(Op):
    """The sum of two tangents or cotangents of one aval."""

    makes_nan: ClassVar[bool] = True
    name: ClassVar[str] = "add_any"

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        x, y = avals
        if x.shape != y.shape or x.dtype != y.dtype:
            raise TypeError(f"add_any requires equal avals, got {x} and {y}")
        return x.update(weak_type=x.weak_type and y.weak_type)

    def eval(self, *args: Any) -> Any:
        return np.add(*args)

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        x, y = operands
        return b.add(x.at(index), y.at(index))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), add_tangents(*tangents)

    def taylor(self, k: int, out: Sequence[Any], *series: Sequence[Any]) -> Any:
        x, y = (s[k] for s in series)
        if x is None or y is None:
            return y if x is None else x
        return self(x, y)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [cotangent if is_linear(x) else None for x in args]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        to = next(d for d in dims if d is not None)
        x, y = (
            broadcast_batch(x, axis.size, to) if d is None else move_dim(x, d, to)
            for x, d in zip(args, dims, strict=True)
        )
        return self(x, y), to

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(), [((2, 3), "number"), ((2, 3), "number")]


add_any: AddAny = AddAny()


# ---- functions over these ops


def reshape(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` in another shape; `x` itself if it has that shape."""
    return x if typeof(x).shape == shape else Reshape(shape)(x)


def reduce_sum(x: Any, axes: tuple[int, ...]) -> Any:
    """The sum of `x` over `axes`; `x` itself for no axes."""
    return ReduceSum(axes)(x) if axes else x


def move_dim(x: Any, source: int | None, target: int) -> Any:
    """`x` with dim `source` moved to position `target`."""
    assert source is not None
    if source == target:
        return x
    order = [i for i in range(typeof(x).ndim) if i != source]
    order.insert(target, source)
    return Transpose(tuple(order))(x)


def broadcast_batch(x: Any, size: int, dim: int) -> Any:
    """`x` repeated `size` times along a new dim at position `dim`."""
    shape = list(typeof(x).shape)
    kept = tuple(i + (i >= dim) for i in range(len(shape)))
    shape.insert(dim, size)
    return BroadcastInDim(tuple(shape), kept)(x)


def batch_dim_at(x: Any, dim: int | None, size: int, target: int) -> Any:
    """`x` with its batch dim at `target`, repeated `size` times if it has none."""
    if dim is None:
        return broadcast_batch(x, size, target)
    return move_dim(x, dim, target)


def move_batch_dim(x: Any, dim: int | None, rank: int) -> Any:
    """`x` with its batch dim in front, and dims of size 1 up to `rank` + 1 in all.

    An operand with no batch dim gets one of size 1.
    """
    shape = typeof(x).shape
    if dim is None:
        if len(shape) == rank + 1:
            return x
        kept = tuple(range(rank + 1 - len(shape), rank + 1))
        return BroadcastInDim((*[1] * (rank + 1 - len(shape)), *shape), kept)(x)
    x = move_dim(x, dim, 0)
    shape = typeof(x).shape
    if len(shape) == rank + 1:
        return x
    missing = rank + 1 - len(shape)
    kept = (0, *range(1 + missing, rank + 1))
    return BroadcastInDim((shape[0], *[1] * missing, *shape[1:]), kept)(x)


def unbroadcast(ct: Any, aval: ShapedArray) -> Any:
    """The cotangent of an operand of `aval` that was broadcast to `ct`'s shape."""
    shape = typeof(ct).shape
    if shape == aval.shape:
        return ct
    if not aval.shape:
        return reduce_sum(ct, tuple(range(len(shape))))
    repeated = tuple(
        i for i, (d, e) in enumerate(zip(shape, aval.shape, strict=True)) if d != e
    )
    return reshape(reduce_sum(ct, repeated), aval.shape)


# ---- zeros


def full(aval: ShapedArray, value: Any) -> Any:
    """An array of `aval` with every element `value`; a Python number if it is one."""
    if aval.dtype == dtypes.float0:
        if any(map(is_symbolic_dim, aval.shape)):
            return BroadcastInDim(aval.shape, ())(np.zeros((), dtypes.float0))
        return np.zeros(aval.shape, dtypes.float0)
    if dtypes.issubdtype(aval.dtype, dtypes.prng_key):  # keys that nobody reads
        words = np.zeros(aval.shape, dtypes.physical_dtype(aval.dtype))
        return base_trace().array(words, aval)
    if aval.weak_type and (aval.shape or agree(aval.placement, None)):
        scalar = _weak_scalar(value, aval.dtype)
    else:
        scalar = exact_scalar(value, aval.dtype)
    result = BroadcastInDim(aval.shape, ())(scalar) if aval.shape else scalar
    return placed_as(result, None, aval.placement)


def _weak_scalar(value: Any, dtype: Any) -> Any:
    kind = dtypes.scalar_type_of(dtype)
    if dtypes.python_scalar_dtype(kind(0), kind) == dtype:
        return kind(value)
    return exact_scalar(value, dtype)


def exact_scalar(value: Any, dtype: Any) -> Any:
    """A scalar of this dtype, of 64 bits too where NumPy's count as narrower ones."""
    result = np.asarray(value, dtype)
    if dtypes.canonicalize_dtype(dtype) == dtype:
        return result[()]
    return base_trace().array(result, ShapedArray((), dtype))


def zeros(aval: ShapedArray) -> Any:
    """An array of zeros of `aval`; a Python number if the aval is that of one.

    >>> import curta
    >>> from curta.interpreters import ad
    >>> ad.zeros_like_aval(curta.typeof(curta.numpy.ones(2)))
    Array([0., 0.], dtype=float32)
    """
    if aval.is_high:  # a constant, so that it holds no tracers
        with use_trace(base_trace()):
            return aval.vspace_zero()  # type: ignore[attr-defined]
    return full(aval, 0)


def zero_like_output(out: Any) -> Zero:
    """The symbolic zero tangent of an output."""
    return Zero(typeof(out).to_tangent_aval())


def instantiate(x: Any) -> Any:
    """`x`, or an array of zeros if it is a symbolic zero.

    >>> import curta
    >>> from curta.interpreters import ad
    >>> ad.instantiate_zeros(ad.Zero(curta.typeof(curta.numpy.ones(2))))
    Array([0., 0.], dtype=float32)
    """
    return zeros(x.aval) if type(x) is Zero else x


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents, either of which may be a symbolic zero.

    >>> import curta
    >>> from curta.interpreters import ad
    >>> zero = ad.Zero(curta.typeof(1.0))
    >>> ad.add_tangents(zero, 2.0), ad.add_tangents(1.0, 2.0)
    (2.0, Array(3., dtype=float32, weak_type=True))
    """
    if type(x) is Zero:
        return y
    return x if type(y) is Zero else sum_of(x, y)


def sum_of(x: Any, y: Any) -> Any:
    """The sum of two tangents or cotangents."""
    aval: Any = typeof(x)
    return aval.vspace_add(x, y) if aval.is_high else add_any(x, y)


def _sum_in(aval: ShapedArray, x: Any, y: Any) -> Any:
    """The sum of two tangents or cotangents of this type."""
    return add_tangents(x, y)


def _attach() -> None:
    """Give types of arrays the zero and the sum, as those of programs have."""
    kind: Any = ShapedArray
    kind.vspace_zero, kind.vspace_add = zeros, _sum_in


_attach()
