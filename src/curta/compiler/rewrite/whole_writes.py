"""Writes that cover their target: `x.at[:, :].set(v)` is `v`, without a copy of x."""

from __future__ import annotations

import math
from typing import Any

from curta.compiler.rewrite.joins import reshaped
from curta.compiler.rewrite.rewriting import Context, Results, rewrites
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import Atom, Literal
from curta.primitives.indexing.dynamic import DynamicUpdateSlice
from curta.primitives.indexing.numbers import GatherScatterMode
from curta.primitives.indexing.scatter import Scatter
from curta.primitives.joining import Concatenate
from curta.primitives.structure import BroadcastInDim, Reshape


@rewrites(DynamicUpdateSlice)
def update_of_all(eqn: Any, context: Context) -> Results | None:
    """dynamic_update_slice x v i -> v, of the shape of x: starts are clamped to 0."""
    x, update, *_ = eqn.invars
    return (
        [update] if _is_like(update, x) and update.aval.shape == x.aval.shape else None
    )


@rewrites(Scatter)
def scatter_of_all(eqn: Any, context: Context) -> Results | None:
    """scatter x i v -> v reshaped, if its one window is all of x.

    A window that does not begin at 0 is dropped unless the mode is CLIP. Dims that the
    window lacks have one element.
    """
    x, indices, update = eqn.invars
    if indices.aval.ndim != 1 or not _is_like(update, x):
        return None
    if any(map(is_symbolic_dim, (*x.aval.shape, *update.aval.shape))):
        return None
    if update.aval.size != x.aval.size or not math.prod(x.aval.shape):
        return None
    clip = eqn.op.mode is GatherScatterMode.CLIP
    if not (clip or not indices.aval.size or _is_zero(indices, context)):
        return None
    return reshaped(update, x.aval.shape, context)


def _is_like(update: Atom, x: Atom) -> bool:
    """Whether the update has the dtype of `x`, and neither is placed on devices."""
    same = update.aval.dtype == x.aval.dtype
    return same and x.aval.placement is None and update.aval.placement is None


def _is_zero(x: Atom, context: Context) -> bool:
    """Whether all elements are known to be 0."""
    if isinstance(x, Literal):
        return bool(x.val == 0)
    made = context.made_by(x, BroadcastInDim, Concatenate, Reshape)
    return made is not None and all(_is_zero(v, context) for v in made.invars)
