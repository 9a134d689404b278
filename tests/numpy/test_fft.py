"""`curta.numpy.fft` against NumPy; `lax.fft`, gradients, errors."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
REAL = RNG.normal(size=(3, 4, 5)).astype(np.float32)
COMPLEX = (REAL + 1j * RNG.normal(size=REAL.shape)).astype(np.complex64)

ONE_AXIS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
TWO_AXES = ("fft2", "ifft2", "rfft2", "irfft2")
ALL_AXES = ("fftn", "ifftn", "rfftn", "irfftn")


def operand(name):
    return REAL if name.startswith(("rfft", "ihfft")) else COMPLEX


@pytest.mark.parametrize("name", ONE_AXIS)
def test_along_one_axis(name):
    ours, numpys = getattr(jnp.fft, name), getattr(np.fft, name)
    for keywords in (
        {}, {"n": 3}, {"n": 8}, {"axis": 0}, {"axis": -2, "n": 6},
        {"norm": "ortho"}, {"norm": "forward"}, {"norm": "backward", "n": 5},
    ):  # fmt: skip
        wanted = numpys(operand(name), **keywords)
        if "hfft" in name and "norm" in keywords:
            continue
        out = ours(operand(name), **keywords)
        np.testing.assert_allclose(out, wanted, 1e-4, 1e-5, err_msg=str(keywords))
        assert out.dtype in (np.float32, np.complex64)


@pytest.mark.parametrize("name", [*TWO_AXES, *ALL_AXES])
def test_along_several_axes(name):
    ours, numpys = getattr(jnp.fft, name), getattr(np.fft, name)
    for keywords in (
        {}, {"axes": (0, 1)}, {"axes": (2, 0), "s": (4, 6)},
        {"s": (3, 4), "axes": (1, 2)}, {"norm": "ortho"},
    ):  # fmt: skip
        wanted = numpys(operand(name), **keywords)
        out = ours(operand(name), **keywords)
        np.testing.assert_allclose(out, wanted, 1e-4, 1e-5, err_msg=str(keywords))
        compiled = curta.jit(lambda x: ours(x, **keywords))  # noqa: B023
        np.testing.assert_allclose(compiled(operand(name)), wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("name", ["irfft", "hfft", "irfft2", "irfftn"])
def test_inverses_of_length_one_are_empty(name):
    """Along any axis: 2 (1 - 1) numbers, in the place of that axis."""
    x = np.ones((1, 4, 3), np.complex64)
    axes = {"axis": 0} if name in ONE_AXIS else {"axes": (1, 0)}
    for norm in None, "ortho":
        assert getattr(jnp.fft, name)(x, norm=norm, **axes).shape == (0, 4, 3)


@pytest.mark.parametrize("name", ["fft", "ifft"])
def test_transforms_of_nothing(name):
    for norm in None, "ortho", "forward":
        out = getattr(jnp.fft, name)(np.ones((2, 0), np.complex64), norm=norm)
        assert out.shape == (2, 0)


def test_more_than_three_dims():
    x = RNG.normal(size=(2, 3, 2, 2, 3)).astype(np.float32)
    np.testing.assert_allclose(jnp.fft.fftn(x), np.fft.fftn(x), 1e-4, 1e-4)
    np.testing.assert_allclose(jnp.fft.irfftn(x), np.fft.irfftn(x), 1e-4, 1e-4)


@pytest.mark.parametrize("name", [*ONE_AXIS, *ALL_AXES])
def test_gradients(name):
    x = operand(name)[:2, :3].astype(
        np.complex128 if operand(name) is COMPLEX else float
    )
    with curta.enable_x64(True):
        check_grads(getattr(jnp.fft, name), (x,), 2)


def test_frequencies_and_shifts():
    for n in 4, 5:
        np.testing.assert_allclose(jnp.fft.fftfreq(n, 0.5), np.fft.fftfreq(n, 0.5))
        np.testing.assert_allclose(jnp.fft.rfftfreq(n, 0.5), np.fft.rfftfreq(n, 0.5))
        x = np.arange(2 * n).reshape(2, n)
        for axes in None, 1, (0, 1), -1:
            shifted = jnp.fft.fftshift(x, axes)
            np.testing.assert_array_equal(shifted, np.fft.fftshift(x, axes))
            np.testing.assert_array_equal(jnp.fft.ifftshift(shifted, axes), x)
    assert jnp.fft.fftfreq(4, dtype=jnp.float16).dtype == jnp.float16
    with pytest.raises(ValueError, match="only takes an int"):
        jnp.fft.fftfreq([4])
    with pytest.raises(ValueError, match="only takes a single value"):
        jnp.fft.rfftfreq(4, (0.5,))


def test_jaxpr():
    jaxpr = str(curta.make_jaxpr(lambda x: lax.fft(x, "fft", (4, 5)))(REAL))
    assert "fft[fft_lengths=(4, 5) fft_type=0]" in jaxpr
    assert "name=fft" in jaxpr


def test_dtypes_and_empty_arrays():
    assert jnp.fft.rfft(np.arange(4)).dtype == np.complex64
    with curta.enable_x64(True):
        assert jnp.fft.fft(np.arange(4)).dtype == np.complex128
    assert jnp.fft.fft(np.zeros((0, 4), np.float32)).shape == (0, 4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: jnp.fft.rfft(COMPLEX), ValueError, "only real valued inputs"),
        (lambda: jnp.fft.fft(REAL, 0), ValueError, "Shape should be positive"),
        (lambda: jnp.fft.fft(REAL, axis=(0, 1)), ValueError, "does not support mult"),
        (lambda: jnp.fft.fftn(REAL, axes=(1, 1)), ValueError, "repeated axes"),
        (lambda: jnp.fft.fftn(REAL, (2,), (0, 1)), ValueError, "different lengths"),
        (lambda: jnp.fft.fft2(REAL, axes=(0,)), ValueError, "only supports 2 axes"),
        (lambda: jnp.fft.fft(REAL, norm="odd"), ValueError, "Invalid norm value odd"),
        (lambda: lax.fft(REAL, "dct", (5,)), ValueError, "Unknown FFT type"),
        (lambda: lax.fft(REAL, 7, (5,)), TypeError, "Unknown FFT type value"),
        (lambda: lax.fft(REAL, "fft", (4,)), ValueError, "FFT input shape"),
        (lambda: lax.fft(REAL, "rfft", (4,)), ValueError, "RFFT input shape"),
        (lambda: lax.fft(REAL, "irfft", (3, 4)), ValueError, "IRFFT input shape"),
        (lambda: lax.fft(REAL[0, 0], "fft", (1, 5)), ValueError, "must have at least"),
        (
            lambda: jnp.fft.rfft(REAL.astype("float16")),
            ValueError,
            "RFFT input must be",
        ),
        (lambda: jnp.fft.fft([1.0]), TypeError, "requires ndarray or scalar"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()
