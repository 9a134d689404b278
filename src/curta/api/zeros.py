"""Zero tangents, as rules of custom derivatives make them."""

from __future__ import annotations

from typing import Any

from curta import tree_util
from curta.api.arguments import as_result
from curta.control.custom_jvp import SymbolicZero
from curta.core.tangents import zero_tangent
from curta.core.trace import typeof
from curta.primitives.structure import instantiate


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of each array in a tree; of `float0` where that is an integer.

    With `symbolic_zeros` none is made: they are `SymbolicZero`.

    >>> from curta.custom_derivatives import zero_from_primal
    >>> zero_from_primal({"w": 2.0})
    {'w': Array(0., dtype=float32, weak_type=True)}
    >>> zero_from_primal(2.0, symbolic_zeros=True)
    SymbolicZero(~float32[])
    """

    def zero(x: Any) -> Any:
        result = zero_tangent(typeof(x))
        return (
            SymbolicZero(result.aval)
            if symbolic_zeros
            else as_result(instantiate(result))
        )

    return tree_util.tree_map(zero, val)
