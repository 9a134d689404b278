"""`stage`: run a Python function on tracers and record what it does as a jaxpr.

This is the one way to trace: jit, the control-flow ops, linearize and make_jaxpr
all come here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, errors
from curta.config import config, enable_x64
from curta.core.avals import ShapedArray, is_python_scalar, typed
from curta.core.check import check_jaxpr
from curta.core.dim import SymbolicDim
from curta.core.flat import FlatFunction
from curta.core.hi_types import HiTracer, is_value
from curta.core.jaxpr import Atom, ClosedJaxpr, DebugInfo, Eqn, Jaxpr, Literal, Var
from curta.core.leaks import leak_check
from curta.core.op import Op
from curta.core.placement import aligned, placed_out_aval
from curta.core.pretty import format_eqn
from curta.core.refs import Ref, RefTracer, is_ref_type, returned_ref
from curta.core.source_info import SourceInfo, anew, current_location, user_frame
from curta.core.trace import (
    Trace,
    TracedValue,
    Tracer,
    current_trace,
    running,
    typeof,
)

_NUMPY = (np.generic, np.ndarray)


class JitTracer(Tracer):
    """A variable of the jaxpr being recorded.

    >>> import curta
    >>> from curta.interpreters import partial_eval
    >>> def f(x):
    ...     print(isinstance(x, partial_eval.DynamicJaxprTracer))
    >>> curta.jit(f)(1.0)
    True
    """

    __slots__ = ("_var", "source")

    def __init__(self, trace: JaxprTrace, var: Atom, source: SourceInfo):
        self._trace = trace
        self.aval: ShapedArray = var.aval
        self._var = var
        self.source: SourceInfo = source

    def concrete_value(self) -> Any:
        return self._var.val if type(self._var) is Literal else None

    def __str__(self) -> str:
        name, _, aval = repr(self).partition("(")
        return f"{name}<{aval[:-1]}>"

    def _origin_msg(self) -> str:
        return self._trace.origin_message(self)


class HiJitTracer(HiTracer):
    """A variable of the jaxpr being recorded, of a type of a program's own."""

    __slots__ = ("_var", "source")

    def __init__(self, trace: JaxprTrace, var: Atom, source: SourceInfo):
        self._trace, self.aval, self._var = trace, var.aval, var
        self.source: SourceInfo = source

    def _origin_msg(self) -> str:
        return self._trace.origin_message(self)


