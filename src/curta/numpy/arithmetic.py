"""Arithmetic: sums, products, quotients, remainders, powers."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inlined_jit, inner_jit
from curta.core.array import Array, ArrayLike
from curta.core.trace import Tracer, typeof
from curta.numpy.arguments import (
    alias,
    check_arraylike,
    ensure_arraylikes,
    ensure_operand,
)
from curta.numpy.promotion import (
    const,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_dtypes_inexact,
    promote_shapes,
)
from curta.numpy.selection import broadcast_all, select_where

# ---- one operand


@inlined_jit
def negative(x: ArrayLike, /) -> Array:
    """-x, of the dtype of `x`; TypeError for booleans.

    Args:
      x: an array or scalar of numbers, of any shape.

    Returns:
      -x, of the shape and dtype of `x`.

    Raises:
      TypeError: `x` is a list, a string or None; `x` is boolean.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> jnp.negative(jnp.array([1.0, -2.0]))
    Array([-1.,  2.], dtype=float32)
    """
    return lax.neg(*promote_args("negative", x))


@inlined_jit
def positive(x: ArrayLike, /) -> Array:
    """The elements of `x`, in an array of their own.

    >>> from curta import numpy as jnp
    >>> jnp.positive(2)
    Array(2, dtype=int32, weak_type=True)
    """
    return ensure_operand("positive", x)


@inlined_jit
def absolute(x: ArrayLike, /) -> Array:
    """|x|: real for complex `x`, otherwise of the dtype of `x`.

    >>> from curta import numpy as jnp
    >>> jnp.absolute(jnp.array([-1.0, 2.0]))
    Array([1., 2.], dtype=float32)
    """
    x = ensure_operand("absolute", x)
    if x.dtype == np.bool_ or dtypes.issubdtype(x.dtype, np.unsignedinteger):
        return x
    return lax.abs(x)


abs: Callable[[ArrayLike], Array] = alias("abs", absolute)


@inlined_jit
def fabs(x: ArrayLike, /) -> Array:
    """|x| as a float; TypeError for complex `x`.

    >>> from curta import numpy as jnp
    >>> jnp.fabs(-3)
    Array(3., dtype=float32, weak_type=True)
    """
    x = ensure_operand("fabs", x)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise TypeError("ufunc 'fabs' does not support complex dtypes")
    return lax.abs(*promote_args_inexact("fabs", x))


@inlined_jit
def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1 as x is negative, zero or positive; x/|x| for complex x.

    >>> from curta import numpy as jnp
    >>> jnp.sign(jnp.array([-5.0, 0.0, 2.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    return lax.sign(*promote_args("sign", x))


@inlined_jit
def square(x: ArrayLike, /) -> Array:
    """x·x.

    >>> from curta import numpy as jnp
    >>> jnp.square(jnp.array([1, -3]))
    Array([1, 9], dtype=int32)
    """
    (x,) = promote_args_numeric("square", x)
    return lax.square(x)


@inlined_jit
def reciprocal(x: ArrayLike, /) -> Array:
    """1/x, in floats.

    >>> from curta import numpy as jnp
    >>> jnp.reciprocal(jnp.array([1, 4]))
    Array([1.  , 0.25], dtype=float32)
    """
    (x,) = promote_args_inexact("reciprocal", x)
    return lax.integer_pow(x, -1)


# ---- two operands


@inlined_jit
def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x + y; logical or for booleans.

    Args:
      x, y: arrays or scalars that broadcast.

    Returns:
      The sums, of the broadcast shape and the promoted dtype.

    Raises:
      TypeError: an operand is a list, a string or None; shapes of one rank do not
        broadcast.
      ValueError: shapes of different ranks do not broadcast.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> jnp.add(jnp.arange(3.0), 10)
    Array([10., 11., 12.], dtype=float32)
    """
    x, y = promote_args("add", x, y)
    return lax.bitwise_or(x, y) if x.dtype == np.bool_ else lax.add(x, y)


@inlined_jit
def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x - y; TypeError for booleans.

    Args:
      x, y: arrays or scalars that broadcast.

    Returns:
      The differences, of the broadcast shape and the promoted dtype.

    Raises:
      TypeError: an operand is a list, a string or None; shapes of one rank do not
        broadcast; both operands are boolean.
      ValueError: shapes of different ranks do not broadcast.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> jnp.subtract(jnp.arange(3), 1)
    Array([-1,  0,  1], dtype=int32)
    """
    return lax.sub(*promote_args("subtract", x, y))


@inlined_jit
def multiply(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x·y; logical and for booleans.

    Args:
      x, y: arrays or scalars that broadcast.

    Returns:
      The products, of the broadcast shape and the promoted dtype.

    Raises:
      TypeError: an operand is a list, a string or None; shapes of one rank do not
        broadcast.
      ValueError: shapes of different ranks do not broadcast.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> jnp.multiply(jnp.arange(3), 2)
    Array([0, 2, 4], dtype=int32)
    """
    x, y = promote_args("multiply", x, y)
    return lax.bitwise_and(x, y) if x.dtype == np.bool_ else lax.mul(x, y)


