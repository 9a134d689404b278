"""`SparseOp`: the primitives of sparse arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from curta.core.avals import ShapedArray
from curta.core.op import BatchDims, Batched
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.core.trace import typeof
from curta.primitives.composed import Composed
from curta.primitives.shape import Squeeze
from curta.primitives.structure import add_tangents, batch_dim_at, move_dim
from curta.transforms.jaxprs import batch_jaxpr, jvp_jaxpr, run_closed, transpose_jaxpr


class SparseOp(Composed):
    """An op on the buffers of sparse arrays, whose meaning is in dense ops.

    Its rules follow from these dense ops. Subclasses add rules that keep derivatives
    and batches sparse.
    """

    linear_in: ClassVar[tuple[int, ...]] = (0,)
    """The operands in each of which the first result is linear; empty if in none."""
    whole: ClassVar[tuple[int, ...]] = ()
    """The operands that need every batch dim in its whole size."""

    def aval(self, *avals: ShapedArray) -> Any:
        result = self.expansion(avals).out_avals
        return result if self.multiple_results else result[0]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        if not self.linear_in:
            return self._jvp_by_meaning(primals, tangents)
        out = self(*primals)
        parts = []
        for i in self.linear_in:
            if type(tangents[i]) is not Zero:
                part = self(*primals[:i], tangents[i], *primals[i + 1 :])
                parts.append(part[0] if self.multiple_results else part)
        dot = functools.reduce(add_tangents, parts)
        if not self.multiple_results:
            return out, dot
        return out, [dot, *(zero_tangent(typeof(x)) for x in out[1:])]

    def _jvp_by_meaning(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[Any, Any]:
        expansion = self.expansion([typeof(x) for x in primals])
        nonzero = tuple(type(t) is not Zero for t in tangents)
        jaxpr, out_nonzero = jvp_jaxpr(expansion, nonzero)
        given = [t for t in tangents if type(t) is not Zero]
        result = run_closed(jaxpr, [*primals, *given])
        n = len(expansion.out_avals)
        dots = iter(result[n:])
        tangents_out = [
            next(dots) if f else zero_tangent(a)
            for a, f in zip(expansion.out_avals, out_nonzero, strict=True)
        ]
        if self.multiple_results:
            return result[:n], tangents_out
        return result[0], tangents_out[0]

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        linear = tuple(map(is_linear, args))
        avals = [x.aval if is_linear(x) else typeof(x) for x in args]
        cts = cotangent if self.multiple_results else [cotangent]
        nonzero = tuple(type(ct) is not Zero for ct in cts)
        jaxpr, found_nonzero = transpose_jaxpr(self.expansion(avals), linear, nonzero)
        known = [x for x, f in zip(args, linear, strict=True) if not f]
        given = [ct for ct in cts if type(ct) is not Zero]
        result = iter(run_closed(jaxpr, [*known, *given]))
        flags = iter(found_nonzero)
        return [
            None if not f else next(result) if next(flags) else zero_tangent(a)
            for a, f in zip(avals, linear, strict=True)
        ]

    def batched(self, size: int) -> SparseOp | None:
        """The op whose operands all have one more batch dim in front, if there is one.

        Operands may have it in size 1, except for those in `whole`.
        """
        return None

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        op = self.batched(axis.size)
        if op is None:
            return self._batch_by_meaning(axis, args, dims)
        fronted = [
            batch_dim_at(x, d, axis.size if i in self.whole else 1, 0)
            if d is None
            else move_dim(x, d, 0)
            for i, (x, d) in enumerate(zip(args, dims, strict=True))
        ]
        out = op(*fronted)
        outs = out if self.multiple_results else [out]
        # What follows from operands alone that have no batch has none either.
        alike = [typeof(x).shape[0] != axis.size for x in outs]
        outs = [Squeeze((0,))(x) if a else x for x, a in zip(outs, alike, strict=True)]
        out_dims = [None if a else 0 for a in alike]
        return (outs, out_dims) if self.multiple_results else (outs[0], out_dims[0])

    def _batch_by_meaning(
        self, axis: Any, args: Sequence[Any], dims: Sequence[int | None]
    ) -> tuple[Any, Any]:
        avals = [
            typeof(x) if d is None else typeof(x).without_dim(d)
            for x, d in zip(args, dims, strict=True)
        ]
        jaxpr, out_dims = batch_jaxpr(self.expansion(avals), axis, tuple(dims))
        outs = run_closed(jaxpr, args)
        return (outs, out_dims) if self.multiple_results else (outs[0], out_dims[0])
