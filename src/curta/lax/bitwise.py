"""Bitwise logic, shifts and counts of bits, of integers.

Operands have the same dtype, and the same rank or rank 0; TypeError otherwise. The
functions of the same purpose in `curta.numpy` promote and broadcast.
"""

from __future__ import annotations

from curta.core.array import Array, ArrayLike
from curta.primitives import elementwise as ops


def bitwise_not(x: ArrayLike) -> Array:
    """Every bit of booleans or integers flipped.

    >>> from curta import lax
    >>> lax.bitwise_not(5)
    Array(-6, dtype=int32, weak_type=True)
    """
    return ops.not_(x)


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that are set in both, of booleans or integers.

    >>> from curta import lax
    >>> lax.bitwise_and(6, 3)
    Array(2, dtype=int32, weak_type=True)
    """
    return ops.and_(x, y)


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that are set in either, of booleans or integers.

    >>> from curta import lax
    >>> lax.bitwise_or(6, 3)
    Array(7, dtype=int32, weak_type=True)
    """
    return ops.or_(x, y)


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that are set in one of the two, of booleans or integers.

    >>> from curta import lax
    >>> lax.bitwise_xor(6, 3)
    Array(5, dtype=int32, weak_type=True)
    """
    return ops.xor(x, y)


def population_count(x: ArrayLike) -> Array:
    """How many bits are set.

    >>> from curta import lax
    >>> lax.population_count(7)
    Array(3, dtype=int32, weak_type=True)
    """
    return ops.population_count(x)


def clz(x: ArrayLike) -> Array:
    """How many zeros stand before the first bit that is set.

    >>> from curta import lax
    >>> lax.clz(1)
    Array(31, dtype=int32, weak_type=True)
    """
    return ops.clz(x)


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted left by y bits; 0 if y is not between 0 and the number of bits.

    >>> from curta import lax
    >>> lax.shift_left(3, 2)
    Array(12, dtype=int32, weak_type=True)
    """
    return ops.shift_left(x, y)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted right by y bits, copies of the sign bit coming in.

    Nothing but copies of it remain if y is out of range.

    >>> from curta import lax
    >>> lax.shift_right_arithmetic(-8, 1)
    Array(-4, dtype=int32, weak_type=True)
    """
    return ops.shift_right_arithmetic(x, y)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted right by y bits, zeros coming in; 0 if y is out of range.

    >>> from curta import lax
    >>> lax.shift_right_logical(-1, 28)
    Array(15, dtype=int32, weak_type=True)
    """
    return ops.shift_right_logical(x, y)
