"""Discrete Fourier transforms over the last dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.api.inner import inner_jit
from curta.core.array import Array
from curta.core.dim import as_dim
from curta.core.trace import typeof
from curta.lax.conversion import convert_element_type
from curta.primitives.fft import Fft, FftType


def _kind(fft_type: Any) -> FftType:
    if isinstance(fft_type, FftType):
        return fft_type
    if not isinstance(fft_type, str):
        raise TypeError(f"Unknown FFT type value '{fft_type}'")
    if fft_type not in ("fft", "ifft", "rfft", "irfft", *FftType.__members__):
        raise ValueError(
            f"Unknown FFT type '{fft_type}'; known are fft, ifft, rfft and irfft"
        )
    return FftType[fft_type.upper()]


@inner_jit(static_argnames=("fft_type", "fft_lengths"))
def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """The Fourier transform over the last dims, which have `fft_lengths` elements.

    X_k = sum over j of x_j exp(-2 pi i j k / n); inverse transforms have the other sign
    and are divided by the number of elements.

    Args:
      x: real numbers for RFFT, complex ones otherwise; others are converted. For IRFFT
        the last dim has `fft_lengths[-1] // 2 + 1` elements.
      fft_type: a `FftType`, or "fft", "ifft", "rfft", "irfft".
      fft_lengths: the sizes of the transformed dims.

    Returns:
      Complex numbers, real ones for IRFFT, of the precision of `x`. For RFFT the last
      dim has `fft_lengths[-1] // 2 + 1` elements.

    Raises:
      ValueError: for lengths that do not fit, an unknown type, and an RFFT of complex
        numbers.
      TypeError: if an argument is not an array.

    >>> import curta
    >>> curta.lax.fft(curta.numpy.arange(4.), "rfft", (4,))
    Array([ 6.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    kind, dtype = _kind(fft_type), typeof(x).dtype
    if kind is FftType.RFFT:
        if dtypes.issubdtype(dtype, np.complexfloating):
            raise ValueError("only real valued inputs supported for rfft")
        x = convert_element_type(x, dtypes.to_inexact_dtype(dtype))
    else:
        x = convert_element_type(x, dtypes.to_complex_dtype(dtype))
    if not len(fft_lengths):
        return x
    try:
        lengths = tuple(map(as_dim, fft_lengths))
    except TypeError:
        raise ValueError(
            f"FFT input shape {typeof(x).shape} minor dimensions must be equal to"
            f" fft_lengths {tuple(fft_lengths)}, which are to be integers."
        ) from None
    return Fft(kind, lengths)(x)
