"""Values at the edges: what XLA's CPU backend gives for them too."""

import ml_dtypes
import numpy as np
import pytest

import curta
from curta import lax
from curta.config import enable_x64

BF16 = np.dtype(ml_dtypes.bfloat16)
INF, NAN = np.inf, np.nan


def check(fun, args, wanted):
    """Evaluated and compiled, with no warning from NumPy."""
    with np.errstate(all="raise"):
        for got in fun(*args), curta.jit(fun)(*args):
            got = np.asarray(got)
            np.testing.assert_array_equal(got, wanted)
            assert got.dtype == wanted.dtype
            if wanted.dtype.kind == "f":
                signs = np.signbit(got) == np.signbit(wanted)
                assert np.all(signs | np.isnan(wanted))


def i8(*values):
    return np.array(values, np.int8)


def u8(*values):
    return np.array(values, np.uint8)


def f32(*values):
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("fun", "args", "wanted"),
    [
        (lax.div, [i8(7, -7, 5, -128), i8(2, 2, 0, -1)], i8(3, -3, -1, -128)),
        (lax.div, [u8(7, 1), u8(2, 0)], u8(3, 255)),
        (lax.rem, [i8(7, -7, 5, -128), i8(4, 4, 0, -1)], i8(3, -3, 5, 0)),
        (lax.rem, [f32(5.5, -5.5, 1, 2), f32(2, 2, 0, INF)], f32(1.5, -1.5, NAN, 2)),
        (lax.neg, [i8(-128, 1)], i8(-128, -1)),
        (lax.neg, [f32(0.0, -0.0, 1)], f32(-0.0, 0.0, -1)),
        (lax.abs, [i8(-128, -1)], i8(-128, 1)),
        (lax.add, [i8(127), i8(1)], i8(-128)),
        (lax.mul, [u8(200), u8(2)], u8(144)),
        (lax.sign, [f32(-0.0, NAN, -2, 3)], f32(-0.0, NAN, -1, 1)),
        (lax.max, [f32(NAN, 1, 2), f32(1, NAN, 3)], f32(NAN, NAN, 3)),
        (lax.min, [f32(NAN, 1, 2), f32(1, NAN, 3)], f32(NAN, NAN, 2)),
        (lax.sqrt, [f32(-1, -0.0, INF, 4)], f32(NAN, -0.0, INF, 2)),
        (lax.rsqrt, [f32(0.0, INF, 4)], f32(INF, 0, 0.5)),
        (lax.log, [f32(0.0, -1, 1)], f32(-INF, NAN, 0)),
        (lax.pow, [f32(-2, 0, NAN), np.int32([3, 0, 0])], f32(-8, 1, 1)),
        (lax.round, [f32(0.5, -0.5, 2.5, 0.49999997)], f32(1, -1, 3, 0)),
        (lax.floor, [f32(-0.5, 0.5, -0.0)], f32(-1, 0, -0.0)),
        (lax.nextafter, [f32(1, 0, NAN), f32(2, -1, 1)], f32(1.0000001, -1e-45, NAN)),
        (lax.is_finite, [f32(1, INF, NAN)], np.array([True, False, False])),
        (lax.shift_left, [i8(-5, -5, 5), i8(1, 8, -1)], i8(-10, 0, 0)),
        (lax.shift_right_logical, [i8(-5, -5), i8(1, 9)], i8(125, 0)),
        (lax.shift_right_arithmetic, [i8(-5, 5), i8(1, -1)], i8(-3, 0)),
        (lax.shift_right_arithmetic, [u8(255, 9), u8(1, 1)], u8(255, 4)),
        (lax.population_count, [i8(-1, 0, 5)], i8(8, 0, 2)),
        (lax.clz, [i8(0, 1, -1, 64)], i8(8, 7, 0, 1)),
        (lax.mulhi, [i8(-128, 100), i8(-128, 3)], i8(64, 1)),
        (lax.clamp, [f32(3, NAN), f32(5, 1), f32(1, 2)], f32(1, NAN)),
        (lax.select_n, [np.int32([-1, 9]), i8(1, 2), i8(3, 4)], i8(1, 4)),
        (lax.reduce_precision, [f32(1.2, 7e4, 1e-8, NAN)], None),
    ],
)
def test_edges(fun, args, wanted):
    if wanted is None:
        fun = lambda x: lax.reduce_precision(x, 5, 10)  # noqa: E731
        wanted = f32(1.2001953, INF, 0, NAN)
    check(fun, args, wanted)


