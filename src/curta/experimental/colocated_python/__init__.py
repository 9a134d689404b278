"""Python functions that run where the devices of their arguments are.

All devices are those of this process, so that a function runs in it.
"""

from curta.experimental.colocated_python.api import (
    colocated_cpu_devices as colocated_cpu_devices,
    colocated_python as colocated_python,
    colocated_python_class as colocated_python_class,
)
