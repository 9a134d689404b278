"""Comparison, logic, and tests of single elements or whole arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inlined_jit, inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    check_arraylike,
    ensure_arraylike,
    ensure_operand,
    is_complex,
)
from curta.numpy.constructors import asarray
from curta.numpy.promotion import (
    broadcast_to_shape,
    cast,
    const,
    promote_args,
    promote_args_inexact,
    strong_const,
)

# ---- comparison


@inlined_jit
def equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return whether x == y, element by element; NaN equals nothing.

    >>> from curta import numpy as jnp
    >>> jnp.equal(jnp.arange(3), 1)
    Array([False,  True, False], dtype=bool)
    """
    return lax.eq(*promote_args("equal", x, y))


@inlined_jit
def not_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return whether x != y, element by element.

    >>> from curta import numpy as jnp
    >>> jnp.not_equal(jnp.arange(3), 1)
    Array([ True, False,  True], dtype=bool)
    """
    return lax.ne(*promote_args("not_equal", x, y))


@inlined_jit
def greater(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x > y, element by element; complex numbers by real, then imaginary part.

    >>> from curta import numpy as jnp
    >>> jnp.greater(jnp.arange(3), 1)
    Array([False, False,  True], dtype=bool)
    """
    return _compare(lax.gt, *promote_args("greater", x, y))


@inlined_jit
def greater_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return whether x >= y, element by element.

    >>> from curta import numpy as jnp
    >>> jnp.greater_equal(jnp.arange(3), 1)
    Array([False,  True,  True], dtype=bool)
    """
    return _compare(lax.ge, *promote_args("greater_equal", x, y))


@inlined_jit
def less(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return whether x < y, element by element.

    >>> from curta import numpy as jnp
    >>> jnp.less(jnp.arange(3), 1)
    Array([ True, False, False], dtype=bool)
    """
    return _compare(lax.lt, *promote_args("less", x, y))


@inlined_jit
def less_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return whether x <= y, element by element.

    >>> from curta import numpy as jnp
    >>> jnp.less_equal(jnp.arange(3), 1)
    Array([ True,  True, False], dtype=bool)
    """
    return _compare(lax.le, *promote_args("less_equal", x, y))


def _compare(op: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    if not is_complex(x):
        return op(x, y)
    x_re, y_re, x_im, y_im = lax.real(x), lax.real(y), lax.imag(x), lax.imag(y)
    return lax.select(lax.eq(x_re, y_re), op(x_im, y_im), op(x_re, y_re))


# ---- logic


@inlined_jit
def logical_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return whether x and y both differ from 0.

    Args:
      x, y: arrays or scalars that broadcast.

    Returns:
      Booleans, of the broadcast shape.

    Raises:
      TypeError: an operand is a list, a string or None; shapes of one rank do not
        broadcast.
      ValueError: shapes of different ranks do not broadcast.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> jnp.logical_and(jnp.array([0, 1, 2]), True)
    Array([False,  True,  True], dtype=bool)
    """
    return lax.bitwise_and(*map(_truth, promote_args("logical_and", x, y)))


@inlined_jit
def logical_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return whether x or y differs from 0.

    Args:
      x, y: arrays or scalars that broadcast.

    Returns:
      Booleans, of the broadcast shape.

    Raises:
      TypeError: an operand is a list, a string or None; shapes of one rank do not
        broadcast.
      ValueError: shapes of different ranks do not broadcast.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> jnp.logical_or(jnp.array([0, 1]), False)
    Array([False,  True], dtype=bool)
    """
    return lax.bitwise_or(*map(_truth, promote_args("logical_or", x, y)))


@inlined_jit
def logical_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return whether exactly one of x and y differs from 0.

    Args:
      x, y: arrays or scalars that broadcast.

    Returns:
      Booleans, of the broadcast shape.

    Raises:
      TypeError: an operand is a list, a string or None; shapes of one rank do not
        broadcast.
      ValueError: shapes of different ranks do not broadcast.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> jnp.logical_xor(jnp.array([0, 1]), True)
    Array([ True, False], dtype=bool)
    """
    return lax.bitwise_xor(*map(_truth, promote_args("logical_xor", x, y)))


@inlined_jit
def logical_not(x: ArrayLike, /) -> Array:
    """Return whether x is 0.

    >>> from curta import numpy as jnp
    >>> jnp.logical_not(jnp.array([0, 1]))
    Array([ True, False], dtype=bool)
    """
    return lax.bitwise_not(*map(_truth, promote_args("logical_not", x)))


def _truth(x: Any) -> Any:
    return x if x.dtype == np.bool_ else lax.ne(x, const(x, 0))


# ---- kinds of numbers


