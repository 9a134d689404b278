"""Elementary functions: exponentials, logarithms, rounding.

All compute in floats: integers and booleans are converted first.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta._settings.api_version import LOG2_AND_POLYNOMIALS_ARE_OPS
from curta.api.inner import inlined_jit, inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    alias,
    check_operands,
    concrete_index,
    ensure_arraylike,
    ensure_operand,
    is_complex,
    refuse_out,
)
from curta.numpy.constructors import asarray
from curta.numpy.promotion import (
    cast,
    const,
    promote_args_inexact,
    promote_dtypes_inexact,
    strong_const,
)
from curta.numpy.selection import select_where

# ---- exponentials and logarithms


@inlined_jit
def exp(x: ArrayLike, /) -> Array:
    """e to the power x.

    >>> from curta import numpy as jnp
    >>> jnp.exp(0)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.exp(*promote_args_inexact("exp", x))


@inlined_jit
def exp2(x: ArrayLike, /) -> Array:
    """2 to the power x.

    >>> from curta import numpy as jnp
    >>> jnp.exp2(jnp.arange(3))
    Array([1., 2., 4.], dtype=float32)
    """
    return lax.exp2(*promote_args_inexact("exp2", x))


@inlined_jit
def expm1(x: ArrayLike, /) -> Array:
    """exp(x) - 1, accurate near 0.

    >>> from curta import numpy as jnp
    >>> float(jnp.expm1(0.0))
    0.0
    """
    return lax.expm1(*promote_args_inexact("expm1", x))


@inlined_jit
def log(x: ArrayLike, /) -> Array:
    """The natural logarithm: -inf at 0, NaN below.

    >>> from curta import numpy as jnp
    >>> jnp.log(jnp.array([1.0, 0.0]))
    Array([  0., -inf], dtype=float32)
    """
    return lax.log(*promote_args_inexact("log", x))


@inlined_jit
def log1p(x: ArrayLike, /) -> Array:
    """log(1 + x), accurate near 0.

    >>> from curta import numpy as jnp
    >>> float(jnp.log1p(0.0))
    0.0
    """
    return lax.log1p(*promote_args_inexact("log1p", x))


@inlined_jit
def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2.

    >>> from curta import numpy as jnp
    >>> jnp.log2(jnp.array([1.0, 2.0]))
    Array([0., 1.], dtype=float32)
    """
    (x,) = promote_args_inexact("log2", x)
    if LOG2_AND_POLYNOMIALS_ARE_OPS.applies():
        return lax.log2(x)
    if is_complex(x):
        return _scaled_complex(lax.log(x), 2)
    return lax.div(lax.log(x), lax.log(strong_const(x, 2)))


@inlined_jit
def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10.

    >>> from curta import numpy as jnp
    >>> jnp.log10(jnp.array([1.0, 100.0])).round(4)
    Array([0., 2.], dtype=float32)
    """
    (x,) = promote_args_inexact("log10", x)
    factor = np.asarray(1 / np.log(10), dtypes.finfo(x.dtype).dtype)[()]
    if is_complex(x):
        z = lax.log(x)
        return lax.complex(lax.mul(lax.real(z), factor), lax.mul(lax.imag(z), factor))
    return lax.mul(lax.log(x), factor)


def _scaled_complex(z: Any, base: int) -> Any:
    re, im = lax.real(z), lax.imag(z)
    scale = lax.log(strong_const(re, base))
    return lax.complex(lax.div(re, scale), lax.div(im, scale))


@inlined_jit
def sqrt(x: ArrayLike, /) -> Array:
    """The square root; NaN for negative reals.

    >>> from curta import numpy as jnp
    >>> jnp.sqrt(jnp.array([4, 9]))
    Array([2., 3.], dtype=float32)
    """
    return lax.sqrt(*promote_args_inexact("sqrt", x))


