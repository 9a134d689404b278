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

from curta._base.on_demand import Listing, listed
from curta.control.primitives import add_jaxvals_p as add_jaxvals_p
from curta.core.jaxpr import ClosedJaxpr, Jaxpr
from curta.core.primitive import Primitive
from curta.core.tangents import (
    LinearArg as UndefinedPrimal,
    Zero as Zero,
    is_linear as is_undefined_primal,
)
from curta.core.trace import typeof
from curta.core.user_op import jvp_rules, transpose_rules
from curta.interpreters.flat_derivatives import jvp as jvp, linearize as linearize
from curta.primitives.structure import (
    add_any as add_jaxvals,
    add_tangents,
    instantiate as instantiate_zeros,
    zeros as zeros_like_aval,
)
from curta.transforms.jaxprs import jvp_jaxpr as _jvp_jaxpr
from curta.transforms.jvp import JVPTrace as JVPTrace, JVPTracer as JVPTracer
from curta.transforms.transpose import backward_pass as _backward_pass

__all__ = [
    "JVPTrace",
    "JVPTracer",
    "UndefinedPrimal",
    "Zero",
    "add_jaxvals",
    "add_jaxvals_p",
    "add_tangents",
    "backward_pass",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "get_primitive_transpose",
    "instantiate_zeros",
    "is_undefined_primal",
    "jvp",
    "jvp_jaxpr",
    "linearize",
    "primitive_jvps",
    "primitive_transposes",
    "zeros_like_aval",
]
__dir__: Listing = listed(__all__)

# `rule(primals, tangents, **params)` gives output and tangent; tangents may be `Zero`.
primitive_jvps = jvp_rules

# `rule(cotangent, *args, **params)` gives a cotangent (or None) for each argument; the
# linear ones are `UndefinedPrimal(aval)`.
primitive_transposes = transpose_rules


