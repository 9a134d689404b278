"""Abstract values, ops, traces and jaxprs."""

from typing import Any as _Any

from curta._base.on_demand import (
    elsewhere as _elsewhere,
    without_parts as _without_parts,
)
from curta.core.avals import AbstractValue as AbstractValue, ShapedArray as ShapedArray
from curta.core.compile_time import (
    ensure_compile_time_eval as ensure_compile_time_eval,
)
from curta.core.dim import max_dim as max_dim, min_dim as min_dim
from curta.core.hi_types import Tracer as Tracer
from curta.core.jaxpr import Atom as Atom, eval_jaxpr as eval_jaxpr
from curta.core.pretty import format_eqn as format_eqn, format_jaxpr as format_jaxpr
from curta.core.primitive import ParamDict as ParamDict
from curta.core.trace import (
    Trace as Trace,
    trace_state_clean as trace_state_clean,
)

Value = _Any
eval_context = ensure_compile_time_eval

__getattr__ = _elsewhere(
    __name__,
    {
        "curta.extend.core": (
            "CallPrimitive", "DebugInfo", "DropVar", "Effect", "Effects",
            "check_jaxpr", "concrete_or_error", "find_top_trace", "gensym",
            "get_opaque_trace_state", "jaxprs_in_params", "new_jaxpr_eqn", "no_effects",
            "nonempty_axis_env_DO_NOT_USE", "primal_dtype_to_tangent_dtype",
            "unsafe_am_i_under_a_jit_DO_NOT_USE", "unsafe_am_i_under_a_vmap_DO_NOT_USE",
            "unsafe_get_axis_names_DO_NOT_USE", "valid_jaxtype",
        ),
        "curta.errors": ("InconclusiveDimensionOperation", "JaxprTypeError"),
        "curta.core.compile_time": ("is_concrete",),
        "curta.core.trace": ("pytype_aval_mappings",),
    },
    {
        "get_aval": "Use curta.typeof.",
        **{
            name: f"Use curta.extend.core.{name}."
            for name in (
                "call_impl", "mapped_aval", "set_current_trace", "subjaxprs",
                "take_current_trace", "unmapped_aval",
            )
        },
    },
)  # fmt: skip
__dir__ = _without_parts(__name__)
