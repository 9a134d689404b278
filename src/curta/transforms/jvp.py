"""Forward-mode differentiation: every value carries its tangent along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta import dtypes
from curta.core.avals import ShapedArray, tangent_dtype
from curta.core.hi_types import HiTracer
from curta.core.leaks import leak_check
from curta.core.op import Op
from curta.core.refs import Ref
from curta.core.source_info import settle, unsettle
from curta.core.stage import refuse_dead_tracer
from curta.core.tangents import Zero, zero_tangent
from curta.core.trace import (
    Trace,
    TracedValue,
    Tracer,
    current_trace,
    running,
    swap_trace,
    typeof,
    use_trace,
)
from curta.transforms.partial_eval import PartialTrace


class JVPTracer(Tracer):
    """A primal value and its tangent.

    >>> import curta
    >>> from curta.interpreters import ad
    >>> curta.jvp(lambda x: print(isinstance(x, ad.JVPTracer)) or x, (1.0,), (1.0,))[1]
    True
    1.0
    """

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: JVPTrace, primal: Any, tangent: Any, aval: Any):
        self._trace = trace
        self.primal: Any = primal
        self.tangent: Any = tangent
        self.aval: Any = aval

    def concrete_value(self) -> Any:
        primal = self.primal
        return primal.concrete_value() if isinstance(primal, Tracer) else primal

    def __repr__(self) -> str:
        primal, tangent = f"primal={_shown(self.primal)}", self.tangent
        parent = self._trace.parent
        if isinstance(parent, PartialTrace) and parent.is_unknown(tangent):
            aval = tangent.aval.str_short(short_dtypes=True)
            return f"GradTracer({primal}, typeof(tangent)={aval})"
        return f"JVPTracer({primal}, tangent={_shown(tangent)})"

    def _origin_msg(self) -> str:
        return self.primal._origin_msg() if isinstance(self.primal, Tracer) else ""


class HiJVPTracer(HiTracer):
    """A primal value of a type of a program's own, and its tangent."""

    __slots__ = ("primal", "tangent")
    __init__: Any = JVPTracer.__init__


def _shown(x: Any) -> str:
    return repr(x) if isinstance(x, Tracer) else str(x)


class JVPTrace(Trace):
    """Applies each op's `jvp` rule in the parent trace.

    >>> import curta
    >>> from curta.interpreters import ad
    >>> def f(x):
    ...     print(isinstance(x._trace, ad.JVPTrace))
    ...     return x
    >>> primal, tangent = curta.jvp(f, (1.0,), (1.0,))
    True
    """

    differentiates = True
    passes_refs = True

    def __init__(self, parent: Trace):
        self.parent: Trace = parent
        self.locates: bool = parent.locates

    def pair(self, x: Any) -> tuple[Any, Any]:
        """The primal and tangent of `x`; a value of another trace is a constant."""
        if isinstance(x, TracedValue):
            if x._trace is self:
                own: Any = x
                return own.primal, own.tangent
            refuse_dead_tracer(x)
        return x, zero_tangent(typeof(x))

    def process(self, op: Op, args: Sequence[Any]) -> Any:
        pairs = [self.pair(x) for x in args]
        primals = [p for p, _ in pairs]
        tangents = [t for _, t in pairs]
        before = swap_trace(self.parent)
        line = settle(self.locates and not op.rules_run_python)
        try:
            if all(type(t) is Zero for t in tangents):
                return op(*primals)
            out, out_tangent = op.jvp(primals, tangents)
        finally:
            unsettle(line)
            swap_trace(before)
        if op.multiple_results:
            return [self.box(p, t) for p, t in zip(out, out_tangent, strict=True)]
        return self.box(out, out_tangent)

    def box(self, primal: Any, tangent: Any) -> Any:
        """A tracer, or the primal alone where the tangent is zero."""
        if type(tangent) is Zero:
            return primal
        aval: Any = typeof(primal)
        kind = JVPTracer if type(aval) is ShapedArray else HiJVPTracer
        return kind(self, primal, tangent, aval)

    def written(self, x: Any, ref: Any, what: str) -> Any:
        if ref.aval.kind == "no_grad_no_remat":
            return x.primal
        raise ValueError(
            f"performing {what} with a differentiated value on a"
            f" non-differentiated array reference of type {ref.aval}. Move the array"
            " reference to be an argument of the differentiated function? It may also"
            " be made in that function, or with kind='no_grad_no_remat'."
        )

    def custom_jvp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        return self._custom(call, args, self.parent.custom_jvp)

    def custom_vjp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        return self._custom(call, args, self.parent.custom_vjp)

    def _custom(self, call: Any, args: Sequence[Any], handle: Any) -> Sequence[Any]:
        pairs = [self.pair(x) for x in args]
        primals = [p for p, _ in pairs]
        tangents = [t for _, t in pairs]
        with use_trace(self.parent):
            if all(type(t) is Zero for t in tangents):
                result: Sequence[Any] = handle(call, primals)
                return result
            out, out_tangent = call.jvp(primals, tangents)
        return [self.box(p, t) for p, t in zip(out, out_tangent, strict=True)]


def jvp(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Outputs and output tangents of a flat function; tangents may be `Zero`."""
    trace = JVPTrace(current_trace())
    with running(trace):
        outs = fun(*map(trace.box, primals, tangents))
        pairs = [trace.pair(x) for x in outs]
    if check := leak_check(trace):
        del trace, outs
        check.finish()
    return [p for p, _ in pairs], [t for _, t in pairs]


def is_differentiable(x: Any) -> bool:
    """Whether a value of this aval can have a tangent that is not zero."""
    if isinstance(x, Ref):
        return False
    aval = typeof(x)
    if aval.is_high:
        return True
    return bool(tangent_dtype(aval.dtype) != dtypes.float0)
