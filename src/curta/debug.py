"""Looking at values within transformed and compiled functions."""

from curta.api.callbacks import (
    debug_callback as callback,
    debug_print as print,
)
from curta.api.visualize import (
    inspect_array_sharding,
    visualize_array_sharding,
    visualize_sharding,
)

__all__ = [
    "callback",
    "inspect_array_sharding",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]
