"""Spectra of signals, by Fourier transforms of windowed segments."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta._base.user_warnings import warn
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import canonical_axis, concrete, ensure_arraylike
from curta.numpy.promotion import promote_dtypes_inexact
from curta.scipy.signal.detrending import Detrend, detrending
from curta.scipy.signal.windows import window as named_window


class _Segments(NamedTuple):
    """How a signal is cut: lengths in samples, and the window."""

    length: int
    overlap: int
    nfft: int
    window: Any

    @property
    def step(self) -> int:
        return self.length - self.overlap


def _segments(
    window: Any, nperseg: Any, noverlap: Any, nfft: Any, size: int, dtype: Any
) -> _Segments:
    if nperseg is not None:
        nperseg = concrete(nperseg, "nperseg of windowed-FFT", int)
        if nperseg < 1:
            raise ValueError("nperseg must be a positive integer")
    if isinstance(window, (str, tuple)):
        length = 256 if nperseg is None else nperseg
        if length > size:
            warn(
                f"nperseg={length} is greater than signal length max(len(x), len(y)) ="
                f" {size}, using nperseg={size}",
            )
            length = size
        values = jnp.asarray(named_window(window, length).astype(dtype))
    else:
        values = jnp.asarray(window)
        if values.ndim != 1:
            raise ValueError("window must be 1-D")
        length = values.shape[0] if nperseg is None else nperseg
        if size < values.shape[0]:
            raise ValueError("window is longer than input signal")
        if length != values.shape[0]:
            raise ValueError(
                "value specified for nperseg is different from length of window"
            )
    overlap = length // 2
    if noverlap is not None:
        overlap = concrete(noverlap, "noverlap of windowed-FFT", int)
    points = length if nfft is None else concrete(nfft, "nfft of windowed-FFT", int)
    if points < length:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    if overlap >= length:
        raise ValueError("noverlap must be less than nperseg.")
    return _Segments(length, overlap, points, values)


def _odd_extension(x: Any, n: int) -> Any:
    if n < 1:
        return x
    if n > x.shape[-1] - 1:
        raise ValueError(
            f"The extension length n ({n}) is too big. It must not exceed"
            f" x.shape[axis]-1, which is {x.shape[-1] - 1}."
        )
    left = 2 * x[..., :1] - jnp.flip(x[..., 1 : n + 1], -1)
    right = 2 * x[..., -1:] - jnp.flip(x[..., -(n + 1) : -1], -1)
    return jnp.concatenate([left, x, right], axis=-1)


def _padded_by(mode: str) -> Callable[[Any, int], Any]:
    return lambda x, n: jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(n, n)], mode)


_BOUNDARIES: dict[str | None, Callable[[Any, int], Any]] = {
    "even": _padded_by("reflect"),
    "odd": _odd_extension,
    "constant": _padded_by("edge"),
    "zeros": _padded_by("constant"),
    None: lambda x, n: x,
}


def _windowed(segments: Any, window: Any) -> Any:
    return segments * jnp.broadcast_to(window, segments.shape)


def _spectra(
    x: Any, cut: _Segments, trend: Callable[[Any], Any], onesided: bool
) -> Any:
    """The transforms of the segments: (..., segments, frequencies)."""
    starts = np.arange(0, x.shape[-1] - cut.length + 1, cut.step)
    segments = x[..., starts[:, None] + np.arange(cut.length)]
    segments = _windowed(trend(segments), cut.window)
    if onesided:
        return jnp.fft.rfft(segments.real, n=cut.nfft)
    return jnp.fft.fft(segments, n=cut.nfft)


def _operands(x: Any, y: Any, axis: int) -> tuple[Any, Any, int]:
    """Both signals with time last and of one length; y is None if it was."""
    axis = concrete(axis, "axis of windowed-FFT", operator.index)
    x = ensure_arraylike("spectral_helper", x)
    axis = canonical_axis(axis, x.ndim)
    if y is None:
        (x,) = promote_dtypes_inexact(x)
        return jnp.moveaxis(x, axis, -1), None, axis
    y = ensure_arraylike("spectral_helper", y)
    x, y = promote_dtypes_inexact(x, y)
    if x.ndim != y.ndim:
        raise ValueError(
            f"two-arguments must have the same rank ({x.ndim} vs {y.ndim})."
        )
    x, y = jnp.moveaxis(x, axis, -1), jnp.moveaxis(y, axis, -1)
    try:
        jnp.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    except ValueError as error:
        raise ValueError("x and y cannot be broadcast together.") from error
    size = max(x.shape[-1], y.shape[-1])
    if x.size and y.size:
        x, y = (
            jnp.pad(s, [(0, 0)] * (s.ndim - 1) + [(0, size - s.shape[-1])])
            for s in (x, y)
        )
    return x, y, axis


def _scaled(
    spectra: list[Any],
    cut: _Segments,
    fs: Any,
    scaling: str,
    amplitude: bool,
    onesided: bool,
) -> Any:
    """The spectra, or their products, per hertz or not."""
    if scaling == "density":
        scale = 1 / (fs * jnp.sum(cut.window * cut.window))
    else:
        scale = 1 / jnp.square(jnp.sum(cut.window))
    if amplitude:
        return spectra[0] * jnp.sqrt(scale).astype(spectra[0].dtype)
    result = jnp.conj(spectra[0]) * spectra[-1] * scale.astype(spectra[0].dtype)
    if onesided:  # the frequencies that are not there count with the others
        result = result.at[..., 1 : None if cut.nfft % 2 else -1].multiply(2)
    return result


def _times(cut: _Segments, size: int, dtype: Any, fs: Any, boundary: Any) -> Any:
    """The middles of the segments."""
    middle = cut.length / 2
    times = jnp.arange(middle, size - middle + 1, cut.step, dtype=dtype)
    return (times if boundary is None else times - middle) / fs


def _spectrogram(
    x: Any,
    y: Any,
    fs: Any,
    window: Any,
    lengths: tuple[Any, Any, Any],
    trend: Detrend,
    onesided: bool,
    scaling: str,
    axis: int,
    amplitude: bool = False,
    boundary: str | None = None,
    padded: bool = False,
) -> tuple[Any, Any, Any]:
    """Frequencies, times and spectra, with frequency at `axis` and time last."""
    if boundary not in _BOUNDARIES:
        raise ValueError(
            f"Unknown boundary option '{boundary}', must be one of: {list(_BOUNDARIES)}"
        )
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"Unknown scaling: {scaling}")
    x, y, axis = _operands(x, y, axis)
    wide = dtypes.to_complex_dtype(x.dtype)
    real = np.finfo(wide).dtype
    signals = [s for s in (x, y) if s is not None]
    if not all(s.size for s in signals):
        batch = jnp.broadcast_shapes(*(s.shape[:-1] for s in signals))
        shape = list(batch)
        shape.insert(axis, min(s.shape[-1] for s in signals))
        none = jnp.zeros(shape, real)
        return none, none, jnp.zeros(shape, wide)
    cut = _segments(window, *lengths, x.shape[-1], x.dtype)
    signals = [_BOUNDARIES[boundary](s, cut.length // 2) for s in signals]
    if padded:
        more = -(signals[0].shape[-1] - cut.length) % cut.step % cut.length
        signals = [jnp.pad(s, [(0, 0)] * (s.ndim - 1) + [(0, more)]) for s in signals]
    if onesided and any(jnp.iscomplexobj(s) for s in signals):
        warn("Input data is complex, switching to return_onesided=False")
        onesided = False
    spectra = [_spectra(s, cut, detrending(trend), onesided) for s in signals]
    result = _scaled(spectra, cut, fs, scaling, amplitude, onesided).astype(wide)
    frequencies = jnp.fft.rfftfreq if onesided else jnp.fft.fftfreq
    times = _times(cut, signals[0].shape[-1], real, fs, boundary)
    if y is None and not amplitude:
        result = result.real
    # Time is last already, frequency goes where time was.
    result = jnp.moveaxis(jnp.swapaxes(result, -1, -2), -2, axis)
    return frequencies(cut.nfft, 1 / fs, dtype=real), times, result


def stft(
    x: Array,
    fs: ArrayLike = 1.0,
    window: str = "hann",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Any, Any, Any]:
    """The Fourier transform of a signal in short windows.

    Args:
      x: array.
      fs: samples a second; 1 by default.
      window: the name of a window, a tuple of name and parameters, or an array.
      nperseg: the length of a segment; 256 by default.
      noverlap: how much neighbors share, by default half.
      nfft: the length of the transforms, at least `nperseg`, which is the default.
      detrend: "constant" or "linear", a function, or False: what each segment loses.
      return_onesided: leave out negative frequencies, unless x is complex.
      boundary: how the signal goes on beyond its ends: "even", "odd", "constant",
        "zeros", or None.
      padded: add zeros so that whole segments fit.
      axis: the time axis; the last by default.

    Returns:
      Frequencies, times of the segments, and the transforms, complex: frequency at
      `axis`, time last.

    Raises:
      ValueError: if lengths or names are invalid, or an axis is out of range.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import signal
    >>> frequencies, times, z = signal.stft(jnp.ones(8), nperseg=4)
    >>> print(frequencies, times, z.shape)
    [0.   0.25 0.5 ] [0. 2. 4. 6. 8.] (3, 5)
    """
    return _spectrogram(
        x,
        None,
        fs,
        window,
        (nperseg, noverlap, nfft),
        detrend,
        return_onesided,
        "spectrum",
        axis,
        amplitude=True,
        boundary=boundary,
        padded=padded,
    )


def csd(
    x: Array,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: str = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """The cross spectral density of two signals, by Welch's method.

    The mean over segments of conj(X) Y of their transforms: P. Welch, The use of fast
    Fourier transform for the estimation of power spectra (1967).

    Args:
      x: array.
      y: the other signal; None for the spectrum of x itself.
      fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis: as for
        `stft`, but "constant" is the default of `detrend`.
      scaling: "density" (per hertz) or "spectrum".
      average: over the segments: "mean" or "median" (without its bias).

    Returns:
      Frequencies and the density, complex unless y is None.

    Raises:
      ValueError: if lengths or names are invalid, or an axis is out of range.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import signal
    >>> x = jnp.cos(jnp.arange(16.0))
    >>> frequencies, density = signal.csd(x, x, nperseg=8)
    >>> print(density.shape, density.dtype)
    (5,) complex64
    """
    frequencies, _, density = _spectrogram(
        x,
        y,
        fs,
        window,
        (nperseg, noverlap, nfft),
        detrend,
        return_onesided,
        scaling,
        axis,
    )
    if average not in ("mean", "median"):
        raise ValueError(f'average must be "median" or "mean", got {average}')
    if density.ndim < 2 or not density.size:
        return frequencies, density
    if average == "mean":
        return frequencies, density.mean(axis=-1)
    bias = np.asarray(_median_bias(density.shape[-1]), density.real.dtype)
    middle = jnp.median(density.real, axis=-1) / bias
    if jnp.iscomplexobj(density):
        middle = lax.complex(middle, jnp.median(density.imag, axis=-1) / bias)
    return frequencies, middle


def _median_bias(n: int) -> float:
    """The ratio of the expected median of n periodograms to their mean.

    B. Allen et al., FINDCHIRP (2012), appendix B.
    """
    even = 2.0 * np.arange(1, (n - 1) // 2 + 1)
    return 1 + float(np.sum(1 / (even + 1) - 1 / even))


def welch(
    x: Array,
    fs: ArrayLike = 1.0,
    window: str = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:
    """The spectral density of a signal, by Welch's method.

    Args:
      x, fs, window, nperseg, noverlap, nfft: as for `csd`.
      detrend, return_onesided, scaling, axis, average: as for `csd`.

    Returns:
      Frequencies and the density, real.

    Raises:
      ValueError, TypeError: where `csd` does.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import signal
    >>> frequencies, density = signal.welch(jnp.ones(16), nperseg=8)
    >>> print(frequencies, density.round(4))
    [0.    0.125 0.25  0.375 0.5  ] [0. 0. 0. 0. 0.]
    """
    frequencies, density = csd(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        average,
    )
    return frequencies, density.real


def istft(
    Zxx: Array,
    fs: ArrayLike = 1.0,
    window: str = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Any, Any]:
    """The inverse of `stft`: the signal whose transform is `Zxx`.

    Args:
      Zxx: array of at least two dims.
      fs, window, nperseg, noverlap, nfft: as `stft` had them.
      input_onesided: whether negative frequencies are left out.
      boundary: cut off what `stft` had added at the ends.
      time_axis, freq_axis: where the segments and the frequencies are.

    Returns:
      Times and the signal, real if `input_onesided`.

    Raises:
      ValueError: for lengths, names and axes that do not fit.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import signal
    >>> *_, z = signal.stft(jnp.arange(8.0), nperseg=4)
    >>> times, x = signal.istft(z, nperseg=4)
    >>> x.round(3)
    Array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32)
    """
    z = ensure_arraylike("istft", Zxx)
    if z.ndim < 2:
        raise ValueError("Input stft must be at least 2d!")
    freq_axis, time_axis = (canonical_axis(a, z.ndim) for a in (freq_axis, time_axis))
    if freq_axis == time_axis:
        raise ValueError("Must specify differing time and frequency axes!")
    z = z.astype(dtypes.to_complex_dtype(z.dtype))
    count = z.shape[freq_axis]
    points = 2 * (count - 1) if input_onesided else count
    length = concrete(nperseg or points, "nperseg: segment length of STFT", int)
    if length < 1:
        raise ValueError("nperseg must be a positive integer")
    if nfft is not None:
        points = concrete(nfft, "nfft of STFT", int)
    elif input_onesided and length == points + 1:
        points += 1  # an odd length
    if points < length:
        raise ValueError(
            f"FFT length ({points}) must be longer than nperseg ({length})."
        )
    overlap = concrete(noverlap or length // 2, "noverlap of STFT", int)
    if overlap >= length:
        raise ValueError("noverlap must be less than nperseg.")
    z = jnp.moveaxis(z, (time_axis, freq_axis), (-2, -1))
    invert = jnp.fft.irfft if input_onesided else jnp.fft.ifft
    segments = invert(z, n=points)[..., :length]
    weights = _inverse_window(window, length, segments.dtype)
    x = _overlapped(_windowed(segments, jnp.sum(weights) * weights), length - overlap)
    squares = jnp.broadcast_to(weights * weights, segments.shape[-2:])
    norm = _overlapped(squares, length - overlap)
    if boundary:
        x, norm = (s[..., length // 2 : -(length // 2)] for s in (x, norm))
    x = x / jnp.broadcast_to(jnp.where(norm > 1e-10, norm, 1), x.shape)
    times = jnp.arange(x.shape[-1], dtype=np.finfo(x.dtype).dtype) / fs
    # Time stays where it was, but for the axis of frequencies before it.
    return times, jnp.moveaxis(x, -1, time_axis - (freq_axis < time_axis))


def _inverse_window(window: Any, length: int, dtype: Any) -> Any:
    if isinstance(window, (str, tuple)):
        return jnp.asarray(named_window(window, length).astype(dtype))
    window = jnp.asarray(window)
    if window.ndim != 1:
        raise ValueError("window must be 1-D")
    if window.shape[0] != length:
        raise ValueError(f"window must have length of {length}")
    return window


def _overlapped(segments: Any, step: int) -> Any:
    """The sum of segments (..., n, length), each `step` after the one before."""
    *batch, n, length = segments.shape
    positions = np.arange(n)[:, None] * step + np.arange(length)
    out = jnp.zeros((*batch, step * (n - 1) + length), segments.dtype)
    return out.at[..., positions].add(segments)
