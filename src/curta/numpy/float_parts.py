"""The make-up of floating point numbers: sign, exponent, neighbors."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.custom_derivatives import custom_jvp
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import ensure_arraylike, ensure_arraylikes, is_complex
from curta.numpy.constructors import asarray
from curta.numpy.promotion import (
    cast,
    const,
    promote_args,
    promote_args_inexact,
    promote_dtypes_inexact,
    promote_shapes,
    strong_const,
)
from curta.numpy.selection import broadcast_all, select_where

_INTEGERS = {16: np.int16, 32: np.int32, 64: np.int64}


@inner_jit
def signbit(x: ArrayLike, /) -> Array:
    """Return whether the sign bit is set: true for negative numbers and for -0.0.

    Raises ValueError for complex x.

    >>> from curta import numpy as jnp
    >>> jnp.signbit(jnp.array([-0.0, 0.0, 1.0]))
    Array([ True, False, False], dtype=bool)
    """
    (x,) = promote_args("signbit", x)
    if dtypes.issubdtype(x.dtype, np.integer):
        return cast(lax.lt(x, const(x, 0)), np.dtype(np.bool_))
    if x.dtype == np.bool_:
        return lax.full_like(x, False, dtype=np.bool_)
    if not dtypes.issubdtype(x.dtype, np.floating):
        raise ValueError(f"jax.numpy.signbit is not well defined for {x.dtype}")
    bits = _bits("signbit", x)
    return lax.convert_element_type(
        lax.shift_right_arithmetic(bits, const(bits, dtypes.finfo(x.dtype).bits - 1)),
        np.bool_,
    )


def _bits(name: str, x: Any) -> Any:
    size = dtypes.finfo(x.dtype).bits
    if size not in _INTEGERS:
        raise NotImplementedError(
            f"jax.numpy.{name} only supports 16, 32, and 64-bit types."
        )
    return lax.bitcast_convert_type(x, _INTEGERS[size])


@inner_jit
def copysign(x1: Any, x2: Any, /) -> Array:
    """|x1| with the sign of x2; TypeError for complex operands.

    >>> from curta import numpy as jnp
    >>> jnp.copysign(jnp.array([1.0, -2.0]), -0.0)
    Array([-1., -2.], dtype=float32)
    """
    x1, x2 = promote_args_inexact("copysign", x1, x2)
    if is_complex(x1):
        raise TypeError("copysign does not support complex-valued inputs")
    negative = signbit(x2)
    return select_where(negative, lax.neg(lax.abs(x1)), lax.abs(x1))


def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The next float after x towards y.

    >>> from curta import numpy as jnp
    >>> float(jnp.nextafter(1.0, 2.0)) > 1.0
    True
    """
    return lax.nextafter(*promote_args_inexact("nextafter", x, y))


@inner_jit
def frexp(x: ArrayLike, /) -> tuple[Any, Any]:
    """Mantissa in [0.5, 1) and integer exponent: x = m·2**e.

    Raises TypeError for complex x.

    >>> from curta import numpy as jnp
    >>> jnp.frexp(jnp.array([8.0, 0.75]))
    (Array([0.5 , 0.75], dtype=float32), Array([4, 0], dtype=int32))
    """
    (x,) = promote_dtypes_inexact(ensure_arraylike("frexp", x))
    if is_complex(x):
        raise TypeError("frexp does not support complex-valued inputs")
    return _frexp(x)


@custom_jvp
def _frexp(x: Any) -> tuple[Any, Any]:
    x = asarray(x)  # Primals may be NumPy's, in a dtype that is not canonical.
    info = dtypes.finfo(x.dtype)
    # Subnormal numbers are first scaled up to normal ones.
    small = lax.lt(lax.abs(x), const(x, info.tiny))
    scaled = select_where(small, lax.mul(x, const(x, 1 << info.nmant)), x)
    bits = _bits("frexp", scaled)
    field = (1 << info.nexp) - 1
    bias = 1 - info.minexp
    raised = lax.shift_right_arithmetic(bits, const(bits, info.nmant))
    exponent = lax.bitwise_and(raised, const(bits, field))
    shift = select_where(small, const(bits, -info.nmant), const(bits, 0))
    exponent = lax.add(exponent, lax.add(shift, const(bits, 1 - bias)))
    mantissa = lax.bitwise_and(bits, const(bits, ~(field << info.nmant)))
    mantissa = lax.bitwise_or(mantissa, const(bits, (bias - 1) << info.nmant))
    special = lax.bitwise_or(lax.bitwise_not(lax.is_finite(x)), lax.eq(x, const(x, 0)))
    exponent = select_where(special, const(bits, 0), exponent)
    mantissa = lax.bitcast_convert_type(mantissa, x.dtype)
    out = select_where(special, x, mantissa)
    return out, lax.convert_element_type(exponent, np.int32)


