"""Jaxprs and their parts: read, build and check them."""

from curta._base.on_demand import retired as _retired, without_parts as _without_parts
from curta.core.avals import tangent_dtype as _tangent_dtype
from curta.core.effects import Effect as Effect, Effects as Effects
from curta.core.jaxpr import (
    ClosedJaxpr as ClosedJaxpr,
    DebugInfo as DebugInfo,
    DropVar as DropVar,
    Eqn as _Eqn,
    Jaxpr as Jaxpr,
    Literal as Literal,
    Var as Var,
    jaxpr_as_fun as jaxpr_as_fun,
    jaxprs_in_params as jaxprs_in_params,
    subjaxprs as subjaxprs,
)
from curta.core.primitive import Primitive as Primitive
from curta.core.trace import use_trace as _use_trace
from curta.errors import (
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
    JaxprTypeError as JaxprTypeError,
)
from curta.extend.core import primitives as primitives
from curta.extend.core.calls import (
    CallPrimitive as CallPrimitive,
    call_impl as call_impl,
)
from curta.extend.core.environment import (
    TraceTag as TraceTag,
    array_types as array_types,
    find_top_trace as find_top_trace,
    get_opaque_trace_state as get_opaque_trace_state,
    nonempty_axis_env_DO_NOT_USE as nonempty_axis_env_DO_NOT_USE,
    take_current_trace as take_current_trace,
    unsafe_am_i_under_a_jit_DO_NOT_USE as unsafe_am_i_under_a_jit_DO_NOT_USE,
    unsafe_am_i_under_a_vmap_DO_NOT_USE as unsafe_am_i_under_a_vmap_DO_NOT_USE,
    unsafe_get_axis_names_DO_NOT_USE as unsafe_get_axis_names_DO_NOT_USE,
)
from curta.extend.core.jaxprs import (
    check_jaxpr as check_jaxpr,
    concrete_or_error as concrete_or_error,
    gensym as gensym,
    mapped_aval as mapped_aval,
    new_jaxpr_eqn as new_jaxpr_eqn,
    no_effects as no_effects,
    unmapped_aval as unmapped_aval,
    valid_jaxtype as valid_jaxtype,
)
from curta.extend.core.named_calls import (
    create_call_primitive as create_call_primitive,
    eval_jaxpr_transpose as eval_jaxpr_transpose,
    register_call_primitive_rules as register_call_primitive_rules,
)
from curta.primitives.effects import (
    AbstractToken as AbstractToken,
    Token as Token,
)

JaxprEqn = _Eqn
primal_dtype_to_tangent_dtype = _tangent_dtype
set_current_trace = _use_trace

__getattr__ = _retired(__name__)
__dir__ = _without_parts(__name__, frozenset({"primitives"}))
