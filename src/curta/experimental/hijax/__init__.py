"""Primitives and types of a program's own, with rules for every transformation.

`HiPrim` is a primitive, `HiType` a type whose values are not arrays. Both are recorded
in jaxprs, and transformed by their own rules; before a program is compiled, primitives
are replaced by what they consist of, and values by the arrays that they are made of.

>>> import curta
>>> from curta.experimental import hijax
>>> class Square(hijax.HiPrim):
...     def __init__(self, aval):
...         self.in_avals, self.out_aval, self.params = (aval,), aval, {}
...         super().__init__()
...     def expand(self, x):
...         return x * x
...     def jvp(self, primals, tangents):
...         (x,), (t,) = primals, tangents
...         return self(x), 2 * x * t
...     vjp_fwd, vjp_bwd_retval = hijax.vjp_from_jvp
>>> def square(x):
...     return Square(curta.typeof(x))(x)
>>> curta.make_jaxpr(square)(3.0)
{ lambda ; a:f32[]. let b:f32[] = Square a in (b,) }
>>> curta.grad(curta.jit(square))(3.0)
Array(6., dtype=float32, weak_type=True)
"""

from __future__ import annotations

from curta._base.on_demand import listed as _listed, retired as _retired
from curta.control.accumulators import (
    GradAccum as GradAccum,
    NullAccum as NullAccum,
    RefAccum as RefAccum,
    ValAccum as ValAccum,
)
from curta.core.avals import AbstractValue as AbstractValue, ShapedArray as ShapedArray
from curta.core.hi_types import (
    HiPspec as HiPspec,
    HiType as HiType,
    MappingSpec as MappingSpec,
    aval_method as aval_method,
    aval_property as aval_property,
    register_hitype as register_hitype,
)
from curta.core.refs import AbstractRef as AbstractRef
from curta.core.tangents import Zero as Zero, is_linear as is_undefined_primal
from curta.experimental.hijax.allowed_effects import (
    control_flow_allowed_effects as control_flow_allowed_effects,
)
from curta.experimental.hijax.batching import (
    bdims_at_front as bdims_at_front,
    unmap_avals as unmap_avals,
    vmap_rule as vmap_rule,
)
from curta.experimental.hijax.derived import (
    jvp_from_lin as jvp_from_lin,
    linearize_from_jvp as linearize_from_jvp,
    vjp_from_jvp as vjp_from_jvp,
    vjp_from_lin as vjp_from_lin,
)
from curta.experimental.hijax.earlier import (
    AvalMutableQDD as AvalMutableQDD,
    AvalQDD as AvalQDD,
    HiPrimitive as HiPrimitive,
    MutableHiType as MutableHiType,
    VJPHiPrimitive as VJPHiPrimitive,
    cur_qdd as cur_qdd,
)
from curta.experimental.hijax.prim import HiPrim as HiPrim
from curta.primitives.structure import instantiate as instantiate_zeros
from curta.ref import RefView as TransformedRef

__all__ = [
    "AbstractRef",
    "AbstractValue",
    "AvalMutableQDD",
    "AvalQDD",
    "GradAccum",
    "HiPrim",
    "HiPrimitive",
    "HiPspec",
    "HiType",
    "MappingSpec",
    "MutableHiType",
    "NullAccum",
    "RefAccum",
    "ShapedArray",
    "TransformedRef",
    "VJPHiPrimitive",
    "ValAccum",
    "Zero",
    "aval_method",
    "aval_property",
    "bdims_at_front",
    "control_flow_allowed_effects",
    "cur_qdd",
    "instantiate_zeros",
    "is_undefined_primal",
    "jvp_from_lin",
    "linearize_from_jvp",
    "register_hitype",
    "unmap_avals",
    "vjp_from_jvp",
    "vjp_from_lin",
    "vmap_rule",
]
__dir__ = _listed(__all__)


__getattr__ = _retired(__name__)
