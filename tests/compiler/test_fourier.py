"""Compiled Fourier transforms: every layout of lanes, every kind, in loops too."""

import ctypes

import numpy as np
import pytest
from tests.compiler.programs import native

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler import code_generator
from curta.compiler.emit.routine_code import routine_call
from curta.compiler.host_target import host
from curta.compiler.library.butterflies import radices
from curta.compiler.library.fourier import FourierRoutine
from curta.compiler.library.stockham import roots
from curta.compiler.machine_code.linked import link


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def check(fun, expected, x):
    with curta.enable_x64(True):
        found = native(fun, x)
    single = found.dtype in (np.complex64, np.float32)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    bound = (5e-6 if single else 1e-14) * abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=bound, rtol=0)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    "shape",
    [(1,), (2,), (7,), (3, 5), (40, 12), (64,), (1000,), (3, 143), (5, 2048)],
)
def test_rows(shape, dtype):
    x = numbers(shape, dtype)
    check(lambda x: jnp.fft.fft(x), np.fft.fft(x), x)
    check(lambda x: jnp.fft.ifft(x), np.fft.ifft(x), x)


@pytest.mark.parametrize("size", [17, 37, 74, 101, 281])
def test_lengths_with_large_prime_factors(size):
    x = numbers((16, size), "complex128")
    check(lambda x: jnp.fft.fft(x), np.fft.fft(x), x)
    check(lambda x: jnp.fft.ifft(x.T, axis=0), np.fft.ifft(x.T, axis=0), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 2, 4, 6, 9, 34, 256])
def test_real_rows(size, dtype):
    x = numbers((3, size), dtype)
    check(lambda x: jnp.fft.rfft(x), np.fft.rfft(x), x)
    half = numbers((3, size // 2 + 1), np.result_type(dtype, np.complex64))
    # The imaginary parts of the ends do not count.
    expected = np.fft.irfft(half, size)
    check(lambda x: jnp.fft.irfft(x, size), expected, half)


@pytest.mark.parametrize("shape", [(20, 33), (5, 6, 2), (3, 4, 5), (9000, 9)])
def test_several_dims(shape):
    x = numbers(shape, "complex64")
    check(lambda x: jnp.fft.fftn(x), np.fft.fftn(x), x)
    check(lambda x: jnp.fft.ifft(x, axis=0), np.fft.ifft(x, axis=0), x)
    check(lambda x: jnp.fft.rfftn(x), np.fft.rfftn(x.real), x.real)
    check(lambda x: jnp.fft.irfftn(x), np.fft.irfftn(x), x)


def run(routine, x):
    """The result of a routine that needs no threads."""
    assert routine.chunks == routine.steps == 1
    arrays = np.empty_like(x), x, routine.table(), np.empty(routine.scratch, np.uint8)
    (code,) = link(routine_call(routine, code_generator.GOOD, host()).code)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(code.address)
    call(*(a.ctypes.data for a in arrays), None)
    return arrays[0]


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize(
    ("shape", "how"),
    [((20, 12, 1), "rows"), ((1, 150, 1), "split"), ((2, 8, 33), "columns")],
)
def test_every_layout_by_vectors_of_every_width(width, shape, how):
    for inverse, function in ((False, np.fft.fft), (True, np.fft.ifft)):
        routine = FourierRoutine(*shape, "f64", inverse, width, tuning=host().tuning)
        assert routine.layout[0] == how and routine.lanes > 1
        x = numbers(shape, "complex128")
        np.testing.assert_allclose(run(routine, x), function(x, axis=1), atol=1e-13)


def test_long_rows_are_shared_out():
    whole = FourierRoutine(1, 1 << 16, 1, "f32", False, 64, tuning=host().tuning)
    assert whole.chunks == 1 and whole.steps > 1
    assert (
        FourierRoutine(256, 1024, 1, "f32", False, 64, tuning=host().tuning).chunks > 1
    )
    x = numbers((1 << 16,), "complex64")
    check(lambda x: jnp.fft.fft(x), np.fft.fft(x), x)


def test_lengths_of_butterflies():
    assert radices(1) == [] and radices(16) == [4, 4] and radices(2) == [2]
    assert radices(37) is None and radices(2 * 3 * 5 * 7 * 11 * 13) is not None
    for size in (8, 12, 1024, 360):
        assert np.prod(radices(size)) == size


def test_roots_of_unity_are_exact_where_they_can_be():
    found = roots(np.arange(8), 8, 1)
    assert found[0] == 1 and found[2] == 1j and found[4] == -1 and found[6] == -1j
    np.testing.assert_array_equal(roots(np.arange(8), 8, -1), found.conj())


def test_empty_and_special_values():
    empty = np.zeros((0, 4), "complex64")
    assert curta.jit(jnp.fft.fft)(empty).shape == (0, 4)
    x = np.zeros((2, 16), "complex64")
    x[0, 3] = np.nan
    found = np.asarray(curta.jit(jnp.fft.fft)(x))
    assert np.isnan(found[0]).all() and (found[1] == 0).all()
    # The ends of a transform of real numbers are real, whatever these are.
    found = np.asarray(curta.jit(jnp.fft.rfft)(np.float32([np.inf, 1, 2, 3])))
    assert (found.real[[0, 2]] == np.inf).all() and (found.imag[[0, 2]] == 0).all()


def test_in_a_loop_under_vmap_and_differentiated():
    x = numbers((6, 32), "float32")

    def smoothed(x):
        def step(carry, _):
            spectrum = jnp.fft.rfft(carry) * jnp.exp(-jnp.arange(17.0))
            return jnp.fft.irfft(spectrum, 32), spectrum[1]

        return lax.scan(step, x, None, length=3)

    def expected(x):
        for _ in range(3):
            x = np.fft.irfft(np.fft.rfft(x) * np.exp(-np.arange(17.0)), 32)
        return x

    batch = curta.vmap(lambda x: smoothed(x)[0])
    np.testing.assert_allclose(native(batch, x), expected(x), atol=1e-5)
    slope = native(curta.grad(lambda x: (smoothed(x)[0] * x[0]).sum()), x[1])
    step = np.eye(32, dtype="float32")[5] * 1e-2
    value = [(expected(x[1] + s) * (x[1] + s)[0]).sum() for s in (step, -step)]
    np.testing.assert_allclose(slope[5], (value[0] - value[1]) / 2e-2, rtol=1e-2)
