"""The ops on random keys. A key is stored as one scalar holding its words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.key_use import FRESH, NOTHING, USED_UP, KeyReuseSignature, Sink, Source
from curta.core.op import BatchDims, Batched, Op
from curta.primitives.base import Elementwise, aligned_index, broadcast_shapes
from curta.primitives.families import NonDifferentiable
from curta.primitives.random_bits import threefry
from curta.primitives.random_bits.implementations import (
    THREEFRY,
    KeyImplementation,
)
from curta.primitives.structure import move_batch_dim, move_dim

_UINT32 = np.dtype("uint32")
_UINT64 = np.dtype("uint64")


def _check_keys(name: str, aval: ShapedArray) -> None:
    if not dtypes.issubdtype(aval.dtype, dtypes.prng_key):
        raise TypeError(
            f"{name} takes key array operand, got {aval.str_short()}. Make keys with"
            " random.key, or random.wrap_key_data for raw key data."
        )


class _OfKeys(NonDifferentiable):
    """An op that a generator defines; it compiles if the generator has scalar code."""

    impl: KeyImplementation

    def has_rule(self, rule: str) -> bool:
        return super().has_rule(rule) and (rule != "lower" or self.impl.lowers)


class _OnKeys(_OfKeys):
    """Such an op with keys as operands, which say themselves what made them."""

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        return {k: v for k, v in self.params().items() if k not in _IMPLIED}


_IMPLIED = ("impl", "partitionable")


class FrontBatched(NonDifferentiable):
    """An op on one array whose own dims trail: batching moves the batch to dim 0."""

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        return self(move_dim(args[0], dims[0], 0)), 0


@dataclass(frozen=True)
class RandomSeed(_OfKeys, Elementwise):
    """Integers as keys."""

    name: ClassVar[str] = "random_seed"
    key_signature: ClassVar[KeyReuseSignature | None] = FRESH
    impl: KeyImplementation

    def out_dtype(self, *args: Any) -> Any:
        (dtype,) = args
        if not dtypes.issubdtype(dtype, np.integer):
            raise TypeError(f"PRNG key seed must be an integer; got {dtype.name}")
        return self.impl.dtype

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return Elementwise.aval(self, *avals).strip_weak_type()

    def eval(self, *args: Any) -> Any:
        return self.impl.seed(args[0])

    def scalar(self, b: Any, *xs: Any) -> Any:
        return self.impl.lower_seed(b, xs[0])

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(THREEFRY), [((3,), "int")]
        yield cls(THREEFRY), [((), "int")]


@dataclass(frozen=True)
class RandomWrap(FrontBatched):
    """Key words along the last dim as keys."""

    name: ClassVar[str] = "random_wrap"
    key_signature: ClassVar[KeyReuseSignature | None] = FRESH
    impl: KeyImplementation

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        words = self.impl.key_shape
        if x.ndim < len(words):
            raise TypeError(
                "Encountered invalid PRNG key data: expected key_data.ndim >="
                f" {len(words)}; got ndim={x.ndim}. random.key(seed) makes a key."
            )
        if x.shape[-len(words) :] != words:
            raise TypeError(
                "Encountered invalid PRNG key data: expected key_data.shape to end"
                f" with {words}; got shape={x.shape} for impl={self.impl}"
            )
        if x.dtype != _UINT32:
            raise TypeError(
                "Encountered invalid PRNG key data: expected key_data.dtype ="
                f" uint32; got dtype={x.dtype}"
            )
        return ShapedArray(x.shape[: -len(words)], self.impl.dtype)

    def eval(self, *args: Any) -> Any:
        (x,) = args
        keys = np.ascontiguousarray(x).reshape(-1).view(self.impl.dtype.physical)
        return keys.reshape(x.shape[: -len(self.impl.key_shape)])

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        if self.impl.dtype.physical != _UINT64:
            self._missing("lower")
        (words,) = operands
        first, second = (b.convert(words.at((*index, i)), _UINT64) for i in (0, 1))
        return b.or_(first, b.shl(second, b.const(32, _UINT64)))

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(THREEFRY), [((3, 2), _UINT32)]
        yield cls(THREEFRY), [((2,), _UINT32)]


@dataclass(frozen=True)
class RandomUnwrap(_OnKeys, FrontBatched):
    """The words of keys, along new last dims."""

    name: ClassVar[str] = "random_unwrap"
    key_signature: ClassVar[KeyReuseSignature | None] = NOTHING
    impl: KeyImplementation = THREEFRY

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (keys,) = avals
        _check_keys(self.name, keys)
        return ShapedArray((*keys.shape, *self.impl.key_shape), _UINT32)

    def eval(self, *args: Any) -> Any:
        (keys,) = args
        words = np.ascontiguousarray(keys).view(np.uint32)
        return words.reshape(*keys.shape, *self.impl.key_shape)

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        if self.impl.dtype.physical != _UINT64:
            self._missing("lower")
        (keys,) = operands
        key, word = keys.at(index[:-1]), b.value(index[-1])
        second = b.shr_logical(key, b.const(32, _UINT64))
        is_first = b.compare("eq", word, b.const(0, word.dtype))
        return b.convert(b.select(is_first, key, second), _UINT32)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(), [((3,), "key")]
        yield cls(), [((), "key")]


@dataclass(frozen=True)
class RandomClone(_OnKeys, Elementwise):
    """The same keys, said to be used again on purpose."""

    name: ClassVar[str] = "random_clone"
    key_signature: ClassVar[KeyReuseSignature | None] = FRESH
    impl: KeyImplementation = THREEFRY

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (keys,) = avals
        _check_keys(self.name, keys)
        return keys

    def eval(self, *args: Any) -> Any:
        return args[0].copy()

    def scalar(self, b: Any, *xs: Any) -> Any:
        return xs[0]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(), [((3,), "key")]


@dataclass(frozen=True)
class RandomSplit(_OnKeys, FrontBatched):
    """Each key as an array of new keys of `shape`."""

    name: ClassVar[str] = "random_split"
    compiled_above: ClassVar[str | None] = None  # a hash: a hundred NumPy calls
    key_signature: ClassVar[KeyReuseSignature | None] = KeyReuseSignature(
        Sink(0), Source(0)
    )
    shape: tuple[int, ...]
    partitionable: bool = True
    impl: KeyImplementation = THREEFRY

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (keys,) = avals
        _check_keys(self.name, keys)
        return keys.update(shape=(*keys.shape, *self.shape))

    def eval(self, *args: Any) -> Any:
        (keys,) = args
        result = self.impl.split(keys, math.prod(self.shape), self.partitionable)
        return result.reshape((*keys.shape, *self.shape))

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        (keys,) = operands
        rank = keys.aval.ndim
        i = _linear(b, index[rank:], self.shape)
        return self.element(b, keys.at(index[:rank]), i)

    def element(self, b: Any, key: Any, i: Any) -> Any:
        """Element i, in row-major order, of those of a key, as scalar code."""
        size = math.prod(self.shape)
        return self.impl.lower_split(b, key, i, size, self.partitionable)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((2,)), [((), "key")]
        yield cls((2, 3)), [((4,), "key")]
        yield cls((3,), False), [((2,), "key")]


@dataclass(frozen=True)
class RandomFoldIn(_OnKeys, Elementwise):
    """Keys mixed with uint32 numbers."""

    name: ClassVar[str] = "random_fold_in"
    compiled_above: ClassVar[str | None] = None  # a hash: a hundred NumPy calls
    arity: ClassVar[int] = 2
    key_signature: ClassVar[KeyReuseSignature | None] = FRESH
    impl: KeyImplementation = THREEFRY

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        keys, data = avals
        _check_keys(self.name, keys)
        if data.dtype != _UINT32:
            raise TypeError(
                f"random_fold_in requires uint32 data, got {data.str_short()}"
            )
        return keys.update(shape=broadcast_shapes(self.name, [keys.shape, data.shape]))

    def eval(self, *args: Any) -> Any:
        keys, data = args
        return self.impl.fold_in(keys, data)

    def scalar(self, b: Any, *xs: Any) -> Any:
        key, data = xs
        return self.impl.lower_fold_in(b, key, data)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(), [((3,), "key"), ((3,), _UINT32)]
        yield cls(), [((), "key"), ((), _UINT32)]


@dataclass(frozen=True)
class RandomBits(_OnKeys, FrontBatched):
    """For each key an array of `shape` of random unsigned integers."""

    name: ClassVar[str] = "random_bits"
    compiled_above: ClassVar[str | None] = None  # a hash: a hundred NumPy calls
    key_signature: ClassVar[KeyReuseSignature | None] = USED_UP
    bit_width: int
    shape: tuple[int, ...]
    partitionable: bool = True
    impl: KeyImplementation = THREEFRY

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (keys,) = avals
        _check_keys(self.name, keys)
        if self.bit_width not in (8, 16, 32, 64):
            raise TypeError("requires 8-, 16-, 32- or 64-bit field width.")
        return ShapedArray((*keys.shape, *self.shape), self._dtype())

    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(f"uint{self.bit_width}")

    def eval(self, *args: Any) -> Any:
        (keys,) = args
        size = math.prod(self.shape)
        bits = self.impl.bits(keys, self.bit_width, size, self.partitionable)
        return bits.astype(self._dtype()).reshape((*keys.shape, *self.shape))

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        (keys,) = operands
        rank = keys.aval.ndim
        i = _linear(b, index[rank:], self.shape)
        return self.element(b, keys.at(index[:rank]), i)

    def element(self, b: Any, key: Any, i: Any) -> Any:
        """Element i, in row-major order, of those of a key, as scalar code."""
        size = math.prod(self.shape)
        return self.impl.lower_bits(b, key, i, self.bit_width, size, self.partitionable)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for width in (8, 16, 32, 64):
            yield cls(width, (5,)), [((), "key")]
            yield cls(width, (2, 3), False), [((2,), "key")]
        yield cls(32, ()), [((), "key")]
        yield cls(32, (0,)), [((3,), "key")]


@dataclass(frozen=True)
class RandomPart(NonDifferentiable):
    """A part of what an op draws from each key: of `shape`, of the dims of the draw.

    It starts at the operands behind the keys, an int32 for each of `dims`, and at 0
    along others. `whole` is a RandomBits or RandomSplit. The partitioner makes it.
    """

    name: ClassVar[str] = "random_part"
    whole: RandomBits | RandomSplit
    shape: tuple[int, ...]
    dims: tuple[int, ...]

    def has_rule(self, rule: str) -> bool:
        return super().has_rule(rule) and (rule != "lower" or self.whole.impl.lowers)

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        keys = avals[0]
        return self.whole.aval(keys).update(shape=(*keys.shape, *self.shape))

    def eval(self, *args: Any) -> Any:
        keys, *starts = args
        result = self.whole.eval(keys)
        at = dict(zip(self.dims, map(int, starts), strict=True))
        bounds = ((at.get(d, 0), n) for d, n in enumerate(self.shape))
        window = (slice(start, start + n) for start, n in bounds)
        return result[(*[slice(None)] * keys.ndim, *window)]

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        keys, *starts = operands
        rank = keys.aval.ndim
        i = _linear(b, index[rank:], self.whole.shape)
        for d, start in zip(self.dims, starts, strict=True):
            step = b.const(math.prod(self.whole.shape[d + 1 :]), i.dtype)
            i = b.add(i, b.mul(b.convert(start.at(()), i.dtype), step))
        return self.whole.element(b, keys.at(index[:rank]), i)


def _linear(b: Any, index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """The row-major position of `index`, as a uint32 if all positions fit one."""
    size = math.prod(shape)
    (position,) = b.reshape_index(index, shape, (size,))
    return b.index_value(position, _UINT32 if size <= 1 << 32 else _UINT64)


class Threefry2x32(NonDifferentiable, Op):
    """The hash itself: two key words and two counters to two words."""

    name: ClassVar[str] = "threefry2x32"
    multiple_results: ClassVar[bool] = True

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        if any(a.dtype != _UINT32 for a in avals):
            raise TypeError(
                f"Arguments to threefry2x32 must have uint32 type, got {avals}"
            )
        shape = broadcast_shapes(self.name, [a.shape for a in avals])
        return [ShapedArray(shape, _UINT32)] * 2

    def eval(self, *args: Any) -> Any:
        x0, x1 = threefry.hash_words(*args)
        return [x0, x1]

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        words = (x.at(aligned_index(x, index)) for x in operands)
        return threefry.lower_hash(b, *words)

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        rank = max(
            len(x.shape) - (d is not None) for x, d in zip(args, dims, strict=True)
        )
        aligned = [
            x if d is None and not x.shape else move_batch_dim(x, d, rank)
            for x, d in zip(args, dims, strict=True)
        ]
        return self(*aligned), [0, 0]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(), [((), _UINT32), ((), _UINT32), ((4,), _UINT32), ((4,), _UINT32)]


threefry2x32: Threefry2x32 = Threefry2x32()
