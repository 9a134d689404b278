"""Changes of dtype, by value and by bits."""

from __future__ import annotations

from curta.compiler.stablehlo.elementwise import compare
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, rule
from curta.compiler.stablehlo.scalars import compare_type
from curta.compiler.stablehlo.shape import full
from curta.compiler.stablehlo.types import element_type, tensor_type, with_element
from curta.dtypes import float0, physical_dtype
from curta.primitives.elementwise.complex import part_dtype
from curta.primitives.elementwise.convert import BitcastConvertType, ConvertElementType


@rule(ConvertElementType, keys=True)
def _convert(b: BlockBuilder, op: ConvertElementType, x: HloValue) -> HloValue:
    (aval,), (out,) = b.ins, b.outs
    old, new = physical_dtype(aval.dtype), physical_dtype(out.dtype)
    if old == new:
        return x
    if old == float0:
        return full(b, out, 0)
    if old.kind == "c" and new.kind != "c":
        old = part_dtype(old)
        x = b.op("real", [x], with_element(x.type, element_type(old)))
    if new.kind == "b":
        part = aval.update(dtype=old)
        zero = full(b, part, 0)
        return compare(b, "NE", x, zero, kind=compare_type(part))
    type_ = tensor_type(out)
    return x if x.type == type_ else b.op("convert", [x], type_)


@rule(BitcastConvertType)
def _bitcast(b: BlockBuilder, op: BitcastConvertType, x: HloValue) -> HloValue:
    type_ = tensor_type(b.outs[0])
    return x if x.type == type_ else b.op("bitcast_convert", [x], type_)
