"""Rewrites of what cuts arrays and joins them (simplify.py)."""

from __future__ import annotations

import itertools
from typing import Any

from curta.compiler.rewrite.rewriting import Context, Results, rewrites
from curta.core.jaxpr import Atom, Literal, Var
from curta.primitives.joining import Concatenate, Split, Stack, Unstack
from curta.primitives.shape import Tile
from curta.primitives.slicing import Slice
from curta.primitives.structure import BroadcastInDim, Reshape, Transpose


def reshaped(x: Atom, shape: tuple[int, ...], context: Context) -> Results:
    """x in another shape."""
    while (before := context.made_by(x, Reshape)) is not None:
        (x,) = before.invars
    return [x if x.aval.shape == shape else context.apply(Reshape(shape), x)]


@rewrites(Split)
def split_into_slices(eqn: Any, context: Context) -> Results | None:
    """split x -> slices of x."""
    (x,) = eqn.invars
    starts = itertools.accumulate(eqn.op.sizes, initial=0)
    pairs = zip(starts, eqn.op.sizes, strict=False)
    return [_slice(x, eqn.op.axis, start, size, context) for start, size in pairs]


@rewrites(Unstack)
def unstack_into_slices(eqn: Any, context: Context) -> Results | None:
    """unstack x -> slices of x, reshaped."""
    (x,), axis = eqn.invars, eqn.op.axis
    return [
        context.apply(Reshape(out.aval.shape), _slice(x, axis, i, 1, context))
        for i, out in enumerate(eqn.outvars)
    ]


@rewrites(Stack)
def stack_into_concatenate(eqn: Any, context: Context) -> Results | None:
    """stack x y -> concatenate x y, reshaped."""
    shape = list(eqn.outvars[0].aval.shape)
    shape[eqn.op.axis] = 1
    parts = [reshaped(x, tuple(shape), context)[0] for x in eqn.invars]
    return [context.apply(Concatenate(eqn.op.axis), *parts)]


def _slice(x: Atom, axis: int, start: int, size: int, context: Context) -> Var:
    low, high = [0] * x.aval.ndim, list(x.aval.shape)
    low[axis], high[axis] = start, start + size
    return context.apply(Slice(tuple(low), tuple(high), None), x)


@rewrites(Tile)
def tile_into_broadcast(eqn: Any, context: Context) -> Results | None:
    """tile x -> a reshape of a broadcast, whose rows are those of x."""
    (x,), (out,) = eqn.invars, eqn.outvars
    if isinstance(x, Literal) or not out.aval.size:
        return None
    pairs = zip(eqn.op.reps, x.aval.shape, strict=True)
    shape = tuple(itertools.chain.from_iterable(pairs))
    dims = tuple(range(1, len(shape), 2))
    return reshaped(
        context.apply(BroadcastInDim(shape, dims), x), out.aval.shape, context
    )


@rewrites(Concatenate)
def joined_twice(eqn: Any, context: Context) -> Results | None:
    """concatenate (concatenate x y) z -> concatenate x y z."""
    axis, parts = eqn.op.dimension, list[Atom]()
    for x in eqn.invars:
        before = context.made_by(x, Concatenate)
        same = before is not None and before.op.dimension == axis
        parts += before.invars if same else [x]
    few = len(parts) <= context.tuning.joined_columns
    if len(parts) == len(eqn.invars) or not few:
        return None
    return [context.apply(eqn.op, *parts)]


@rewrites(Slice)
def slice_of_a_part(eqn: Any, context: Context) -> Results | None:
    """slice (concatenate x y) -> slice x, where nothing of y is in it."""
    before = context.made_by(eqn.invars[0], Concatenate)
    if before is None:
        return None
    axis, start = before.op.dimension, 0
    low, high = list(eqn.op.start_indices), list(eqn.op.limit_indices)
    for part in before.invars:
        end = start + part.aval.shape[axis]
        if start <= low[axis] < high[axis] <= end:
            low[axis], high[axis] = low[axis] - start, high[axis] - start
            if not any(low) and tuple(high) == part.aval.shape and not eqn.op.strides:
                return [part]
            op = Slice(tuple(low), tuple(high), eqn.op.strides)
            return [context.apply(op, part)]
        start = end
    return None


@rewrites(Transpose)
def rows_into_columns(eqn: Any, context: Context) -> Results | None:
    """transpose (concatenate rows) -> concatenate columns, stored side by side."""
    before, order = context.made_by(eqn.invars[0], Concatenate), eqn.op.permutation
    if before is None or order[-1] != before.op.dimension:
        return None
    parts, placed = before.invars, eqn.outvars[0].aval.placement is not None
    if placed or not 1 < len(parts) <= context.tuning.side_by_side:
        return None
    if any(x.aval.shape[before.op.dimension] != 1 for x in parts):
        return None
    columns = [context.apply(eqn.op, x) for x in parts]
    return [context.apply(Concatenate(len(order) - 1), *columns)]
