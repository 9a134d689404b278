"""Compiled inverse functions of complex numbers, against NumPy's."""

import numpy as np
import pytest
from tests.compiler.programs import native

import curta
from curta.primitives import elementwise as ops

NAMES = ["asin", "acos", "atan", "asinh", "acosh", "atanh"]
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _wide():
    with curta.enable_x64(True):
        yield


def numbers(count):
    return RNG.normal(size=count) + 1j * RNG.normal(size=count)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", NAMES)
def test_anywhere_and_near_the_ends_of_the_cuts(name, dtype):
    op = getattr(ops, name)
    z = numbers(200) * np.exp(3 * RNG.normal(size=200))
    ends = np.repeat([1, -1, 1j, -1j, 0], 20) + 1e-4 * numbers(100)
    z = np.concatenate([z, ends]).astype(dtype)
    found, expected = native(op, z), op.eval(z.astype("complex128"))
    assert found.dtype == dtype
    bound = 8 * np.finfo(dtype).eps
    for part in (np.real, np.imag):
        np.testing.assert_allclose(part(found), part(expected), rtol=bound)


@pytest.mark.parametrize("name", NAMES)
def test_sides_of_cuts_infinities_and_extremes(name):
    op = getattr(ops, name)
    parts = [0.0, 1, 2, 0.5, 1e-200, 1e-8, 1e10, 1e200, np.inf, 1 + 2**-52]
    parts = [s * p for p in parts for s in (1, -1)]
    z = np.array([complex(x, y) for x in parts for y in parts])
    with np.errstate(all="ignore"):
        expected = op.eval(z)
    found = native(op, z)
    for part in (np.real, np.imag):
        np.testing.assert_allclose(part(found), part(expected), rtol=1e-14, atol=0)
        zero = part(expected) == 0
        signs = np.signbit(part(found)), np.signbit(part(expected))
        np.testing.assert_array_equal(signs[0][zero], signs[1][zero])
    assert np.isnan(native(op, np.array([complex(np.nan, 1), np.nan])).real).all()


def test_the_angle_of_a_complex_point():
    y, x = numbers(50), numbers(50)
    np.testing.assert_allclose(
        native(ops.atan2, y, x), ops.atan2.eval(y, x), rtol=1e-11
    )
