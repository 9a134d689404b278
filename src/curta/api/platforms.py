"""The platforms, and the numbers of devices and processes."""

from __future__ import annotations

from curta.hosts.engine import of_process
from curta.runtime.devices import devices, local_devices
from curta.runtime.pjrt.presence import platforms


def device_count(backend: str | None = None) -> int:
    """Return the number of devices.

    >>> import curta
    >>> curta.device_count() == len(curta.devices())
    True
    """
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """Return the number of devices of this process.

    >>> import curta
    >>> curta.local_device_count() == curta.device_count()
    True
    """
    return len(local_devices(backend=backend))


def process_index(backend: str | None = None) -> int:
    """Return the index of this process.

    >>> import curta
    >>> curta.process_index()
    0
    """
    devices(backend)
    return of_process().index


def process_count(backend: str | None = None) -> int:
    """Return the number of processes.

    >>> import curta
    >>> curta.process_count()
    1
    """
    return len(process_indices(backend))


def process_indices(backend: str | None = None) -> list[int]:
    """Return the indices of all processes.

    Raises RuntimeError if `backend` is unknown.

    >>> import curta
    >>> curta.process_indices()
    [0]
    """
    return sorted({device.process_index for device in devices(backend)})


def default_backend() -> str:
    """Return the default platform.

    >>> import curta
    >>> curta.default_backend()
    'cpu'
    """
    result = platforms()[0]
    return "gpu" if result in ("cuda", "rocm") else result
