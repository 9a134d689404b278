"""Looking at values within transformed and compiled functions."""

from curta._base.on_demand import listed
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
from curta.debug.loop_progress import progress
from curta.debug.trees import show

__all__ = [
    "DebugEffect",
    "OrderedDebugEffect",
    "breakpoint",
    "callback",
    "inspect_array_sharding",
    "log",
    "print",
    "progress",
    "show",
    "visualize_array_sharding",
    "visualize_sharding",
]
__dir__ = listed(__all__)