@inlined_jit
def cbrt(x: ArrayLike, /) -> Array:
    """The real cube root.

    >>> from curta import numpy as jnp
    >>> jnp.cbrt(jnp.array([-8.0, 27.0])).round(4)
    Array([-2.,  3.], dtype=float32)
    """
    return lax.cbrt(*promote_args_inexact("cbrt", x))


# ---- rounding


@inlined_jit
def floor(x: ArrayLike, /) -> Array:
    """The largest integer not above x; integers and booleans stay as they are.

    >>> from curta import numpy as jnp
    >>> jnp.floor(jnp.array([-1.5, 2.5]))
    Array([-2.,  2.], dtype=float32)
    """
    x = ensure_operand("floor", x)
    return x if _is_whole(x) else lax.floor(*promote_args_inexact("floor", x))


@inlined_jit
def ceil(x: ArrayLike, /) -> Array:
    """The smallest integer not below x; integers and booleans stay as they are.

    >>> from curta import numpy as jnp
    >>> jnp.ceil(jnp.array([-1.5, 2.5]))
    Array([-1.,  3.], dtype=float32)
    """
    x = ensure_operand("ceil", x)
    return x if _is_whole(x) else lax.ceil(*promote_args_inexact("ceil", x))


@inner_jit
def trunc(x: ArrayLike) -> Array:
    """x without its fraction; integers and booleans stay as they are.

    >>> from curta import numpy as jnp
    >>> jnp.trunc(jnp.array([-1.5, 2.5]))
    Array([-1.,  2.], dtype=float32)
    """
    x = ensure_arraylike("trunc", x)
    if _is_whole(x):
        return x
    return select_where(lax.lt(x, const(x, 0)), ceil(x), floor(x))


def _is_whole(x: Any) -> bool:
    return x.dtype == np.bool_ or dtypes.issubdtype(x.dtype, np.integer)


@inner_jit
def rint(x: ArrayLike, /) -> Array:
    """The nearest integer as a float; halves go to the even one.

    >>> from curta import numpy as jnp
    >>> jnp.rint(jnp.array([0.5, 1.5]))
    Array([0., 2.], dtype=float32)
    """
    x = ensure_arraylike("rint", x)
    if _is_whole(x):
        return lax.convert_element_type(x, dtypes.default_float_dtype())
    if is_complex(x):
        return lax.complex(rint(lax.real(x)), rint(lax.imag(x)))
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


@inner_jit(static_argnames=("decimals",))
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """`a` rounded to a number of decimals; halves go to the even digit.

    Args:
      a: an array or scalar of numbers, of any shape.
      decimals: how many decimals to keep, a static int; negative ones round before the
        point. Default 0.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      TypeError: `a` is a list, a string or None; `decimals` is not an integer.
      ValueError: `a` is boolean, or `decimals` a list or an array.
      NotImplementedError: `out` is given.

    >>> from curta import numpy as jnp
    >>> jnp.round(jnp.array([1.25, 2.675]), 1)
    Array([1.2, 2.7], dtype=float32)
    """
    a = ensure_arraylike("round", a)
    decimals = concrete_index(decimals, "'decimals' argument of jnp.round")
    refuse_out("round", out)
    if dtypes.issubdtype(a.dtype, np.integer):
        if decimals < 0:
            raise NotImplementedError(
                "integer np.round not implemented for decimals < 0"
            )
        return a
    if is_complex(a):
        return lax.complex(
            _round_real(lax.real(a), decimals), _round_real(lax.imag(a), decimals)
        )
    return _round_real(a, decimals)


around = inner_jit(
    alias("around", inspect.unwrap(round)), name="round", static_argnames=("decimals",)
)


def _round_real(x: Any, decimals: int) -> Any:
    if decimals == 0:
        return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    dtype = x.dtype
    if dtypes.finfo(dtype).bits <= 16:
        x = lax.convert_element_type(x, np.float32)
    out = _round_after(x, decimals) if decimals > 0 else _round_before(x, -decimals)
    return out if out.dtype == dtype else lax.convert_element_type(out, dtype)


