"""The Philox hashes: counters and a key to words that look random.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers:
As Easy as 1, 2, 3", SC 2011; 10 rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_MULTIPLIER_2 = np.uint64(0xD256D193)
_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
_32 = np.uint64(32)

Words = np.ndarray[Any, np.dtype[np.uint32]]


def stream(key: Any, counter: Any, count: int) -> Words:
    """`count` words for each of the uint64 keys, from their uint64 counters on.

    Keys and counters have a trailing dim of 1, along which the words are made. The
    upper half of the 128-bit counter is the key again, as XLA has it.
    """
    low = counter + np.arange(-(-count // 4), dtype=np.uint64)
    high = key + (low < counter)
    words = hash_4x32(_split(key), [*_split(low), *_split(high)])
    return np.stack(words, axis=-1).reshape(*words[0].shape[:-1], -1)[..., :count]


def hash_4x32(key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
    """The hash of four words under two on NumPy arrays of uint32."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        low0, high0 = _split(np.multiply(c0, _MULTIPLIERS[0], dtype=np.uint64))
        low1, high1 = _split(np.multiply(c2, _MULTIPLIERS[1], dtype=np.uint64))
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + _WEYL[0], k1 + _WEYL[1]
    return [c0, c1, c2, c3]


def hash_2x32(key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
    """The hash of two words under one on NumPy arrays of uint32."""
    (k0,), (c0, c1) = key, counter
    for _ in range(10):
        low, high = _split(np.multiply(c0, _MULTIPLIER_2, dtype=np.uint64))
        c0, c1 = high ^ c1 ^ k0, low
        k0 = k0 + _WEYL[0]
    return [c0, c1]


def _split(x: Any) -> tuple[Any, Any]:
    return x.astype(np.uint32), (x >> _32).astype(np.uint32)
