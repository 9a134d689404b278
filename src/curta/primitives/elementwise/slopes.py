"""Derivatives of several operations that neither cancel nor overflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes
from curta.core.trace import typeof
from curta.primitives.base import const, full_like, scalar_like
from curta.primitives.elementwise.arithmetic import (
    add,
    integer_pow,
    mul,
    one_minus_square,
    square,
)
from curta.primitives.elementwise.comparison import eq
from curta.primitives.elementwise.complex import complex_, imag, real
from curta.primitives.elementwise.convert import stop_gradient
from curta.primitives.elementwise.magnitude import abs_, max_
from curta.primitives.elementwise.powers import rsqrt
from curta.primitives.elementwise.select import clamp, select


def asinh_slope(x: Any) -> Any:
    """1 / sqrt(x**2 + 1), by parts of 1 + x**2 that are divided by a power of two.

    The divisor is 1 for all but large x, and no square overflows. Of complex x the
    real part is the sum of a square and `one_minus_square`, which does not cancel
    near the branch points (of large x its 1 is less than a rounding), and the
    imaginary part keeps the sign of its zero.
    """
    dtype = typeof(x).dtype
    if dtype.kind != "c":
        shrunk = _shrinking(x, abs_(x))
        root = rsqrt(add(square(mul(x, shrunk)), square(shrunk)))
        return mul(shrunk, root)
    re, im = real(x), imag(x)
    largest = max_(abs_(re), abs_(im))
    shrunk = _shrinking(re, largest)
    a, b = mul(re, shrunk), mul(im, shrunk)
    product = mul(const(a, 2), mul(a, b))
    root = rsqrt(complex_(add(square(a), one_minus_square(b)), product))
    slope = complex_(mul(real(root), shrunk), mul(imag(root), shrunk))
    return select(eq(largest, const(re, np.inf)), full_like(x, 0), slope)


def _shrinking(x: Any, largest: Any) -> Any:
    """The number that x is multiplied by: 1 / clamp(1, largest / 2**k, 2**m)."""
    half = dtypes.finfo(typeof(x).dtype).maxexp // 2
    scaled = mul(largest, const(x, 2.0 ** -(half - 2)))
    scale = clamp(scalar_like(x, 1), scaled, const(x, 2.0 ** (half + 2)))
    return integer_pow(stop_gradient(scale), -1)