@_frexp.defjvp
def _frexp_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    mantissa, exponent = _frexp(x)
    scale = lax.exp2(lax.neg(lax.convert_element_type(exponent, mantissa.dtype)))
    still = np.zeros(exponent.shape, dtypes.float0)
    return (mantissa, exponent), (lax.mul(t, scale), still)


@inner_jit
def ldexp(x1: Any, x2: Any, /) -> Array:
    """x1·2**x2 for integer x2; ValueError for other dtypes of x2.

    >>> from curta import numpy as jnp
    >>> jnp.ldexp(0.5, jnp.array([1, 3]))
    Array([1., 4.], dtype=float32)
    """
    x1, x2 = ensure_arraylikes("ldexp", x1, x2)
    if is_complex(x1) or dtypes.issubdtype(x2.dtype, np.inexact):
        raise ValueError(f"ldexp not supported for input types {(x1.dtype, x2.dtype)}")
    (x1,) = promote_dtypes_inexact(x1)
    x1, x2 = promote_shapes("ldexp", x1, x2)
    x1, x2 = broadcast_all(x1, _bounded_exponent(x2))
    if dtypes.finfo(x1.dtype).bits > 16:
        return _ldexp(x1, x2)
    # A number of 16 bits times a power of two is exact in float32.
    out = _ldexp(lax.convert_element_type(x1, np.float32), x2)
    return lax.convert_element_type(out, x1.dtype)


_FAR = 3000
"""Twice an exponent that takes the least positive float64 beyond the largest."""


def _bounded_exponent(n: Any) -> Any:
    """Integers as int32, those far out of every float's range at its end."""
    if n.dtype == np.bool_:
        return lax.convert_element_type(n, np.int32)
    info = dtypes.iinfo(n.dtype)
    low, high = max(-_FAR, int(info.min)), min(_FAR, int(info.max))
    n = lax.clamp(const(n, low), n, const(n, high))
    return lax.convert_element_type(n, np.int32)


def _power_of_two(n: Any, dtype: Any) -> Any:
    """2**n for exponents of normal numbers of `dtype`, by its bits."""
    info = dtypes.finfo(dtype)
    bits = lax.convert_element_type(n, _INTEGERS[info.bits])
    field = lax.add(bits, const(bits, 1 - info.minexp))
    field = lax.shift_left(field, const(bits, info.nmant))
    return lax.bitcast_convert_type(field, dtype)


@custom_jvp
def _ldexp(x: Any, n: Any) -> Any:
    """x·2**n, rounded once."""
    x = asarray(x)  # Primals may be NumPy's, in a dtype that is not canonical.
    info = dtypes.finfo(x.dtype)
    mantissa, exponent = _frexp(x)
    # 2·mantissa is in [1, 2): what is left is the exponent of the result.
    total = lax.add(lax.sub(exponent, const(exponent, 1)), n)
    normal = lax.clamp(const(total, info.minexp), total, const(total, info.maxexp - 1))
    rest = lax.clamp(
        const(total, -info.nmant - 2), lax.sub(total, normal), const(total, 1)
    )
    out = lax.mul(mantissa, const(x, 2))
    for power in (normal, rest):
        out = lax.mul(out, _power_of_two(power, x.dtype))
    keep = lax.bitwise_or(lax.eq(x, const(x, 0)), lax.bitwise_not(lax.is_finite(x)))
    return select_where(keep, x, out)


@_ldexp.defjvp
def _ldexp_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x, n), (t, _) = primals, tangents
    out = _ldexp(x, n)
    info = dtypes.finfo(out.dtype)
    left = n
    for _ in range(3):  # Normal powers, whose products span the whole range.
        power = lax.clamp(const(left, info.minexp), left, const(left, info.maxexp - 1))
        left = lax.sub(left, power)
        t = lax.mul(t, _power_of_two(power, out.dtype))
    return out, t


@inner_jit
def spacing(x: ArrayLike, /) -> Array:
    """The distance from x to the next float away from 0, with the sign of x.

    >>> from curta import numpy as jnp
    >>> float(jnp.spacing(1.0)) == float(jnp.finfo("float32").eps)
    True
    """
    (x,) = promote_args_inexact("spacing", x)
    if is_complex(x):
        raise ValueError("jnp.spacing is not defined for complex inputs.")
    infinity = strong_const(x, np.inf)
    if x.dtype == np.float16:
        return lax.sub(lax.nextafter(x, infinity), x)
    out = lax.sub(lax.nextafter(x, copysign(infinity, x)), x)
    least = dtypes.finfo(x.dtype).smallest_subnormal
    return select_where(
        lax.eq(out, const(x, 0)), copysign(strong_const(x, least), x), out
    )
