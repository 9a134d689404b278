"""Differentiation of primitives that programs define.

>>> from curta.extend.core import Primitive
>>> from curta.interpreters import ad
>>> cube = Primitive("cube")
>>> _ = cube.def_impl(lambda x: x**3)
>>> _ = cube.def_abstract_eval(lambda x: x)
>>> ad.defjvp(cube, lambda t, x: 3 * x**2 * t)
>>> import curta
>>> curta.grad(cube.bind)(2.0)
Array(12., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from curta.core.primitive import Primitive
from curta.core.tangents import (
    LinearArg as UndefinedPrimal,
    Zero as Zero,
    is_linear as is_undefined_primal,
)
from curta.core.trace import typeof
from curta.core.user_op import jvp_rules, transpose_rules
from curta.primitives.structure import add_tangents, instantiate as instantiate_zeros

__all__ = [
    "UndefinedPrimal",
    "Zero",
    "add_tangents",
    "defjvp",
    "deflinear2",
    "instantiate_zeros",
    "is_undefined_primal",
    "primitive_jvps",
    "primitive_transposes",
]

# `rule(primals, tangents, **params)` gives output and tangent; tangents may be `Zero`.
primitive_jvps = jvp_rules

# `rule(cotangent, *args, **params)` gives a cotangent (or None) for each argument; the
# linear ones are `UndefinedPrimal(aval)`.
primitive_transposes = transpose_rules


def defjvp(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """Differentiate a primitive of one result operand by operand.

    `rules[i](tangent, *primals, **params)` is what the tangent of operand i adds to
    that of the result; None where the derivative is zero.
    """

    def rule(
        primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[Any, Any]:
        out = primitive.bind(*primals, **params)
        parts = [
            part(t, *primals, **params)
            for part, t in zip(rules, tangents, strict=True)
            if part is not None and type(t) is not Zero
        ]
        nothing = Zero(typeof(out).to_tangent_aval())
        return out, functools.reduce(add_tangents, parts, nothing)

    primitive_jvps[primitive] = rule


def deflinear2(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """A linear primitive: its own derivative, transposed by `transpose_rule`."""

    def rule(
        primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[Any, Any]:
        given = map(instantiate_zeros, tangents)
        return primitive.bind(*primals, **params), primitive.bind(*given, **params)

    primitive_jvps[primitive] = rule
    primitive_transposes[primitive] = transpose_rule
