"""Taylor mode: every value carries the leading coefficients of a power series.

For `y(t) = f(x(t))` the chain rule says `y'(t) = f'(x(t)) x'(t)`. The right-hand side
is what the `jvp` rule of an op computes; its coefficient `k - 1`, divided by k, is the
k-th of y. So the derivative rules that ops have are all it takes. Coefficients are
computed when they are asked for, and an op applied twice to the same series gives one
result: `sin` and `cos`, each the derivative of the other, are two series, however many
terms they have (M. D. McIlroy, "Power series, power serious", 1999). Ops with a
recurrence for their coefficients bring it (`Op.taylor`): a product is a convolution.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from curta.core.memo import kept_with_jaxpr
from curta.core.op import Op
from curta.core.stage import refuse_dead_tracer, stage
from curta.core.tangents import Zero, zero_tangent
from curta.core.trace import Trace, Tracer, current_trace, running, typeof, use_trace
from curta.primitives.base import LinearElementwise
from curta.primitives.families import Linear
from curta.primitives.joining import Stack, Unstack
from curta.primitives.structure import instantiate, zeros

# The coefficients of t, t², ... next to a primal value; None if all are zero.
Terms = list[Any] | None


class Series:
    """Coefficients of 1, t, t², ..., each computed when it is first asked for.

    A coefficient that is zero for certain is None.
    """

    __slots__ = ("_known", "_term")

    def __init__(self, known: Sequence[Any], term: Callable[[int], Any]):
        self._known = list(known)
        self._term = term

    def __getitem__(self, k: int) -> Any:
        while len(self._known) <= k:
            self._known.append(self._term(len(self._known)))
        return self._known[k]


def constant(x: Any) -> Series:
    """The series of what does not depend on t."""
    return Series([x], lambda k: None)


class JetTracer(Tracer):
    """A value whose series begins with the value itself at t = 0."""

    __slots__ = ("_derivative", "primal", "series")

    def __init__(self, trace: JetTrace, series: Series):
        self._trace = trace
        self.series: Series = series
        self.primal: Any = series[0]
        self.aval: Any = typeof(self.primal)
        self._derivative: Any = None

    def derivative(self) -> Any:
        """The tracer of the derivative by t, the same one each time."""
        if self._derivative is None:
            series = self.series
            first = zeros(self.aval) if series[1] is None else series[1]

            def term(k: int) -> Any:
                following = series[k + 1]
                return None if following is None else (k + 1) * following

            self._derivative = JetTracer(self._trace, Series([first], term))
        return self._derivative

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
        # Results of ops in the derivatives of one op; None outside of them.
        self.shared: dict[Any, Any] | None = None

    def series(self, x: Any) -> Series | None:
        """The series of `x`; None if it is a constant, as values of others are."""
        if type(x) is JetTracer and x._trace is self:
            return x.series
        if isinstance(x, Tracer):
            refuse_dead_tracer(x)
        return None

    def box(self, primal: Any, terms: Terms) -> Any:
        """A tracer, or the primal alone where all terms are zero."""
        if terms is None or all(c is None for c in terms):
            return primal
        return JetTracer(self, Series([primal, *terms], lambda k: None))

    def terms(self, x: Any) -> tuple[Any, Terms]:
        """The primal and the terms of `x`."""
        series = self.series(x)
        if series is None:
            return x, None
        terms = [series[k + 1] for k in range(self.order)]
        return x.primal, None if all(c is None for c in terms) else terms

    def process(self, op: Op, args: Sequence[Any]) -> Any:
        given = [self.series(x) for x in args]
        if all(s is None for s in given):
            with use_trace(self.parent):
                return op(*args)
        if op.has_rule("inlined"):
            return op.inlined(*args)
        if op.has_rule("pushforward") and self.shared is None:
            return self._through_jaxprs(op, args)
        taylor = op.taylor if op.has_rule("taylor") else None
        if _is_linear(op):
            taylor = functools.partial(_of_linear, op)
        return self._results(op, _Applied(self, op, op.jvp, taylor, args, given))

    def _through_jaxprs(self, op: Op, args: Sequence[Any]) -> Sequence[Any]:
        """The results of a loop or branch: all terms go through it at once."""
        pairs = [self.terms(x) for x in args]
        with use_trace(self.parent):
            outs, stacks = op.pushforward(
                [p for p, _ in pairs],
                [_stacked(typeof(p), s, self.order) for p, s in pairs],
                JetOfJaxpr(self.order),
            )
            terms = [None if type(s) is Zero else _unstacked(s) for s in stacks]
        return list(map(self.box, outs, terms))

    def custom_jvp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        given = [self.series(x) for x in args]
        if all(s is None for s in given):
            with use_trace(self.parent):
                return self.parent.custom_jvp(call, args)

        def function(*primals: Any) -> Sequence[Any]:
            return self.parent.custom_jvp(call, primals)

        applied = _Applied(self, function, call.jvp, None, args, given)
        results: Sequence[Any] = self._results(call, applied)
        return results

    def custom_vjp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        outs: Sequence[Any] = call.fun(*args)  # it has no forward derivative
        return outs

    def _results(self, function: Any, applied: _Applied) -> Any:
        """The results with all terms; within derivatives, terms when asked for."""
        key = (function, *map(id, applied.args))
        if self.shared is not None:
            # `applied` keeps alive the arguments whose ids are in the key.
            if key not in self.shared:
                self.shared[key] = applied, applied.tracers()
            return self.shared[key][1]
        tracers = applied.tracers()
        self.shared = {key: (applied, tracers)}
        try:
            if isinstance(tracers, list):
                return [self.box(*self.terms(x)) for x in tracers]
            return self.box(*self.terms(tracers))
        finally:
            self.shared = None


class _Applied:
    """A function with a derivative rule, applied to arguments of which some vary."""

    def __init__(
        self,
        trace: JetTrace,
        function: Callable[..., Any],
        jvp: Callable[[Sequence[Any], Sequence[Any]], tuple[Any, Any]],
        taylor: Callable[..., Any] | None,
        args: Sequence[Any],
        given: Sequence[Series | None],
    ):
        self.trace = trace
        self.function = function
        self.jvp = jvp
        self.taylor = taylor
        self.args = args
        self.given = given
        self.results: list[Series] = []

    def tracers(self) -> Any:
        """The results, of which only the values at t = 0 are computed yet."""
        primals = [
            x if s is None else s[0] for x, s in zip(self.args, self.given, strict=True)
        ]
        with use_trace(self.trace.parent):
            outs = self.function(*primals)
        several = isinstance(outs, (list, tuple))
        self.results = [
            Series([x], functools.partial(self._term, i))
            for i, x in enumerate(outs if several else [outs])
        ]
        tracers = [JetTracer(self.trace, s) for s in self.results]
        return tracers if several else tracers[0]

    def _term(self, i: int, k: int) -> Any:
        """The k-th coefficient of result i."""
        if self.taylor is not None:
            operands = [
                constant(x) if s is None else s
                for x, s in zip(self.args, self.given, strict=True)
            ]
            with use_trace(self.trace.parent):
                return self.taylor(k, self.results[i], *operands)
        dot = self._derivatives[i]
        if type(dot) is Zero:
            return None
        series = self.trace.series(dot) or constant(dot)
        with use_trace(self.trace.parent):
            return None if series[k - 1] is None else series[k - 1] / k

    @cached_property
    def _derivatives(self) -> Sequence[Any]:
        """The derivatives by t of the results."""
        tangents = [
            zero_tangent(typeof(x))
            if s is None or not dtypes.issubdtype(typeof(x).dtype, np.inexact)
            else x.derivative()
            for x, s in zip(self.args, self.given, strict=True)
        ]
        if all(type(t) is Zero for t in tangents):
            return [zero_tangent(typeof(s[0])) for s in self.results]
        with use_trace(self.trace):
            _, dots = self.jvp(self.args, tangents)
        return dots if isinstance(dots, (list, tuple)) else [dots]


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
        pairs = [trace.terms(x) for x in outs]
    return [p for p, _ in pairs], [s for _, s in pairs]


def _is_linear(op: Op) -> bool:
    """Whether it has one operand and one result that is linear in it."""
    if isinstance(op, LinearElementwise):
        return op.arity == 1 and not op.has_rule("taylor")
    return type(op).jvp is Linear.jvp and not op.multiple_results


def _of_linear(op: Op, k: int, out: Any, x: Series) -> Any:
    """Coefficient k of a linear op, without the derivatives of its operand."""
    return None if x[k] is None else op(x[k])


# ---- loops and branches


@dataclass(frozen=True)
class JetOfJaxpr:
    """The jaxpr of primals and their terms, of each stacked along a last dim.

    As `jvp_jaxpr`, with the terms in the place of tangents.
    """

    order: int

    def __call__(
        self,
        closed: ClosedJaxpr,
        nonzero: tuple[bool, ...],
        made: tuple[bool, ...] | None = None,
    ) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
        return _jet_jaxpr(closed, self.order, nonzero, made)


@kept_with_jaxpr
def _jet_jaxpr(
    closed: ClosedJaxpr,
    order: int,
    nonzero: tuple[bool, ...],
    made: tuple[bool, ...] | None,
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    out_nonzero: list[bool] = []
    count = len(closed.in_avals)

    def run(*args: Any) -> list[Any]:
        given = iter(args[count:])
        terms = [_unstacked(next(given)) if n else None for n in nonzero]
        outs, out_terms = jet(jaxpr_as_fun(closed), args[:count], terms, order)
        stacks = [
            _stacked(typeof(x), s, order) for x, s in zip(outs, out_terms, strict=True)
        ]
        if made is not None:
            stacks = [
                instantiate(s) if m else s for s, m in zip(stacks, made, strict=True)
            ]
        out_nonzero[:] = [type(s) is not Zero for s in stacks]
        return outs + [s for s in stacks if type(s) is not Zero]

    avals = [
        _aval_of_stack(a, order)
        for a, n in zip(closed.in_avals, nonzero, strict=True)
        if n
    ]
    staged = stage(run, [*closed.in_avals, *avals], closed.jaxpr.debug_info)
    return staged, tuple(out_nonzero)


def _aval_of_stack(aval: ShapedArray, order: int) -> ShapedArray:
    tangent = aval.to_tangent_aval()
    return tangent.update(shape=(*aval.shape, order))


def _stacked(aval: ShapedArray, terms: Terms, order: int) -> Any:
    """The terms of a value along a last dim; a `Zero` if there are none."""
    if terms is None:
        return Zero(_aval_of_stack(aval, order))
    return Stack(aval.ndim)(*(zeros(aval) if c is None else c for c in terms))


def _unstacked(stack: Any) -> list[Any]:
    return list(Unstack(typeof(stack).ndim - 1)(stack))
