"""Looking at values within transformed and compiled functions."""

from curta.api.callbacks import (
    debug_callback as callback,
    debug_print as print,
)

__all__ = ["callback", "print"]
