"""Generators that hash counters under a key, word by word: Philox and Threefry-4x32.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers:
As Easy as 1, 2, 3", SC 2011. Which words of the counter hold what is JAX's choice.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.primitives.random_bits import philox, threefry
from curta.primitives.random_bits.implementations import KeyImplementation

_UINT32 = np.dtype("uint32")


class CounterGenerator(KeyImplementation):
    """A generator given by its hash, of key words and counter words."""

    counter_words: int

    def hash(self, key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
        """As many words as the counter has."""
        raise NotImplementedError

    def seed(self, seeds: Any) -> Any:
        key = [np.uint32(0)] * self.words
        return self._keys(self._hash(key, threefry.seed_words(seeds), first=True))

    def split(self, keys: Any, count: int, partitionable: bool) -> Any:
        key = self._words_of(keys[..., None])
        return self._keys(self._hash(key, threefry.counters(count)))

    def fold_in(self, keys: Any, data: Any) -> Any:
        counter = (np.zeros_like(data), data)
        return self._keys(self._hash(self._words_of(keys), counter))

    def bits(self, keys: Any, width: int, count: int, partitionable: bool) -> Any:
        key = self._words_of(keys[..., None])
        words = self._hash(key, threefry.counters(count), first=True)
        if width == 64:
            return threefry.join_words(*self.two_words(words)[::-1])
        return functools.reduce(np.bitwise_xor, words)

    def two_words(self, words: Sequence[Any]) -> Sequence[Any]:
        """The high and the low word of 64 bits."""
        return words[:2]

    def _hash(self, key: Any, pair: Any, first: bool = False) -> list[Any]:
        """The hash of a counter with `pair` in its first or last two words."""
        zeros = [np.uint32(0)] * (self.counter_words - 2)
        return self.hash(key, [*pair, *zeros] if first else [*zeros, *pair])

    def _words_of(self, keys: Any) -> list[Any]:
        words = np.ascontiguousarray(keys).view(_UINT32)
        return [*np.unstack(words.reshape(*keys.shape, self.words), axis=-1)]

    def _keys(self, words: Sequence[Any]) -> Any:
        stacked = np.stack(np.broadcast_arrays(*words[: self.words]), axis=-1)
        return stacked.view(self.dtype.physical)[..., 0]


class Philox2x32(CounterGenerator):
    """Keys of one word."""

    name = "philox2x32"
    tag = "phx2"
    key_shape: tuple[int, ...] = (1,)
    counter_words = 2

    def hash(self, key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
        return philox.hash_2x32(key, counter)


class Philox4x32(CounterGenerator):
    """Keys of two words."""

    name = "philox4x32"
    tag = "phx4"
    key_shape: tuple[int, ...] = (2,)
    counter_words = 4

    def hash(self, key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
        return philox.hash_4x32(key, counter)


class Threefry4x32(CounterGenerator):
    """Keys of four words; seeds are keys of the hash, not counters."""

    name = "threefry4x32"
    tag = "fry4"
    key_shape: tuple[int, ...] = (4,)
    counter_words = 4

    def hash(self, key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
        return threefry.hash_4x32(key, counter)

    def seed(self, seeds: Any) -> Any:
        zero = np.uint32(0)
        return self._keys(
            self.hash([*threefry.seed_words(seeds), zero, zero], [zero] * 4)
        )

    def two_words(self, words: Sequence[Any]) -> Sequence[Any]:
        return words[0] ^ words[2], words[1] ^ words[3]
