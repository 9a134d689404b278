"""Elementary functions: exponentials, logarithms, trigonometry, rounding.

All compute in floats: integers and booleans are converted first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.custom_derivatives import custom_jvp
from curta.api.inner import inner_jit
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


def exp(x: ArrayLike, /) -> Array:
    """e to the power x.

    >>> from curta import numpy as jnp
    >>> jnp.exp(0)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.exp(*promote_args_inexact("exp", x))


def exp2(x: ArrayLike, /) -> Array:
    """2 to the power x.

    >>> from curta import numpy as jnp
    >>> jnp.exp2(jnp.arange(3))
    Array([1., 2., 4.], dtype=float32)
    """
    return lax.exp2(*promote_args_inexact("exp2", x))


def expm1(x: ArrayLike, /) -> Array:
    """exp(x) - 1, accurate near 0.

    >>> from curta import numpy as jnp
    >>> float(jnp.expm1(0.0))
    0.0
    """
    return lax.expm1(*promote_args_inexact("expm1", x))


def log(x: ArrayLike, /) -> Array:
    """The natural logarithm: -inf at 0, NaN below.

    >>> from curta import numpy as jnp
    >>> jnp.log(jnp.array([1.0, 0.0]))
    Array([  0., -inf], dtype=float32)
    """
    return lax.log(*promote_args_inexact("log", x))


def log1p(x: ArrayLike, /) -> Array:
    """log(1 + x), accurate near 0.

    >>> from curta import numpy as jnp
    >>> float(jnp.log1p(0.0))
    0.0
    """
    return lax.log1p(*promote_args_inexact("log1p", x))


def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2.

    >>> from curta import numpy as jnp
    >>> jnp.log2(jnp.array([1.0, 2.0]))
    Array([0., 1.], dtype=float32)
    """
    (x,) = promote_args_inexact("log2", x)
    if is_complex(x):
        return _scaled_complex(lax.log(x), 2)
    return lax.div(lax.log(x), lax.log(strong_const(x, 2)))


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


def sqrt(x: ArrayLike, /) -> Array:
    """The square root; NaN for negative reals.

    >>> from curta import numpy as jnp
    >>> jnp.sqrt(jnp.array([4, 9]))
    Array([2., 3.], dtype=float32)
    """
    return lax.sqrt(*promote_args_inexact("sqrt", x))


def cbrt(x: ArrayLike, /) -> Array:
    """The real cube root.

    >>> from curta import numpy as jnp
    >>> jnp.cbrt(jnp.array([-8.0, 27.0])).round(4)
    Array([-2.,  3.], dtype=float32)
    """
    return lax.cbrt(*promote_args_inexact("cbrt", x))


# ---- trigonometry


def sin(x: ArrayLike, /) -> Array:
    """The sine of an angle in radians.

    >>> from curta import numpy as jnp
    >>> float(jnp.sin(0.0))
    0.0
    """
    return lax.sin(*promote_args_inexact("sin", x))


def cos(x: ArrayLike, /) -> Array:
    """The cosine of an angle in radians.

    >>> from curta import numpy as jnp
    >>> float(jnp.cos(0.0))
    1.0
    """
    return lax.cos(*promote_args_inexact("cos", x))


def tan(x: ArrayLike, /) -> Array:
    """The tangent of an angle in radians.

    >>> from curta import numpy as jnp
    >>> float(jnp.tan(0.0))
    0.0
    """
    return lax.tan(*promote_args_inexact("tan", x))


def arcsin(x: ArrayLike, /) -> Array:
    """The angle in [-π/2, π/2] whose sine is x.

    >>> from curta import numpy as jnp
    >>> float(jnp.arcsin(0.0))
    0.0
    """
    return lax.asin(*promote_args_inexact("arcsin", x))


def arccos(x: ArrayLike, /) -> Array:
    """The angle in [0, π] whose cosine is x.

    >>> from curta import numpy as jnp
    >>> float(jnp.arccos(1.0))
    0.0
    """
    return lax.acos(*promote_args_inexact("arccos", x))


def arctan(x: ArrayLike, /) -> Array:
    """The angle in (-π/2, π/2) whose tangent is x.

    >>> from curta import numpy as jnp
    >>> float(jnp.arctan(0.0))
    0.0
    """
    return lax.atan(*promote_args_inexact("arctan", x))


def arctan2(x1: Any, x2: Any, /) -> Array:
    """The angle of the point (x2, x1) in [-π, π].

    >>> from curta import numpy as jnp
    >>> float(jnp.arctan2(0.0, 1.0))
    0.0
    """
    return lax.atan2(*promote_args_inexact("arctan2", x1, x2))


def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine.

    >>> from curta import numpy as jnp
    >>> float(jnp.sinh(0.0))
    0.0
    """
    return lax.sinh(*promote_args_inexact("sinh", x))


def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine.

    >>> from curta import numpy as jnp
    >>> float(jnp.cosh(0.0))
    1.0
    """
    return lax.cosh(*promote_args_inexact("cosh", x))


def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent.

    >>> from curta import numpy as jnp
    >>> jnp.tanh(jnp.array([0.0, jnp.inf]))
    Array([0., 1.], dtype=float32)
    """
    return lax.tanh(*promote_args_inexact("tanh", x))


def arcsinh(x: ArrayLike, /) -> Array:
    """The inverse of sinh.

    >>> from curta import numpy as jnp
    >>> float(jnp.arcsinh(0.0))
    0.0
    """
    return lax.asinh(*promote_args_inexact("arcsinh", x))


