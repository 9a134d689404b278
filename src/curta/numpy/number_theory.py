"""Divisors and multiples of integers; integers as packed bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import axis_of_shape, ensure_arraylike, ensure_operands
from curta.numpy.arithmetic import absolute, floor_divide
from curta.numpy.promotion import cast, const, promote_dtypes
from curta.numpy.reductions import any, sum
from curta.numpy.selection import broadcast_all, select_where
from curta.numpy.shapes import ravel, swapaxes


@inner_jit
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greatest common divisor of integers, by Euclid's algorithm.

    Raises ValueError for other dtypes.

    >>> from curta import numpy as jnp
    >>> jnp.gcd(jnp.array([12, 18]), 8)
    Array([4, 2], dtype=int32)
    """
    x1, x2 = promote_dtypes(*ensure_operands("gcd", x1, x2))
    if not dtypes.issubdtype(x1.dtype, np.integer):
        raise ValueError("Arguments to jax.numpy.gcd must be integers.")
    pair = tuple(_magnitude(x) for x in broadcast_all(x1, x2))
    return lax.convert_element_type(_divisor(pair), x1.dtype)


def _magnitude(x: Any) -> Any:
    """The absolute value as an unsigned integer, which the least number has, too."""
    bits = max(dtypes.iinfo(x.dtype).bits, 8)
    return lax.convert_element_type(absolute(x), np.dtype(f"uint{bits}"))


def _divisor(pair: tuple[Any, Any]) -> Any:
    return lax.while_loop(_unfinished, _euclid, pair)[0]


def _unfinished(pair: tuple[Any, Any]) -> Any:
    return any(lax.ne(pair[1], const(pair[1], 0)))


def _euclid(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    x1, x2 = pair
    left = lax.ne(x2, const(x2, 0))
    remainder = select_where(left, lax.rem(x1, x2), const(x2, 0))
    return select_where(left, x2, x1), remainder


@inner_jit
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The least common multiple of integers; ValueError for other dtypes.

    >>> from curta import numpy as jnp
    >>> jnp.lcm(jnp.array([4, 6]), 10)
    Array([20, 30], dtype=int32)
    """
    x1, x2 = promote_dtypes(*ensure_operands("lcm", x1, x2))
    if not dtypes.issubdtype(x1.dtype, np.integer):
        raise ValueError("Arguments to jax.numpy.lcm must be integers.")
    pair = tuple(_magnitude(x) for x in broadcast_all(x1, x2))
    divisor = _divisor(pair)
    zero = const(divisor, 0)
    multiple = lax.mul(pair[0], floor_divide(pair[1], divisor))
    multiple = select_where(lax.eq(divisor, zero), zero, multiple)
    return lax.convert_element_type(multiple, x1.dtype)


@inner_jit(static_argnames=("axis", "bitorder"))
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Eight booleans as the bits of one uint8; the last group is filled with zeros.

    Args:
      a: an array of booleans or integers; what differs from 0 is a one.
      axis: int, along which eight become one. None (default) flattens `a` first.
      bitorder: "big" (default) puts the first into the highest bit, "little" into the
        lowest.

    Returns:
      uint8, of the shape of `a` with an eighth, rounded up, along `axis`.

    Raises:
      TypeError: `a` is a list, a string or None; `a` is of floats or complex numbers,
        or `axis` no integer.
      ValueError: `bitorder` is unknown; `axis` is out of bounds (an IndexError too).

    >>> from curta import numpy as jnp
    >>> jnp.packbits(jnp.array([0, 0, 0, 0, 0, 1, 0, 1]))
    Array([5], dtype=uint8)
    """
    a = ensure_arraylike("packbits", a)
    if a.dtype != np.bool_ and not dtypes.issubdtype(a.dtype, np.integer):
        raise TypeError("Expected an input array of integer or boolean data type")
    shifts = _bit_shifts(bitorder)
    a = cast(lax.ne(a, const(a, 0)), np.dtype(np.uint8))
    if axis is None:
        a, axis = ravel(a), 0
    axis = axis_of_shape(axis, a.ndim)
    a = swapaxes(a, axis, -1)
    missing = -a.shape[-1] % 8
    if missing:
        config = [(0, 0, 0)] * (a.ndim - 1) + [(0, missing, 0)]
        a = lax.pad(a, np.uint8(0), config)
    a = lax.reshape(a, (*a.shape[:-1], a.shape[-1] // 8, 8))
    bits = lax.shift_left(a, lax.broadcast_in_dim(shifts, a.shape, (a.ndim - 1,)))
    return swapaxes(sum(bits, -1, dtype=np.uint8), axis, -1)


@inner_jit(static_argnames=("axis", "count", "bitorder"))
def unpackbits(
    a: ArrayLike,
    axis: int | None = None,
    count: int | None = None,
    bitorder: str = "big",
) -> Array:
    """The bits of uint8 numbers, eight for each.

    Args:
      a: an array of uint8.
      axis: int, along which one becomes eight. None (default) flattens `a` first.
      count: how many bits to keep; more are filled with zeros, a negative number drops
        so many. None (default) keeps all.
      bitorder: "big" (default) begins with the highest bit, "little" with the lowest.

    Returns:
      Zeros and ones, uint8, of the shape of `a` with `count` or eight times the size
      along `axis`.

    Raises:
      TypeError: `a` is a list, a string or None; `a` is not uint8, or `axis` or `count`
        is not an integer.
      ValueError: `bitorder` is unknown; `axis` is out of bounds (an IndexError too).

    >>> from curta import numpy as jnp
    >>> jnp.unpackbits(jnp.array([5], dtype=jnp.uint8))
    Array([0, 0, 0, 0, 0, 1, 0, 1], dtype=uint8)
    """
    a = ensure_arraylike("unpackbits", a)
    if a.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    shifts = _bit_shifts(bitorder)
    if axis is None:
        a, axis = ravel(a), 0
    axis = axis_of_shape(axis, a.ndim)
    a = swapaxes(a, axis, -1)
    shape = (*a.shape, 8)
    wide = lax.broadcast_in_dim(a, shape, tuple(range(a.ndim)))
    bits = lax.shift_right_logical(wide, lax.broadcast_in_dim(shifts, shape, (a.ndim,)))
    bits = lax.bitwise_and(bits, np.uint8(1))
    bits = lax.reshape(bits, (*a.shape[:-1], a.shape[-1] * 8))
    if count is not None:
        size = bits.shape[-1]
        more = count - size if count >= 0 else max(count, -size)
        config = [(0, 0, 0)] * (bits.ndim - 1) + [(0, more, 0)]
        bits = lax.pad(bits, np.uint8(0), config)
    return swapaxes(bits, axis, -1)


def _bit_shifts(bitorder: str) -> Any:
    if bitorder not in ("little", "big"):
        raise ValueError("'order' must be either 'little' or 'big'")
    shifts = lax.iota(np.uint8, 8)
    return lax.rev(shifts, (0,)) if bitorder == "big" else shifts