def _round_after(x: Any, decimals: int) -> Any:
    """x rounded to decimals after the point; what has fewer stays as it is."""
    info = dtypes.finfo(x.dtype)
    most = int(np.log10(float(info.max)))
    if decimals > -np.log10(float(info.smallest_subnormal)):
        return x
    powers = [const(x, 10.0 ** min(decimals, most))]
    if decimals > most:
        powers.append(const(x, 10.0 ** (decimals - most)))
    scaled = functools.reduce(lax.mul, powers, x)
    whole = lax.round(scaled, lax.RoundingMethod.TO_NEAREST_EVEN)
    # From here on floats are whole, and scaling only rounds or overflows.
    large = lax.ge(lax.abs(scaled), const(x, 2.0**info.nmant))
    out = functools.reduce(lax.div, powers, whole)
    return select_where(large, lax.stop_gradient(x), out)


def _round_before(x: Any, digits: int) -> Any:
    """x rounded to a multiple of 10**digits."""
    if digits > np.log10(float(dtypes.finfo(x.dtype).max)):
        zero = lax.mul(x, const(x, 0))
        return select_where(lax.is_finite(x), zero, lax.stop_gradient(x))
    power = const(x, 10.0**digits)
    whole = lax.round(lax.div(x, power), lax.RoundingMethod.TO_NEAREST_EVEN)
    return lax.mul(whole, power)


@inner_jit
def modf(x: ArrayLike, /, out: None = None) -> tuple[Any, Any]:
    """Fraction and whole part, both of the sign of x.

    >>> from curta import numpy as jnp
    >>> jnp.modf(jnp.array([-1.5, 2.25]))
    (Array([-0.5 ,  0.25], dtype=float32), Array([-1.,  2.], dtype=float32))
    """
    (x,) = promote_dtypes_inexact(ensure_arraylike("modf", x))
    refuse_out("modf", out)
    whole = select_where(lax.ge(x, const(x, 0)), floor(x), ceil(x))
    return lax.sub(x, whole), whole


@inner_jit
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """`x` with NaN replaced by `nan` and infinities by finite values.

    The replacements of infinities are by default the extreme finite values.

    Args:
      x: an array or scalar, of any shape and dtype.
      copy: must be True (default) or False; the result is always another array.
      nan: what replaces NaN, an array or scalar that broadcasts with `x`. Default 0.
      posinf: what replaces the positive infinity. None (default) is the greatest finite
        value.
      neginf: what replaces the negative infinity. None (default) is the least finite
        value.

    Returns:
      An array of the shape and dtype of `x`; of complex numbers each part is replaced.

    Raises:
      TypeError: `x`, `nan`, `posinf` or `neginf` is a list or a string.
      ValueError: shapes do not broadcast.

    >>> from curta import numpy as jnp
    >>> jnp.nan_to_num(jnp.array([jnp.nan, 1.0]))
    Array([0., 1.], dtype=float32)
    """
    if isinstance(nan, (list, tuple)):
        nan = asarray(nan)
    if isinstance(posinf, (list, tuple)):
        posinf = asarray(posinf)
    if isinstance(neginf, (list, tuple)):
        neginf = asarray(neginf)
    given = (v for v in (copy, nan, posinf, neginf) if v is not None)
    check_operands("nan_to_num", x, *given)
    x = ensure_arraylike("nan_to_num", x)
    if not dtypes.issubdtype(x.dtype, np.inexact):
        return x
    if is_complex(x):
        return lax.complex(
            nan_to_num(lax.real(x), nan=nan, posinf=posinf, neginf=neginf),
            nan_to_num(lax.imag(x), nan=nan, posinf=posinf, neginf=neginf),
        )
    info = dtypes.finfo(x.dtype)
    number = cast(nan, x.dtype)
    x = select_where(lax.ne(x, x), number, x)
    for infinity, value, limit in (
        (np.inf, posinf, info.max),
        (-np.inf, neginf, info.min),
    ):
        finite = cast(limit if value is None else value, x.dtype)
        x = select_where(lax.eq(x, const(x, infinity)), finite, x)
    return x
