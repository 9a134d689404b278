"""Finding arrays that die late: as part of reference cycles, not when last used.

While the setting jax_array_garbage_collection_guard asks for it, the arrays there are
when Python's garbage collection begins are looked for when it has ended.
"""

from __future__ import annotations

import gc
import os
import sys
import weakref
from typing import Any

from curta.config import (
    array_garbage_collection_guard as array_garbage_collection_guard,
    config,
)
from curta.runtime.array import ArrayImpl

_watched: list[tuple[weakref.ref[Any], Any]] = []


def _watch(phase: str, info: dict[str, Any]) -> None:
    """What the garbage collector calls when it starts and stops."""
    level = config.jax_array_garbage_collection_guard
    if level not in ("log", "fatal"):
        _watched.clear()
    elif phase == "start":
        arrays = [x for x in gc.get_objects() if type(x) is ArrayImpl]
        _watched[:] = [(weakref.ref(x), x.aval) for x in arrays]
    else:
        dead = [aval for ref, aval in _watched if ref() is None]
        _watched.clear()
        if dead:
            _tell(level, dead)


def _tell(level: str, dead: list[Any]) -> None:
    types = ", ".join(sorted({a.str_short(short_dtypes=True) for a in dead}))
    # As JAX does, whatever the program has done with Python's loggers.
    print(
        "`jax.Array` was deleted by the Python garbage collector instead of reference"
        f" counting: {len(dead)} of type {types}. Break the reference cycles that hold"
        " them: their memory is free only after a garbage collection.",
        file=sys.stderr,
        flush=True,
    )
    if level == "fatal":
        os.abort()


def _install(level: str | None) -> None:
    if level in ("log", "fatal") and _watch not in gc.callbacks:
        gc.callbacks.append(_watch)


array_garbage_collection_guard.on_use = _install
_install(config.jax_array_garbage_collection_guard)
