"""`reduce` with any associative function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree
from curta.api.vmap import vmap
from curta.core.shapes import canonicalize_axes
from curta.core.trace import concrete_or_none, typeof
from curta.lax.arithmetic import add, max, min, mul
from curta.lax.bitwise import bitwise_and, bitwise_or, bitwise_xor
from curta.lax.control_flow import scan
from curta.lax.reduction import (
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_sum,
    reduce_xor,
)
from curta.lax.shape import broadcast, reshape, transpose
from curta.primitives.reduction import (
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    ReduceXor,
)
from curta.primitives.structure import ReduceSum

# The reductions that need no loop, with the ops that know where they start.
_KNOWN: dict[Any, tuple[Any, Any]] = {
    add: (reduce_sum, ReduceSum),
    mul: (reduce_prod, ReduceProd),
    max: (reduce_max, ReduceMax),
    min: (reduce_min, ReduceMin),
    bitwise_and: (reduce_and, ReduceAnd),
    bitwise_or: (reduce_or, ReduceOr),
    bitwise_xor: (reduce_xor, ReduceXor),
}


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Fold arrays over `dimensions` with an associative function of two scalars.

    Args:
      operands: an array, or a pytree of arrays of one shape that are folded together.
      init_values: a scalar that `computation` leaves alone, for each operand.
      computation: of two scalars (or pytrees of them, like `init_values`).
      dimensions: the dims to fold.

    Raises ValueError if the pytrees differ in structure.

    >>> import curta
    >>> x = curta.numpy.array([[1., 2.], [3., 4.]])
    >>> curta.lax.reduce(x, 0., curta.lax.add, (1,))
    Array([3., 7.], dtype=float32)
    >>> curta.lax.reduce(x, 1., lambda a, b: a * b, (0,))
    Array([3., 8.], dtype=float32)
    """
    flat, structure = tree.flatten(operands)
    inits, init_structure = tree.flatten(init_values)
    if structure != init_structure:
        raise ValueError(
            "Operands must have the same tree structure as init_values:"
            f" {structure} vs. {init_structure}"
        )
    axes = canonicalize_axes(dimensions, typeof(flat[0]).ndim)
    if len(flat) == 1:
        known = _known_reduction(computation, inits[0])
        if known is not None:
            return tree.unflatten(structure, [known(flat[0], axes)])
    shape = typeof(flat[0]).shape
    kept = tuple(d for i, d in enumerate(shape) if i not in axes)
    count = math.prod(kept)

    def step(carry: Any, row: Any) -> tuple[Any, None]:
        return vmap(computation)(carry, row), None

    rows = [_rows(x, axes, count) for x in flat]
    starts = [broadcast(x, (count,)) for x in inits]
    xs, init = tree.unflatten(structure, rows), tree.unflatten(structure, starts)
    folded, _ = scan(step, init, xs)
    return tree.map(lambda x: reshape(x, kept), folded)


def _known_reduction(computation: Any, init: Any) -> Any:
    """The reduction that folds with `computation` from `init`, if there is one."""
    value = concrete_or_none(init)
    if value is None or np.ndim(value) != 0 or not callable(computation):
        return None
    function, op = _KNOWN.get(computation, (None, None))
    dtype = dtypes.dtype(init)
    if function is None or (op in _BITWISE and dtypes.issubdtype(dtype, np.inexact)):
        return None
    return function if np.equal(value, op(()).identity(dtype)) else None


_BITWISE = (ReduceAnd, ReduceOr, ReduceXor)


def _rows(x: Any, axes: tuple[int, ...], count: int) -> Any:
    """`x` as a matrix: the dims folded are its rows, the others its columns."""
    shape = typeof(x).shape
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    length = math.prod(shape[a] for a in axes)
    return reshape(transpose(x, (*axes, *kept)), (length, count))
