"""Operations on the bits of integers and on booleans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inlined_jit, inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import alias, renamed
from curta.numpy.arithmetic import absolute
from curta.numpy.promotion import promote_args, promote_args_numeric


@inlined_jit
def bitwise_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits that are set in both; logical and for booleans.

    Args:
      x, y: arrays or scalars of integers or booleans that broadcast.

    Returns:
      The bits, of the broadcast shape and the promoted dtype.

    Raises:
      TypeError: an operand is a list, a string or None; shapes of one rank do not
        broadcast; an operand is of floats or complex numbers.
      ValueError: shapes of different ranks do not broadcast.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> jnp.bitwise_and(6, 3)
    Array(2, dtype=int32, weak_type=True)
    """
    return lax.bitwise_and(*promote_args("bitwise_and", x, y))


@inlined_jit
def bitwise_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits that are set in either; logical or for booleans.

    Args:
      x, y: arrays or scalars of integers or booleans that broadcast.

    Returns:
      The bits, of the broadcast shape and the promoted dtype.

    Raises:
      TypeError: an operand is a list, a string or None; shapes of one rank do not
        broadcast; an operand is of floats or complex numbers.
      ValueError: shapes of different ranks do not broadcast.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> jnp.bitwise_or(6, 3)
    Array(7, dtype=int32, weak_type=True)
    """
    return lax.bitwise_or(*promote_args("bitwise_or", x, y))


@inlined_jit
def bitwise_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits that are set in one but not both.

    Args:
      x, y: arrays or scalars of integers or booleans that broadcast.

    Returns:
      The bits, of the broadcast shape and the promoted dtype.

    Raises:
      TypeError: an operand is a list, a string or None; shapes of one rank do not
        broadcast; an operand is of floats or complex numbers.
      ValueError: shapes of different ranks do not broadcast.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> jnp.bitwise_xor(6, 3)
    Array(5, dtype=int32, weak_type=True)
    """
    return lax.bitwise_xor(*promote_args("bitwise_xor", x, y))


def bitwise_not(x: ArrayLike, /) -> Array:
    """Every bit turned over; logical not for booleans.

    >>> from curta import numpy as jnp
    >>> jnp.bitwise_not(jnp.array([0, 1]))
    Array([-1, -2], dtype=int32)
    """
    return lax.bitwise_not(*promote_args("bitwise_not", x))


def _inverter(name: str) -> Callable[[ArrayLike], Array]:
    def inverted(x: ArrayLike, /) -> Array:
        return lax.bitwise_not(*promote_args(name, x))

    return renamed(name, inverted, bitwise_not)


bitwise_invert: Callable[[ArrayLike], Array] = _inverter("bitwise_invert")
invert: Callable[[ArrayLike], Array] = _inverter("invert")


def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits of x moved y bits up.

    >>> from curta import numpy as jnp
    >>> jnp.left_shift(jnp.array([1, 2]), 3)
    Array([ 8, 16], dtype=int32)
    """
    return lax.shift_left(*promote_args_numeric("left_shift", x, y))


def _bitwise_left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    return lax.shift_left(*promote_args_numeric("bitwise_left_shift", x, y))


bitwise_left_shift: Callable[[ArrayLike, ArrayLike], Array] = renamed(
    "bitwise_left_shift", _bitwise_left_shift, left_shift
)


def right_shift(x1: Any, x2: Any, /) -> Array:
    """The bits of x1 moved x2 bits down; negative numbers stay negative.

    >>> from curta import numpy as jnp
    >>> jnp.right_shift(jnp.array([8, -8]), 2)
    Array([ 2, -2], dtype=int32)
    """
    x1, x2 = promote_args_numeric("right_shift", x1, x2)
    if dtypes.issubdtype(x1.dtype, np.unsignedinteger):
        return lax.shift_right_logical(x1, x2)
    return lax.shift_right_arithmetic(x1, x2)


bitwise_right_shift: Callable[[ArrayLike, ArrayLike], Array] = alias(
    "bitwise_right_shift", right_shift
)


@inner_jit
def bitwise_count(x: ArrayLike, /) -> Array:
    """How many bits of |x| are set, as uint8.

    >>> from curta import numpy as jnp
    >>> jnp.bitwise_count(jnp.array([0, 7, -8]))
    Array([0, 3, 1], dtype=uint8)
    """
    (x,) = promote_args_numeric("bitwise_count", x)
    count = lax.population_count(absolute(x))
    return lax.convert_element_type(count, np.uint8)
