"""Which platforms a process has: plugins that are installed and find a device.

Plugins are looked for when somebody first asks for a device, and none is loaded where
a quick look finds none.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

from curta._base.on_demand import late
from curta._base.once import once
from curta.config import config

plugins: Any = late("curta.runtime.pjrt.plugins")
logger: Any = logging.getLogger(__name__)

#: The platforms of plugins whose devices somebody asked for, there or not.
seen_platforms: set[str] = set()


def platforms() -> tuple[str, ...]:
    """The platforms of this process, the default one first.

    Those that `jax_platforms` lists, or the plugins that find a device, and the CPU.
    Raises RuntimeError if one that is listed is not there.
    """
    return _platforms(config.jax_platforms or config.jax_platform_name or "")


@once
def _platforms(wanted: str) -> tuple[str, ...]:
    if wanted:
        names = wanted.split(",")
        there = [n for n in names if not (len(names) > 1 and _is_missing(n))]
        return tuple(map(_initialised, there or names))
    if not may_have_plugins():
        return ("cpu",)
    result = sorted(plugins.plugins().values(), key=lambda p: -p.priority)
    return (*[p.name for p in result if _finds_a_device(p.name)], "cpu")


def _is_missing(name: str) -> bool:
    """Whether a known platform has no plugin here, so that the next one will do."""
    known = plugins.PLATFORMS.values()
    if not any(name in (p.name, p.alias) for p in known):
        return False
    try:
        plugins.find(name)
    except RuntimeError as error:
        logger.warning("%s", error)
        return True
    return False


def _initialised(name: str) -> str:
    """The name of a platform that was asked for, once its client is there."""
    if name == "cpu":
        return name
    try:
        plugin = plugins.find(name)
    except RuntimeError as error:
        known = ["cpu", *plugins.plugins()]
        raise RuntimeError(
            f"Unable to initialize backend '{name}': Backend '{name}' is not in the"
            f" list of known backends: {known}. {error} Or set jax_platforms"
            " (JAX_PLATFORMS, CURTA_PLATFORMS) to cpu, or leave it empty."
        ) from None
    plugins.client(plugin.name)
    return plugin.name


def _finds_a_device(name: str) -> bool:
    try:
        return bool(plugins.client(name).devices)
    except RuntimeError as error:
        logger.warning("%s", error)
        return False


def may_have_plugins() -> bool:
    """Whether there may be plugins: a quick look, without reading packages."""
    if os.environ.get("PJRT_NAMES_AND_LIBRARY_PATHS"):
        return True
    packages = ("jax_plugins", "libtpu")
    if any(importlib.util.find_spec(name) is not None for name in packages):
        return True
    return any(b"jax_plugins" in text for text in _entry_points())


def _entry_points() -> Iterator[bytes]:
    """The entry points of installed packages."""
    for folder in sys.path:
        with contextlib.suppress(OSError):
            names = [n for n in os.listdir(folder or ".") if n.endswith(".dist-info")]
            for name in names:
                with contextlib.suppress(OSError):
                    with open(
                        os.path.join(folder, name, "entry_points.txt"), "rb"
                    ) as f:
                        yield f.read()
