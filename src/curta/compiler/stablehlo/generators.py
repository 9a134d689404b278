"""The programs of random generators, on the words of keys along a last dim.

The same generators as in `primitives/random_bits`, whose hashes they use.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta.compiler.stablehlo.elementwise import compare
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.loops import while_loop
from curta.compiler.stablehlo.lowering import BlockBuilder, lower_closed
from curta.compiler.stablehlo.types import tensor_type
from curta.compiler.stablehlo.words import (
    UINT32,
    UINT64,
    Words,
    iota,
    joined,
    stacked,
    zeros,
)
from curta.core.avals import ShapedArray
from curta.core.stage import stage
from curta.primitives.random_bits import threefry
from curta.primitives.random_bits.counter_based import CounterGenerator
from curta.primitives.random_bits.custom import CustomGenerator
from curta.primitives.random_bits.implementations import (
    KeyImplementation,
    Rbg,
    Threefry,
    UnsafeRbg,
)
from curta.primitives.structure import batch_dim_at
from curta.transforms.vmap import BatchAxis, batch

Shape = tuple[int, ...]
Hash = Callable[[Sequence[Words], Sequence[Words]], Sequence[Any]]


class Generator:
    """The programs of one generator; keys have the shape (..., words)."""

    def __init__(self, b: BlockBuilder, impl: Any) -> None:
        self.b = b
        self.impl = impl

    def seed(self, seeds: Words) -> Words:
        """Keys from integers."""
        raise NotImplementedError

    def split(self, keys: Words, count: int, partitionable: bool) -> Words:
        """`count` new keys for each key: (..., count, words)."""
        raise NotImplementedError

    def fold_in(self, keys: Words, data: Words) -> Words:
        """Keys mixed with numbers; the shapes agree but for the words."""
        raise NotImplementedError

    def bits(self, keys: Words, width: int, shape: Shape, partitionable: bool) -> Words:
        """Unsigned integers of `width` bits for each key: (..., *shape)."""
        raise NotImplementedError

    def outlined(self, name: str, hash_: Hash, key: Any, counter: Any) -> list[Words]:
        """A hash as a function of the module."""
        b, given = self.b, [*key, *counter]
        avals = [w.aval for w in given]

        def write(inner: BlockBuilder, *values: HloValue) -> list[HloValue]:
            words = [Words(inner, v, a) for v, a in zip(values, avals, strict=True)]
            with np.errstate(over="ignore"):
                result = hash_(words[: len(key)], words[len(key) :])
            return [w.value for w in result]

        types = [tensor_type(a) for a in avals]
        function = b.program.helper(name, types, write)
        shape = max((a.shape for a in avals), key=len)
        aval = ShapedArray(shape, UINT32)
        results = b.call_helper(function, [w.value for w in given])
        return [Words(b, v, aval) for v in results]


def _seed_words(seeds: Words) -> tuple[Words, Words]:
    """The high and the low 32 bits of integers."""
    low = seeds.astype(UINT32)
    if seeds.dtype.itemsize < 8:
        return zeros(seeds.b, seeds.shape), low
    return (seeds.astype(UINT64) >> 32).astype(UINT32), low


def _counters(b: BlockBuilder, count: int) -> tuple[Words, Words]:
    """The high and the low words of 0 .. count - 1."""
    if count <= 1 << 32:
        return zeros(b, (count,)), iota(b, count, UINT32)
    counted = iota(b, count, UINT64)
    return (counted >> 32).astype(UINT32), counted.astype(UINT32)


def _over(key: Sequence[Words], counter: Sequence[Words]) -> tuple[Any, Any]:
    """Key words (...,) and counter words (n,) in the shape (..., n); scalars stay."""
    shape = (*key[0].shape, *counter[0].shape)
    if not key[0].shape:
        return key, counter
    return (
        [k.spread(shape) for k in key],
        [c.spread(shape, [len(shape) - 1]) for c in counter],
    )


def _wide(low: Words, high: Words) -> Words:
    return low.astype(UINT64) | (high.astype(UINT64) << 32)


class ThreefryProgram(Generator):
    """Counters hashed with threefry-2x32."""

    def hash(self, key: Sequence[Words], counter: Sequence[Words]) -> list[Words]:
        return self.outlined("threefry2x32", _threefry, key, counter)

    def seed(self, seeds: Words) -> Words:
        return stacked(_seed_words(seeds))

    def split(self, keys: Words, count: int, partitionable: bool) -> Words:
        key = keys.unstacked()
        if partitionable:
            return stacked(self.hash(*_over(key, _counters(self.b, count))))
        words = self._stream(key, 2 * count)
        return words.reshape(*words.shape[:-1], count, 2)

    def fold_in(self, keys: Words, data: Words) -> Words:
        return stacked(self.hash(keys.unstacked(), _seed_words(data)))

    def bits(self, keys: Words, width: int, shape: Shape, partitionable: bool) -> Words:
        key, count = keys.unstacked(), math.prod(shape)
        if partitionable:
            x0, x1 = self.hash(*_over(key, _counters(self.b, count)))
            result = _wide(x1, x0) if width == 64 else x0 ^ x1
        else:
            result = self._stream_bits(key, width, count)
        return result.reshape(*keys.shape[:-1], *shape)

    def _stream(self, key: Sequence[Words], count: int) -> Words:
        """`count` words by the older scheme: the counters in halves."""
        half = (count + 1) // 2
        first, second = iota(self.b, half, UINT32), iota(self.b, half, UINT32, half)
        if count % 2:
            second = joined([second.part(0, half - 1), zeros(self.b, (1,))], -1)
        words = joined(self.hash(*_over(key, [first, second])), -1)
        return words.part(0, count) if count % 2 else words

    def _stream_bits(self, key: Sequence[Words], width: int, count: int) -> Words:
        if width == 32:
            return self._stream(key, count)
        if width == 64:
            words = self._stream(key, 2 * count)
            return _wide(words.part(count, 2 * count), words.part(0, count))
        per_word = 32 // width
        words = self._stream(key, -(-count // per_word))
        parts = [words >> (width * i) for i in range(per_word)]
        result = stacked([p & ((1 << width) - 1) for p in parts])
        result = result.reshape(*words.shape[:-1], words.shape[-1] * per_word)
        return result.part(0, count)


def _threefry(key: Sequence[Words], counter: Sequence[Words]) -> Sequence[Any]:
    return threefry.hash_words(*key, *counter)


class RbgProgram(Generator):
    """Two threefry keys side by side; bits by the generator that the device has."""

    def _threefry(self) -> ThreefryProgram:
        return ThreefryProgram(self.b, None)

    def seed(self, seeds: Words) -> Words:
        half = self._threefry().seed(seeds)
        return joined([half, half], -1)

    def split(self, keys: Words, count: int, partitionable: bool) -> Words:
        program = self._threefry()
        halves = [
            program.split(keys.part(i, i + 2), count, partitionable) for i in (0, 2)
        ]
        return joined(halves, -1)

    def fold_in(self, keys: Words, data: Words) -> Words:
        program = self._threefry()
        halves = [program.fold_in(keys.part(i, i + 2), data) for i in (0, 2)]
        return joined(halves, -1)

    def bits(self, keys: Words, width: int, shape: Shape, partitionable: bool) -> Words:
        whole = (*keys.shape[:-1], *shape)
        dtype = np.dtype(f"uint{width}")
        if not math.prod(whole):
            return zeros(self.b, whole, dtype)
        count = math.prod(keys.shape[:-1])
        states = keys.reshape(count, 4)
        if self.impl.joint or count == 1:
            state = states.part(0, 1, 0).reshape(4)
            return drawn(state, whole, dtype, "DEFAULT")[1]
        return each_drawn(states, shape, dtype, "DEFAULT")[1].reshape(*whole)


def each_drawn(
    states: Words, shape: Shape, dtype: Any, algorithm: str
) -> tuple[Words, Words]:
    """The same for each of several states, (count, words): one after the other."""
    b, (count, words) = states.b, states.shape
    one = ShapedArray((1, words), states.dtype)

    def goes_on(inner: BlockBuilder, done: HloValue, *_: HloValue) -> HloValue:
        return compare(
            inner, "LT", done, inner.constant(np.int32(count)), kind="SIGNED"
        )

    def step(
        inner: BlockBuilder, done: HloValue, *arrays: HloValue
    ) -> Sequence[HloValue]:
        zero = inner.constant(np.int32(0))
        starts, type_ = [arrays[0], done, zero], tensor_type(one)
        row = inner.op("dynamic_slice", starts, type_, slice_sizes=(1, words))
        state = Words(inner, row, one).reshape(words)
        following = []
        for x, new in zip(arrays, drawn(state, shape, dtype, algorithm), strict=True):
            update = new.reshape(1, *new.shape).value
            operands = [x, update, done, *[zero] * len(new.shape)]
            following.append(inner.op("dynamic_update_slice", operands, x.type))
        count_done = inner.op("add", [done, inner.constant(np.int32(1))], done.type)
        return [count_done, *following]

    initial = [states, zeros(b, (count, *shape), dtype)]
    start = b.constant(np.int32(0))
    values = [start, *(x.value for x in initial)]
    _, *results = while_loop(b, values, (), goes_on, step)
    after, bits = map(Words, (b, b), results, (x.aval for x in initial))
    return after, bits


def drawn(
    state: Words, shape: Shape, dtype: Any, algorithm: str
) -> tuple[Words, Words]:
    """The state after a draw, and the bits.

    A state is four uint32 or two uint64: a key and a counter.
    """
    b, pair = state.b, ShapedArray((2,), UINT64)
    value, given = state.value, state.dtype
    if given == UINT32:
        halves = state.reshape(2, 2).value
        value = b.op("bitcast_convert", [halves], tensor_type(pair))
    aval = ShapedArray(shape, dtype)
    after, bits = b.emit(
        "stablehlo.rng_bit_generator",
        [value],
        [tensor_type(pair), tensor_type(aval)],
        rng_algorithm=algorithm,
    )
    after.hint, bits.hint = "output_state", "output"
    result = Words(b, after, pair)
    if given == UINT32:
        four = ShapedArray((2, 2), UINT32)
        back = b.op("bitcast_convert", [after], tensor_type(four))
        result = Words(b, back, four).reshape(4)
    return result, Words(b, bits, aval)


class UnsafeRbgProgram(RbgProgram):
    """As that one, with keys split by the device's generator too."""

    def split(self, keys: Words, count: int, partitionable: bool) -> Words:
        words = self.bits(keys, 32, (count, 10, 4), partitionable)
        return words.part(0, 1, -2).reshape(*keys.shape[:-1], count, 4)

    def fold_in(self, keys: Words, data: Words) -> Words:
        words = self.bits(self.seed(data), 32, (10, 4), True)
        return keys ^ words.part(9, 10, -2).reshape(*data.shape, 4)


