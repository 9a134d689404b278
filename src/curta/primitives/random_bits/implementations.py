"""The generators behind random keys: how keys are made, split and turned into bits."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from curta.dtypes import KeyDType
from curta.primitives.random_bits import philox, threefry

_UINT32 = np.dtype("uint32")
_UINT64 = np.dtype("uint64")


class KeyImplementation(abc.ABC):
    """A generator. Keys are passed in their physical dtype, one scalar per key.

    `eval` rules use `seed split fold_in bits` on NumPy arrays of keys; the results
    of `split` and `bits` have one more dim. A generator with `lowers` has methods
    `lower_*` of these names too, which give the scalar code of one element.
    """

    name: str
    tag: str
    key_shape: tuple[int, ...]
    lowers: bool = False
    lower_seed: Callable[..., Any]
    lower_split: Callable[..., Any]
    lower_fold_in: Callable[..., Any]
    lower_bits: Callable[..., Any]

    @property
    def words(self) -> int:
        """The number of uint32 words of one key."""
        return math.prod(self.key_shape)

    @property
    def dtype(self) -> KeyDType:
        """The dtype of keys of this generator."""
        return KeyDType(self.tag, self.words)

    def __str__(self) -> str:
        return self.tag

    __repr__ = __str__

    def one_by_one(self) -> KeyImplementation:
        """This generator as it draws from several keys one after the other."""
        return self

    @abc.abstractmethod
    def seed(self, seeds: Any) -> Any:
        """Keys from integers."""

    @abc.abstractmethod
    def split(self, keys: Any, count: int, partitionable: bool) -> Any:
        """`count` new keys for each key."""

    @abc.abstractmethod
    def fold_in(self, keys: Any, data: Any) -> Any:
        """Keys mixed with numbers."""

    @abc.abstractmethod
    def bits(self, keys: Any, width: int, count: int, partitionable: bool) -> Any:
        """`count` unsigned integers of `width` bits for each key."""


class PRNGSpec:
    """What stands for a generator that has no name for `random.key(impl=...)`."""

    __slots__ = ("_impl",)

    def __init__(self, impl: KeyImplementation):
        self._impl = impl

    @property
    def implementation(self) -> KeyImplementation:
        """The generator."""
        return self._impl

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PRNGSpec) and self._impl is other._impl

    def __hash__(self) -> int:
        return hash(self._impl)

    def __str__(self) -> str:
        return str(self._impl)

    def __repr__(self) -> str:
        return f"PRNGSpec({self._impl.name!r})"


class Threefry(KeyImplementation):
    """Counters hashed with threefry-2x32: JAX's default generator."""

    name = "threefry2x32"
    tag = "fry"
    key_shape: tuple[int, ...] = (2,)
    lowers = True

    def seed(self, seeds: Any) -> Any:
        return threefry.join_words(*threefry.seed_words(seeds))

    def split(self, keys: Any, count: int, partitionable: bool) -> Any:
        k0, k1 = threefry.split_words(keys[..., None])
        if partitionable:
            words = threefry.hash_words(k0, k1, *threefry.counters(count))
            return threefry.join_words(*words)
        pairs = threefry.stream(k0, k1, 2 * count)
        return threefry.join_words(pairs[..., ::2], pairs[..., 1::2])

    def fold_in(self, keys: Any, data: Any) -> Any:
        k0, k1 = threefry.split_words(keys)
        x0, x1 = threefry.seed_words(data)
        return threefry.join_words(*threefry.hash_words(k0, k1, x0, x1))

    def bits(self, keys: Any, width: int, count: int, partitionable: bool) -> Any:
        k0, k1 = threefry.split_words(keys[..., None])
        if not partitionable:
            return _stream_bits(k0, k1, width, count)
        x0, x1 = threefry.hash_words(k0, k1, *threefry.counters(count))
        return threefry.join_words(x1, x0) if width == 64 else x0 ^ x1

    # ---- scalar code

    def lower_seed(self, b: Any, seed: Any) -> Any:
        if seed.dtype.itemsize < 8:
            low = b.convert(b.convert(seed, _UINT32), _UINT64)
            return b.shl(low, b.const(32, _UINT64))
        wide = b.convert(seed, _UINT64)
        half = b.const(32, _UINT64)
        return b.or_(b.shl(wide, half), b.shr_logical(wide, half))

    def lower_split(self, b: Any, key: Any, i: Any, count: int, part: bool) -> Any:
        k0, k1 = _lower_words(b, key)
        if part:
            return _lower_join(b, *_lower_counted(b, k0, k1, i))
        two = b.const(2, _UINT32)
        first = b.mul(i, two)
        second = b.add(first, b.const(1, _UINT32))
        return _lower_join(
            b,
            threefry.lower_stream_word(b, k0, k1, first, 2 * count),
            threefry.lower_stream_word(b, k0, k1, second, 2 * count),
        )

    def lower_fold_in(self, b: Any, key: Any, data: Any) -> Any:
        k0, k1 = _lower_words(b, key)
        zero = b.const(0, _UINT32)
        return _lower_join(b, *threefry.lower_hash(b, k0, k1, zero, data))

    def lower_bits(
        self, b: Any, key: Any, i: Any, width: int, count: int, part: bool
    ) -> Any:
        k0, k1 = _lower_words(b, key)
        if not part:
            return _lower_stream_bits(b, k0, k1, i, width, count)
        x0, x1 = _lower_counted(b, k0, k1, i)
        if width == 64:
            return _lower_join(b, x1, x0)
        return b.convert(b.xor(x0, x1), np.dtype(f"uint{width}"))