@inlined_jit
def true_divide(x1: Any, x2: Any, /) -> Array:
    """x1 / x2, in floats.

    >>> from curta import numpy as jnp
    >>> jnp.true_divide(jnp.arange(3), 2)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return lax.div(*promote_args_inexact("true_divide", x1, x2))


divide: Callable[[ArrayLike, ArrayLike], Array] = alias("divide", true_divide)


@inner_jit
def floor_divide(x1: Any, x2: Any, /) -> Array:
    """The largest integer not above x1 / x2; TypeError for complex operands.

    >>> from curta import numpy as jnp
    >>> jnp.floor_divide(jnp.array([7, -7]), 2)
    Array([ 3, -4], dtype=int32)
    """
    x1, x2 = promote_args_numeric("floor_divide", x1, x2)
    dtype = x1.dtype
    if dtypes.issubdtype(dtype, np.unsignedinteger):
        return lax.div(x1, x2)
    if dtypes.issubdtype(dtype, np.integer):
        quotient = lax.div(x1, x2)
        differ = lax.ne(lax.sign(x1), lax.sign(x2))
        inexact = lax.ne(lax.rem(x1, x2), const(x1, 0))
        below = lax.bitwise_and(differ, inexact)
        return select_where(below, _less_one(quotient), quotient)
    if dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError("floor_divide does not support complex-valued inputs")
    return _float_divmod(x1, x2)[0]


@inner_jit
def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """Floor quotient and remainder.

    >>> from curta import numpy as jnp
    >>> jnp.divmod(jnp.array([7, -7]), 3)
    (Array([ 2, -3], dtype=int32), Array([1, 2], dtype=int32))
    """
    x1, x2 = promote_args_numeric("divmod", x1, x2)
    if dtypes.issubdtype(x1.dtype, np.integer):
        return floor_divide(x1, x2), remainder(x1, x2)
    return _float_divmod(x1, x2)


def _float_divmod(x1: Any, x2: Any) -> tuple[Any, Any]:
    zero = const(x1, 0)
    mod = lax.rem(x1, x2)
    # Dividing the exact multiple keeps the quotient an integer; 1/0 stays infinite.
    multiple = select_where(lax.eq(x2, zero), x1, lax.sub(x1, mod))
    quotient = lax.div(multiple, x2)
    below = lax.bitwise_and(lax.ne(mod, zero), lax.ne(lax.sign(x2), lax.sign(mod)))
    mod = lax.select(below, lax.add(mod, x2), mod)
    quotient = lax.select(below, _less_one(quotient), quotient)
    return lax.round(quotient), mod


def _less_one(x: Any) -> Any:
    """x - 1, which is weakly typed if x is."""
    aval = typeof(x)
    kind = dtypes.scalar_type_of(aval.dtype)
    return lax.sub(x, kind(1) if aval.weak_type else const(x, 1))


@inner_jit
def remainder(x1: Any, x2: Any, /) -> Array:
    """x1 - x2·floor(x1/x2): zero or of the sign of `x2`.

    >>> from curta import numpy as jnp
    >>> jnp.remainder(jnp.array([7, -7]), 3)
    Array([1, 2], dtype=int32)
    """
    x1, x2 = promote_args_numeric("remainder", x1, x2)
    zero = const(x1, 0)
    if dtypes.issubdtype(x2.dtype, np.integer):
        x2 = select_where(lax.eq(x2, zero), lax.full_like(x2, 1), x2)
    mod = lax.rem(x1, x2)
    nonzero = lax.ne(mod, zero)
    differ = lax.ne(lax.lt(mod, zero), lax.lt(x2, zero))
    return lax.select(lax.bitwise_and(differ, nonzero), lax.add(mod, x2), mod)


mod = inner_jit(alias("mod", inspect.unwrap(remainder)), name="remainder")


@inner_jit
def fmod(x1: Any, x2: Any, /) -> Array:
    """The remainder of the truncated quotient: zero or of the sign of `x1`.

    >>> from curta import numpy as jnp
    >>> jnp.fmod(jnp.array([7, -7]), 3)
    Array([ 1, -1], dtype=int32)
    """
    x1, x2 = ensure_arraylikes("fmod", x1, x2)
    if dtypes.issubdtype(dtypes.result_type(x1, x2), np.integer):
        x2 = select_where(lax.eq(x2, const(x2, 0)), lax.full_like(x2, 1), x2)
    return lax.rem(*promote_args_numeric("fmod", x1, x2))


def power(x1: Any, x2: Any, /) -> Array:
    """x1 to the power x2; a known integer exponent gives a chain of products.

    Integer powers of integers stay integers and wrap around on overflow.

    >>> from curta import numpy as jnp
    >>> jnp.power(jnp.array([2.0, 3.0]), 2)
    Array([4., 9.], dtype=float32)
    """
    check_arraylike("power", x1, x2)
    exponent = _known_integer(x2)
    if exponent is None:
        return _power(x1, x2)
    (x1,) = promote_args_numeric("power", x1)
    return lax.integer_pow(x1, exponent)


pow: Callable[[ArrayLike, ArrayLike], Array] = alias("pow", power)


def _known_integer(x: Any) -> int | None:
    if isinstance(x, Tracer):
        x = x.concrete_value()
    try:
        return operator.index(x)
    except TypeError:
        return None


def _power(x1: Any, x2: Any) -> Any:
    x1, x2 = promote_shapes("power", *ensure_arraylikes("power", x1, x2))
    base, exponent = promote_args_numeric("power", x1, x2)
    if not dtypes.issubdtype(base.dtype, np.inexact):
        return _integer_power(base, exponent)
    if dtypes.issubdtype(x1.dtype, np.inexact) and dtypes.issubdtype(
        x2.dtype, np.integer
    ):
        return lax.pow(x1, x2)
    return lax.pow(base, exponent)


def _integer_power(base: Any, exponent: Any) -> Any:
    """Repeated squaring, over all bits of the largest exponent.

    Negative exponents give the reciprocal, rounded towards zero: 0 but for 1 and -1.
    """
    dtype = base.dtype
    if dtypes.iinfo(dtype).bits < 8:
        wide = np.dtype(np.int8 if dtypes.iinfo(dtype).min < 0 else np.uint8)
        base, exponent = (lax.convert_element_type(x, wide) for x in (base, exponent))
    base, exponent = broadcast_all(base, exponent)
    zero, one = const(base, 0), const(base, 1)
    out = lax.full_like(base, 1)
    if dtypes.iinfo(base.dtype).min < 0:
        negative = lax.lt(exponent, zero)
        unit = lax.eq(lax.abs(base), one)
        vanishes = lax.bitwise_and(negative, lax.bitwise_not(unit))
        out = select_where(vanishes, zero, one)
        exponent = select_where(negative, lax.bitwise_and(exponent, one), exponent)
    out = lax.while_loop(_has_bits, _next_bit, (exponent, base, out))[2]
    return lax.convert_element_type(out, dtype)


def _has_bits(state: tuple[Any, Any, Any]) -> Any:
    left = lax.ne(state[0], const(state[0], 0))
    return lax.reduce_or(left, tuple(range(left.ndim)))


def _next_bit(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    exponent, base, out = state
    one = const(exponent, 1)
    odd = lax.ne(lax.bitwise_and(exponent, one), const(exponent, 0))
    out = select_where(odd, lax.mul(out, base), out)
    return lax.shift_right_logical(exponent, one), lax.mul(base, base), out


def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x to the power y, in floats.

    >>> from curta import numpy as jnp
    >>> jnp.float_power(2, 3)
    Array(8., dtype=float32, weak_type=True)
    """
    return lax.pow(*promote_args_inexact("float_power", x, y))