class JaxprTrace(Trace):
    """Records every op as an eqn of a growing jaxpr.

    With `locate` each eqn remembers the user's line, which costs a walk up the stack.
    """

    locate: Any

    records = True
    tracer_type = JitTracer

    def __init__(
        self, debug_info: DebugInfo, parent: Trace | None = None, locate: bool = True
    ):
        self.debug_info = debug_info
        # Without `locate`, eqns get the location of the eqn being transformed, if any.
        self.locates: bool = locate or config.context.debugging
        self.locate = user_frame if self.locates else current_location
        self.parent: Trace = current_trace() if parent is None else parent
        self.eqns: list[Eqn] = []
        self.invars: list[Var] = []
        self.constants: dict[int, tuple[Var, Any]] = {}

    def new_arg(self, aval: ShapedArray) -> Any:
        """A tracer for one more input."""
        return self.new_args([aval])[0]

    def new_args(self, avals: Sequence[ShapedArray]) -> list[Any]:
        """Tracers for further inputs."""
        invars, source = [*map(Var, avals)], self.locate()
        self.invars += invars
        return [self.box(var, source) for var in invars]

    def box(self, var: Var, source: SourceInfo) -> Any:
        """What stands for a variable: a tracer, or a reference."""
        aval: Any = var.aval
        if type(aval) is ShapedArray:
            return self.tracer_type(self, var, source)
        if is_ref_type(aval):
            return RefTracer(self, var)
        return HiJitTracer(self, var, source)

    def atom(self, x: Any) -> Atom:
        """The variable or literal for `x`; anything foreign becomes a constant."""
        if isinstance(x, (JitTracer, HiJitTracer)) and x._trace is self:
            if self.finished:
                raise leaked(x)
            return x._var
        if isinstance(x, TracedValue):
            refuse_dead_tracer(x)
            # As a constant it would lose its derivative; an example of a batch is one.
            if x._trace.differentiates and not _is_within(self, x._trace):
                raise foreign_tracer(x)
        elif is_python_scalar(x):
            return Literal(x)
        elif type(x) is RefTracer and x._trace is self:
            result: Var = x._var
            return result
        elif isinstance(x, SymbolicDim):
            return self.atom(x.as_value())
        aval = typeof(x)
        if isinstance(x, _NUMPY) and not aval.shape and aval.dtype != dtypes.float0:
            same = isinstance(x, np.generic) and x.dtype is aval.dtype
            return Literal(x if same else np.asarray(x).astype(aval.dtype)[()], aval)
        known = self.constants.get(id(x))
        if known is None:
            known = self.constants[id(x)] = (Var(aval), x)
        return known[0]

    def tracer(self, x: Any) -> JitTracer:
        """`x` as a tracer of this trace."""
        if isinstance(x, JitTracer) and x._trace is self:
            return x
        return self.tracer_type(self, self.atom(x), self.locate())

    def process(self, op: Op, args: Sequence[Any]) -> Any:
        if config.curta_mesh_context is not None:
            args = aligned(op, args)
        own = self.tracer_type
        invars = tuple(
            [
                x._var if type(x) is own and x._trace is self else self.atom(x)
                for x in args
            ]
        )
        out = out_aval(op, tuple([v.aval for v in invars]))
        source = self.locate()
        if op.multiple_results:
            outvars = tuple(map(Var, out))
            self.eqns.append(Eqn(op, invars, outvars, source))
            return [self.box(v, source) for v in outvars]
        outvar = Var(out)
        self.eqns.append(Eqn(op, invars, (outvar,), source))
        return self.box(outvar, source)

    def custom_jvp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        return call.stage([typeof(x) for x in args])(*args)

    custom_vjp = custom_jvp

    def jaxpr(self, outs: Sequence[Any]) -> ClosedJaxpr:
        """The recorded jaxpr with these outputs; the trace is over."""
        outvars = [self.atom(x) for x in outs]
        self.finished = True
        used = {v for e in self.eqns for v in e.invars if type(v) is Var}
        used.update(v for v in outvars if type(v) is Var)
        constants = [(v, c) for v, c in self.constants.values() if v in used]
        jaxpr = Jaxpr(
            [v for v, _ in constants], self.invars, outvars, self.eqns, self.debug_info
        )
        return ClosedJaxpr(jaxpr, [c for _, c in constants])

    # ---- what errors say

    def check_outputs(self, outs: Sequence[Any], fun: Any) -> None:
        """Raise ValueError for references in the outputs, TypeError for no arrays."""
        info = self.debug_info
        for i, x in enumerate(outs):
            if isinstance(x, Ref):
                raise returned_ref(x, info, self._argument_name(x))
            if not is_value(x):
                path = fun.result_path(i) if isinstance(fun, FlatFunction) else ""
                where = f" at output component {path}" if path else ""
                raise TypeError(
                    f"function {info.function()} traced for {info.traced_for} returned"
                    f" a value of type {type(x)}{where}, which is not a valid"
                    " JAX type. Return arrays, scalars and pytrees of them."
                )

    def _argument_name(self, ref: Ref) -> str:
        """The name of the argument that a reference is, empty if it is none."""
        names = self.debug_info.arg_names
        if type(ref) is not RefTracer or ref._var not in self.invars:
            return ""
        number = self.invars.index(ref._var)
        return names[number] if number < len(names) else f"number {number}"

    def origin_message(self, tracer: JitTracer | HiJitTracer) -> str:
        """Which function was being traced, and what the value depends on."""
        info = self.debug_info
        where = (
            f"\nThe error occurred while tracing the function {info.function()}"
            f" for {info.traced_for}. "
        )
        eqns, read = self._ancestry(tracer)
        names = self._argument_names(read)
        if names:
            s = "s" if len(names) > 1 else ""
            return where + (
                "This concrete value was not available in Python because it depends"
                f" on the value{s} of the argument{s} {_listing(names)}."
            )
        return where + _first_lines(eqns)

    def _ancestry(self, tracer: JitTracer | HiJitTracer) -> tuple[list[Eqn], set[Var]]:
        """The eqns that a value depends on, in order, and what they read."""
        read: set[Any] = {tracer._var}
        result = []
        for eqn in reversed(self.eqns):
            if any(v in read for v in eqn.outvars):
                read.update(v for v in eqn.invars if type(v) is Var)
                result.append(eqn)
        return result[::-1], read

    def _argument_names(self, read: set[Var]) -> list[str]:
        names = self.debug_info.arg_names
        if len(names) != len(self.invars):
            return []
        result = [n for v, n in zip(self.invars, names, strict=True) if v in read]
        return list(dict.fromkeys(result))


_MOST_FIRST_LINES = 5


def _first_lines(eqns: Sequence[Eqn]) -> str:
    """The lines of those eqns that read no other's results."""
    made = {v for e in eqns for v in e.outvars}
    first = [e for e in eqns if made.isdisjoint(v for v in e.invars if type(v) is Var)]
    shown = [
        f"\n\n  operation {format_eqn(e)}\n    from line {e.source_info}"
        for e in first[:_MOST_FIRST_LINES]
    ]
    if len(first) > _MOST_FIRST_LINES:
        shown.append("\n\n(Additional originating lines are not shown.)")
    if not shown:
        return "It is an argument of the function, or computed from none of its own."
    listed = "".join(shown)
    return f"This value became a tracer due to operations on these lines:{listed}"


_out_avals: dict[Any, Any] = {}
_MOST_OUT_AVALS = 1 << 16


