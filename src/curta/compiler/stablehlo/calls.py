"""Calls of jaxprs."""

from __future__ import annotations

from collections.abc import Sequence

from curta.compiler.stablehlo.ir import Value
from curta.compiler.stablehlo.lowering import Builder, lower_closed, rule
from curta.control.call import Call, JaxprOp


@rule(JaxprOp)
def _inlined(b: Builder, op: JaxprOp, *args: Value) -> Sequence[Value]:
    return lower_closed(b, op.jaxpr, args)


@rule(Call)
def _call(b: Builder, op: Call, *args: Value) -> Sequence[Value]:
    if op.inline:
        return lower_closed(b, op.jaxpr, args)
    return b.call(op.jaxpr, op.fun_name, args)
