"""The three-operand `where` on which much of the package stands."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array
from curta.numpy.arguments import ensure_operands
from curta.numpy.promotion import broadcast_to_shape, const, promote_dtypes


@inner_jit(name="_where")
def select_where(condition: Any, x: Any, y: Any) -> Array:
    """`x` where `condition` holds, else `y`; all three broadcast together."""
    condition, x, y = ensure_operands("where", condition, x, y)
    if not dtypes.issubdtype(condition.dtype, np.bool_):
        condition = lax.ne(condition, const(condition, 0))
    x, y = promote_dtypes(x, y)
    if np.ndim(condition) == 0:
        x, y = broadcast_all(x, y)
    else:
        condition, x, y = broadcast_all(condition, x, y)
    return x if 0 in np.shape(x) else lax.select(condition, x, y)


def broadcast_all(*args: Any) -> list[Array]:
    """The operands, repeated to one shape."""
    shapes = [np.shape(x) for x in args]
    if all(len(s) == len(shapes[0]) and s == shapes[0] for s in shapes):
        return list(args)
    shape = lax.broadcast_shapes(*shapes)
    return [broadcast_to_shape(x, shape) for x in args]