def out_aval(op: Op, avals: tuple[ShapedArray, ...]) -> Any:
    """What `op.aval(*avals)` gives, remembered."""
    # Placement depends on the mesh in scope, and on other settings.
    key = (op, avals, config.context)
    try:
        return _out_avals[key]
    except KeyError:
        pass
    except TypeError:  # parameters that cannot be hashed
        return placed_out_aval(op, avals)
    if len(_out_avals) >= _MOST_OUT_AVALS:
        _out_avals.clear()
    if not op.takes_refs and any(map(is_ref_type, avals)):
        raise _refused_ref(op, avals)
    result = placed_out_aval(op, avals)
    if not (op.places_outputs or op.holds_functions):
        _out_avals[key] = result
    return result


def _refused_ref(op: Op, avals: Sequence[Any]) -> TypeError:
    position = [is_ref_type(a) for a in avals].index(True)
    return TypeError(
        f"{op.name} requires ndarray or scalar arguments, got a reference of type"
        f" {avals[position]} at position {position}. Read it with `ref[...]`."
    )


def _listing(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def recording_trace() -> JaxprTrace | None:
    """The innermost trace at work that records all ops in a jaxpr, if there is one."""
    trace: Trace | None = current_trace()
    while trace is not None and not isinstance(trace, JaxprTrace):
        trace = None if trace.evaluates_known else trace.parent
    return trace


def with_dtype(x: Any) -> Any:
    """`x`; a Python scalar with the shape and dtype that it has as an array."""
    if not is_python_scalar(x):
        return x
    trace = recording_trace()
    return typed(x) if trace is None else trace.tracer(x)


def axes_in_scope() -> tuple[Any, ...]:
    """The named axes that a function traced now may use, with their sizes."""
    trace = current_trace()
    return () if trace.is_evaluating() else tuple(trace.axis_sizes().items())


def _is_within(trace: Trace | None, outer: Trace) -> bool:
    """Whether a trace is another, or at work inside it."""
    while trace is not None and trace is not outer:
        trace = trace.parent
    return trace is outer


def refuse_dead_tracer(x: Any) -> None:
    """Raise UnexpectedTracerError if the trace that made `x` is over."""
    if x._trace.finished:
        raise leaked(x)


def leaked(x: Any) -> errors.UnexpectedTracerError:
    """The error for a tracer used after its function was traced."""
    info, line = getattr(x._trace, "debug_info", None), getattr(x, "source", None)
    text = _escaped(x)
    if info is not None:
        traced = f"{info.function()} traced for {info.traced_for}"
        text += f"\nThe function being traced when the value leaked was {traced}."
    if line is not None:
        text += f"\nThe leaked intermediate value was created on line {line}."
    return errors.UnexpectedTracerError(text)


def foreign_tracer(x: Any) -> errors.UnexpectedTracerError:
    """The error for a tracer whose trace is not at work where it is used."""
    refuse_dead_tracer(x)
    return errors.UnexpectedTracerError(
        f"{_escaped(x)}\nThe value belongs to a transformation that is not at work"
        f" here: {x!r}. Functions with derivatives of their own, and their rules, may"
        " not close over values that are differentiated or batched: pass it as an"
        " argument."
    )


def _escaped(x: Any) -> str:
    return (
        "Encountered an unexpected tracer. A function transformed by JAX had a side"
        " effect, allowing for an intermediate value with type"
        f" {x.aval.str_short()} wrapped in a {type(x).__name__} to escape the scope"
        " of the transformation.\nJAX transformations require that functions"
        " explicitly return their outputs, and disallow saving intermediate values to"
        " global state."
    )


def stage(
    fun: Callable[..., Sequence[Any]],
    in_avals: Sequence[ShapedArray],
    debug_info: DebugInfo | None = None,
    refs_out: bool = False,
    trace: JaxprTrace | None = None,
) -> ClosedJaxpr:
    """Trace `fun`, a function of flat arrays to a flat sequence of arrays.

    Values that `fun` closes over become the constants of the result; they may be
    tracers of enclosing traces. `trace` records, if it is to be one of another kind.
    Raises ValueError if `fun` returns references, unless `refs_out` says that it may.
    """
    trace = trace or JaxprTrace(debug_info or DebugInfo())
    with anew(), running(trace):
        outs = fun(*trace.new_args(in_avals))
        if not refs_out:
            trace.check_outputs(outs, fun)
        closed = trace.jaxpr(outs)
    if config.jax_enable_checks:
        check_jaxpr(closed.jaxpr)
    if check := leak_check(trace):
        del trace, outs
        check.finish()
    return closed


def stage_wide(
    fun: Callable[..., Sequence[Any]], in_avals: Sequence[ShapedArray]
) -> ClosedJaxpr:
    """Trace `fun` as `stage` does; arrays of 64 bits stay, whatever the setting."""
    with enable_x64(True):
        return stage(fun, in_avals)