@inner_jit
def arccosh(x: ArrayLike, /) -> Array:
    """The inverse of cosh, with a real part of at least 0.

    >>> from curta import numpy as jnp
    >>> float(jnp.arccosh(1.0))
    0.0
    """
    out = lax.acosh(*promote_args_inexact("arccosh", x))
    if is_complex(out):
        re = lax.real(out)
        out = select_where(lax.lt(re, const(re, 0)), lax.neg(out), out)
    return out


def arctanh(x: ArrayLike, /) -> Array:
    """The inverse of tanh.

    >>> from curta import numpy as jnp
    >>> float(jnp.arctanh(0.0))
    0.0
    """
    return lax.atanh(*promote_args_inexact("arctanh", x))


asin: Callable[[ArrayLike], Array] = alias("asin", arcsin, in_errors=True)
acos: Callable[[ArrayLike], Array] = alias("acos", arccos, in_errors=True)
atan: Callable[[ArrayLike], Array] = alias("atan", arctan, in_errors=True)
atan2: Callable[[ArrayLike, ArrayLike], Array] = alias("atan2", arctan2, in_errors=True)
asinh: Callable[[ArrayLike], Array] = alias("asinh", arcsinh, in_errors=True)
acosh = inner_jit(alias("acosh", arccosh.__wrapped__, in_errors=True), name="arccosh")
atanh: Callable[[ArrayLike], Array] = alias("atanh", arctanh, in_errors=True)


def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees to radians.

    >>> from curta import numpy as jnp
    >>> jnp.deg2rad(jnp.array([180.0])).round(4)
    Array([3.1416], dtype=float32)
    """
    (x,) = promote_args_inexact("deg2rad", x)
    return lax.mul(x, const(x, np.pi / 180))


def rad2deg(x: ArrayLike, /) -> Array:
    """Radians to degrees.

    >>> from curta import numpy as jnp
    >>> jnp.rad2deg(jnp.array([jnp.pi])).round(2)
    Array([180.], dtype=float32)
    """
    (x,) = promote_args_inexact("rad2deg", x)
    return lax.mul(x, const(x, 180 / np.pi))


radians: Callable[[ArrayLike], Array] = alias("radians", deg2rad)
degrees: Callable[[ArrayLike], Array] = alias("degrees", rad2deg)


@inner_jit
def sinc(x: ArrayLike, /) -> Array:
    """sin(πx)/(πx), and 1 at 0.

    >>> from curta import numpy as jnp
    >>> jnp.sinc(jnp.array([0.0, 0.5])).round(4)
    Array([1.    , 0.6366], dtype=float32)
    """
    (x,) = promote_args_inexact("sinc", x)
    zero = lax.eq(x, const(x, 0))
    angle = lax.mul(const(x, np.pi), x)
    safe = select_where(zero, const(x, 1), angle)
    at_zero = _sinc_maclaurin(0, angle)
    return select_where(zero, at_zero, lax.div(lax.sin(safe), safe))


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _sinc_maclaurin(k: int, x: Any) -> Any:
    """The k-th derivative of sin(x)/x at 0, for x that are 0."""
    zero = lax.mul(x, const(x, 0))
    if k % 2:
        return zero
    return lax.add(zero, const(x, (-1) ** (k // 2) / (k + 1)))


@_sinc_maclaurin.defjvp
def _sinc_maclaurin_jvp(k: int, primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    return _sinc_maclaurin(k, x), lax.mul(_sinc_maclaurin(k + 1, x), t)


# ---- rounding


def floor(x: ArrayLike, /) -> Array:
    """The largest integer not above x; integers and booleans stay as they are.

    >>> from curta import numpy as jnp
    >>> jnp.floor(jnp.array([-1.5, 2.5]))
    Array([-2.,  2.], dtype=float32)
    """
    x = ensure_operand("floor", x)
    return x if _is_whole(x) else lax.floor(*promote_args_inexact("floor", x))


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
      TypeError: `a` is a list, a string or None; `decimals` is no integer.
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
    if decimals > np.log10(float(dtypes.finfo(a.dtype).max)):
        return a
    if is_complex(a):
        return lax.complex(
            _round_real(lax.real(a), decimals), _round_real(lax.imag(a), decimals)
        )
    return _round_real(a, decimals)


around = inner_jit(
    alias("around", round.__wrapped__), name="round", static_argnames=("decimals",)
)


def _round_real(x: Any, decimals: int) -> Any:
    if decimals == 0:
        return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    dtype = x.dtype
    if dtype == np.float16:
        x = lax.convert_element_type(x, np.float32)
    factor = const(x, 10.0**decimals)
    whole = lax.round(lax.mul(x, factor), lax.RoundingMethod.TO_NEAREST_EVEN)
    out = lax.div(whole, factor)
    return lax.convert_element_type(out, dtype) if dtype == np.float16 else out


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
    nan, posinf, neginf = (
        asarray(v) if isinstance(v, (list, tuple)) else v for v in (nan, posinf, neginf)
    )
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
    rules = (
        (lambda v: lax.ne(v, v), nan),
        (lambda v: lax.eq(v, const(v, np.inf)), info.max if posinf is None else posinf),
        (
            lambda v: lax.eq(v, const(v, -np.inf)),
            info.min if neginf is None else neginf,
        ),
    )
    for test, value in rules:
        value = cast(value, x.dtype)
        x = select_where(test(x), value, x)
    return x
