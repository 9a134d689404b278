"""The processes of a program that runs as several."""

from curta.api.processes import (
    initialize as initialize,
    is_initialized as is_initialized,
    shutdown as shutdown,
)
