"""Discharge: jaxprs that change references as functions of the arrays in them.

`discharge_jaxpr` runs a jaxpr on cells that belong to a trace which hands every op on
unchanged; what is in the cells in the end becomes more outputs. Ops that hold jaxprs
apply this when they are applied to references: see `TakesRefs`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

from curta.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr, jaxprs_of
from curta.core.memo import kept_with_jaxpr
from curta.core.op import Op
from curta.core.refs import (
    NOT_USED,
    WRITTEN,
    Ref,
    RefTracer,
    is_ref_type,
    read,
    refuse_aliases,
    swap,
)
from curta.core.stage import stage
from curta.core.trace import Trace, bind, current_trace, running, swap_trace, use_trace
from curta.transforms.lowering import is_high_op, lower_jaxpr, on_arrays

Flags = tuple[bool, ...]


class TakesRefs(Op):
    """An op whose operands may be references, handed to jaxprs that it holds.

    Recorded, it has them as operands. Anywhere else it is applied to the arrays in
    them by the rule `discharged`, and they are given those that come out.
    """

    takes_refs: ClassVar[bool] = True
    may_alias: ClassVar[bool] = False
    """Whether a reference may be several operands."""

    def __call__(self, *args: Any) -> Any:
        for x in args:
            if isinstance(x, Ref):
                return _apply(self, args)
        if current_trace().expands and is_high_op(self):
            return on_arrays(self, args)
        return bind(self, *args)

    bind = __call__

    def on_parts(self, counts: Sequence[int]) -> TakesRefs:
        """The op on arrays; `counts` has the number of arrays of each operand."""
        raise NotImplementedError(
            f"{self.name} takes no values of types of a program's own (HiType)"
        )

    def accesses(self) -> Sequence[int]:
        """What the op does to each operand, as far as they are references.

        Operands beyond its end are not used.
        """
        return ()

    def discharged(
        self, args: Sequence[Any], given: Flags, written: Flags, refs: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """The outputs, and the arrays that come out in the references `written`.

        `args` are the operands `refs` with those `given` replaced by their arrays.
        """
        raise NotImplementedError(
            f"{self.name} does not read or write references: hand it the array"
            " `ref[...]`, and let it return the new one"
        )


def _apply(op: TakesRefs, args: Sequence[Any]) -> Any:
    trace = current_trace()
    access = [a for a, _ in zip(_endless(op.accesses()), args, strict=False)]
    given = tuple(
        isinstance(x, Ref) and _is_opened(x, trace, a)
        for x, a in zip(args, access, strict=True)
    )
    if not any(given):
        return bind(op, *args)
    if not op.may_alias:
        _refuse_aliases(op, args)
    written = tuple(g and a == WRITTEN for g, a in zip(given, access, strict=True))
    arrays = [read(x) if g else x for x, g in zip(args, given, strict=True)]
    outs, finals = op.discharged(arrays, given, written, args)
    changed = [x for x, w in zip(args, written, strict=True) if w]
    for ref, value in zip(changed, finals, strict=True):
        swap(ref, value)
    return outs


def _endless(access: Sequence[int]) -> Any:
    return itertools.chain(access, itertools.repeat(NOT_USED))


def _is_opened(ref: Ref, trace: Trace, access: int) -> bool:
    """Whether an op in this trace is applied to the array in the reference."""
    if trace.records:
        return ref._trace is trace and type(ref) is not RefTracer
    return access != NOT_USED or not trace.passes_refs


def _refuse_aliases(op: TakesRefs, args: Sequence[Any]) -> None:
    """Raise ValueError if an argument of the function that `op` calls is so twice."""
    jaxpr = next(jaxprs_of(op), None)
    if jaxpr is not None:
        info = jaxpr.debug_info
        count = len(args) - len(info.arg_names)
        captured = args[:count] if info.arg_names else ()
        refuse_aliases(args[len(captured) :], info, info.arg_names, captured)


@kept_with_jaxpr
def accesses(jaxpr: Jaxpr) -> tuple[int, ...]:
    """What a jaxpr does to each of its inputs, as far as they are references."""
    result: dict[Any, int] = {}
    for eqn in jaxpr.eqns:
        if any(is_ref_type(v.aval) for v in eqn.invars):
            op: Any = eqn.op
            for v, access in zip(eqn.invars, _endless(op.accesses()), strict=False):
                result[v] = max(result.get(v, NOT_USED), access)
    return tuple(result.get(v, NOT_USED) for v in jaxpr.invars)


@kept_with_jaxpr
def low_program(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return the jaxpr of arrays, and of references to arrays.

    References to values of a program's own become inputs, and outputs where they are
    written.
    """
    if not closed.is_high:
        return closed
    given = tuple(is_ref_type(a) and a.inner_aval.is_high for a in closed.in_avals)  # type: ignore[attr-defined]
    if any(given):
        does = accesses(closed.jaxpr)
        written = tuple(g and a == WRITTEN for g, a in zip(given, does, strict=True))
        closed = discharge_jaxpr(closed, given, written)
    return lower_jaxpr(closed)


class DischargeTrace(Trace):
    """Applies every op in its parent; references made in it are its own."""

    def __init__(self, parent: Trace):
        self.parent: Trace = parent

    def process(self, op: Op, args: Sequence[Any]) -> Any:
        before = swap_trace(self.parent)
        try:
            return op(*args)
        finally:
            swap_trace(before)

    def custom_jvp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        with use_trace(self.parent):
            return self.parent.custom_jvp(call, args)

    def custom_vjp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        with use_trace(self.parent):
            return self.parent.custom_vjp(call, args)


@kept_with_jaxpr
def discharge_jaxpr(closed: ClosedJaxpr, given: Flags, written: Flags) -> ClosedJaxpr:
    """The jaxpr of arrays in place of the references `given`.

    Its outputs are followed by the arrays that the references `written` hold in the
    end.
    """

    def run(*args: Any) -> list[Any]:
        trace = DischargeTrace(current_trace())
        with running(trace):
            inputs = [
                Ref(a, x, trace) if g else x  # type: ignore[arg-type]
                for a, x, g in zip(closed.in_avals, args, given, strict=True)
            ]
            outs = eval_jaxpr(closed.jaxpr, closed.consts, *inputs)
            finals = [read(r) for r, w in zip(inputs, written, strict=True) if w]
        return [*outs, *finals]

    avals = [
        a.inner_aval if g else a  # type: ignore[attr-defined]
        for a, g in zip(closed.in_avals, given, strict=True)
    ]
    return stage(run, avals, closed.jaxpr.debug_info)
