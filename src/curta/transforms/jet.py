"""Taylor mode: every value carries the leading coefficients of a power series.

For `y(t) = f(x(t))` the chain rule says `y'(t) = f'(x(t)) x'(t)`. The right-hand side
is what the `jvp` rule of an op computes; with series for x and x' of one order less it
gives the series of y', and that of y by integration. So the derivative rules that ops
have are all it takes, one order at a time. Ops that occur several times in their own
derivative bring a rule for series (`Op.taylor`): a product is a convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta.core.op import Op
from curta.core.stage import refuse_dead_tracer
from curta.core.tangents import Zero, zero_tangent
from curta.core.trace import (
    Trace,
    Tracer,
    current_trace,
    running,
    swap_trace,
    typeof,
    use_trace,
)
from curta.primitives.structure import zeros

# The coefficients of t, t², ... next to a primal value; None if all are zero.
Terms = list[Any] | None
JVP = Callable[[Sequence[Any], Sequence[Any]], tuple[Any, Any]]


class JetTracer(Tracer):
    """The series `primal + terms[0] t + terms[1] t² + ...`."""

    __slots__ = ("primal", "terms")

    def __init__(self, trace: JetTrace, primal: Any, terms: list[Any]):
        self._trace = trace
        self.primal: Any = primal
        self.terms: list[Any] = terms
        self.aval: Any = typeof(primal)

    def concrete_value(self) -> Any:
        primal = self.primal
        return primal.concrete_value() if isinstance(primal, Tracer) else primal

    def _origin_msg(self) -> str:
        return self.primal._origin_msg() if isinstance(self.primal, Tracer) else ""


class JetTrace(Trace):
    """Applies ops to series of `order` terms beyond the constant one."""

    passes_refs = True

    def __init__(self, parent: Trace, order: int):
        self.parent: Trace = parent
        self.order = order

    def series(self, x: Any) -> tuple[Any, Terms]:
        """The primal and the terms of `x`; a value of another trace is a constant."""
        if type(x) is JetTracer and x._trace is self:
            return x.primal, x.terms
        if isinstance(x, Tracer):
            refuse_dead_tracer(x)
        return x, None

    def box(self, primal: Any, terms: Terms) -> Any:
        """A tracer, or the primal alone where all terms are zero."""
        return JetTracer(self, primal, terms) if terms else primal

    def process(self, op: Op, args: Sequence[Any]) -> Any:
        pairs = [self.series(x) for x in args]
        primals, terms = [p for p, _ in pairs], [s for _, s in pairs]
        before = swap_trace(self.parent)
        try:
            if all(s is None for s in terms):
                return op(*primals)
            if op.has_rule("taylor"):
                out, out_terms = op.taylor(primals, terms)
            else:
                out, out_terms = self._by_derivative(op.jvp, primals, terms)
        finally:
            swap_trace(before)
        if op.multiple_results:
            return [self.box(p, s) for p, s in zip(out, out_terms, strict=True)]
        return self.box(out, out_terms)

    def custom_jvp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        pairs = [self.series(x) for x in args]
        primals, terms = [p for p, _ in pairs], [s for _, s in pairs]
        with use_trace(self.parent):
            if all(s is None for s in terms):
                return self.parent.custom_jvp(call, primals)
            outs, out_terms = self._by_derivative(call.jvp, primals, terms)
        return [self.box(p, s) for p, s in zip(outs, out_terms, strict=True)]

    def custom_vjp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        outs: Sequence[Any] = call.fun(*args)  # it has no forward derivative
        return outs

    def _by_derivative(
        self, jvp: JVP, primals: Sequence[Any], terms: Sequence[Terms]
    ) -> tuple[Any, Any]:
        """Outputs and their terms, by a rule for tangents; see the module."""
        inner = JetTrace(current_trace(), self.order - 1)
        inputs = [
            inner.box(p, None if s is None else s[:-1])
            for p, s in zip(primals, terms, strict=True)
        ]
        tangents = [
            zero_tangent(typeof(p))
            if s is None
            else inner.box(s[0], [k * c for k, c in enumerate(s[1:], 2)])
            for p, s in zip(primals, terms, strict=True)
        ]
        with running(inner):
            out, dots = jvp(inputs, tangents)
        if not isinstance(out, (list, tuple)):
            return inner.series(out)[0], inner.integrated(dots)
        return [inner.series(x)[0] for x in out], list(map(inner.integrated, dots))

    def integrated(self, dot: Any) -> Terms:
        """The terms of what has this derivative."""
        if type(dot) is Zero:
            return None
        first, terms = self.series(dot)
        rest = terms or [zeros(typeof(first))] * self.order
        return [first, *(c / k for k, c in enumerate(rest, 2))]


def jet(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    terms: Sequence[Terms],
    order: int,
) -> tuple[list[Any], list[Terms]]:
    """Outputs of a flat function, and their terms, for series given as arguments."""
    trace = JetTrace(current_trace(), order)
    with running(trace):
        outs = fun(*map(trace.box, primals, terms))
        pairs = [trace.series(x) for x in outs]
    return [p for p, _ in pairs], [s for _, s in pairs]