class CounterProgram(Generator):
    """Philox and Threefry-4x32, word by word."""

    impl: CounterGenerator

    def _hash(self, key: Any, pair: Any, first: bool = False) -> list[Words]:
        """The hash of a counter with `pair` in its first or last two words."""
        shape = pair[0].shape
        rest = [zeros(self.b, shape)] * (self.impl.counter_words - 2)
        counter = [*pair, *rest] if first else [*rest, *pair]
        return self.outlined(self.impl.name, self.impl.hash, key, counter)

    def seed(self, seeds: Words) -> Words:
        pair, zero = _seed_words(seeds), zeros(self.b, seeds.shape)
        if self.impl.name == "threefry4x32":
            key = [*pair, zero, zero]
            result = self.outlined(self.impl.name, self.impl.hash, key, [zero] * 4)
        else:
            result = self._hash([zero] * self.impl.words, pair, first=True)
        return stacked(result[: self.impl.words])

    def split(self, keys: Words, count: int, partitionable: bool) -> Words:
        result = self._hash(*_over(keys.unstacked(), _counters(self.b, count)))
        return stacked(result[: self.impl.words])

    def fold_in(self, keys: Words, data: Words) -> Words:
        counter = zeros(self.b, data.shape), data
        return stacked(self._hash(keys.unstacked(), counter)[: self.impl.words])

    def bits(self, keys: Words, width: int, shape: Shape, partitionable: bool) -> Words:
        over = _over(keys.unstacked(), _counters(self.b, math.prod(shape)))
        words = self._hash(*over, first=True)
        if width == 64:
            high, low = self.impl.two_words(words)
            result = _wide(low, high)
        else:
            result = functools.reduce(operator.xor, words)
        return result.reshape(*keys.shape[:-1], *shape)


