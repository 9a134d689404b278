"""The Philox-4x32 generator: a counter and a key to four words that look random.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers:
As Easy as 1, 2, 3", SC 2011; 10 rounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_32 = np.uint64(32)

Words = np.ndarray[Any, np.dtype[np.uint32]]


def stream(key: Any, counter: Any, count: int) -> Words:
    """`count` words under a uint64 key, from a uint64 counter on.

    The upper half of the 128-bit counter is the key again, as XLA has it.
    """
    key, counter = np.uint64(key), np.uint64(counter)
    low = counter + np.arange(-(-count // 4), dtype=np.uint64)
    high = key + (low < counter)
    words = [*_split(low), *_split(high)]
    k0, k1 = int(key) & 0xFFFFFFFF, int(key) >> 32
    for _ in range(10):
        words = _round(words, np.uint32(k0), np.uint32(k1))
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack(words, axis=-1).reshape(-1)[:count]


def _round(words: list[Any], k0: Any, k1: Any) -> list[Any]:
    c0, c1, c2, c3 = words
    low0, high0 = _split(c0.astype(np.uint64) * _MULTIPLIERS[0])
    low1, high1 = _split(c2.astype(np.uint64) * _MULTIPLIERS[1])
    return [high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0]


def _split(x: Any) -> tuple[Any, Any]:
    return x.astype(np.uint32), (x >> _32).astype(np.uint32)
