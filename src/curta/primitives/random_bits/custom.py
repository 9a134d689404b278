"""Generators made of a program's own functions on the words of single keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from curta.core.trace import base_trace, use_trace
from curta.dtypes import KeyDType
from curta.primitives.random_bits.implementations import KeyImplementation
from curta.primitives.random_bits.registry import next_serial, register


class CustomGenerator(KeyImplementation):
    """A generator of four functions; keys and counts are theirs, one at a time."""

    name: str

    def __init__(
        self,
        key_shape: Sequence[int],
        seed: Callable[..., Any],
        split: Callable[..., Any],
        random_bits: Callable[..., Any],
        fold_in: Callable[..., Any],
        name: str,
        tag: str,
    ):
        self.key_shape: tuple[int, ...] = tuple(key_shape)
        self.name, self.tag, self._serial = name, tag, next_serial(tag)
        self._seed, self._split = seed, split
        self._random_bits, self._fold_in = random_bits, fold_in
        register(self)

    @property
    def dtype(self) -> KeyDType:
        """The dtype of its keys."""
        return KeyDType(self.tag, self.words, self._serial)

    def of_one(self, name: str) -> Callable[..., Any]:
        """The function of single keys for `seed`, `split`, `fold_in` or `bits`."""
        return {
            "seed": self._seed,
            "split": self._split,
            "fold_in": self._fold_in,
            "bits": self._random_bits,
        }[name]

    def seed(self, seeds: Any) -> Any:
        return self._as_keys(seeds.shape, map(self._seed, seeds.reshape(-1)))

    def split(self, keys: Any, count: int, partitionable: bool) -> Any:
        made = (self._split(key, (count,)) for key in self._words_of(keys))
        return self._as_keys((*keys.shape, count), made)

    def fold_in(self, keys: Any, data: Any) -> Any:
        keys, data = np.broadcast_arrays(keys, data)
        pairs = zip(self._words_of(keys), data.reshape(-1), strict=True)
        return self._as_keys(keys.shape, (self._fold_in(*pair) for pair in pairs))

    def bits(self, keys: Any, width: int, count: int, partitionable: bool) -> Any:
        made = (self._random_bits(k, width, (count,)) for k in self._words_of(keys))
        return self._collected(made, f"uint{width}").reshape(*keys.shape, count)

    def _words_of(self, keys: Any) -> Any:
        words = np.ascontiguousarray(keys).view(np.uint32)
        return words.reshape(-1, *self.key_shape)

    def _as_keys(self, shape: tuple[int, ...], made: Iterable[Any]) -> Any:
        words = self._collected(made, "uint32").reshape(-1)
        return words.view(self.dtype.physical).reshape(shape)

    def _collected(self, made: Iterable[Any], dtype: str) -> Any:
        with use_trace(base_trace()):
            return np.array([np.asarray(x) for x in made], dtype)
