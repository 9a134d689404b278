"""Exact values of elementwise functions, by mpmath, and errors in ULP of them.

The ULP of a complex value are those of the larger of its parts: a part that cancels
may lose digits, the number as a whole may not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import mpmath as mp
import numpy as np
import scipy.special

PRECISION = 180  # bits

Exact = Callable[..., Any]


def logistic(x: Any) -> Any:
    e = mp.exp(-abs(x)) if isinstance(x, mp.mpf) else mp.exp(-x)
    if isinstance(x, mp.mpf) and x < 0:
        return e / (1 + e)
    return 1 / (1 + e)


def lgamma(x: Any) -> Any:
    if x <= 0 and x == mp.floor(x):
        return mp.inf
    return mp.re(mp.loggamma(x))


def cbrt(x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


def erf_inv(x: Any) -> Any:
    if abs(x) >= 1:
        return mp.sign(x) * mp.inf if abs(x) == 1 else mp.nan
    if abs(x) < mp.mpf("1e-60"):
        return x * mp.sqrt(mp.pi) / 2
    # Newton's iteration from the double, in which nothing cancels near 1.
    a = abs(x)
    near = a > 0.5
    y = mp.mpf(
        float(
            scipy.special.erfcinv(float(1 - a))
            if near
            else scipy.special.erfinv(float(a))
        )
    )
    for _ in range(5):
        miss = (1 - a) - mp.erfc(y) if near else mp.erf(y) - a
        y = y - miss * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
    return mp.sign(x) * y


def erf_inv_of_rounded_square(x: Any) -> Any:
    """erf_inv, after the square of x is rounded to float32."""
    square = mp.mpf(float(np.float32(x) * np.float32(x)))
    return erf_inv(x if square < 1e-30 else mp.sign(x) * mp.sqrt(square))


def precise(exact: Exact) -> Exact:
    """With as many bits as the parts of a double may be apart."""

    def call(x: Any) -> Any:
        if isinstance(x, mp.mpf):
            return exact(x)
        with mp.workprec(2400):
            return exact(x)

    return call


def power(x: Any, y: Any) -> Any:
    if isinstance(x, mp.mpc) or isinstance(y, mp.mpc):
        return mp.power(x, y)
    if x < 0 and y != mp.floor(y):
        return mp.nan
    return mp.power(x, y)


def rounded(exact: Any, dtype: Any) -> Any:
    """An exact real value in a dtype, rounded to nearest once (float64 and below)."""
    dtype = np.dtype(dtype)
    if mp.isnan(exact):
        return dtype.type(np.nan)
    info = ml_dtypes.finfo(dtype)
    if mp.isinf(exact) or exact == 0:
        return dtype.type(float(exact))
    digits, least = info.nmant, int(info.minexp)
    exponent = max(mp.frexp(exact)[1] - 1, least)
    with mp.workprec(2 * PRECISION):
        unit = mp.ldexp(1, int(exponent) - digits)
        nearest = mp.nint(exact / unit) * unit
    if abs(nearest) > mp.mpf(float(info.max)):
        return dtype.type(np.copysign(np.inf, float(mp.sign(exact))))
    return dtype.type(float(nearest))


def unit(exact: Any, dtype: Any) -> Any:
    """The distance of the floats around an exact value."""
    info = ml_dtypes.finfo(np.dtype(dtype))
    least, most = int(info.minexp), int(info.maxexp) - 1
    exponent = least if exact == 0 else most
    if exact and not mp.isinf(exact):
        exponent = min(mp.frexp(exact)[1] - 1, most)
    return mp.ldexp(1, int(max(exponent, least)) - info.nmant)


def ulp_error(got: Any, exact: Any, dtype: Any, size: Any = None) -> float:
    """|got - exact| in ULP of exact (of `size`, if given); inf where one overflows or
    is NaN and the other not. Near the boundary, the largest float and infinity are both
    right."""
    info = ml_dtypes.finfo(np.dtype(dtype))
    got = float(got)
    if mp.isnan(exact) or np.isnan(got):
        return 0.0 if mp.isnan(exact) and np.isnan(got) else float("inf")
    most = mp.mpf(float(info.max))
    scale = unit(exact if size is None else size, dtype)
    clipped = [max(-most - scale, min(most + scale, v)) for v in (mp.mpf(got), exact)]
    return float(abs(clipped[0] - clipped[1]) / scale)
