"""Values at the ends of dtypes and arrays: long pads, far exponents, narrow indices."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import curta
import curta.numpy as jnp
from curta import lax
from curta._settings.api_version import jax_api_version
from curta.config import enable_x64


@pytest.mark.parametrize("kind", ["even", "odd"])
@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_mirrored_borders_longer_than_the_array(mode, kind):
    for size, low, high in itertools.product((1, 2, 3, 5), (0, 1, 3, 7, 12), (0, 4, 9)):
        x = np.arange(size) ** 2 + 1
        got = jnp.pad(x, (low, high), mode=mode, reflect_type=kind)
        want = np.pad(x, (low, high), mode=mode, reflect_type=kind)
        assert_array_equal(got, want, f"{size} {low} {high}")


@pytest.mark.parametrize("mode", ["wrap", "edge", "linear_ramp", "maximum", "mean"])
def test_other_borders_longer_than_the_array(mode):
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3) ** 2
    for widths in ((5, 9), ((0, 7), (11, 2))):
        got, want = jnp.pad(x, widths, mode=mode), np.pad(x, widths, mode=mode)
        np.testing.assert_allclose(got, want, rtol=1e-6)


INTEGERS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64".split()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_ldexp_with_exponents_at_both_ends(dtype):
    dtype = jnp.dtype(dtype)
    with enable_x64(True):
        for name, x in itertools.product(INTEGERS, (0.5, -1.0, 0.0, np.inf)):
            info = np.iinfo(name)
            ends = [int(info.min), int(info.max), 0, 1]
            exponents = np.array(ends, dtype=name)
            with np.errstate(over="ignore"):
                reach = [min(max(n, -5000), 5000) for n in ends]
                want = np.ldexp(np.float64(x), reach).astype(dtype)
            for f in jnp.ldexp, curta.jit(jnp.ldexp):
                got = f(jnp.array(x, dtype), exponents)
                assert got.dtype == dtype
                assert_array_equal(np.asarray(got, np.float64), want.astype(np.float64))


def test_ldexp_rounds_once_and_reaches_everything():
    tiny, info = np.float32(1e-45), np.finfo(np.float32)
    assert jnp.ldexp(tiny, 276) == np.ldexp(tiny, 276)
    assert jnp.ldexp(info.max, -277) == np.ldexp(info.max, -277) == tiny
    exponents = np.arange(-30, 30)
    for x in np.float16([1.999, 1.2, 6e-8, 65504]):
        with np.errstate(over="ignore"):
            want = np.ldexp(x, exponents)
        assert_array_equal(jnp.ldexp(x, exponents), want)
    slopes = curta.jacfwd(lambda x: jnp.ldexp(x, np.array([120, -120, 3])))(1e-30)
    assert_array_equal(slopes, np.float32([2.0**120, 2.0**-120, 8]))
    assert curta.grad(curta.grad(lambda x: jnp.ldexp(x**2, 5)))(3.0) == 64


def test_powers_of_integers():
    with enable_x64(True):
        for dtype, base, exponent in (
            ("uint8", 2, 64),
            ("int32", 3, 64),
            ("int64", 3, 2**62 + 1),
            ("uint16", 3, 65535),
        ):
            got = jnp.power(jnp.array(base, dtype), jnp.array([exponent], dtype))
            bits = np.iinfo(dtype).bits
            want = np.array(pow(base, exponent, 1 << bits), np.uint64).astype(dtype)
            assert_array_equal(got, [want])
    negative = jnp.power(jnp.array([2, 1, -1, -1, 0]), jnp.array([-1, -5, -3, -4, -2]))
    assert_array_equal(negative, [0, 1, -1, 1, 0])


NARROW = ["uint8", "int8", "uint16", "int16"]


@pytest.mark.parametrize("dtype", NARROW)
def test_flat_indices_of_narrow_ones(dtype):
    i = jnp.array([20, 29], dtype)
    for mode in "raise", "clip", "wrap", "ignore":
        flat = jnp.ravel_multi_index((i, i), (30, 30), mode=mode)
        assert_array_equal(flat, [620, 899])
    dims = (300, 300)
    assert_array_equal(
        jnp.ravel_multi_index((i, i), dims, mode="clip"),
        np.ravel_multi_index((np.asarray(i), np.asarray(i)), dims),
    )
    with pytest.raises(ValueError, match="int8 is not large enough"):
        jnp.ravel_multi_index((i, i), (30, 30), dtype="int8")
    with pytest.raises(ValueError, match="int32 is not large enough"):
        jnp.ravel_multi_index((i, i), (1 << 16, 1 << 16), mode="clip")


@pytest.mark.parametrize("wrap", [lambda f: f, curta.jit])
@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [("int8", [-128, -1, 127]), ("uint8", [0, 200, 255]), ("int16", [-300, 299, 7])],
)
def test_narrow_indices_into_long_axes(dtype, numbers, wrap):
    x, i = jnp.arange(300.0), jnp.array(numbers, dtype)
    places = np.array(numbers) % 300
    table = jnp.arange(600.0).reshape(2, 300)
    reads = [
        lambda i: x[i],
        lambda i: table[0, i],
        lambda i: x.at[i].get(mode="clip"),
        lambda i: jnp.take(x, i),
        lambda i: jnp.take(x, i, mode="wrap"),
        lambda i: jnp.take_along_axis(x, i, 0),
        lambda i: lax.index_take(x, (i,), (0,)),
        lambda i: jnp.choose(i, list(np.arange(300.0)), mode="wrap"),
        curta.vmap(lambda i: x[i]),
        curta.vmap(lambda i: lax.dynamic_slice(x, (i,), (1,))[0]),
    ]
    for f in reads:
        assert_array_equal(wrap(f)(i), np.float32(places))
    writes = [
        lambda i: x.at[i].set(-1.0),
        lambda i: x.at[i].set(-1.0, mode="clip"),
        lambda i: x.at[i].apply(lambda y: -jnp.ones_like(y)),
        lambda i: jnp.put(x, i, -1.0, inplace=False),
        lambda i: jnp.put(x, i, -1.0, mode="wrap", inplace=False),
        lambda i: jnp.put_along_axis(x, i, -1.0, 0, inplace=False),
    ]
    for f in writes:
        want = np.arange(300.0, dtype=np.float32)
        want[places] = -1
        assert_array_equal(wrap(f)(i), want)
    want = np.insert(np.arange(300.0), np.array(numbers), -9.0)
    assert_array_equal(wrap(lambda i: jnp.insert(x, i, -9.0))(i), want)
    slope = wrap(curta.grad(lambda x, i: x[i].sum(), 0))(x, i)
    assert_array_equal(np.flatnonzero(slope), np.unique(places))


def test_counts_that_add_up_beyond_their_dtype():
    counts = jnp.array([100, 100, 120], jnp.uint8)
    repeated = jnp.repeat(jnp.arange(3), counts, total_repeat_length=320)
    assert_array_equal(repeated, np.repeat(np.arange(3), [100, 100, 120]))


FLOATS = [np.float32, jnp.bfloat16.dtype, np.float16]


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding_to_many_decimals_and_digits(dtype):
    for x in (1.25, -5.0, 0.0, 1e4, np.inf):
        value = jnp.array(x, dtype)
        for decimals in (20, 38, 39, 45, 60, 400):
            assert jnp.round(value, decimals) == value
        for decimals in (-39, -60, -400):
            want = x if np.isinf(x) else 0.0
            assert jnp.round(value, decimals) == want
    assert np.isnan(jnp.round(jnp.array(np.nan, dtype), 40))
    assert jnp.round(jnp.array(45.0, dtype), -1) == 40.0


def test_rounding_keeps_what_has_no_decimals():
    assert jnp.round(np.float32(1e38), 2) == np.float32(1e38)
    assert jnp.round(np.float32(12345678.0), -5) == 12300000.0
    assert_array_equal(
        curta.grad(lambda x: jnp.round(x, 3).sum())(jnp.array([1.0, 1e30])), 0.0
    )


@pytest.mark.parametrize("transform", ["rfft", "ihfft", "rfft2", "rfftn"])
def test_real_transforms_of_no_elements(transform):
    x = jnp.zeros((2, 0))
    with pytest.raises(ValueError, match="RFFT of no elements"):
        getattr(jnp.fft, transform)(x)


def test_other_transforms_of_no_elements():
    assert jnp.fft.fft(jnp.zeros(0)).shape == (0,)
    assert jnp.fft.rfftn(jnp.zeros((0, 4))).shape == (0, 3)


def test_padding_as_an_array():
    x, kernel = jnp.ones((1, 4, 4, 1)), jnp.ones((3, 3, 1, 1))
    pads = [(1, 1), (2, 0)]
    one, two = (
        lax.conv_transpose(x, kernel, (1, 1), padding=p) for p in (pads, np.array(pads))
    )
    assert_array_equal(one, two)


def test_means_as_booleans():
    for x in ([1.0, 0.0, 0.0], [0.0, 0.0], [0.5, np.nan], [0.25, -0.25]):
        for f in jnp.mean, curta.jit(jnp.mean, static_argnames="dtype"):
            assert f(jnp.array(x), dtype=bool) == np.mean(np.array(x), dtype=bool)
    assert jnp.mean(jnp.zeros(2), dtype=bool).dtype == bool


class Values:
    """An object that NumPy can convert."""

    def __array__(self, dtype=None, copy=None):
        return np.arange(2.0, dtype=dtype)


def test_arrays_of_lists_with_foreign_objects():
    rows = [Values(), jnp.zeros(2)], [jnp.zeros(2), Values()]
    for row in rows:
        assert jnp.array(row).dtype == np.float32
        assert_array_equal(jnp.array(row), np.array([np.asarray(x) for x in row]))
    letters = jnp.array([memoryview(b"ab"), jnp.zeros(2, jnp.uint8), bytearray(b"cd")])
    assert_array_equal(letters, [[97, 98], [0, 0], [99, 100]])
    assert letters.dtype == np.uint8


def test_sinc_at_whole_numbers_and_infinities():
    x = jnp.array([np.inf, -np.inf, 3.0, -2.0, 1e30, 0.0, 0.5])
    assert_array_equal(jnp.sinc(x)[:6], [0, 0, 0, 0, 0, 1])
    assert jnp.isnan(jnp.sinc(np.nan))
    near = np.linspace(-4, 4, 81, dtype=np.float32)
    np.testing.assert_allclose(jnp.sinc(near), np.sinc(near), atol=1e-7)
    z = np.array([1 + 1j, 2.5 - 0.5j, 3 + 0j, 0.7 + 0.2j], np.complex64)
    np.testing.assert_allclose(jnp.sinc(z), np.sinc(z), rtol=2e-5, atol=1e-6)
    assert curta.grad(jnp.sinc)(1.0) == -1.0


def test_permuted_dims_from_the_end():
    x = jnp.zeros((2, 3, 4))
    assert jnp.permute_dims(x, (2, 0, -2)).shape == (4, 2, 3)


def test_windows_of_scalars():
    x, start = jnp.float32(3.0), 1.0
    assert lax.reduce_window(x, start, lambda a, b: a * b + b, (), (), "SAME") == 6.0
    assert lax.reduce_window(x, start, lax.add, (), (), ()) == 4.0
    pair = (x, jnp.int32(2))
    both = lax.reduce_window(
        pair, (start, 3), lambda a, b: (a[0] + b[0], a[1] * b[1]), (), (), "VALID"
    )
    assert [float(y) for y in both] == [4.0, 6.0]


def test_rows_of_traced_arrays():
    def rows(x):
        return list(x)

    for version, op in (("0.10", "squeeze"), ("0.12", "unstack")):
        with jax_api_version(version):
            jaxpr = curta.make_jaxpr(lambda x: rows(x))(jnp.zeros((2, 3)))
        assert [e.primitive.name for e in jaxpr.eqns][-1] == op
        assert len(jaxpr.out_avals) == 2


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_floats_beyond_the_ends_saturate(dtype):
    info, x = np.iinfo(dtype), jnp.array([0, 1, 100], dtype)
    for value, want in (
        (1e10, info.max),
        (-1e10, info.min),
        (np.inf, info.max),
        (np.nan, 0),
    ):
        numbers = [
            lax.convert_element_type(value, dtype),
            curta.jit(lambda v: v.astype(dtype))(jnp.array([value]))[0],
            jnp.asarray(np.array([value]), dtype)[0],
            jnp.full(1, value, dtype)[0],
            x.at[0].set(value)[0],
            jnp.pad(x, 1, constant_values=value)[0],
            jnp.max(x[:0], initial=value),
        ]
        assert [int(n) for n in numbers] == [want] * len(numbers)