def defjvp(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """Differentiate a primitive of one result operand by operand.

    `rules[i](tangent, *primals, **params)` returns the contribution of operand i to the
    tangent of the result. A rule is None if the derivative is zero.

    >>> import curta
    >>> from curta.extend.core import Primitive
    >>> from curta.interpreters import ad
    >>> cube = Primitive("cube")
    >>> _ = cube.def_impl(lambda x: x**3)
    >>> ad.defjvp(cube, lambda t, x: 3 * x**2 * t)
    >>> curta.jvp(cube.bind, (2.0,), (1.0,))[1]
    12.0
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


def defjvp2(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """As `defjvp`, with `rules[i](tangent, out, *primals, **params)`.

    >>> import curta
    >>> from curta.extend.core import Primitive
    >>> from curta.interpreters import ad
    >>> power = Primitive("power")
    >>> _ = power.def_impl(lambda x: 2.0**x)
    >>> ad.defjvp2(power, lambda t, out, x: t * out * 0.693)
    >>> curta.jvp(power.bind, (3.0,), (1.0,))[1]
    5.544
    """

    def rule(
        primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[Any, Any]:
        out = primitive.bind(*primals, **params)
        parts = [
            part(t, out, *primals, **params)
            for part, t in zip(rules, tangents, strict=True)
            if part is not None and type(t) is not Zero
        ]
        nothing = Zero(typeof(out).to_tangent_aval())
        return out, functools.reduce(add_tangents, parts, nothing)

    primitive_jvps[primitive] = rule


def deflinear(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """As `deflinear2`, with `transpose_rule(cotangent, **params)`.

    >>> import curta
    >>> from curta.extend.core import Primitive
    >>> from curta.interpreters import ad
    >>> twice = Primitive("twice")
    >>> _ = twice.def_impl(lambda x: 2 * x)
    >>> _ = twice.def_abstract_eval(lambda x: x)
    >>> ad.deflinear(twice, lambda ct: [2 * ct])
    >>> curta.grad(twice.bind)(3.0)
    Array(2., dtype=float32, weak_type=True)
    """

    def transpose(cotangent: Any, *args: Any, **params: Any) -> Any:
        return transpose_rule(cotangent, **params)

    deflinear2(primitive, transpose)


def defbilinear(
    primitive: Primitive,
    left_rule: Callable[..., Any],
    right_rule: Callable[..., Any],
) -> None:
    """A primitive that is linear in each of its two operands.

    Args:
      primitive: an operation of two operands and one result.
      left_rule: `left_rule(cotangent, x, y, **params)` gives the cotangent of the left
        operand x, which is an `UndefinedPrimal` then.
      right_rule: the same of the right operand.

    Returns:
      None.

    >>> import curta
    >>> from curta.extend.core import Primitive
    >>> from curta.interpreters import ad
    >>> times = Primitive("times")
    >>> _ = times.def_impl(lambda x, y: x * y)
    >>> _ = times.def_abstract_eval(lambda x, y: x)
    >>> ad.defbilinear(times, lambda ct, x, y: ct * y, lambda ct, x, y: ct * x)
    >>> curta.grad(times.bind)(2.0, 3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    defjvp(
        primitive,
        lambda t, x, y, **params: primitive.bind(t, y, **params),
        lambda t, x, y, **params: primitive.bind(x, t, **params),
    )

    def transpose(cotangent: Any, x: Any, y: Any, **params: Any) -> Any:
        if is_undefined_primal(x):
            return left_rule(cotangent, x, y, **params), None
        return None, right_rule(cotangent, x, y, **params)

    primitive_transposes[primitive] = transpose


def get_primitive_transpose(primitive: Primitive) -> Callable[..., Any]:
    """The transposition rule of a primitive; NotImplementedError if it has none.

    >>> from curta.extend.core import Primitive
    >>> from curta.interpreters import ad
    >>> ad.get_primitive_transpose(Primitive("cube"))
    Traceback (most recent call last):
        ...
    NotImplementedError: Transpose rule (for reverse-mode differentiation) ...
    """
    try:
        return primitive_transposes[primitive]
    except KeyError:
        raise NotImplementedError(
            "Transpose rule (for reverse-mode differentiation) for"
            f" '{primitive}' not implemented. Define it with deflinear2."
        ) from None


def deflinear2(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """A linear primitive: its own derivative, transposed by `transpose_rule`.

    >>> import curta
    >>> from curta.extend.core import Primitive
    >>> from curta.interpreters import ad
    >>> twice = Primitive("twice")
    >>> _ = twice.def_impl(lambda x: 2 * x)
    >>> _ = twice.def_abstract_eval(lambda x: x)
    >>> ad.deflinear2(twice, lambda ct, x: [2 * ct])
    >>> curta.grad(twice.bind)(3.0)
    Array(2., dtype=float32, weak_type=True)
    """

    def rule(
        primals: Sequence[Any], tangents: Sequence[Any], **params: Any
    ) -> tuple[Any, Any]:
        given = map(instantiate_zeros, tangents)
        return primitive.bind(*primals, **params), primitive.bind(*given, **params)

    primitive_jvps[primitive] = rule
    primitive_transposes[primitive] = transpose_rule


def jvp_jaxpr(
    jaxpr: ClosedJaxpr, nonzeros: Sequence[bool], instantiate: bool | Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jaxpr of values and tangents, and which outputs have a tangent.

    It takes the inputs and the tangents that are not zero, and gives the outputs and
    their tangents, without the zero ones.

    Args:
      jaxpr: the jaxpr of values.
      nonzeros: whether each input has a tangent.
      instantiate: whether zero tangents of outputs are given too: for each, or all.

    Returns:
      The jaxpr, and a bool for each output.

    Raises:
      ValueError: `nonzeros` has another length than the inputs.

    >>> import curta
    >>> from curta.interpreters import ad
    >>> closed = curta.make_jaxpr(lambda x, y: (2 * x, y))(1.0, 1.0)
    >>> pushed, nonzero = ad.jvp_jaxpr(closed, [True, False], False)
    >>> len(pushed.in_avals), len(pushed.out_avals), nonzero
    (3, 3, [True, False])
    """
    make = instantiate if isinstance(instantiate, bool) else tuple(instantiate)
    pushed, nonzero = _jvp_jaxpr(jaxpr, tuple(nonzeros), make)
    return pushed, list(nonzero)


def backward_pass(
    jaxpr: Jaxpr | ClosedJaxpr,
    transform_stack: bool,
    consts: Sequence[Any],
    primals_in: Sequence[Any],
    cts_in: Sequence[Any],
) -> list[Any]:
    """The cotangents of the inputs of a linear jaxpr from those of its outputs.

    Args:
      jaxpr: a jaxpr that is linear in the inputs that are `UndefinedPrimal`.
      transform_stack: whether paths of ops say `transpose`; they always do.
      consts: the values of its constants.
      primals_in: its inputs; `UndefinedPrimal(aval)` for the linear ones.
      cts_in: a cotangent, or `Zero`, for each output.

    Returns:
      A cotangent for each input; `Zero` for those that are known or get none.

    Raises:
      NotImplementedError: an op is not linear in such an input.

    >>> import curta
    >>> from curta.interpreters import ad
    >>> jaxpr = curta.make_jaxpr(lambda x, y: x * y)(1.0, 1.0).jaxpr
    >>> linear = ad.UndefinedPrimal(curta.typeof(1.0))
    >>> print(ad.backward_pass(jaxpr, True, (), (linear, 3.0), (2.0,))[0])
    6.0
    """
    if isinstance(jaxpr, ClosedJaxpr):
        consts, jaxpr = jaxpr.consts, jaxpr.jaxpr
    cts = _backward_pass(jaxpr, consts, primals_in, cts_in)
    avals = [v.aval.to_cotangent_aval() for v in jaxpr.invars]
    return [Zero(a) if ct is None else ct for ct, a in zip(cts, avals, strict=True)]
