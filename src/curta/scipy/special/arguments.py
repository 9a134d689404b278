"""Operand checks and ratios of polynomials for the special functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.config import enable_x64
from curta.core.array import Array
from curta.core.trace import typeof
from curta.numpy.promotion import inexact_operands
from curta.primitives.elementwise.convert import convert_element_type


def real(name: str, *args: Any) -> list[Array]:
    """The operands as floats of one dtype; raises ValueError for complex ones."""
    operands = inexact_operands(name, *args)
    if dtypes.issubdtype(operands[0].dtype, np.complexfloating):
        raise ValueError(f"{name} does not support complex-valued inputs.")
    return operands


def real_or_lists(name: str, *args: Any) -> list[Array]:
    """`real`, of operands that may be lists of numbers as well."""
    return real(name, *[x if x is None else jnp.asarray(x) for x in args])


def only_f32_or_f64(x: Any) -> Array:
    """`x` as float32 or float64, not weakly typed; TypeError for other dtypes."""
    x = jnp.asarray(x)
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(
            f"x.dtype={x.dtype} is not supported, see docstring for supported types."
        )
    return lax.convert_element_type(x, x.dtype)


def polynomial(coefficients: Sequence[float] | np.ndarray[Any, Any], x: Any) -> Any:
    """The polynomial at x, highest power first, by Horner's rule."""
    return jnp.polyval(np.asarray(coefficients, x.dtype), x)


def ratio(above: Sequence[float], below: Sequence[float], x: Any) -> Any:
    """The quotient of two polynomials at x, highest powers first."""
    return polynomial(above, x) / polynomial(below, x)


def in_double(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Compute a function of floats of one dtype in float64, and round its results.

    The setting `jax_enable_x64` does not matter. Results have the dtype of the first
    operand, and are weakly typed if all operands are.
    """

    @functools.wraps(fun)
    def wide(*operands: Any) -> Any:
        avals = [typeof(x) for x in operands]
        dtype, weak = avals[0].dtype, all(x.weak_type for x in avals)
        if dtype == np.float64:
            return fun(*operands)
        with enable_x64(True):
            value = fun(*[convert_element_type(x, np.dtype("f8")) for x in operands])
        if isinstance(value, tuple):
            return tuple(convert_element_type(x, dtype, weak) for x in value)
        return convert_element_type(value, dtype, weak)

    return wide
