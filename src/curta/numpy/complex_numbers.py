"""Parts of complex numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inlined_jit, inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import alias, ensure_arraylike, ensure_operand, is_complex
from curta.numpy.trigonometry import rad2deg


@inlined_jit
def real(val: Any, /) -> Array:
    """The real part, in an array of its own.

    >>> from curta import numpy as jnp
    >>> jnp.real(jnp.array([1 + 2j]))
    Array([1.], dtype=float32)
    """
    val = ensure_operand("real", val)
    return lax.real(val) if is_complex(val) else val


@inlined_jit
def imag(val: Any, /) -> Array:
    """The imaginary part; zeros for real arrays.

    >>> from curta import numpy as jnp
    >>> jnp.imag(jnp.array([1 + 2j]))
    Array([2.], dtype=float32)
    """
    val = ensure_operand("imag", val)
    return lax.imag(val) if is_complex(val) else lax.full_like(val, 0)


@inlined_jit
def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate; a new array of the same elements for real arrays.

    >>> from curta import numpy as jnp
    >>> jnp.conjugate(jnp.array([1 + 2j]))
    Array([1.-2.j], dtype=complex64)
    """
    x = ensure_operand("conjugate", x)
    return lax.conj(x) if is_complex(x) else x


conj: Callable[[ArrayLike], Array] = alias("conj", conjugate)


@inner_jit(static_argnames=("deg",))
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The argument of a complex number, in radians or degrees.

    >>> from curta import numpy as jnp
    >>> jnp.angle(jnp.array([1.0, 1j]), deg=True).round(2)
    Array([ 0., 90.], dtype=float32)
    """
    z = ensure_arraylike("angle", z)
    re, im = real(z), imag(z)
    floating = dtypes.issubdtype(z.dtype, np.floating)
    if not dtypes.issubdtype(re.dtype, np.inexact) or (floating and z.ndim == 0):
        dtype = dtypes.default_float_dtype()
        re = lax.convert_element_type(re, dtype)
        im = lax.convert_element_type(im, dtype)
    out = lax.atan2(im, re)
    return rad2deg(out) if deg else out
