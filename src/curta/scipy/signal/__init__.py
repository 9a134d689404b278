"""Signal processing, as in `scipy.signal`."""

from curta.scipy.signal.convolution import (
    convolve as convolve,
    convolve2d as convolve2d,
    correlate as correlate,
    correlate2d as correlate2d,
    fftconvolve as fftconvolve,
)
from curta.scipy.signal.spectral import (
    csd as csd,
    detrend as detrend,
    istft as istft,
    stft as stft,
    welch as welch,
)
