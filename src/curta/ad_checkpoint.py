"""Tools for `checkpoint`: names for policies, and lists of saved residuals."""

from curta import checkpoint_policies as checkpoint_policies
from curta.api.residuals import (
    checkpoint_name as checkpoint_name,
    print_saved_residuals as print_saved_residuals,
)
from curta.control.primitives import name_p as name_p
from curta.control.saving import (
    Offloadable as Offloadable,
    Recompute as Recompute,
    Saveable as Saveable,
)

# JAX has two rules for names; the other one is for a setting that is off by default.
checkpoint_name_fwd = checkpoint_name
