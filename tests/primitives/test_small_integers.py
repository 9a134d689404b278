"""Bits of the integers that are smaller than a byte."""

import ml_dtypes
import numpy as np
import pytest

import curta
from curta import lax

DTYPES = [ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
def test_bits(dtype):
    bits = ml_dtypes.iinfo(dtype).bits
    words = np.arange(2**bits, dtype=np.uint8)
    unsigned = ml_dtypes.uint2 if bits == 2 else ml_dtypes.uint4
    x = words.astype(unsigned).view(dtype)

    def as_words(y):
        assert y.dtype == dtype
        return np.asarray(y).astype(np.int32) % 2**bits

    wanted = {
        lax.bitwise_not: 2**bits - 1 - words,
        lax.population_count: [int(w).bit_count() for w in words],
        lax.clz: [bits - int(w).bit_length() for w in words],
    }
    for function, values in wanted.items():
        for f in function, curta.jit(function):
            np.testing.assert_array_equal(as_words(f(x)), np.asarray(values) % 2**bits)
