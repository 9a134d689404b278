"""Regions of operations that combine elements: functions of scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.stablehlo.ir import Block, Value
from curta.compiler.stablehlo.lowering import Builder, lower_closed
from curta.compiler.stablehlo.types import tensor_type
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.op import Op


def region(
    b: Builder,
    avals: Sequence[ShapedArray],
    write: Callable[..., Value | Sequence[Value]],
) -> Block:
    """The region of arguments of these avals that `write(builder, *args)` fills."""
    with b.region([tensor_type(a) for a in avals]) as inner:
        inner.of_elements = True
        outs = write(inner, *inner.block.arguments)
        return inner.finish(*([outs] if isinstance(outs, Value) else outs))


def scalars(*dtypes: Any) -> list[ShapedArray]:
    """The avals of numbers of these dtypes."""
    return [ShapedArray((), d) for d in dtypes]


def op_region(b: Builder, op: Op, dtype: Any) -> Block:
    """An elementwise op of two numbers of a dtype."""
    avals = scalars(dtype, dtype)
    return region(b, avals, lambda inner, x, y: inner.apply(op, avals, x, y))


def jaxpr_region(b: Builder, closed: ClosedJaxpr) -> Block:
    """A jaxpr of numbers."""

    def write(inner: Builder, *args: Value) -> Sequence[Value]:
        return lower_closed(inner, closed, args)

    return region(b, closed.in_avals, write)
