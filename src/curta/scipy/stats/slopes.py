"""Probabilities and their logarithms, with derivatives in the number by densities.

Formulas of probabilities have branches, whose derivatives are 0 times infinity where
a density is infinite or a probability 0. The derivative in the number is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.api.custom_derivatives import custom_jvp
from curta.api.jvp import jvp
from curta.control.custom_jvp import SymbolicZero

Formula = Callable[..., Any]


def with_slope(formula: Formula, slope: Formula) -> Formula:
    """formula(z, *shape), whose derivative in z is slope(value, z, *shape).

    Derivatives in the shape parameters are those of the formula.
    """

    @custom_jvp
    def value(z: Any, *shape: Any) -> Any:
        return formula(z, *shape)

    def rule(primals: Any, tangents: Any) -> Any:
        (z, *shape), (dz, *rest) = primals, tangents
        total: Any = 0
        if all(isinstance(t, SymbolicZero) for t in rest):
            out = value(*primals)
        else:
            changes = [jnp.zeros_like(x) if isinstance(t, SymbolicZero) else t
                       for x, t in zip(shape, rest, strict=True)]  # fmt: skip
            out, total = jvp(lambda *s: formula(z, *s), tuple(shape), tuple(changes))
        if not isinstance(dz, SymbolicZero):
            total = total + dz * slope(out, *primals)
        return out, jnp.asarray(total, out.dtype) + jnp.zeros_like(out)

    value.defjvp(rule, symbolic_zeros=True)
    return value


def log_below(formula: Formula, log_density: Formula, low: Formula) -> Formula:
    """The logarithm of the probability below z; `low` tells whether z is too low."""

    def slope(out: Any, z: Any, *shape: Any) -> Any:
        return _rate(out, log_density(z, *shape), low(z, *shape))

    return with_slope(formula, slope)


def log_beyond(formula: Formula, log_density: Formula, high: Formula) -> Formula:
    """The logarithm of the probability beyond z; `high` tells whether z is too high."""

    def slope(out: Any, z: Any, *shape: Any) -> Any:
        return -_rate(out, log_density(z, *shape), high(z, *shape))

    return with_slope(formula, slope)


def _rate(log: Any, log_density: Any, outside: Any) -> Any:
    """The density over a probability, infinite at the end of the support."""
    none = log == -np.inf
    ratio = lax.exp(log_density - jnp.where(none, 0, log))
    return jnp.where(none, jnp.where(outside, 0.0, np.inf), ratio)
