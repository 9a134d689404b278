"""Avals, ops, traces and jaxprs: what everything else is made of."""

from typing import Any as Value

from curta.core.avals import AbstractValue as AbstractValue, ShapedArray as ShapedArray
from curta.core.compile_time import (
    ensure_compile_time_eval as ensure_compile_time_eval,
    ensure_compile_time_eval as eval_context,
)
from curta.core.dim import max_dim as max_dim, min_dim as min_dim
from curta.core.jaxpr import Atom as Atom, eval_jaxpr as eval_jaxpr
from curta.core.pretty import format_eqn as format_eqn, format_jaxpr as format_jaxpr
from curta.core.primitive import ParamDict as ParamDict
from curta.core.trace import (
    Trace as Trace,
    Tracer as Tracer,
    trace_state_clean as trace_state_clean,
)
from curta.on_demand import without_parts as _without_parts

__dir__ = _without_parts(__name__)
