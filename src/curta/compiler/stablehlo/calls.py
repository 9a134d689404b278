"""Calls of jaxprs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import tree_util
from curta.compiler.stablehlo.attributes import (
    RawAttribute,
    commas,
    dictionary,
    symbol,
    text,
)
from curta.compiler.stablehlo.constants import dense, scalar
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, lower_closed, rule
from curta.compiler.stablehlo.shape import barrier
from curta.compiler.stablehlo.types import element_type
from curta.control.call import JaxprOp, JitCall
from curta.control.composite import Composite
from curta.control.core_call import CoreCall
from curta.control.program_order import ProgramOrder
from curta.control.remat import Remat


@rule(JaxprOp)
def _inlined(b: BlockBuilder, op: JaxprOp, *args: HloValue) -> Sequence[HloValue]:
    return lower_closed(b, op.jaxpr, args)


@rule(JitCall)
def _call(b: BlockBuilder, op: JitCall, *args: HloValue) -> Sequence[HloValue]:
    if op.inline:
        return lower_closed(b, op.jaxpr, args)
    return b.call(op.jaxpr, op.fun_name, args)


@rule(CoreCall)
def _core_call(b: BlockBuilder, op: CoreCall, *args: HloValue) -> Sequence[HloValue]:
    return b.call(op.jaxpr, op.name, args)


@rule(ProgramOrder)
def _program_order(
    b: BlockBuilder, op: ProgramOrder, *args: HloValue
) -> Sequence[HloValue]:
    if op.enforce:
        return lower_closed(b, op.stands_for, args)
    return b.call(op.jaxpr, op.name, args)


@rule(Remat)
def _remat(b: BlockBuilder, op: Remat, *args: HloValue) -> Sequence[HloValue]:
    """What is computed again begins behind a barrier, lest it be computed once."""
    if op.recomputes:
        args = tuple(barrier(b, args))
    return lower_closed(b, op.jaxpr, args)


@rule(Composite)
def _composite(b: BlockBuilder, op: Composite, *args: HloValue) -> Sequence[HloValue]:
    function = b.program.function(op.jaxpr, op.called, b.manual)
    attributes: dict[str, Any] = {
        "name": op.called,
        "decomposition": RawAttribute(symbol(function.name)),
    }
    result = {name: _described(*parts) for name, *parts in op.attributes}
    described = {name: value for name, value in result.items() if value is not None}
    if described:
        attributes["composite_attributes"] = RawAttribute(dictionary(described))
    if op.version:
        attributes["version"] = RawAttribute(f"{op.version} : i32")
    given = [*b.numbers.values(), *args]
    return b.emit("stablehlo.composite", given, b.out_types, **attributes)


def _described(leaves: Sequence[Any], structure: Any) -> Any:
    """An attribute of a composite, a tree of values; None if there is nothing."""
    plain = [getattr(x, "val", x) for x in leaves]
    value = tree_util.tree_unflatten(structure, plain)
    return None if value is None else RawAttribute(_attribute(value))


def _attribute(value: Any, within: bool = False) -> str:
    """A value as an attribute; `within` a list, 64 bits are not mentioned."""
    if isinstance(value, (list, tuple)):
        return f"[{commas([_attribute(x, within=True) for x in value])}]"
    if isinstance(value, dict):
        return dictionary({k: RawAttribute(_attribute(x)) for k, x in value.items()})
    if isinstance(value, (bool, np.bool_, str)):
        return text(value)
    if isinstance(value, np.dtype):
        return element_type(value)
    if isinstance(value, np.ndarray):
        return dense(value)
    if isinstance(value, (int, float)):
        value = (np.int64 if isinstance(value, int) else np.float64)(value)
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind == "c":
        raise TypeError(f"No attribute handler defined for type: {type(value)}")
    short = within and dtype.name in ("int64", "float64")
    return scalar(value) + ("" if short else f" : {element_type(dtype)}")
