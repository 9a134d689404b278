"""Functions with custom derivative rules, and the argument types of these rules."""

from curta.api.custom_derivatives import (
    CustomVJPPrimal as CustomVJPPrimal,
    custom_jvp as custom_jvp,
    custom_vjp as custom_vjp,
    custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
)
from curta.api.custom_gradient import (
    closure_convert as closure_convert,
    custom_gradient as custom_gradient,
    linear_call as linear_call,
)
from curta.api.zeros import zero_from_primal as zero_from_primal
from curta.control.custom_jvp import SymbolicZero as SymbolicZero
from curta.control.primitives import (
    custom_jvp_call_p as custom_jvp_call_p,
    custom_vjp_call_p as custom_vjp_call_p,
    remat_opt_p as remat_opt_p,
)
