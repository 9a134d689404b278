"""Polynomials, and 1 - x²: what JAX 0.12 added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from curta.core.array import Array, ArrayLike
from curta.core.trace import Tracer, typeof
from curta.lax.conversion import convert_element_type
from curta.lax.creation import full_like
from curta.lax.shape import broadcast_in_dim
from curta.primitives import elementwise as ops
from curta.primitives.base import broadcast_shapes, const


def one_minus_square(x: ArrayLike) -> Array:
    """1 - x², without cancellation where x is near 1, nor in derivatives near 0.

    >>> from curta import lax
    >>> lax.one_minus_square(0.5)
    Array(0.75, dtype=float32, weak_type=True)
    """
    return ops.one_minus_square(x)


def polynomial(
    x: ArrayLike, coeffs: Sequence[ArrayLike], *, unroll: int | None = None
) -> Array:
    """The values at `x` of a polynomial, by Horner's rule.

    Derivatives are polynomials of lower degree.

    Args:
      x: numbers, of any shape.
      coeffs: the coefficients, starting with the lowest power: scalars, or arrays with
        as many dims as `x` that broadcast with it. They are converted to the dtype of
        `x`.
      unroll: how many terms may be written out; a parameter of the op in jaxprs, which
        has no effect: all terms are. None (default) leaves it out.

    Returns:
      An array of the dtype of `x`, of the shape to which `x` and the coefficients
      broadcast.

    Raises:
      TypeError: coefficients have other numbers of dims than `x`, or their shapes do
        not broadcast.

    >>> from curta import lax
    >>> lax.polynomial(3.0, [2.0, 0.0, 1.0])  # 2 + x²
    Array(11., dtype=float32, weak_type=True)
    """
    dtype = typeof(x).dtype
    terms = [
        const(x, c)
        if not isinstance(c, Tracer) and np.ndim(c) == 0
        else convert_element_type(c, dtype)
        for c in coeffs
    ]
    if not terms:
        return full_like(x, 0)
    if len(terms) > 1:
        return ops.Polynomial(unroll)(x, *terms)
    (only,) = terms
    held = typeof(only).shape
    shape = broadcast_shapes("polynomial", [typeof(x).shape, held])
    if held == shape:
        return convert_element_type(only, dtype)
    return broadcast_in_dim(only, shape, tuple(range(len(shape))) if held else ())
