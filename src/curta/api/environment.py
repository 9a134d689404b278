"""Devices, live arrays and cached data of the process."""

from __future__ import annotations

import gc
import platform
import sys
from typing import Any

import numpy as np

from curta.compiler.llvm import binding
from curta.runtime.array import ArrayImpl
from curta.runtime.devices import devices
from curta.version import __version__


def print_environment_info(return_string: bool = False) -> str | None:
    """Print the versions and devices that a report of a bug should tell.

    Returns the text instead with `return_string`.

    >>> import curta
    >>> print(curta.print_environment_info(return_string=True))
    curta:    ...
    numpy:    ...
    """
    info = "\n".join(
        [
            f"curta:    {__version__}",
            f"numpy:    {np.__version__}",
            f"llvmlite: {binding.version()}",
            f"python:   {sys.version}",
            f"devices:  {devices()}",
            f"platform: {platform.uname()}",
        ]
    )
    if return_string:
        return info
    print(info)
    return None


def live_arrays(platform: str | None = None) -> list[Any]:
    """The arrays that are alive on the devices of a platform, the default one if None.

    >>> import curta, curta.numpy as jnp
    >>> x = jnp.ones(3)
    >>> any(y is x for y in curta.live_arrays())
    True
    """
    on = set(devices(platform))
    return [
        x
        for x in gc.get_objects()
        if type(x) is ArrayImpl and not x.is_deleted() and on & set(x.devices())
    ]
