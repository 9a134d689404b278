"""Operands of distributions that have a location and a scale."""

from __future__ import annotations

from typing import Any

from curta import lax
from curta.numpy.promotion import promote_args_inexact


def standardise(
    name: str, x: Any, *shape: Any, loc: Any, scale: Any
) -> tuple[Any, ...]:
    """(x - loc) / scale, the shape parameters and the scale, in one float dtype."""
    x, *parameters, loc, scale = promote_args_inexact(name, x, *shape, loc, scale)
    return (lax.div(lax.sub(x, loc), scale), *parameters, scale)
