"""Estimates of a program's work."""

from __future__ import annotations

import math

from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, Eqn
from curta.core.op import Op
from curta.primitives.base import Elementwise
from curta.primitives.families import Reduction


def bytes_of(aval: ShapedArray) -> int:
    """The bytes of an array's elements."""
    return aval.size * int(aval.dtype.itemsize)


def flops(closed: ClosedJaxpr) -> int:
    """One operation for each number that is computed, two for each term of a dot.

    A reduction of n elements to one takes n - 1. Transcendental functions are counted
    apart, and ops that only move elements not at all.
    """
    return sum(map(eqn_flops, closed.eqns))


def eqn_flops(eqn: Eqn) -> int:
    """The operations of one eqn; a loop counts once, whatever its trip count."""
    inner = eqn.params.get("jaxpr")
    if isinstance(inner, ClosedJaxpr):
        return flops(inner)
    if "dimension_numbers" in eqn.params and eqn.op.name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        shape = eqn.invars[0].aval.shape
        depth = math.prod(shape[d] for d in contracted)
        return 2 * depth * eqn.outvars[0].aval.size
    if isinstance(eqn.op, Reduction):
        taken = sum(v.aval.size for v in eqn.invars)
        return taken - sum(v.aval.size for v in eqn.outvars)
    if isinstance(eqn.op, Elementwise) and not _is_transcendental(eqn.op):
        return eqn.outvars[0].aval.size
    return 0


def transcendentals(closed: ClosedJaxpr) -> int:
    """The values of transcendental functions that are computed."""
    return sum(map(eqn_transcendentals, closed.eqns))


def eqn_transcendentals(eqn: Eqn) -> int:
    """The values of transcendental functions of one eqn."""
    inner = eqn.params.get("jaxpr")
    if isinstance(inner, ClosedJaxpr):
        return transcendentals(inner)
    return eqn.outvars[0].aval.size if _is_transcendental(eqn.op) else 0


def _is_transcendental(op: Op) -> bool:
    return op.name in _TRANSCENDENTAL


_TRANSCENDENTAL = {
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos"),
    *("cosh", "digamma", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "lgamma"),
    *("log", "log1p", "logistic", "pow", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh"),
}
