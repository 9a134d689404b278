"""`associative_scan`: all prefixes of a sequence, in a tree of combinations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import tree_util
from curta.core.shapes import integer
from curta.core.trace import typeof
from curta.core.tracebacks import api_boundary
from curta.lax.arithmetic import add
from curta.lax.bitwise import bitwise_or
from curta.lax.control_flow.tracing import flat_arrays
from curta.lax.shape import concatenate, pad, rev, slice_in_dim

Combine = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


@api_boundary
def associative_scan(
    fn: Callable[..., Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """All the prefixes of `elems` combined by an associative function.

    Element `k` of the result is `fn(... fn(fn(e[0], e[1]), e[2]) ..., e[k])`. The
    combinations are made for many elements at a time, in `2 log2(n)` calls of `fn`
    that combine `2 n` pairs altogether (Blelloch, "Prefix sums and their
    applications").

    Args:
      fn: from two trees of arrays like slices of `elems` to their combinations,
        element by element along `axis`.
      elems: a tree of arrays, of one size along `axis`.
      reverse: combine from the end backwards.
      axis: the axis of the sequence.

    Returns:
      A tree like `elems`, of the same shapes.

    Raises:
      TypeError: if `fn` is not callable. ValueError: for arrays of different sizes.

    >>> from curta import lax, numpy as jnp
    >>> lax.associative_scan(jnp.add, jnp.arange(4))
    Array([0, 1, 3, 6], dtype=int32)
    """
    if not callable(fn):
        raise TypeError(
            f"lax.associative_scan: fn argument should be callable, got {fn}."
        )
    leaves, tree = flat_arrays(elems)
    if not leaves:
        raise ValueError("associative_scan got a tree without arrays to scan over")
    axis = _positive_axis(leaves, axis)

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        pair = tree_util.tree_unflatten(tree, a), tree_util.tree_unflatten(tree, b)
        result = tree_util.tree_leaves(fn(*pair))
        got, want = ([np.shape(x) for x in xs] for xs in (result, a))
        if got != want:
            raise ValueError(
                "associative_scan fn must return arrays of the shapes that it takes,"
                f" {want}, got {got}"
            )
        return result

    if reverse:
        leaves = [rev(x, [axis]) for x in leaves]
    result = _prefixes(combine, leaves, axis)
    if reverse:
        result = [rev(x, [axis]) for x in result]
    return tree_util.tree_unflatten(tree, result)


def _positive_axis(leaves: Sequence[Any], axis: int) -> int:
    axis = integer("associative_scan axis", axis)
    shapes = [typeof(x).shape for x in leaves]
    rank = len(shapes[0])
    if not -rank <= axis < rank:
        raise ValueError(
            f"axis {axis} is out of bounds for array of dimension {rank} in"
            " associative_scan"
        )
    axis %= rank
    if len({s[axis] if axis < len(s) else None for s in shapes}) > 1:
        raise ValueError(
            "Array inputs to associative_scan must have the same first dimension."
            f" (saw: {shapes})"
        )
    return axis


def _prefixes(combine: Combine, xs: list[Any], axis: int) -> list[Any]:
    """Neighbours are combined and the half as many are scanned: the odd positions.

    The even positions take in one element more than the odd one before them.
    """
    size = typeof(xs[0]).shape[axis]
    if size < 2:
        return xs

    def part(x: Any, start: int, limit: int | None, stride: int = 1) -> Any:
        return slice_in_dim(x, start, limit, stride, axis)

    pairs = combine([part(x, 0, -1, 2) for x in xs], [part(x, 1, None, 2) for x in xs])
    odd = _prefixes(combine, pairs, axis)
    before = odd if size % 2 else [part(x, 0, -1) for x in odd]
    even = combine(before, [part(x, 2, None, 2) for x in xs])
    even = [
        concatenate([part(x, 0, 1), y], axis) for x, y in zip(xs, even, strict=True)
    ]
    return [_interleave(a, b, axis) for a, b in zip(even, odd, strict=True)]


def _interleave(even: Any, odd: Any, axis: int) -> Any:
    """`even[0], odd[0], even[1], odd[1], ...` along the axis."""
    aval = typeof(even)
    more = aval.shape[axis] - typeof(odd).shape[axis]
    zero = aval.dtype.type(0)

    def spread(x: Any, low: int, high: int) -> Any:
        config = [(0, 0, 0)] * aval.ndim
        config[axis] = (low, high, 1)
        return pad(x, zero, config)

    join = bitwise_or if aval.dtype == np.bool_ else add
    return join(spread(even, 0, 1 - more), spread(odd, 1, more))
