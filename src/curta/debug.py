"""Looking at values within transformed and compiled functions."""

from curta.api.callbacks import (
    DebugEffect,
    OrderedDebugEffect,
    debug_callback as callback,
    debug_log as log,
    debug_print as print,
)
from curta.api.debugger import breakpoint
from curta.api.visualize import (
    inspect_array_sharding,
    visualize_array_sharding,
    visualize_sharding,
)

__all__ = [
    "DebugEffect",
    "OrderedDebugEffect",
    "breakpoint",
    "callback",
    "inspect_array_sharding",
    "log",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]
