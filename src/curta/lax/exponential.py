"""Exponentials, logarithms, the logistic function and tanh.

They take floating or complex numbers; TypeError otherwise. `accuracy` asks for a
tolerance or mode; there is one implementation of each function, a few units in the
last place from exact, so it only chooses between formulas of derivatives.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

from curta.core.array import Array, ArrayLike
from curta.primitives import elementwise as ops
from curta.primitives.elementwise import AccuracyMode, Tolerance

Accuracy: TypeAlias = Tolerance | AccuracyMode | None


def accurate(op: Any, accuracy: Accuracy) -> Any:
    """The op with this accuracy; NotImplementedError if it is none."""
    if accuracy is None:
        return op
    if isinstance(accuracy, (Tolerance, AccuracyMode)):
        return dataclasses.replace(op, accuracy=accuracy)
    raise NotImplementedError(
        f"Accuracy {accuracy} not supported. Give a lax.Tolerance or a"
        " lax.AccuracyMode."
    )


def exp(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """e to the power x.

    >>> from curta import lax
    >>> lax.exp(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return accurate(ops.exp, accuracy)(x)


def exp2(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """2 to the power x.

    >>> from curta import lax
    >>> lax.exp2(3.0)
    Array(8., dtype=float32, weak_type=True)
    """
    return accurate(ops.exp2, accuracy)(x)


def expm1(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """exp(x) - 1, accurate near 0.

    >>> from curta import lax
    >>> lax.expm1(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return accurate(ops.expm1, accuracy)(x)


def log(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The natural logarithm; -inf at 0, NaN of negative floats.

    >>> from curta import lax
    >>> lax.log(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return accurate(ops.log, accuracy)(x)


def log2(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The logarithm to base 2; -inf at 0, NaN of negative floats.

    >>> from curta import lax
    >>> lax.log2(8.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return accurate(ops.log2, accuracy)(x)


def log1p(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """log(1 + x), accurate near 0.

    >>> from curta import lax
    >>> lax.log1p(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return accurate(ops.log1p, accuracy)(x)


def tanh(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The hyperbolic tangent.

    >>> from curta import lax
    >>> lax.tanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return accurate(ops.tanh, accuracy)(x)


def logistic(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """The logistic function 1 / (1 + exp(-x)).

    >>> from curta import lax
    >>> lax.logistic(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return accurate(ops.logistic, accuracy)(x)
