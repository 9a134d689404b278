"""Discrete Fourier transforms, as in NumPy."""

from curta.numpy.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from curta.numpy.fft.transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)
from curta.on_demand import without_parts as _without_parts

__dir__ = _without_parts(__name__)
