"""The primitives under the names that JAX programs know."""

from curta.control.primitives import *
from curta.extend.core.calls import call_p as call_p, closed_call_p as closed_call_p
from curta.extend.core.named_calls import (
    create_call_primitive as create_call_primitive,
    eval_jaxpr_transpose as eval_jaxpr_transpose,
    register_call_primitive_rules as register_call_primitive_rules,
)
from curta.extend.core.values import empty2_p as empty2_p
