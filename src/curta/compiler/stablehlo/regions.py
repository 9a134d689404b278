"""Regions of operations that combine elements: functions of scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.stablehlo.ir import HloBlock, HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, lower_closed
from curta.compiler.stablehlo.types import tensor_type
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.op import Op


def region(
    b: BlockBuilder,
    avals: Sequence[ShapedArray],
    write: Callable[..., HloValue | Sequence[HloValue]],
) -> HloBlock:
    """The region of arguments of these avals that `write(builder, *args)` fills."""
    with b.region([tensor_type(a) for a in avals]) as inner:
        inner.of_elements = True
        outs = write(inner, *inner.block.arguments)
        return inner.finish(*([outs] if isinstance(outs, HloValue) else outs))


def scalars(*dtypes: Any) -> list[ShapedArray]:
    """The avals of numbers of these dtypes."""
    return [ShapedArray((), d) for d in dtypes]


def op_region(b: BlockBuilder, op: Op, dtype: Any) -> HloBlock:
    """An elementwise op of two numbers of a dtype."""
    avals = scalars(dtype, dtype)
    return region(b, avals, lambda inner, x, y: inner.apply(op, avals, x, y))


def jaxpr_region(b: BlockBuilder, closed: ClosedJaxpr) -> HloBlock:
    """A jaxpr of numbers."""

    def write(inner: BlockBuilder, *args: HloValue) -> Sequence[HloValue]:
        return lower_closed(inner, closed, args)

    return region(b, closed.in_avals, write)
