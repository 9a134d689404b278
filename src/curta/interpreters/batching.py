"""Vectorisation of primitives that programs define.

>>> from curta.extend.core import Primitive
>>> from curta.interpreters import batching
>>> double = Primitive("double")
>>> _ = double.def_impl(lambda x: 2 * x)
>>> _ = double.def_abstract_eval(lambda x: x)
>>> batching.defvectorized(double)
>>> import curta, curta.numpy as jnp
>>> curta.vmap(double.bind)(jnp.arange(3))
Array([0, 2, 4], dtype=int32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.core.primitive import Primitive
from curta.core.user_op import batch_rules

__all__ = ["defvectorized", "not_mapped", "primitive_batchers"]

# `rule(args, dims, **params)` gives the output and its batch dim (sequences of them for
# several results); a dim is `not_mapped` where there is none.
primitive_batchers = batch_rules

not_mapped = None


def defvectorized(primitive: Primitive) -> None:
    """Let a primitive of one operand be applied to a whole batch at once."""

    def rule(
        args: Sequence[Any], dims: Sequence[int | None], **params: Any
    ) -> tuple[Any, Any]:
        return primitive.bind(*args, **params), dims[0]

    primitive_batchers[primitive] = rule
