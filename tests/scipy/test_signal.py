"""Cosine transforms, convolutions and spectra against SciPy."""

import numpy as np
import pytest
import scipy.fft
import scipy.signal

import curta
from curta.scipy import fft, signal
from curta.test_util import check_grads

RNG = np.random.default_rng(0)


def close(got, want, tolerance=2e-4):
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["dct", "idct"])
@pytest.mark.parametrize("norm", [None, "backward", "ortho"])
@pytest.mark.parametrize("n, axis", [(None, -1), (5, 0), (2, 1), (9, -1)])
def test_dct(name, norm, n, axis):
    for x in RNG.normal(size=(4, 6)), RNG.normal(size=(4, 6)) * (1 + 2j):
        x = x.astype(np.complex64 if np.iscomplexobj(x) else np.float32)
        got = getattr(fft, name)(x, n=n, axis=axis, norm=norm)
        want = getattr(scipy.fft, name)(x, n=n, axis=axis, norm=norm)
        assert got.dtype == x.dtype
        close(got, want)


@pytest.mark.parametrize("name", ["dctn", "idctn"])
@pytest.mark.parametrize(
    "s, axes", [(None, None), ((3, 5), None), ((3, 5), (0, 2)), (None, (1,)), (3, (1,))]
)
def test_dctn(name, s, axes):
    x = RNG.normal(size=(4, 6, 5)).astype(np.float32)
    close(
        getattr(fft, name)(x, s=s, axes=axes),
        getattr(scipy.fft, name)(x, s=s, axes=axes),
    )


def test_cosine_transforms_have_derivatives():
    x = RNG.normal(size=(3, 4))
    with curta.enable_x64(True):
        check_grads(fft.dctn, (x,), 1)
        check_grads(fft.idct, (x,), 1)


def test_mistakes_with_cosine_transforms():
    with pytest.raises(NotImplementedError, match="Only DCT type 2"):
        fft.dct(np.ones(3), type=3)
    with pytest.raises(ValueError, match="norm='forward' is not implemented"):
        fft.dct(np.ones(3), norm="forward")
    with pytest.raises(ValueError, match="s must have at most x.ndim"):
        fft.dctn(np.ones(3), s=(1, 2))


SHAPES = [((9,), (4,)), ((4,), (9,)), ((6, 7), (3, 2)), ((3, 4, 5), (3, 2, 2))]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_convolutions(mode, shapes, dtype):
    a, b = (RNG.normal(size=s).astype(dtype) for s in shapes)
    if dtype == np.complex64:
        b = b * (1 - 2j)
    close(signal.convolve(a, b, mode), scipy.signal.convolve(a, b, mode))
    close(signal.convolve(a, b, mode, "fft"), scipy.signal.convolve(a, b, mode))
    close(signal.correlate(a, b, mode), scipy.signal.correlate(a, b, mode))
    if a.ndim == 2:
        for x, y in (a, b), (b, a), (a, a):
            close(signal.convolve2d(x, y, mode), scipy.signal.convolve2d(x, y, mode))
            close(signal.correlate2d(x, y, mode), scipy.signal.correlate2d(x, y, mode))


