"""Operands of distributions that have a location and a scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array
from curta.core.trace import typeof
from curta.numpy.promotion import inexact_operands


def standardise(
    name: str, x: Any, *shape: Any, loc: Any, scale: Any
) -> tuple[Array, ...]:
    """(x - loc) / scale, the shape parameters and the scale, in one float dtype."""
    x, *parameters, loc, scale = inexact_operands(name, x, *shape, loc, scale)
    return (lax.div(lax.sub(x, loc), scale), *parameters, scale)


def refuse_complex(comparison: Callable[[Any, Any], Any], x: Any) -> None:
    """Raise TypeError, as the comparison does, for numbers that have no order."""
    if typeof(x).dtype.kind == "c":
        comparison(x, x)


def no_less(x: Any, limit: float) -> Array:
    """`x`, or the limit where x is less: the derivative is 1, and 0 beyond it.

    Unlike that of a maximum it is 1 at the limit, and hides what is infinite beyond.
    """
    return jnp.where(x < limit, limit, x)


def no_more(x: Any, limit: float) -> Array:
    """`x`, or the limit where x is greater; see `no_less`."""
    return jnp.where(x > limit, limit, x)
