"""Products without summed dims as elementwise products."""

from __future__ import annotations

from typing import Any

from curta.compiler.rewrite.rewriting import Context, Results, Rewriting, rewrites
from curta.primitives.dot import DotGeneral, others
from curta.primitives.elementwise.arithmetic import Mul
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.structure import BroadcastInDim, Transpose


@rewrites(DotGeneral)
def outer_product(eqn: Any, context: Context) -> Results | None:
    """dot_general x y over no dims -> mul x y, of what they are converted to."""
    (sums, _), (left_batch, right_batch) = eqn.op.dimension_numbers
    out, (x, y) = eqn.outvars[0].aval, eqn.invars
    if sums or out.dtype.kind not in "fiu":
        return None
    if any(a.aval.dtype.itemsize > out.dtype.itemsize for a in eqn.invars):
        return None
    left_free = others(x.aval.ndim, left_batch, ())
    right_free = others(y.aval.ndim, right_batch, ())
    batch, first = len(left_batch), len(left_batch) + len(left_free)
    factors = []
    for atom, dims, out_dims in (
        (x, (*left_batch, *left_free), range(first)),
        (y, (*right_batch, *right_free), (*range(batch), *range(first, out.ndim))),
    ):
        if atom.aval.dtype != out.dtype:
            atom = context.apply(ConvertElementType(out.dtype), atom)
        if dims != (*range(len(dims)),):  # the batch is not in front
            atom = context.apply(Transpose(dims), atom)
        factors.append(context.apply(BroadcastInDim(out.shape, (*out_dims,)), atom))
    return [context.apply(Mul(), *factors)]


outer_products = Rewriting(outer_product)