def test_fftconvolve_over_some_axes():
    a, b = RNG.normal(size=(3, 5, 4)), RNG.normal(size=(3, 2, 4))
    for mode in "full", "same", "valid":
        want = scipy.signal.fftconvolve(a, b, mode, axes=1)
        close(signal.fftconvolve(a, b, mode, axes=1), want)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: signal.convolve([1.0], np.ones(1)), TypeError, "requires ndarray"),
        (
            lambda: signal.convolve(np.ones(2), np.ones((2, 2))),
            ValueError,
            "same number",
        ),
        (
            lambda: signal.convolve(np.ones(0), np.ones(1)),
            ValueError,
            "zero-size arrays",
        ),
        (
            lambda: signal.convolve(np.ones((1, 3)), np.ones((3, 1))),
            ValueError,
            "One input must be smaller",
        ),
        (
            lambda: signal.convolve(np.ones(1), np.ones(1), "x"),
            ValueError,
            "mode must be",
        ),
        (
            lambda: signal.convolve2d(np.eye(2), np.eye(2), boundary="wrap"),
            NotImplementedError,
            "only supports boundary='fill'",
        ),
        (
            lambda: signal.fftconvolve(np.ones((2, 3)), np.ones((3, 3)), axes=1),
            ValueError,
            "mapped axes must have same shape",
        ),
    ],
)
def test_mistakes_with_convolutions(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("type", ["constant", "linear"])
@pytest.mark.parametrize("bp", [0, [3, 7]])
def test_detrend(type, bp):
    x = RNG.normal(size=(3, 12, 2)).cumsum(1).astype(np.float32)
    close(signal.detrend(x, 1, type, bp), scipy.signal.detrend(x, 1, type, bp))


WINDOWS = [
    *("boxcar", "hann", "hamming", "blackman", "nuttall", "blackmanharris", "flattop"),
    *("bartlett", "triang", "cosine", "tukey"),
    *(("kaiser", 5.0), ("gaussian", 2.5), ("tukey", 0.2)),
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("length", [1, 8, 9])
def test_windows(window, length):
    x = RNG.normal(size=40).astype(np.float32)
    got = signal.welch(x, window=window, nperseg=length, detrend=False, noverlap=0)
    want = scipy.signal.welch(
        x, window=window, nperseg=length, detrend=False, noverlap=0
    )
    close(got[1], want[1])


SPECTRA = [
    {"nperseg": 16},
    {"nperseg": 15, "noverlap": 4, "nfft": 20, "fs": 3.0},
    {"nperseg": 16, "detrend": "linear", "return_onesided": False},
    {"window": np.linspace(0.1, 1, 12), "nperseg": 12},
    {"nperseg": 16, "axis": 0},
]


@pytest.mark.parametrize("options", SPECTRA, ids=str)
@pytest.mark.parametrize("average", ["mean", "median"])
@pytest.mark.parametrize("scaling", ["density", "spectrum"])
def test_densities(options, average, scaling):
    x, y = RNG.normal(size=(2, 50, 60)).astype(np.float32)
    more = {**options, "average": average, "scaling": scaling}
    for got, want in zip(signal.welch(x, **more), scipy.signal.welch(x, **more)):
        close(got, want)
    for got, want in zip(signal.csd(x, y, **more), scipy.signal.csd(x, y, **more)):
        close(got, want)


@pytest.mark.parametrize("options", SPECTRA, ids=str)
@pytest.mark.parametrize("boundary", ["zeros", "even", "odd", "constant", None])
def test_stft(options, boundary):
    x = RNG.normal(size=(50, 60)).astype(np.float32)
    got = signal.stft(x, boundary=boundary, **options)
    want = scipy.signal.stft(x, boundary=boundary, **options)
    for mine, theirs in zip(got, want):
        close(mine, theirs)


def test_istft():
    x = RNG.normal(size=(3, 60)).astype(np.float32)
    for options in {"nperseg": 16}, {"nperseg": 15}, {"nperseg": 16, "noverlap": 12}:
        *_, z = scipy.signal.stft(x, **options)
        times, got = signal.istft(z, **options)
        close(got, scipy.signal.istft(z, **options)[1])
        close(times, np.arange(got.shape[-1]))
    turned = np.moveaxis(z, (-1, -2), (0, 1))
    got = signal.istft(turned, time_axis=0, freq_axis=1, **options)
    want = scipy.signal.istft(turned, time_axis=0, freq_axis=1, **options)
    close(got[1], want[1])


def test_spectra_have_derivatives():
    x = RNG.normal(size=30)
    with curta.enable_x64(True):
        check_grads(lambda x: signal.welch(x, nperseg=8)[1], (x,), 1)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: signal.welch(x, window="magic"), "Invalid window name"),
        (lambda x: signal.welch(x, nperseg=0), "nperseg must be a positive integer"),
        (lambda x: signal.welch(x, nperseg=8, noverlap=8), "must be less than nperseg"),
        (lambda x: signal.welch(x, nperseg=8, nfft=4), "nfft must be greater than"),
        (lambda x: signal.welch(x, scaling="x"), "Unknown scaling: x"),
        (lambda x: signal.welch(x, average="x", nperseg=8), "average must be"),
        (lambda x: signal.stft(x, boundary="x"), "Unknown boundary option 'x'"),
        (lambda x: signal.csd(x, np.ones((2, 2))), "must have the same rank"),
        (lambda x: signal.istft(x), "Input stft must be at least 2d"),
        (lambda x: signal.detrend(x, type="x"), "Trend type must be"),
        (lambda x: signal.detrend(x, bp=99), "Breakpoints must be non-negative"),
    ],
)
@pytest.mark.filterwarnings("ignore:nperseg=256 is greater")
def test_mistakes_with_spectra(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.ones(20, np.float32))
