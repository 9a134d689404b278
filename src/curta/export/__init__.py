"""Export of traced functions to bytes, with fixed or symbolic shapes.

This namespace is imported by name: `from curta import export`.
"""

from curta._base.on_demand import without_parts as _without_parts
from curta.core.dim import is_symbolic_dim as is_symbolic_dim
from curta.core.symbolic.scope import SymbolicScope as SymbolicScope
from curta.export.exported import (
    DisabledSafetyCheck as DisabledSafetyCheck,
    Exported as Exported,
    maximum_supported_calling_convention_version as maximum_supported_calling_convention_version,  # noqa: E501
    minimum_supported_calling_convention_version as minimum_supported_calling_convention_version,  # noqa: E501
)
from curta.export.exporting import (
    default_export_platform as default_export_platform,
    export as export,
)
from curta.export.registration import (
    register_namedtuple_serialization as register_namedtuple_serialization,
    register_pytree_node_serialization as register_pytree_node_serialization,
)
from curta.export.serialization import deserialize as deserialize
from curta.export.symbolic_shapes import (
    symbolic_args_specs as symbolic_args_specs,
    symbolic_dim_bounds as symbolic_dim_bounds,
    symbolic_shape as symbolic_shape,
)

__dir__ = _without_parts(__name__)