@inlined_jit
def isfinite(x: ArrayLike, /) -> Array:
    """Return whether x is neither infinite nor NaN.

    >>> from curta import numpy as jnp
    >>> jnp.isfinite(jnp.array([1.0, jnp.inf, jnp.nan]))
    Array([ True, False, False], dtype=bool)
    """
    x = ensure_operand("isfinite", x)
    if dtypes.issubdtype(x.dtype, np.floating):
        return lax.is_finite(x)
    if is_complex(x):
        parts = lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x))
        return lax.bitwise_and(*parts)
    return lax.full_like(x, True, dtype=np.bool_)


@inner_jit
def isinf(x: ArrayLike, /) -> Array:
    """Return whether x is positive or negative infinity.

    >>> from curta import numpy as jnp
    >>> jnp.isinf(jnp.array([1.0, -jnp.inf]))
    Array([False,  True], dtype=bool)
    """
    x = ensure_operand("isinf", x)
    if _may_be_infinite(x.dtype):
        return lax.eq(lax.abs(x), strong_const(x, np.inf))
    if is_complex(x):
        re, im = lax.real(x), lax.imag(x)
        infinity = strong_const(re, np.inf)
        re_infinite = lax.eq(lax.abs(re), infinity)
        return lax.bitwise_or(re_infinite, lax.eq(lax.abs(im), infinity))
    return lax.full_like(x, False, dtype=np.bool_)


@inlined_jit
def isnan(x: ArrayLike, /) -> Array:
    """Return whether x is NaN.

    >>> from curta import numpy as jnp
    >>> jnp.isnan(jnp.array([1.0, jnp.nan]))
    Array([False,  True], dtype=bool)
    """
    x = ensure_operand("isnan", x)
    return lax.ne(x, x)


def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Return whether x is positive infinity; ValueError for complex x.

    >>> from curta import numpy as jnp
    >>> jnp.isposinf(jnp.array([jnp.inf, -jnp.inf]))
    Array([ True, False], dtype=bool)
    """
    return _is_infinity("isposinf", x, np.inf, out)


def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Return whether x is negative infinity; ValueError for complex x.

    >>> from curta import numpy as jnp
    >>> jnp.isneginf(jnp.array([jnp.inf, -jnp.inf]))
    Array([False,  True], dtype=bool)
    """
    return _is_infinity("isneginf", x, -np.inf, out)


def _may_be_infinite(dtype: Any) -> bool:
    return dtypes.issubdtype(dtype, np.floating) and dtypes.supports_inf(dtype)


def _is_infinity(name: str, x: Any, infinity: float, out: None) -> Any:
    x = ensure_arraylike(name, x)
    if out is not None:
        raise NotImplementedError(
            "The 'out' argument to isneginf/isposinf is not supported."
        )
    if _may_be_infinite(x.dtype):
        return lax.eq(x, strong_const(x, infinity))
    if is_complex(x):
        raise ValueError("isposinf/isneginf are not well defined for complex types")
    return lax.full_like(x, False, dtype=np.bool_)


@inner_jit
def iscomplex(x: ArrayLike) -> Array:
    """Return whether the imaginary part of x differs from 0.

    >>> from curta import numpy as jnp
    >>> jnp.iscomplex(jnp.array([1 + 0j, 2j]))
    Array([False,  True], dtype=bool)
    """
    im = _imaginary(x)
    return lax.ne(im, const(im, 0))


@inner_jit
def isreal(x: ArrayLike) -> Array:
    """Return whether the imaginary part of x is 0.

    >>> from curta import numpy as jnp
    >>> jnp.isreal(jnp.array([1 + 0j, 2j]))
    Array([ True, False], dtype=bool)
    """
    im = _imaginary(x)
    return lax.eq(im, const(im, 0))


def _imaginary(x: Any) -> Any:
    x = ensure_operand("imag", x)
    return lax.imag(x) if is_complex(x) else lax.full_like(x, 0)


def iscomplexobj(x: Any) -> bool:
    """Return whether x has a complex dtype, whatever its values.

    >>> from curta import numpy as jnp
    >>> jnp.iscomplexobj(jnp.zeros(2)), jnp.iscomplexobj(1j)
    (False, True)
    """
    if isinstance(x, (complex, np.complexfloating)):
        return True
    if x is None or isinstance(x, (bool, int, float, str, np.generic)):
        return False
    dtype = x.dtype if hasattr(x, "dtype") else asarray(x).dtype
    return dtypes.issubdtype(dtype, np.complexfloating)