@inner_jit
def hypot(x1: Any, x2: Any, /) -> Array:
    """sqrt(x1² + x2²) without overflow; ValueError for complex operands.

    >>> from curta import numpy as jnp
    >>> jnp.hypot(3.0, 4.0)
    Array(5., dtype=float32, weak_type=True)
    """
    x1, x2 = promote_args_inexact("hypot", x1, x2)
    if dtypes.issubdtype(x1.dtype, np.complexfloating):
        raise ValueError(
            "jnp.hypot is not well defined for complex-valued inputs. Please convert to"
            " real values first, such as by using abs(x)"
        )
    x1, x2 = lax.abs(x1), lax.abs(x2)
    infinity = const(x1, np.inf)
    infinite = lax.bitwise_or(lax.eq(x1, infinity), lax.eq(x2, infinity))
    x1, x2 = lax.max(x1, x2), lax.min(x1, x2)
    zero = const(x1, 0)
    x = select_where(lax.eq(x1, zero), zero, _scaled_hypot(x1, x2))
    return select_where(infinite, infinity, x)


def _scaled_hypot(large: Any, small: Any) -> Any:
    """The length of a vector, whose larger number is the scale.

    The scale does not change the length, so it is constant for derivatives, which
    would divide by its square.
    """
    zero, one = const(large, 0), lax.full_like(large, 1)
    large = select_where(lax.eq(large, zero), one, large)
    scale = lax.stop_gradient(large)
    squares = (lax.square(lax.div(x, scale)) for x in (large, small))
    return lax.mul(scale, lax.sqrt(lax.add(*squares)))


@inner_jit
def heaviside(x1: Any, x2: Any, /) -> Array:
    """0 where x1 < 0, 1 where x1 > 0, `x2` where x1 is 0.

    >>> from curta import numpy as jnp
    >>> jnp.heaviside(jnp.array([-1.0, 0.0, 2.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x1, x2 = promote_dtypes_inexact(*ensure_arraylikes("heaviside", x1, x2))
    zero = const(x1, 0)
    below, above, nan = lax.lt(x1, zero), lax.gt(x1, zero), lax.ne(x1, x1)
    at_zero = select_where(nan, x1, x2)
    return select_where(below, zero, select_where(above, const(x1, 1), at_zero))
