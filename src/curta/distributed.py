"""Programs of several processes: start, identity and shutdown."""

from curta.api.processes import (
    initialize as initialize,
    is_initialized as is_initialized,
    shutdown as shutdown,
)