def isrealobj(x: Any) -> bool:
    """Return whether x has a dtype that is not complex.

    >>> from curta import numpy as jnp
    >>> jnp.isrealobj(jnp.zeros(2))
    True
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Return whether x is a scalar or an array of rank 0.

    >>> from curta import numpy as jnp
    >>> jnp.isscalar(2.0), jnp.isscalar(jnp.zeros(2))
    (True, False)
    """
    if np.isscalar(element):
        return True
    if isinstance(element, (np.ndarray, Array)):
        return element.ndim == 0
    if hasattr(element, "__jax_array__"):
        return asarray(element).ndim == 0
    return False


# ---- closeness


@inner_jit(static_argnames=("equal_nan",))
def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Return whether |a - b| <= atol + rtol·|b|; infinities are close to themselves.

    Args:
      a, b: arrays or scalars that broadcast; `b` is the one that `rtol` is relative to.
      rtol: the tolerance relative to |b|, an array or scalar that broadcasts. Default
        1e-5.
      atol: the absolute tolerance, an array or scalar that broadcasts. Default 1e-8.
      equal_nan: take NaN for close to NaN. Default False.

    Returns:
      Booleans, of the broadcast shape.

    Raises:
      TypeError: `a`, `b`, `rtol` or `atol` is a list, a string or None; shapes of one
        rank do not broadcast.
      ValueError: shapes of different ranks do not broadcast.

    >>> from curta import numpy as jnp
    >>> jnp.isclose(jnp.array([1.0, 2.0]), jnp.array([1.0, 2.1]))
    Array([ True, False], dtype=bool)
    """
    a, b = promote_args("isclose", a, b)
    check_arraylike("isclose, arguments rtol and atol,", rtol, atol)
    if isinstance(a.dtype, dtypes.ExtendedDType):
        return lax.eq(a, b)
    a, b = promote_args_inexact("isclose", a, b)
    dtype = dtypes.finfo(a.dtype).dtype
    rtol, atol = cast(rtol, np.dtype(dtype)), cast(atol, np.dtype(dtype))
    both_nan = lax.bitwise_and(lax.ne(a, a), lax.ne(b, b))
    finite = isfinite(b)
    bound = lax.abs(lax.sub(a, b)), lax.add(atol, lax.mul(rtol, lax.abs(b)))
    in_range = lax.le(*bound)
    out = lax.bitwise_or(lax.eq(a, b), lax.bitwise_and(finite, in_range))
    return lax.bitwise_or(out, both_nan) if equal_nan else out


@inner_jit(static_argnames=("equal_nan",))
def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Return True if all elements are close in the sense of `isclose`.

    Args:
      a, b: arrays or scalars that broadcast; `b` is the one that `rtol` is relative to.
      rtol: the tolerance relative to |b|, an array or scalar that broadcasts. Default
        1e-5.
      atol: the absolute tolerance, an array or scalar that broadcasts. Default 1e-8.
      equal_nan: take NaN for close to NaN. Default False.

    Returns:
      A boolean scalar.

    Raises:
      TypeError: `a`, `b`, `rtol` or `atol` is a list, a string or None; shapes of one
        rank do not broadcast.
      ValueError: shapes of different ranks do not broadcast.

    >>> from curta import numpy as jnp
    >>> jnp.allclose(jnp.ones(3), 1.0)
    Array(True, dtype=bool)
    """
    check_arraylike("allclose", a, b)
    return _all(isclose(a, b, rtol, atol, equal_nan=equal_nan))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Return True if two arrays have one shape and equal elements.

    Args:
      a1, a2: arrays, or nested lists of numbers, of any shape and dtype.
      equal_nan: take NaN for equal to NaN. Default False.

    Returns:
      A boolean scalar; False for shapes that differ.

    Raises:
      TypeError: `a1` or `a2` holds strings.
      ValueError: `a1` or `a2` is None.

    >>> from curta import numpy as jnp
    >>> jnp.array_equal(jnp.arange(3), jnp.array([0, 1, 2]))
    Array(True, dtype=bool)
    """
    a1, a2 = asarray(a1), asarray(a2)
    if a1.shape != a2.shape:
        return asarray(False)
    same = equal(a1, a2)
    if equal_nan:
        same = logical_or(same, logical_and(isnan(a1), isnan(a2)))
    return _all(same)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return True if two arrays broadcast to one shape with equal elements.

    >>> from curta import numpy as jnp
    >>> jnp.array_equiv(jnp.ones((2, 3)), 1)
    Array(True, dtype=bool)
    """
    a1, a2 = asarray(a1), asarray(a2)
    try:
        shape = lax.broadcast_shapes(a1.shape, a2.shape)
    except ValueError:
        return asarray(False)
    return _all(equal(broadcast_to_shape(a1, shape), broadcast_to_shape(a2, shape)))


def _all(x: Any) -> Any:
    return lax.reduce_and(cast(x, np.dtype(np.bool_)), tuple(range(x.ndim)))
