"""Rounding, and the set of floats.

The functions take floats; TypeError otherwise.
"""

from __future__ import annotations

import operator

from curta.core.array import Array, ArrayLike
from curta.core.trace import concrete_or_error
from curta.primitives import elementwise as ops
from curta.primitives.elementwise import RoundingMethod


def floor(x: ArrayLike) -> Array:
    """The greatest integer not above x.

    >>> from curta import lax
    >>> lax.floor(-1.5)
    Array(-2., dtype=float32, weak_type=True)
    """
    return ops.floor(x)


def ceil(x: ArrayLike) -> Array:
    """The least integer not below x.

    >>> from curta import lax
    >>> lax.ceil(-1.5)
    Array(-1., dtype=float32, weak_type=True)
    """
    return ops.ceil(x)


def round(
    x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO
) -> Array:
    """The nearest integer; `rounding_method` says where halves go.

    >>> from curta import lax
    >>> lax.round(2.5)
    Array(3., dtype=float32, weak_type=True)
    >>> lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN)
    Array(2., dtype=float32, weak_type=True)
    """
    return ops.Round(RoundingMethod(rounding_method))(x)


def is_finite(x: ArrayLike) -> Array:
    """Return whether x is neither infinite nor NaN, as booleans.

    >>> from curta import lax
    >>> lax.is_finite(float("inf"))
    Array(False, dtype=bool, weak_type=True)
    """
    return ops.is_finite(x)


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The float after x1 on the way to x2; the two have the same dtype.

    >>> from curta import lax
    >>> lax.nextafter(1.0, 2.0) > 1.0
    Array(True, dtype=bool, weak_type=True)
    """
    return ops.nextafter(x1, x2)


def reduce_precision(
    operand: float | ArrayLike, exponent_bits: int, mantissa_bits: int
) -> Array:
    """x as a float of fewer bits would hold it: rounded, and infinite beyond its range.

    Args:
      operand: an array of floats.
      exponent_bits: at least 1, a known integer.
      mantissa_bits: at least 0, a known integer.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      ValueError: for fewer bits.
      TypeError: if operands are not floats; for bits that are not integers.
      ConcretizationTypeError: for traced bits.

    >>> from curta import lax
    >>> lax.reduce_precision(1.2, exponent_bits=8, mantissa_bits=2)
    Array(1.25, dtype=float32, weak_type=True)
    """
    bits = {"exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits}
    counts = [
        concrete_or_error(operator.index, n, f"{what} argument of lax.reduce_precision")
        for what, n in bits.items()
    ]
    return ops.ReducePrecision(*counts)(operand)
