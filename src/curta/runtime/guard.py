"""The guard of transfers between the host and devices."""

from __future__ import annotations

import logging
from typing import Any

from curta.config import config
from curta.core.avals import ShapedArray
from curta.errors import JaxRuntimeError

logger: Any = logging.getLogger(__name__)


def guard_transfer(direction: str, aval: ShapedArray, explicit: bool = False) -> None:
    """Log or refuse a transfer, as the settings of `transfer_guard` say."""
    setting = getattr(config, f"jax_transfer_guard_{direction}")
    level, _, also = setting.partition("_")
    if level == "allow" or (explicit and not also):
        return
    what = f"{direction.replace('_', '-')} transfer: aval={aval!r}"
    if level == "log":
        logger.warning("%s", what)
        return
    raise JaxRuntimeError(
        f"INVALID_ARGUMENT: Disallowed {what}. jax_transfer_guard_{direction} is"
        f" {setting!r}. Bring the array to the device with device_put beforehand, or"
        f' allow it with transfer_guard_{direction}("allow").'
    )
