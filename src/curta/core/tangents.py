"""Symbolic zeros and linear arguments: what stands for values that are never made."""

from __future__ import annotations

from typing import Any

from curta.core.avals import ShapedArray
from curta.tree.registration import register_pytree_node


class Zero:
    """A tangent or cotangent known to be zero, without an array being made.

    >>> from curta.interpreters import ad
    >>> import curta
    >>> zero = ad.Zero(curta.typeof(1.0))
    >>> ad.instantiate_zeros(zero)
    0.0
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval: ShapedArray = aval

    def __repr__(self) -> str:
        return f"Zero({self.aval.str_short()})"


class LinearArg:
    """Stands for an argument in which a linear op is transposed.

    >>> import curta
    >>> from curta.interpreters import ad
    >>> ad.UndefinedPrimal(curta.typeof(1.0)).aval
    ShapedArray(float32[], weak_type=True)
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval: ShapedArray = aval

    def __repr__(self) -> str:
        return f"LinearArg({self.aval.str_short()})"


# Pytree nodes without leaves, so that functions of pytrees may take and return them.
register_pytree_node(Zero, lambda x: ((), x.aval), lambda aval, _: Zero(aval))
register_pytree_node(LinearArg, lambda x: ((), x.aval), lambda aval, _: LinearArg(aval))


def is_linear(x: Any) -> bool:
    """Whether `x` is the placeholder of a linear argument.

    >>> import curta
    >>> from curta.interpreters import ad
    >>> ad.is_undefined_primal(ad.UndefinedPrimal(curta.typeof(1.0)))
    True
    """
    return type(x) is LinearArg


def zero_tangent(primal_aval: ShapedArray) -> Zero:
    """The zero tangent of a primal of this aval."""
    return Zero(primal_aval.to_tangent_aval())
