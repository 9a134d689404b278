"""Sums, products, powers, roots, magnitudes.

Operands have the same dtype, and the same rank or rank 0; TypeError otherwise. The
functions of the same purpose in `curta.numpy` promote and broadcast.
"""

from __future__ import annotations

from curta import dtypes
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.shapes import integer
from curta.lax.exponential import Accuracy, accurate
from curta.primitives import elementwise as ops


def neg(x: ArrayLike) -> Array:
    """-x, of numbers; integers wrap around.

    >>> from curta import lax
    >>> lax.neg(2.0)
    Array(-2., dtype=float32, weak_type=True)
    """
    return ops.neg(x)


def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1 of a real number, keeping NaN and -0.0; x / abs(x) of a complex one.

    >>> from curta import lax
    >>> lax.sign(-3.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    return ops.sign(x)


def abs(x: ArrayLike) -> Array:
    """The absolute value of signed, floating or complex numbers. The result is real.

    >>> from curta import lax
    >>> lax.abs(-3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return ops.abs_(x)


def square(x: ArrayLike) -> Array:
    """x * x, of numbers.

    >>> from curta import lax
    >>> lax.square(3.0)
    Array(9., dtype=float32, weak_type=True)
    """
    return ops.square(x)


def reciprocal(x: ArrayLike) -> Array:
    """1 / x, of floating or complex numbers.

    >>> from curta import lax
    >>> lax.reciprocal(4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return ops.integer_pow(x, -1)


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """x + y, of numbers; integers wrap around.

    >>> from curta import lax
    >>> lax.add(2.0, 3.0)
    Array(5., dtype=float32, weak_type=True)
    """
    return ops.add(x, y)


def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """x - y, of numbers; integers wrap around.

    >>> from curta import lax
    >>> lax.sub(2.0, 3.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    return ops.sub(x, y)


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    """x * y, of numbers; integers wrap around.

    Args:
      x, y: numbers of one dtype. Their shapes are equal, or one of them is a scalar.
      out_dtype: the dtype to compute in; by default the dtype of the operands.

    Returns:
      An array in `out_dtype`.

    Raises:
      TypeError: if the operands are booleans, differ in dtype or do not fit in shape,
        or if `out_dtype` is not a dtype.

    >>> from curta import lax
    >>> lax.mul(2.0, 3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    if out_dtype is None:
        return ops.mul(x, y)
    return ops.Mul(dtypes.check_user_dtype(out_dtype, "mul"))(x, y)


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The upper half of the bits of the product of integers.

    The product of N-bit integers has 2N bits; these are the most significant N.

    >>> from curta import lax
    >>> lax.mulhi(1 << 20, 1 << 20)
    Array(256, dtype=int32, weak_type=True)
    """
    return ops.mulhi(x, y)


def div(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y, of numbers.

    The quotient of integers is truncated; divided by 0 it has all bits set.

    >>> from curta import lax
    >>> lax.div(-7, 2)
    Array(-3, dtype=int32, weak_type=True)
    """
    return ops.div(x, y)


def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """The remainder of truncated division of real numbers: it has the sign of x.

    If the divisor is 0, the remainder of an integer is the integer, and the remainder
    of a float is NaN.

    >>> from curta import lax
    >>> lax.rem(-7, 2)
    Array(-1, dtype=int32, weak_type=True)
    """
    return ops.rem(x, y)


def max(x: ArrayLike, y: ArrayLike) -> Array:
    """The larger of two; NaN if either is.

    Complex numbers compare by their real, then their imaginary parts.

    >>> from curta import lax
    >>> lax.max(2.0, 3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return ops.max_(x, y)


def min(x: ArrayLike, y: ArrayLike) -> Array:
    """The smaller of two; NaN if either is.

    Complex numbers compare by their real, then their imaginary parts.

    >>> from curta import lax
    >>> lax.min(2.0, 3.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return ops.min_(x, y)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """x to the power y; x is floating or complex, y of the same dtype or an integer.

    >>> from curta import lax
    >>> lax.pow(2.0, 3)
    Array(8., dtype=float32, weak_type=True)
    """
    return ops.pow_(x, y)


def integer_pow(x: ArrayLike, y: int) -> Array:
    """x to the whole power y, by repeated multiplication.

    Raises TypeError if x is an integer and y is negative, and for a y that is none.

    >>> from curta import lax
    >>> lax.integer_pow(2.0, -2)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return ops.integer_pow(x, integer("integer_pow y", y))


def sqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The square root of floating or complex numbers; NaN of negative floats.

    >>> from curta import lax
    >>> lax.sqrt(9.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return accurate(ops.sqrt, accuracy)(x)


def rsqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """1 / sqrt(x), of floating or complex numbers.

    >>> from curta import lax
    >>> lax.rsqrt(4.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return accurate(ops.rsqrt, accuracy)(x)


def cbrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The real cube root, of floats.

    >>> from curta import lax
    >>> lax.cbrt(-8.0)
    Array(-2., dtype=float32, weak_type=True)
    """
    return accurate(ops.cbrt, accuracy)(x)
