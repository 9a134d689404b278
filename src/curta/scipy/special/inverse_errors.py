"""The inverse of the complementary error function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from curta import lax, numpy as jnp
from curta.api.custom_derivatives import custom_jvp
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import inexact_operands
from curta.scipy.special.error_functions import ndtri


def erfcinv(y: ArrayLike) -> Array:
    """The inverse of erfc, accurate near 0 where erfinv(1 - y) is not.

    NaN outside of [0, 2]. Raises ValueError for complex numbers.

    >>> from curta.scipy import special
    >>> special.erfcinv(1.0)
    Array(0., dtype=float32)
    """
    (y,) = inexact_operands("erfcinv", y)
    if jnp.issubdtype(y.dtype, np.complexfloating):
        raise ValueError("erfcinv does not support complex-valued inputs.")
    if y.dtype.itemsize < 4:
        return lax.convert_element_type(_erfcinv(y.astype(np.float32)), y.dtype)
    return _erfcinv(y)


@custom_jvp
def _erfcinv(y: Any) -> Any:
    # erfc(x) = 2 ndtr(-x √2)
    return 0.0 - ndtri(0.5 * y) * (1 / math.sqrt(2))


@_erfcinv.defjvp
def _erfcinv_jvp(primals: Any, tangents: Any) -> Any:
    (y,), (t,) = primals, tangents
    x = _erfcinv(y)
    return x, t * (-0.5 * math.sqrt(math.pi)) * jnp.exp(x * x)
