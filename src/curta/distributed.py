"""The processes of a program that runs as several; here it runs as one.

Programs that start themselves as several processes may be started as one of one.
"""

from curta.api.multihost import (
    initialize as initialize,
    is_initialized as is_initialized,
    shutdown as shutdown,
)
