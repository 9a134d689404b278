"""Devices, live arrays and cached data of the process."""

from __future__ import annotations

import gc
import platform
import sys
from collections import Counter
from typing import Any

import numpy as np

from curta._base.uncaught import before_shown
from curta.api.readable import sized
from curta.compiler import llvm_binding as binding
from curta.errors import OutOfMemoryError
from curta.runtime.array import ArrayImpl
from curta.runtime.devices import devices
from curta.version import __version__


def print_environment_info(return_string: bool = False) -> str | None:
    """Print the versions and devices that a bug report should contain.

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
    """Return the arrays that are alive on a platform, by default the default platform.

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


_LISTED = 3  # types in a note on memory


@before_shown
def say_what_is_alive(error: BaseException) -> None:
    """Note which arrays take memory, before an error for want of it is shown."""
    if not isinstance(error, OutOfMemoryError):
        return
    arrays = live_arrays()
    counts, sizes = Counter[str](), Counter[str]()
    for x in arrays:
        counts[x.aval.str_short()] += 1
        sizes[x.aval.str_short()] += x.nbytes
    largest = ", ".join(
        f"{counts[name]} of {name} ({sized(size)})"
        for name, size in sizes.most_common(_LISTED)
    )
    error.add_note(
        f"Arrays that are alive ({len(arrays)}) take {sized(sizes.total())}"
        f"{': ' * bool(largest)}{largest}. The FAQ (Out of memory) says what helps:"
        " donate_argnums, curta.checkpoint, smaller batches; memory_analysis() of a"
        " compiled function tells what it takes."
    )
