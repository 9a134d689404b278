"""Trigonometric and hyperbolic functions, and their inverses.

All compute in floats: integers and booleans are converted first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from curta import lax
from curta.api.custom_derivatives import custom_jvp
from curta.api.inner import inlined_jit, inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    alias,
    is_complex,
    renamed,
)
from curta.numpy.promotion import (
    const,
    promote_args_inexact,
)
from curta.numpy.selection import select_where


@inlined_jit
def sin(x: ArrayLike, /) -> Array:
    """The sine of an angle in radians.

    >>> from curta import numpy as jnp
    >>> float(jnp.sin(0.0))
    0.0
    """
    return lax.sin(*promote_args_inexact("sin", x))


@inlined_jit
def cos(x: ArrayLike, /) -> Array:
    """The cosine of an angle in radians.

    >>> from curta import numpy as jnp
    >>> float(jnp.cos(0.0))
    1.0
    """
    return lax.cos(*promote_args_inexact("cos", x))


@inlined_jit
def tan(x: ArrayLike, /) -> Array:
    """The tangent of an angle in radians.

    >>> from curta import numpy as jnp
    >>> float(jnp.tan(0.0))
    0.0
    """
    return lax.tan(*promote_args_inexact("tan", x))


@inlined_jit
def arcsin(x: ArrayLike, /) -> Array:
    """The angle in [-π/2, π/2] whose sine is x.

    >>> from curta import numpy as jnp
    >>> float(jnp.arcsin(0.0))
    0.0
    """
    return lax.asin(*promote_args_inexact("arcsin", x))


@inlined_jit
def arccos(x: ArrayLike, /) -> Array:
    """The angle in [0, π] whose cosine is x.

    >>> from curta import numpy as jnp
    >>> float(jnp.arccos(1.0))
    0.0
    """
    return lax.acos(*promote_args_inexact("arccos", x))


@inlined_jit
def arctan(x: ArrayLike, /) -> Array:
    """The angle in (-π/2, π/2) whose tangent is x.

    >>> from curta import numpy as jnp
    >>> float(jnp.arctan(0.0))
    0.0
    """
    return lax.atan(*promote_args_inexact("arctan", x))


@inlined_jit
def arctan2(x1: Any, x2: Any, /) -> Array:
    """The angle of the point (x2, x1) in [-π, π].

    >>> from curta import numpy as jnp
    >>> float(jnp.arctan2(0.0, 1.0))
    0.0
    """
    return lax.atan2(*promote_args_inexact("arctan2", x1, x2))


@inlined_jit
def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine.

    >>> from curta import numpy as jnp
    >>> float(jnp.sinh(0.0))
    0.0
    """
    return lax.sinh(*promote_args_inexact("sinh", x))


@inlined_jit
def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine.

    >>> from curta import numpy as jnp
    >>> float(jnp.cosh(0.0))
    1.0
    """
    return lax.cosh(*promote_args_inexact("cosh", x))


@inlined_jit
def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent.

    >>> from curta import numpy as jnp
    >>> jnp.tanh(jnp.array([0.0, jnp.inf]))
    Array([0., 1.], dtype=float32)
    """
    return lax.tanh(*promote_args_inexact("tanh", x))


@inlined_jit
def arcsinh(x: ArrayLike, /) -> Array:
    """The inverse of sinh.

    >>> from curta import numpy as jnp
    >>> float(jnp.arcsinh(0.0))
    0.0
    """
    return lax.asinh(*promote_args_inexact("arcsinh", x))


@inner_jit
def arccosh(x: ArrayLike, /) -> Array:
    """The inverse of cosh, with a real part of at least 0.

    >>> from curta import numpy as jnp
    >>> float(jnp.arccosh(1.0))
    0.0
    """
    return _acosh(*promote_args_inexact("arccosh", x))


def _acosh(x: Array) -> Array:
    out = lax.acosh(x)
    if is_complex(out):
        re = lax.real(out)
        out = select_where(lax.lt(re, const(re, 0)), lax.neg(out), out)
    return out


@inlined_jit
def arctanh(x: ArrayLike, /) -> Array:
    """The inverse of tanh.

    >>> from curta import numpy as jnp
    >>> float(jnp.arctanh(0.0))
    0.0
    """
    return lax.atanh(*promote_args_inexact("arctanh", x))


