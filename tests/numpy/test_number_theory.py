"""Greatest common divisors and least common multiples."""

import ml_dtypes
import numpy as np
import pytest

import curta
import curta.numpy as jnp

NAMES = ["int2", "uint2", "int4", "uint4", "int8", "uint8", "int32", "uint32"]


@pytest.mark.parametrize("name", NAMES)
def test_of_extreme_integers(name):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    info = ml_dtypes.iinfo(dtype)
    values = sorted({int(info.min), 0, 1, 2, 3, 6, 84, int(info.max)})
    values = [v for v in values if v <= info.max]
    x, y = (v.reshape(-1) for v in np.meshgrid(values, values))
    half = 2**info.bits // 2

    def wrapped(v):
        v = v % 2**info.bits
        return v - 2 * half if info.min and v >= half else v

    gcds = np.gcd(x.astype(object), y.astype(object))
    for f in jnp.gcd, curta.jit(jnp.gcd):
        out = f(jnp.asarray(x.astype(dtype)), jnp.asarray(y.astype(dtype)))
        assert out.dtype == dtype
        got = np.asarray(out).astype(object)
        # The magnitude of the least integer is not among the integers.
        np.testing.assert_array_equal(np.abs(got), np.abs([wrapped(g) for g in gcds]))


def test_multiples():
    np.testing.assert_array_equal(jnp.lcm(jnp.array([4, 6, 0]), 10), [20, 30, 0])
