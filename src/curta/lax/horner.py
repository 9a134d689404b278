"""Polynomials, and functions with derivatives of their own: what JAX 0.12 added."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.api.custom_derivatives import custom_jvp
from curta.core.array import Array, ArrayLike
from curta.core.shapes import broadcast_shapes
from curta.core.trace import typeof
from curta.lax.arithmetic import add, div, mul, sub
from curta.lax.control_flow.scanning import scan
from curta.lax.conversion import convert_element_type
from curta.lax.creation import full_like
from curta.lax.exponential import Accuracy, log
from curta.lax.shape import broadcast_in_dim, concatenate, expand_dims

_TERMS_UNROLLED = 8


def log2(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The logarithm to base 2; -inf at 0, NaN of negative floats.

    Args:
      x: floats or complex numbers, of any shape.
      accuracy: as of `log`; None (default) leaves it open.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      TypeError: `x` is of another dtype.

    >>> from curta import lax
    >>> lax.log2(8.0)
    Array(3., dtype=float32, weak_type=True)
    """
    dtype = typeof(x).dtype
    if not dtypes.issubdtype(dtype, np.inexact):
        raise TypeError(
            f"log2 does not accept dtype {dtype}. Accepted dtypes are subtypes of"
            " floating, complexfloating."
        )
    natural = log(x, accuracy=accuracy)
    return div(natural, full_like(natural, math.log(2)))


@custom_jvp
def one_minus_square(x: ArrayLike) -> Array:
    """1 - x², without cancellation where x is near 1, nor in derivatives near 0.

    >>> from curta import lax
    >>> lax.one_minus_square(0.5)
    Array(0.75, dtype=float32, weak_type=True)
    """
    one = full_like(x, 1)
    return mul(add(one, x), sub(one, x))


@one_minus_square.defjvp
def _one_minus_square_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return one_minus_square(x), mul(t, mul(full_like(x, -2), x))


def polynomial(
    x: ArrayLike, coeffs: Sequence[ArrayLike], *, unroll: int | None = None
) -> Array:
    """The values at `x` of a polynomial, by Horner's rule.

    Args:
      x: numbers, of any shape.
      coeffs: the coefficients, that of the lowest power first: scalars, or arrays with
        as many dims as `x`, whose sizes broadcast with its. Python's ints and floats
        are taken in the dtype of `x`.
      unroll: how many terms are written out; more of them make a loop. None (default)
        is 8.

    Returns:
      An array of the shape to which `x` and the coefficients broadcast.

    Raises:
      TypeError: coefficients have other numbers of dims or other dtypes than `x`.
      ValueError: shapes do not broadcast.

    >>> from curta import lax
    >>> lax.polynomial(3.0, [2.0, 0.0, 1.0])  # 2 + x²
    Array(11., dtype=float32, weak_type=True)
    """
    avals = [typeof(part) for part in (x, *coeffs)]
    ranks = {aval.ndim for aval in avals if aval.ndim}
    if len(ranks) > 1:
        raise TypeError(
            f"polynomial: arrays must have the same number of dimensions, got {ranks}"
        )
    shape = broadcast_shapes(*(aval.shape for aval in avals))
    dtype = avals[0].dtype
    x = _spread(x, shape)
    if not coeffs:
        return full_like(x, 0)
    # Python's real numbers take the dtype of x, that of integers too.
    terms = [
        full_like(x, c) if type(c) in (int, float) else _spread(c, shape)
        for c in coeffs
    ]
    highest, *others = reversed(terms)
    if len(coeffs) > (_TERMS_UNROLLED if unroll is None else unroll):
        stacked = concatenate([expand_dims(c, (0,)) for c in others], 0)
        return scan(lambda y, c: (add(mul(y, x), c), None), highest, stacked)[0]
    value = convert_element_type(highest, dtype) if not others else highest
    for c in others:
        value = add(mul(value, x), c)
    return value


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    held = typeof(x).shape
    if held == shape:
        return x
    dims = tuple(range(len(shape))) if held else ()
    return broadcast_in_dim(x, shape, dims)