def _named(name: str, function: Callable[..., Array], like: Any) -> Any:
    """Return a second name of a function of one or two floats."""

    def one(x: ArrayLike, /) -> Array:
        return function(*promote_args_inexact(name, x))

    def two(x1: Any, x2: Any, /) -> Array:
        return function(*promote_args_inexact(name, x1, x2))

    return renamed(name, two if like is arctan2 else one, like)


asin: Callable[[ArrayLike], Array] = inlined_jit(_named("asin", lax.asin, arcsin))
acos: Callable[[ArrayLike], Array] = inlined_jit(_named("acos", lax.acos, arccos))
atan: Callable[[ArrayLike], Array] = inlined_jit(_named("atan", lax.atan, arctan))
atan2: Callable[[ArrayLike, ArrayLike], Array] = inlined_jit(
    _named("atan2", lax.atan2, arctan2)
)
asinh: Callable[[ArrayLike], Array] = inlined_jit(_named("asinh", lax.asinh, arcsinh))
acosh = inner_jit(_named("acosh", _acosh, arccosh), name="arccosh")
atanh: Callable[[ArrayLike], Array] = inlined_jit(_named("atanh", lax.atanh, arctanh))


@inlined_jit
def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees to radians.

    >>> from curta import numpy as jnp
    >>> jnp.deg2rad(jnp.array([180.0])).round(4)
    Array([3.1416], dtype=float32)
    """
    (x,) = promote_args_inexact("deg2rad", x)
    return lax.mul(x, const(x, np.pi / 180))


@inlined_jit
def rad2deg(x: ArrayLike, /) -> Array:
    """Radians to degrees.

    >>> from curta import numpy as jnp
    >>> jnp.rad2deg(jnp.array([jnp.pi])).round(2)
    Array([180.], dtype=float32)
    """
    (x,) = promote_args_inexact("rad2deg", x)
    return lax.mul(x, const(x, 180 / np.pi))


radians: Callable[[ArrayLike], Array] = alias("radians", deg2rad)
degrees: Callable[[ArrayLike], Array] = alias("degrees", rad2deg)


@inner_jit
def sinc(x: ArrayLike, /) -> Array:
    """sin(πx)/(πx), 1 at 0, and exactly 0 at other integers and at infinities.

    >>> from curta import numpy as jnp
    >>> jnp.sinc(jnp.array([0.0, 0.5])).round(4)
    Array([1.    , 0.6366], dtype=float32)
    """
    (x,) = promote_args_inexact("sinc", x)
    zero = lax.eq(x, const(x, 0))
    angle = lax.mul(const(x, np.pi), x)
    edge, turn = zero, x
    if not is_complex(x):
        # Away from the infinities, whose derivatives would be NaN too.
        endless = lax.eq(lax.abs(x), const(x, np.inf))
        edge = lax.bitwise_or(zero, endless)
        turn = select_where(endless, const(x, 1), x)
        angle = select_where(endless, const(x, 0), angle)
    safe = select_where(edge, const(x, 1), angle)
    at_zero = _sinc_maclaurin(0, angle)
    sine = lax.sin(lax.mul(const(x, np.pi), _to_half_turn(turn)))
    rest = lax.div(sine, safe)
    if not is_complex(x):
        rest = select_where(endless, const(x, 0), rest)
    return select_where(zero, at_zero, rest)


def _to_half_turn(x: Any) -> Any:
    """y in [-1/2, 1/2] with sin(πy) = sin(πx); of complex x, the same or its turn."""
    if is_complex(x):
        return lax.complex(_shifted(lax.real(x)), lax.imag(x))
    turn = _shifted(x)
    folded = lax.sub(lax.sign(turn), turn)
    return select_where(lax.gt(lax.abs(turn), const(turn, 0.5)), folded, turn)


def _shifted(x: Any) -> Any:
    """x without whole turns: y in [-1, 1] that differs from x by a multiple of 2."""
    even = lax.mul(const(x, 2), lax.round(lax.mul(x, const(x, 0.5))))
    return lax.sub(x, even)


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _sinc_maclaurin(k: int, x: Any) -> Any:
    """The k-th derivative of sin(x)/x at 0, for x that are 0."""
    zero = lax.mul(x, const(x, 0))
    if k % 2:
        return zero
    return lax.add(zero, const(x, (-1) ** (k // 2) / (k + 1)))


@_sinc_maclaurin.defjvp
def _sinc_maclaurin_jvp(k: int, primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    return _sinc_maclaurin(k, x), lax.mul(_sinc_maclaurin(k + 1, x), t)