class CustomProgram(Generator):
    """Functions of the program on single keys, over all of them."""

    impl: CustomGenerator

    def _mapped(
        self, fun: Callable[..., Any], shape: Shape, dtype: Any, *xs: Words
    ) -> Words:
        """A function of single keys and numbers, over dims of this shape."""
        count = math.prod(shape)
        flat = [x.reshape(count, *x.shape[len(shape) :]) for x in xs]

        def run(*args: Any) -> list[Any]:
            outs, dims = batch(lambda *one: [fun(*one)], BatchAxis(count), args, each)
            return [batch_dim_at(outs[0], dims[0], count, 0)]

        each = [0] * len(xs)
        closed = stage(run, [x.aval for x in flat])
        (value,) = lower_closed(self.b, closed, [x.value for x in flat])
        result = Words(self.b, value, closed.out_avals[0]).astype(dtype)
        return result.reshape(*shape, *result.shape[1:])

    def _keys(self, keys: Words) -> Words:
        return keys.reshape(*keys.shape[:-1], *self.impl.key_shape)

    def _words(self, keys: Words) -> Words:
        rank = len(keys.shape) - len(self.impl.key_shape)
        return keys.reshape(*keys.shape[:rank], self.impl.words)

    def seed(self, seeds: Words) -> Words:
        fun = self.impl.of_one("seed")
        return self._words(self._mapped(fun, seeds.shape, UINT32, seeds))

    def split(self, keys: Words, count: int, partitionable: bool) -> Words:
        fun, shape = self.impl.of_one("split"), keys.shape[:-1]
        result = self._mapped(
            lambda k: fun(k, (count,)), shape, UINT32, self._keys(keys)
        )
        return self._words(result)

    def fold_in(self, keys: Words, data: Words) -> Words:
        fun = self.impl.of_one("fold_in")
        return self._words(
            self._mapped(fun, data.shape, UINT32, self._keys(keys), data)
        )

    def bits(self, keys: Words, width: int, shape: Shape, partitionable: bool) -> Words:
        fun, dtype = self.impl.of_one("bits"), np.dtype(f"uint{width}")
        result = self._mapped(
            lambda k: fun(k, width, (math.prod(shape),)),
            keys.shape[:-1],
            dtype,
            self._keys(keys),
        )
        return result.reshape(*keys.shape[:-1], *shape)


_PROGRAMS: dict[type[KeyImplementation], type[Generator]] = {
    Threefry: ThreefryProgram,
    UnsafeRbg: UnsafeRbgProgram,
    Rbg: RbgProgram,
    CounterGenerator: CounterProgram,
    CustomGenerator: CustomProgram,
}


def generator(b: BlockBuilder, impl: KeyImplementation) -> Generator:
    """The programs of a generator."""
    for cls in type(impl).__mro__:
        if cls in _PROGRAMS:
            return _PROGRAMS[cls](b, impl)
    raise NotImplementedError(f"StableHLO of random keys of {impl.name!r}")
