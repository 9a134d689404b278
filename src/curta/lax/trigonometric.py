"""Trigonometric and hyperbolic functions and their inverses.

They take floating or complex numbers; TypeError otherwise.
"""

from __future__ import annotations

from curta.core.array import Array, ArrayLike
from curta.lax.exponential import Accuracy, accurate
from curta.primitives import elementwise as ops


def sin(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The sine of an angle in radians.

    >>> from curta import lax
    >>> lax.sin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return accurate(ops.sin, accuracy)(x)


def cos(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The cosine of an angle in radians.

    >>> from curta import lax
    >>> lax.cos(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return accurate(ops.cos, accuracy)(x)


def tan(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The tangent of an angle in radians.

    >>> from curta import lax
    >>> lax.tan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return accurate(ops.tan, accuracy)(x)


def asin(x: ArrayLike) -> Array:
    """The inverse sine, in radians; NaN of floats beyond -1 and 1.

    >>> from curta import lax
    >>> lax.asin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.asin(x)


def acos(x: ArrayLike) -> Array:
    """The inverse cosine, in radians; NaN of floats beyond -1 and 1.

    >>> from curta import lax
    >>> lax.acos(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.acos(x)


def atan(x: ArrayLike) -> Array:
    """The inverse tangent, in radians.

    >>> from curta import lax
    >>> lax.atan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.atan(x)


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """The angle of the point with ordinate x and abscissa y, between -pi and pi.

    >>> from curta import lax
    >>> lax.atan2(0.0, 1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.atan2(x, y)


def sinh(x: ArrayLike) -> Array:
    """The hyperbolic sine.

    >>> from curta import lax
    >>> lax.sinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.sinh(x)


def cosh(x: ArrayLike) -> Array:
    """The hyperbolic cosine.

    >>> from curta import lax
    >>> lax.cosh(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return ops.cosh(x)


def asinh(x: ArrayLike) -> Array:
    """The inverse hyperbolic sine.

    >>> from curta import lax
    >>> lax.asinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.asinh(x)


def acosh(x: ArrayLike) -> Array:
    """The inverse hyperbolic cosine; NaN of floats below 1.

    >>> from curta import lax
    >>> lax.acosh(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.acosh(x)


def atanh(x: ArrayLike) -> Array:
    """The inverse hyperbolic tangent; NaN of floats beyond -1 and 1.

    >>> from curta import lax
    >>> lax.atanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.atanh(x)
