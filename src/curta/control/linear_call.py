"""Calls of a linear function whose transpose is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.control.call import JaxprOp
from curta.core.jaxpr import ClosedJaxpr
from curta.core.op import BatchDims, Batched, Op
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.primitives.structure import batch_dim_at, instantiate
from curta.transforms.jaxprs import batch_jaxpr


@dataclass(frozen=True)
class LinearCall(JaxprOp):
    """`jaxpr`, linear in all inputs but the first ones, the residuals.

    `transposed()` maps residuals and output cotangents to input cotangents.
    """

    name: ClassVar[str] = "linear_call"
    inlined: ClassVar[Any] = Op.inlined
    jaxpr: ClosedJaxpr
    transposed: Callable[[], ClosedJaxpr]
    residual_count: int

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        return checker.whole(self, args)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        n = self.residual_count
        if any(type(t) is not Zero for t in tangents[:n]):
            raise NotImplementedError(
                "linear_call cannot be differentiated in its residuals: apply"
                " stop_gradient to them, or define the derivative with custom_jvp"
            )
        result = self(*primals[:n], *map(instantiate, tangents[n:]))
        return self(*primals), [
            t if a.to_tangent_aval() is a else zero_tangent(a)
            for a, t in zip(self.jaxpr.out_avals, result, strict=True)
        ]

    def partial_eval(self, partial: Any, args: Sequence[Any]) -> Any:
        return partial.defer(self, args)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        n = self.residual_count
        if any(map(is_linear, args[:n])):
            raise NotImplementedError("linear_call is not linear in its residuals")
        op = LinearCall(self.transposed(), lambda: self.jaxpr, n)
        return [None] * n + list(op(*args[:n], *map(instantiate, cotangent)))

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        n = self.residual_count
        linear = [
            batch_dim_at(x, d, axis.size, 0)
            for x, d in zip(args[n:], dims[n:], strict=True)
        ]

        def batched(closed: ClosedJaxpr) -> ClosedJaxpr:
            inputs = (*dims[:n], *[0] * (len(closed.in_avals) - n))
            return batch_jaxpr(closed, axis, inputs, True)[0]

        op = LinearCall(batched(self.jaxpr), lambda: batched(self.transposed()), n)
        return op(*args[:n], *linear), [0] * len(self.jaxpr.out_avals)
