"""Signal processing, as in `scipy.signal`."""

from curta._base.on_demand import without_parts as _without_parts
from curta.scipy.signal.convolution import (
    convolve as convolve,
    convolve2d as convolve2d,
    correlate as correlate,
    correlate2d as correlate2d,
    fftconvolve as fftconvolve,
)
from curta.scipy.signal.detrending import detrend as detrend
from curta.scipy.signal.spectral import (
    csd as csd,
    istft as istft,
    stft as stft,
    welch as welch,
)

__dir__ = _without_parts(__name__)
