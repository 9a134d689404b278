"""Jaxprs with types of a program's own as jaxprs of the arrays that these stand for.

`lower_jaxpr` runs a jaxpr on values raised from tracers of their arrays, under a trace
that replaces each op of a program's own by what it consists of (`Op.inlined`), and each
op that holds such jaxprs by one on arrays (`on_parts`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from curta.core.hi_types import lower_types, lower_value
from curta.core.jaxpr import ClosedJaxpr, eval_jaxpr, jaxprs_of, with_jaxprs
from curta.core.memo import kept_with_jaxpr
from curta.core.op import Op
from curta.core.stage import stage
from curta.core.trace import Trace, current_trace, running, swap_trace, typeof


class LowerTrace(Trace):
    """Applies every op in its parent, once nothing in it is of a program's own."""

    expands = True

    def __init__(self, parent: Trace):
        self.parent: Trace = parent
        self.locates: bool = parent.locates

    def process(self, op: Op, args: Sequence[Any]) -> Any:
        if any(j.is_high for j in jaxprs_of(op)):  # that of a reduction, say
            op = _on_arrays_alone(op, len(args))
        before = swap_trace(self.parent)
        try:
            return op(*args)
        finally:
            swap_trace(before)

    def custom_jvp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        outs: Sequence[Any] = call.fun(*args)  # what is lowered is not differentiated
        return outs

    custom_vjp = custom_jvp


def lower_jaxpr(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return the jaxpr of the arrays that inputs and outputs are made of."""
    # A jaxpr kept with itself would stay in memory until garbage is collected.
    return _lowered(closed) if closed.is_high else closed


@kept_with_jaxpr
def _lowered(closed: ClosedJaxpr) -> ClosedJaxpr:
    def run(*arrays: Any) -> list[Any]:
        inputs = raise_values(closed.in_avals, arrays)
        with running(LowerTrace(current_trace())):
            outs = eval_jaxpr(closed.jaxpr, closed.consts, *inputs)
        return [x for out in outs for x in lower_value(out)]

    avals = itertools.chain(*lower_types(closed.in_avals))
    return stage(run, [*avals], closed.jaxpr.debug_info)


def _on_arrays_alone(op: Any, count: int) -> Any:
    """An op that takes and gives arrays, with the jaxprs that it holds lowered."""
    if hasattr(op, "on_parts"):
        return op.on_parts([1] * count)
    return with_jaxprs(op, lower_jaxpr)


def raise_values(avals: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    """Return the values of these types that are made of the arrays."""
    given = iter(arrays)
    return [
        a.raise_val(*itertools.islice(given, len(parts))) if a.is_high else next(given)
        for a, parts in zip(avals, lower_types(avals), strict=True)
    ]


def is_high_op(op: Any) -> bool:
    """Whether an op holds jaxprs with types or ops of a program's own."""
    return any(c.is_high for c in op.parts_run)


def on_arrays(op: Any, args: Sequence[Any]) -> Any:
    """Apply an op that holds jaxprs on the arrays that the operands are made of."""
    parts = [*map(lower_value, args)]
    low = op.on_parts([*map(len, parts)])
    outs = low(*itertools.chain(*parts))
    return raise_values(op.aval(*map(typeof, args)), outs)
