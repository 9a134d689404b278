"""Random bits from a generator whose state is an array: `rng_bit_generator`."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.op import BatchDims, Batched, Op
from curta.core.trace import typeof
from curta.primitives.base import ORDERED, check_dtype
from curta.primitives.families import NonDifferentiable
from curta.primitives.random_bits import philox, threefry
from curta.primitives.structure import move_dim


class RandomAlgorithm(enum.IntEnum):
    """The generator that makes random bits; by default it is Philox.

    >>> from curta import lax, numpy as jnp
    >>> key = jnp.zeros(4, jnp.uint32)
    >>> algorithm = lax.RandomAlgorithm.RNG_THREE_FRY
    >>> state, bits = lax.rng_bit_generator(key, (3,), algorithm=algorithm)
    >>> bits.dtype, bits.shape
    (dtype('uint32'), (3,))
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class RngBitGenerator(NonDifferentiable):
    """Bits from a state of four uint32 (or two uint64): a key and a counter.

    The results are the state with its counter advanced, and the bits; under `vmap`,
    of each of several states.
    """

    name: ClassVar[str] = "rng_bit_generator"
    multiple_results: ClassVar[bool] = True
    param_names: ClassVar[Mapping[str, str | None]] = {"out_sharding": None}
    shape: tuple[int, ...]
    dtype: Any
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT

    def params(self) -> dict[str, Any]:
        kinds = np.dtype(self.dtype), RandomAlgorithm(self.algorithm)
        return {**super().params(), "dtype": kinds[0], "algorithm": kinds[1]}

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        (key,) = avals
        if (key.shape[-1:], key.dtype.name) not in (((4,), "uint32"), ((2,), "uint64")):
            raise TypeError(
                "rng_bit_generator requires a key of type uint32[4] or uint64[2], got"
                f" {key.str_short()}."
            )
        shape = (*key.shape[:-1], *self.shape)
        return [key, ShapedArray(shape, np.dtype(self.dtype))]

    def eval(self, *args: Any) -> Any:
        (states,) = args
        after, out = np.empty_like(states), self.aval(typeof(states))[1]
        bits = np.empty(out.shape, out.dtype)
        for i in np.ndindex(states.shape[:-1]):
            after[i], bits[i] = self._draw(states[i])
        return [after, bits]

    def _draw(self, state: Any) -> tuple[Any, Any]:
        key, counter = np.ascontiguousarray(state).view(np.uint64)
        bits = 8 * np.dtype(self.dtype).itemsize
        if self.algorithm == RandomAlgorithm.RNG_THREE_FRY:
            out, used = _threefry_bits(key, counter, self.shape, bits)
        else:
            count = math.prod(self.shape) * (2 if bits == 64 else 1)
            words = philox.stream(key, counter, count)
            if bits == 64:
                words = threefry.join_words(words[::2], words[1::2])
            out, used = words.reshape(self.shape), -(-count // 4)
        with np.errstate(over="ignore"):
            after = np.array([key, counter + np.uint64(used)])
        return after.view(state.dtype), out.astype(self.dtype)

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        return self(move_dim(args[0], dims[0], 0)), (0, 0)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        key = ((4,), "uint32")
        for algorithm in RandomAlgorithm:
            for dtype in "uint32", "uint64", "uint8":
                yield cls((2, 3), np.dtype(dtype), algorithm), [key]
        yield cls((3, 5), np.dtype("uint32"), RandomAlgorithm.RNG_THREE_FRY), [key]
        yield cls((), np.dtype("uint16")), [((2,), "uint64")]
        yield cls((0,), np.dtype("uint32")), [key]


def _threefry_bits(
    key: Any, counter: Any, shape: tuple[int, ...], bits: int
) -> tuple[Any, int]:
    """Bits by threefry, and how many counters they took.

    A counter makes two words. They lie half a dim apart, as XLA has it: the first dim
    of even size, or else the longest one, which is then one element too long.
    """
    k0, k1 = threefry.split_words(key)
    if bits == 64:
        low, high = _hashed(k0, k1, counter, math.prod(shape))
        return threefry.join_words(low, high).reshape(shape), math.prod(shape)
    sizes = shape or (1,)
    even = [d for d, size in enumerate(sizes) if size % 2 == 0]
    dim = even[0] if even else sizes.index(max(sizes))
    half = (*sizes[:dim], -(-sizes[dim] // 2), *sizes[dim + 1 :])
    words = _hashed(k0, k1, counter, math.prod(half))
    both = np.stack([w.reshape(half) for w in words], dim + 1)
    out = both.reshape(*half[:dim], 2 * half[dim], *half[dim + 1 :])
    out = out[(*[slice(None)] * dim, slice(sizes[dim]))]
    return out.reshape(shape), math.prod(half)


def _hashed(k0: Any, k1: Any, counter: Any, count: int) -> Any:
    with np.errstate(over="ignore"):
        counters = counter + np.arange(count, dtype=np.uint64)
    return threefry.hash_words(k0, k1, *threefry.split_words(counters))


@dataclass(frozen=True, eq=False)
class RngUniform(Op):
    """Numbers from [a, b) that no key determines: others at each evaluation."""

    name: ClassVar[str] = "rng_uniform"
    shape: tuple[int, ...]

    # Two draws are two ops, which are not taken for one another.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        a, b = avals
        if a.dtype != b.dtype:
            raise ValueError(
                "Arguments to rng_uniform must have identical dtypes, got"
                f" {a.dtype.name} and {b.dtype.name}."
            )
        if a.shape or b.shape:
            raise ValueError(
                "Arguments to rng_uniform must be scalars; got shapes"
                f" {a.shape} and {b.shape}."
            )
        check_dtype(self.name, a.dtype, ORDERED)
        return ShapedArray(self.shape, a.dtype, a.weak_type and b.weak_type)

    def eval(self, *args: Any) -> Any:
        a, b = args
        generator = np.random.default_rng()
        if dtypes.issubdtype(a.dtype, np.floating):
            unit = generator.random(self.shape).astype(a.dtype)
            return np.minimum(a + unit * (b - a), np.nextafter(b, a)).astype(a.dtype)
        return generator.integers(a, b, self.shape).astype(a.dtype)
