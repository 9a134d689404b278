"""Partial evaluation: compute what is known, record what depends on the unknown."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, Var, eval_jaxpr
from curta.core.memo import kept_with_jaxpr
from curta.core.op import Op
from curta.core.source_info import current_name_stack
from curta.core.stage import JaxprTrace, stage
from curta.core.trace import (
    Trace,
    TracedValue,
    current_trace,
    swap_trace,
    use_trace,
)
from curta.transforms.dce import dce_jaxpr, read_atoms


class PartialTrace(Trace):
    """Runs ops on known values in the parent; records the others as a jaxpr.

    Known values that recorded ops read become the constants of that jaxpr: the
    residuals.
    """

    passes_refs = True
    mode: str = "jvp"
    """By which rules ops with several are differentiated: see control/hi_op.py."""

    def __init__(self, parent: Trace, debug_info: DebugInfo):
        self.parent: Trace = parent
        self.locates: bool = parent.locates
        self.recorder: JaxprTrace = JaxprTrace(debug_info, parent, locate=False)
        # Recorded eqns may run under other name scopes: store names relative to this
        # one.
        if outer := len(current_name_stack()):
            self.recorder.locate = functools.partial(self.recorder.locate, outer)

    def is_unknown(self, x: Any) -> bool:
        """Whether `x` is a value of the recorded jaxpr."""
        return isinstance(x, TracedValue) and x._trace is self.recorder

    def unknown(self, aval: ShapedArray) -> Any:
        """A new unknown input."""
        return self.recorder.new_arg(aval)

    def process(self, op: Op, args: Sequence[Any]) -> Any:
        for x in args:
            if isinstance(x, TracedValue) and x._trace is self.recorder:
                return op.partial_eval(self, args)
        before = swap_trace(self.parent)
        try:
            return op(*args)
        finally:
            swap_trace(before)

    def owns(self, x: Any) -> bool:
        return self.is_unknown(x)

    def defer(self, op: Op, args: Sequence[Any]) -> Any:
        """Record `op` to be run later."""
        return self.recorder.process(op, args)

    def joined(
        self,
        unknown: Sequence[bool],
        known: Sequence[Any],
        op: Op,
        args: Sequence[Any],
    ) -> list[Any]:
        """The results of an op cut in two: the `known` ones, and those of `op`, later.

        `unknown` says of each which it is.
        """
        later = iter(self.defer(op, args) if any(unknown) else ())
        now = iter(known)
        return [next(later if u else now) for u in unknown]

    def custom_jvp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        if any(map(self.is_unknown, args)):
            return call.fun(*args)
        assert self.parent is not None
        with use_trace(self.parent):
            return self.parent.custom_jvp(call, args)

    def custom_vjp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        if any(map(self.is_unknown, args)):
            return call.fun(*args)
        assert self.parent is not None
        with use_trace(self.parent):
            return self.parent.custom_vjp(call, args)


class SplitJaxpr(NamedTuple):
    """A jaxpr cut in two.

    `known` maps the known inputs to the known outputs and such residuals as are not
    among the inputs and outputs already; `unknown` maps the residuals and the unknown
    inputs to the unknown outputs. `out_unknown` says which outputs those are.
    """

    known: ClosedJaxpr
    unknown: ClosedJaxpr
    out_unknown: tuple[bool, ...]
    residual_sources: tuple[tuple[bool, int], ...]

    def residuals(self, args: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """The residuals, from the known inputs and what `known` returned."""
        return [(args if given else outs)[i] for given, i in self.residual_sources]


@kept_with_jaxpr
def split_jaxpr(
    closed: ClosedJaxpr,
    in_unknown: tuple[bool, ...],
    force: bool | tuple[bool, ...] = False,
) -> SplitJaxpr:
    """Cut a jaxpr into what the known inputs determine and the rest.

    Outputs with `force` count as unknown whether they are or not.
    """
    forced = (force,) * len(closed.out_avals) if isinstance(force, bool) else force
    rest: list[Jaxpr] = []
    flags: list[bool] = []

    def run_known(*known_args: Any) -> list[Any]:
        partial = PartialTrace(current_trace(), closed.jaxpr.debug_info)
        with use_trace(partial):
            known = iter(known_args)
            args = [
                partial.unknown(a) if u else next(known)
                for a, u in zip(closed.in_avals, in_unknown, strict=True)
            ]
            outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
        flags[:] = [
            f or partial.is_unknown(x) for x, f in zip(outs, forced, strict=True)
        ]
        recorded = partial.recorder.jaxpr(
            [x for x, u in zip(outs, flags, strict=True) if u]
        )
        recorded = prune(recorded)
        rest[:] = [recorded.jaxpr]
        return [x for x, u in zip(outs, flags, strict=True) if not u] + recorded.consts

    known_avals = [a for a, u in zip(closed.in_avals, in_unknown, strict=True) if not u]
    known = prune(stage(run_known, known_avals, closed.jaxpr.debug_info, True))
    unknown = ClosedJaxpr(hoist_constants(rest[0]), ())
    kept, sources = _without_repeats(known.jaxpr, flags.count(False))
    return SplitJaxpr(ClosedJaxpr(kept, known.consts), unknown, tuple(flags), sources)


def _without_repeats(
    known: Jaxpr, out_count: int
) -> tuple[Jaxpr, tuple[tuple[bool, int], ...]]:
    """The jaxpr without residuals that are inputs or outputs anyway.

    Also where each residual is now: whether among the inputs, and its index.
    """
    inputs = {v: i for i, v in enumerate(known.invars)}
    outs = list(known.outvars[:out_count])
    sources = []
    for v in known.outvars[out_count:]:
        if v in inputs:
            sources.append((True, inputs[v]))
            continue
        if v not in outs:
            outs.append(v)
        sources.append((False, outs.index(v)))
    return known.replace(outvars=outs), tuple(sources)


def prune(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Without dead eqns, and without the constants that only those read."""
    jaxpr = dce_jaxpr(closed.jaxpr)
    used = read_atoms(jaxpr)
    kept = [
        (v, c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True) if v in used
    ]
    return ClosedJaxpr(
        jaxpr.replace(constvars=[v for v, _ in kept]), [c for _, c in kept]
    )


def hoist_constants(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with its constants as leading inputs."""
    invars: list[Var] = [*jaxpr.constvars, *jaxpr.invars]
    return jaxpr.replace(constvars=(), invars=invars)


def residuals_as_inputs(
    closed: ClosedJaxpr,
) -> tuple[ClosedJaxpr, list[Any]]:
    """A jaxpr of no constants, and the values of the inputs it gained in front."""
    return ClosedJaxpr(hoist_constants(closed.jaxpr), ()), closed.consts