def test_rounding_to_even():
    def even(x):
        return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)

    check(even, [f32(0.5, 1.5, 2.5, -0.5)], f32(0, 2, 2, -0.0))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_floats_become_integers_by_saturation(dtype):
    info = np.iinfo(dtype)
    x = f32(NAN, INF, -INF, 1e20, -1e20, -0.5, 2.9)
    low = info.min
    wanted = np.array([0, info.max, low, info.max, low, 0, 2], dtype)
    check(lambda x: lax.convert_element_type(x, dtype), [x], wanted)


def test_complex_numbers_lose_their_imaginary_part():
    z = np.complex64([1j, 0, 1 + 1j])
    with pytest.warns(np.exceptions.ComplexWarning, match="Casting complex values"):
        assert lax.convert_element_type(z, bool).tolist() == [False, False, True]


def test_bits_across_widths():
    x = f32(1, 2)
    halves = lax.bitcast_convert_type(x, np.int16)
    assert halves.tolist() == [[0, 16256], [0, 16384]]
    assert lax.bitcast_convert_type(halves, np.float32).tolist() == [1, 2]
    assert curta.jit(lambda h: lax.bitcast_convert_type(h, np.float32))(
        halves
    ).shape == (2,)


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_half_floats_round_once(dtype):
    x = np.array([1.0, 3.0, 7.0], dtype)
    wanted = (1 / x.astype(np.float32)).astype(dtype)
    assert np.array_equal(np.asarray(lax.div(np.ones((), dtype), x)), wanted)


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_inverse_roots_of_halves_round_once(dtype):
    x = np.arange(0x400, 0x7C00, 7, dtype=np.uint16).view(np.float16).astype(dtype)
    check(lax.rsqrt, [x], (1 / np.sqrt(x.astype(np.float64))).astype(dtype))


def test_log1p_of_small_complex_numbers():
    z = np.complex64([1e-6 + 0j, 1e-6j])
    np.testing.assert_allclose(lax.log1p(z), np.log1p(z.astype(complex)), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_to_the_power_zero(dtype):
    """1, whatever the number, as of floats."""
    parts = [0.0, 2.0, np.inf, -np.inf, np.nan]
    x = np.array([complex(a, b) for a in parts for b in parts], dtype)
    y = np.resize(np.array([0j, complex(-0.0, 0), complex(0, -0.0)], dtype), x.shape)
    with enable_x64(True):
        found = curta.jit(lambda x, y: x**y)(x, y)
    np.testing.assert_array_equal(found, np.ones(x.shape, dtype))


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (1 + 2j, complex(INF, INF), 0),
        (1 + 2j, complex(-INF, NAN), 0),
        (complex(INF, INF), 2, complex(INF, INF)),
        (complex(INF, -INF), 1j, complex(-INF, -INF)),
        (complex(INF, NAN), 1 + 1j, complex(INF, -INF)),
        (complex(INF, INF), complex(INF, INF), complex(NAN, NAN)),
        (complex(INF, 1), 0, complex(INF, INF)),
        (1e-40j, 1e-40j, 1),
    ],
)
def test_complex_quotients_at_the_ends(x, y, expected):
    """By C99, annex G, where NumPy has NaN, or infinities for the smallest divisors."""
    x, y = np.complex64(x), np.complex64(y)
    for divide in lax.div, curta.jit(lax.div):
        np.testing.assert_array_equal(divide(x, y), np.complex64(expected))
