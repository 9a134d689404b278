"""The threefry-2x32 hash: counters and a key to bits that look random.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers:
As Easy as 1, 2, 3", SC 2011; 20 rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA

Words = np.ndarray[Any, np.dtype[np.uint32]]


def hash_words(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """The hash on NumPy arrays of uint32 that broadcast with each other."""
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(_PARITY))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(5):
        for r in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(r)) | (x1 >> np.uint32(32 - r))
            x1 = x0 ^ x1
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def lower_hash(b: Any, k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """The hash as scalar code made by builder `b`."""

    def word(value: int) -> Any:
        return b.const(value, np.dtype("uint32"))

    keys = (k0, k1, b.xor(b.xor(k0, k1), word(_PARITY)))
    x0, x1 = b.add(x0, keys[0]), b.add(x1, keys[1])
    for group in range(5):
        for r in _ROTATIONS[group % 2]:
            x0 = b.add(x0, x1)
            x1 = b.or_(b.shl(x1, word(r)), b.shr_logical(x1, word(32 - r)))
            x1 = b.xor(x0, x1)
        x0 = b.add(x0, keys[(group + 1) % 3])
        x1 = b.add(x1, b.add(keys[(group + 2) % 3], word(group + 1)))
    return x0, x1


# Threefry-4x32: two rotations a round, of the first and of the second pair.
_ROTATIONS_4 = (
    (10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20),
)  # fmt: skip


def hash_4x32(key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
    """The hash of four words under four on NumPy arrays, 20 rounds."""
    parity = key[0] ^ key[1] ^ key[2] ^ key[3] ^ np.uint32(_PARITY)
    keys = (*key, parity)
    x = [w + k for w, k in zip(counter, key, strict=True)]
    for round_ in range(20):
        # The words of a pair change partners from round to round.
        second = (1, 3) if round_ % 2 == 0 else (3, 1)
        for i, j, r in zip((0, 2), second, _ROTATIONS_4[round_ % 8], strict=True):
            x[i] = x[i] + x[j]
            x[j] = x[i] ^ (x[j] << np.uint32(r) | x[j] >> np.uint32(32 - r))
        if round_ % 4 == 3:
            group = round_ // 4 + 1
            x = [w + keys[(group + i) % 5] for i, w in enumerate(x)]
            x[3] = x[3] + np.uint32(group)
    return x


def split_words(keys: Any) -> tuple[Any, Any]:
    """The first and second word of keys stored as uint64."""
    return keys.astype(np.uint32), (keys >> np.uint64(32)).astype(np.uint32)


def join_words(first: Any, second: Any) -> Any:
    """Keys stored as uint64, from their first and second words."""
    high = np.asarray(second, np.uint64) << np.uint64(32)
    return np.asarray(first, np.uint64) | high


def seed_words(seeds: Any) -> tuple[Any, Any]:
    """The key words of integer seeds: their high and low 32 bits."""
    low = seeds.astype(np.uint32)
    if seeds.dtype.itemsize < 8:
        return np.zeros_like(low), low
    return (seeds.astype(np.uint64) >> np.uint64(32)).astype(np.uint32), low


def counters(size: int) -> tuple[Words, Words]:
    """The high and low words of 0 .. size - 1."""
    if size <= 1 << 32:
        return np.zeros(1, np.uint32), np.arange(size, dtype=np.uint32)
    count = np.arange(size, dtype=np.uint64)
    return (count >> np.uint64(32)).astype(np.uint32), count.astype(np.uint32)


def stream(k0: Any, k1: Any, count: int) -> Any:
    """`count` words by the older scheme: the counters cut in halves and hashed.

    k0 and k1 have a trailing dim of 1, along which the words are made.
    """
    padded = np.zeros(count + count % 2, np.uint32)
    padded[:count] = np.arange(count, dtype=np.uint32)
    half = len(padded) // 2
    words = hash_words(k0, k1, padded[:half], padded[half:])
    return np.concatenate(words, axis=-1)[..., :count]


def lower_stream_word(b: Any, k0: Any, k1: Any, i: Any, count: int) -> Any:
    """Word `i` of `stream(k0, k1, count)` as scalar code; `i` is a uint32."""
    uint32 = np.dtype("uint32")
    half = (count + 1) // 2
    in_first = b.compare("lt", i, b.const(half, uint32))
    x0 = b.select(in_first, i, b.sub(i, b.const(half, uint32)))
    x1 = b.add(x0, b.const(half, uint32))
    x1 = b.select(b.compare("lt", x1, b.const(count, uint32)), x1, b.const(0, uint32))
    first, second = lower_hash(b, k0, k1, x0, x1)
    return b.select(in_first, first, second)