def _stream_bits(k0: Any, k1: Any, width: int, count: int) -> Any:
    """Bits by the older scheme, which is not independent of the shape."""
    if width == 32:
        return threefry.stream(k0, k1, count)
    if width == 64:
        words = threefry.stream(k0, k1, 2 * count)
        return threefry.join_words(words[..., count:], words[..., :count])
    per_word = 32 // width
    words = threefry.stream(k0, k1, -(-count // per_word))
    shifts = np.arange(per_word, dtype=np.uint32) * np.uint32(width)
    parts = (words[..., None] >> shifts) & np.uint32((1 << width) - 1)
    return parts.reshape(*words.shape[:-1], -1)[..., :count]


def _lower_stream_bits(b: Any, k0: Any, k1: Any, i: Any, width: int, count: int) -> Any:
    if width == 32:
        return threefry.lower_stream_word(b, k0, k1, i, count)
    if width == 64:
        other = b.add(i, b.const(count, _UINT32))
        high = threefry.lower_stream_word(b, k0, k1, i, 2 * count)
        low = threefry.lower_stream_word(b, k0, k1, other, 2 * count)
        return _lower_join(b, low, high)
    per_word = b.const(32 // width, _UINT32)
    words = -(-count // (32 // width))
    word = threefry.lower_stream_word(b, k0, k1, b.div(i, per_word), words)
    shift = b.mul(b.rem(i, per_word), b.const(width, _UINT32))
    part = b.shr_logical(word, shift)
    return b.convert(part, np.dtype(f"uint{width}"))


def _lower_words(b: Any, key: Any) -> tuple[Any, Any]:
    high = b.shr_logical(key, b.const(32, _UINT64))
    return b.convert(key, _UINT32), b.convert(high, _UINT32)


def _lower_join(b: Any, first: Any, second: Any) -> Any:
    high = b.shl(b.convert(second, _UINT64), b.const(32, _UINT64))
    return b.or_(b.convert(first, _UINT64), high)


def _lower_counted(b: Any, k0: Any, k1: Any, i: Any) -> tuple[Any, Any]:
    """The hash of counter `i`."""
    if i.dtype == _UINT32:
        return threefry.lower_hash(b, k0, k1, b.const(0, _UINT32), i)
    high = b.convert(b.shr_logical(i, b.const(32, _UINT64)), _UINT32)
    return threefry.lower_hash(b, k0, k1, high, b.convert(i, _UINT32))


THREEFRY = Threefry()


class Rbg(KeyImplementation):
    """Two threefry keys side by side, turned into bits by Philox, which is cheaper.

    A key is stored as a complex number that holds the two threefry keys. As in JAX,
    bits for several keys at once all come from the first one's stream, if `joint`.
    """

    name = "rbg"
    tag = "rbg"
    key_shape: tuple[int, ...] = (4,)

    def __init__(self, joint: bool = True):
        self.joint = joint

    def one_by_one(self) -> KeyImplementation:
        return type(self)(joint=False)

    def seed(self, seeds: Any) -> Any:
        half = THREEFRY.seed(seeds)
        return _join_halves(np.stack([half, half], axis=-1))

    def split(self, keys: Any, count: int, partitionable: bool) -> Any:
        result = THREEFRY.split(_halves(keys), count, partitionable)
        return _join_halves(np.moveaxis(result, -1, -2))

    def fold_in(self, keys: Any, data: Any) -> Any:
        return _join_halves(THREEFRY.fold_in(_halves(keys), data[..., None]))

    def bits(self, keys: Any, width: int, count: int, partitionable: bool) -> Any:
        shape = (*keys.shape, count)
        if not keys.size:
            return np.empty(shape, np.uint64)
        halves = _halves(keys).reshape(-1, 2)[: 1 if self.joint else None]
        first, second = np.hsplit(halves, 2)
        size = (2 if width == 64 else 1) * keys.size * count // len(halves)
        words = philox.stream(first, second, size)
        if width == 64:
            words = threefry.join_words(words[:, ::2], words[:, 1::2])
        return words.reshape(shape)


class UnsafeRbg(Rbg):
    """As `Rbg`, with keys split by Philox too: faster, and not known to be sound."""

    name = "unsafe_rbg"
    tag = "urbg"

    def split(self, keys: Any, count: int, partitionable: bool) -> Any:
        words = self.bits(keys, 32, 40 * count, partitionable)
        return _words_as_keys(words.reshape(*keys.shape, count, 10, 4)[..., 0, :])

    def fold_in(self, keys: Any, data: Any) -> Any:
        words = self.bits(self.seed(data), 32, 40, True)
        mixed = _words_as_keys(words.reshape(*data.shape, 10, 4)[..., -1, :])
        return _join_halves(_halves(keys) ^ _halves(mixed))


def _halves(keys: Any) -> Any:
    """The two threefry keys of each key, along a new last dim."""
    return np.ascontiguousarray(np.asarray(keys)[..., None]).view(np.uint64)


def _join_halves(halves: Any) -> Any:
    return np.ascontiguousarray(halves).view(np.complex128)[..., 0]


def _words_as_keys(words: Any) -> Any:
    return _join_halves(np.ascontiguousarray(words, np.uint32).view(np.uint64))
