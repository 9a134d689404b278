"""The associative operations that reductions of every kind fold with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from curta import dtypes


class Monoid(NamedTuple):
    """An associative operation on two elements, and what it leaves alone."""

    name: str
    ufunc: np.ufunc
    method: str
    """The method of a builder of scalar expressions that combines two."""
    neutral: Callable[[Any], Any]
    """The NumPy scalar of a dtype that the operation leaves alone."""


@functools.cache
def least_value(dtype: Any) -> Any:
    """What every value of `dtype` is at least: -inf, the least integer, False."""
    return _bound(dtype, -np.inf, "min")


@functools.cache
def greatest_value(dtype: Any) -> Any:
    """What every value of `dtype` is at most: inf, the greatest integer, True."""
    return _bound(dtype, np.inf, "max")


def _bound(dtype: Any, infinity: float, which: str) -> Any:
    if dtype == np.bool_:
        return np.bool_(infinity > 0)
    if dtypes.issubdtype(dtype, np.inexact):
        if np.isinf(dtype.type(infinity)):
            return dtype.type(infinity)
        return getattr(dtypes.finfo(dtype), which)
    return dtype.type(getattr(dtypes.iinfo(dtype), which))


def _zero(dtype: Any) -> Any:
    return dtype.type(0)


SUM = Monoid("sum", np.add, "add", _zero)
PROD = Monoid("prod", np.multiply, "mul", lambda dtype: dtype.type(1))
MAX = Monoid("max", np.maximum, "max", least_value)
MIN = Monoid("min", np.minimum, "min", greatest_value)
AND = Monoid("and", np.bitwise_and, "and_", lambda dtype: np.invert(dtype.type(0)))
OR = Monoid("or", np.bitwise_or, "or_", _zero)
XOR = Monoid("xor", np.bitwise_xor, "xor", _zero)

MONOIDS = {m.name: m for m in (SUM, PROD, MAX, MIN, AND, OR, XOR)}
