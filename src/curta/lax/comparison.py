"""Comparisons.

Operands have the same dtype, and the same rank or rank 0; TypeError otherwise. The
functions of the same purpose in `curta.numpy` promote and broadcast.
"""

from __future__ import annotations

from curta.core.array import Array, ArrayLike
from curta.primitives import elementwise as ops


def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """x == y, as booleans.

    Random keys compare too. NaN equals nothing.

    >>> from curta import lax
    >>> lax.eq(2, 3)
    Array(False, dtype=bool, weak_type=True)
    """
    return ops.eq(x, y)


def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """x != y, as booleans.

    Random keys compare too. NaN differs from everything.

    >>> from curta import lax
    >>> lax.ne(2, 3)
    Array(True, dtype=bool, weak_type=True)
    """
    return ops.ne(x, y)


def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """x >= y, as booleans.

    False where either is NaN. Complex numbers have no order: TypeError.

    >>> from curta import lax
    >>> lax.ge(2, 3)
    Array(False, dtype=bool, weak_type=True)
    """
    return ops.ge(x, y)


def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """x > y, as booleans.

    False where either is NaN. Complex numbers have no order: TypeError.

    >>> from curta import lax
    >>> lax.gt(2, 3)
    Array(False, dtype=bool, weak_type=True)
    """
    return ops.gt(x, y)


def le(x: ArrayLike, y: ArrayLike) -> Array:
    """x <= y, as booleans.

    False where either is NaN. Complex numbers have no order: TypeError.

    >>> from curta import lax
    >>> lax.le(2, 3)
    Array(True, dtype=bool, weak_type=True)
    """
    return ops.le(x, y)


def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """x < y, as booleans.

    False where either is NaN. Complex numbers have no order: TypeError.

    >>> from curta import lax
    >>> lax.lt(2, 3)
    Array(True, dtype=bool, weak_type=True)
    """
    return ops.lt(x, y)
