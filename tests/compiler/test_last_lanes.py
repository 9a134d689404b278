"""Rows that end one element into a vector: nothing behind them is written.

Rows are stored from the last to the first, so that an element too many would stay in
the row behind. LLVM writes one for a vector that is truncated and then stored under a
mask of one lane.
"""

from __future__ import annotations

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax

ROWS = 170
DTYPES = ["int8", "int16", "int32", "float16", "bfloat16"]


def reversed_max(x):
    return lax.cummax(x, 0, reverse=True)


def in_a_branch(x):
    return lax.cond(x[0, 0] == x[0, 0], reversed_max, lambda x: x, x)


@pytest.mark.parametrize("width", [9, 17, 33, 97, 129])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reversed_rows(dtype, width):
    numbers = np.random.default_rng(width).integers(-100, 100, (ROWS, width))
    want = np.maximum.accumulate(numbers[::-1])[::-1]
    x = np.asarray(jnp.asarray(numbers).astype(dtype))
    for function in reversed_max, in_a_branch:
        got = np.asarray(curta.jit(function)(x)).astype(int)
        np.testing.assert_array_equal(got, want)
