"""Calls of handlers of XLA's typed interface: a vendor's, and those of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curta.compiler.stablehlo.attributes import RawAttribute, layouts
from curta.compiler.stablehlo.constants import dense, scalar
from curta.compiler.stablehlo.custom_calls import alias, sharding_rule
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, rule
from curta.compiler.stablehlo.shardings import uses_shardy
from curta.compiler.stablehlo.types import element_type
from curta.control.ffi_call import FfiCall, HashableArray


@rule(FfiCall)
def _ffi_call(b: BlockBuilder, op: FfiCall, *xs: HloValue) -> Sequence[HloValue]:
    row_major = [[range(a.ndim) for a in avals] for avals in (b.ins, b.outs)]
    operands, results = op.layouts or row_major
    attributes: dict[str, Any] = {
        "call_target_name": op.target_name,
        "backend_config": "",
        "mhlo.backend_config": {k: attribute(v) for k, v in op.attributes},
        "operand_layouts": layouts(operands),
        "result_layouts": layouts(results),
    }
    if op.has_side_effect:
        attributes["has_side_effect"] = True
    if op.input_output_aliases:
        one = len(b.outs) == 1
        aliases = [alias(i, k, one) for i, k in op.input_output_aliases]
        attributes["output_operand_aliases"] = RawAttribute(f"[{', '.join(aliases)}]")
    if op.batch_rank is not None and uses_shardy():
        attributes["sdy.sharding_rule"] = sharding_rule(op.batch_rank, b.ins, b.outs)
    return b.emit("stablehlo.custom_call", xs, b.out_types, **attributes)


def attribute(value: Any) -> Any:
    """What a handler is given: numbers, texts, arrays and dictionaries of these.

    Numbers of Python are of 64 bits, those of NumPy of their dtypes.

    >>> attribute(3), attribute(2.5), attribute(np.int8(1)), attribute("text")
    ('3 : i64', '2.500000e+00 : f64', '1 : i8', 'text')
    """
    if isinstance(value, (bool, np.bool_, str)):
        return value
    if isinstance(value, Mapping):
        return {k: attribute(v) for k, v in value.items()}
    if isinstance(value, (int, float)):
        value = np.float64(value) if isinstance(value, float) else np.int64(value)
    if isinstance(value, np.generic):
        return RawAttribute(f"{scalar(value)} : {element_type(value.dtype)}")
    if isinstance(value, HashableArray):
        return dense(value.value)
    raise TypeError(f"a handler takes no attribute of type {type(value).__name__}")
