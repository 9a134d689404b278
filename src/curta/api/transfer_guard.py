"""`transfer_guard`: finding where data moves that was not meant to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from curta.config import (
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)


@contextlib.contextmanager
def transfer_guard(new_val: str) -> Iterator[None]:
    """Allow, log or refuse transfers between host and devices in a block of code.

    Args:
      new_val: "allow", "log" or "disallow" implicit transfers, such as of a NumPy array
        that a jitted function is called with; or "log_explicit", "disallow_explicit",
        which add those by `device_put`.

    Yields:
      Nothing.

    Raises:
      JaxRuntimeError: in the block, for a transfer that is not allowed.

    >>> import curta, numpy
    >>> with curta.transfer_guard("disallow"):
    ...     x = curta.device_put(numpy.ones(3))  # explicit
    """
    with (
        transfer_guard_host_to_device(new_val),
        transfer_guard_device_to_device(new_val),
        transfer_guard_device_to_host(new_val),
    ):
        yield
