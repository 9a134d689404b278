"""Abstract bases of the op families: what the members of a family share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.core.tangents import Zero, is_linear
from curta.core.trace import typeof
from curta.ops.structure import (
    add_any,
    expand_to_rank,
    move_batch_dim,
    unbroadcast,
    zero_like_output,
)


class Elementwise(Op):
    """One output element from the operand elements at the same place.

    Operands have equal rank (or rank 0) and equal dimensions (or 1). A subclass
    gives `out_dtype`, `eval`, `scalar` (the compiled element) and, where it can be
    differentiated, `tangent` (what one operand's tangent contributes).
    """

    def out_dtype(self, *dtypes: Any) -> Any:
        """The dtype of the output; raises TypeError for dtypes the op refuses."""
        return dtypes[0]

    def scalar(self, b: Any, *xs: Any) -> Any:
        """The output element as a scalar expression made by builder `b`."""
        self._missing("lower")

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        """What operand i's tangent `t` contributes to the output's tangent.

        None where the derivative is zero.
        """
        self._missing("jvp")

    # ---- shared rules

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        dtype = self.out_dtype(*[a.dtype for a in avals])
        shape = avals[0].shape
        if any(a.shape != shape for a in avals):
            shape = broadcast_shapes(self.name, [a.shape for a in avals])
        return ShapedArray(shape, dtype, all(a.weak_type for a in avals))

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        return self.scalar(b, *[o.at(aligned_index(o, index)) for o in operands])

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self(*primals)
        total: Any = None
        for i, t in enumerate(tangents):
            if type(t) is Zero:
                continue
            part = self.tangent(i, t, out, *primals)
            if part is None:
                continue
            part = broadcast_to_output(part, out)
            total = part if total is None else add_any(total, part)
        return out, zero_like_output(out) if total is None else total

    def batch(
        self, axis: Any, args: Sequence[Any], dims: Sequence[int | None]
    ) -> tuple[Any, Any]:
        ranks = [_unbatched_rank(x, d) for x, d in zip(args, dims, strict=True)]
        rank = max(ranks)
        first = next(d for d in dims if d is not None)
        same = all(
            (d == first and r == rank) or (d is None and r == 0)
            for d, r in zip(dims, ranks, strict=True)
        )
        if same:
            return self(*args), first
        aligned = [
            _align(x, d, r, rank)
            for x, d, r in zip(args, dims, ranks, strict=True)
        ]
        return self(*aligned), 0


class LinearElementwise(Elementwise):
    """An elementwise op linear in the operands that `transpose` finds unknown.

    A subclass gives `cotangent(i, ct, *args)`, before the sum over broadcast dims.
    """

    def cotangent(self, i: int, ct: Any, *args: Any) -> Any:
        """The cotangent of linear operand i, in the shape of the output."""
        self._missing("transpose")

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        result: list[Any] = []
        for i, x in enumerate(args):
            if is_linear(x):
                ct = self.cotangent(i, cotangent, *args)
                result.append(unbroadcast(ct, x.aval))
            else:
                result.append(None)
        return result


def aligned_index(operand: Any, index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The output index, with 0 where the operand is broadcast."""
    shape = operand.aval.shape
    if not shape:
        return ()
    return tuple(
        i if d != 1 else 0 for i, d in zip(index, shape, strict=True)
    )


def broadcast_shapes(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common shape of operands of equal rank, or rank 0."""
    ranked = [s for s in shapes if s]
    if len({len(s) for s in ranked}) > 1:
        listing = ", ".join(map(str, shapes))
        raise TypeError(
            f"{name}: arrays must have same number of dimensions, got {listing}."
            " Reshape them, or use the curta.numpy function, which broadcasts."
        )
    out = []
    for sizes in zip(*ranked, strict=True):
        distinct = {d for d in sizes if d != 1}
        if len(distinct) > 1:
            listing = ", ".join(map(str, shapes))
            raise TypeError(
                f"{name} got incompatible shapes for broadcasting: {listing}."
            )
        out.append(distinct.pop() if distinct else 1)
    return tuple(out)


def broadcast_to_output(part: Any, out: Any) -> Any:
    """`part`, repeated to the shape of `out` if it is smaller."""
    shape = typeof(out).shape
    aval = typeof(part)
    if aval.shape == shape:
        return part
    return expand_to_rank(part, shape)


def _unbatched_rank(x: Any, dim: int | None) -> int:
    return len(typeof(x).shape) - (dim is not None)


def _align(x: Any, dim: int | None, rank: int, out_rank: int) -> Any:
    """`x` with its batch dim in front and rank `out_rank + 1`, or as it is if rank 0."""
    if dim is None and rank == 0:
        return x
    return move_batch_dim(x, dim, out_rank)
