"""The replacement of `jax._src.xla_bridge`: the platforms of this process.

>>> from curta.as_jax import xla_bridge
>>> xla_bridge.get_backend().platform
'cpu'
"""

from __future__ import annotations

from typing import Any

from curta.api.platforms import (
    default_backend as default_backend,
    device_count as device_count,
    local_device_count as local_device_count,
    process_count as process_count,
    process_index as process_index,
)
from curta.extend.backend import backends as backends, get_backend as get_backend
from curta.runtime.devices import (
    devices as devices,
    devices_are_counted,
    local_devices as local_devices,
)


def backends_are_initialized() -> bool:
    """Whether anything has asked for devices, after which XLA_FLAGS comes too late."""
    return devices_are_counted()


def __getattr__(name: str) -> Any:
    if name == "_backends":  # as JAX, which fills it when devices are first asked for
        return backends() if backends_are_initialized() else {}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
