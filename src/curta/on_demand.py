"""Modules that are imported when a program first needs them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def on_demand(
    package: str,
    names: frozenset[str],
    removed: Mapping[str, tuple[str, str]] = {},
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose submodules `names` come late.

    What few programs need is not loaded for the others: `import curta` leaves out
    `curta.scipy`, which `curta.scipy.special` and `from curta import scipy` load.
    `removed` says for old names when they were deprecated and what replaces them.
    """

    def getattr_(name: str) -> Any:
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        if name in removed:
            version, remedy = removed[name]
            raise AttributeError(
                f"{package}.{name} was deprecated in {version} and is not there any"
                f" more. Use {package}.{remedy} instead."
            )
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def dir_() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return getattr_, dir_


class late:
    """A module that is imported when something of it is first asked for.

    For what others wrote and few programs need, under its usual name:

    >>> json = late("json")
    >>> json.dumps([1])
    '[1]'
    """

    def __init__(self, name: str) -> None:
        self._late_name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module(self._late_name), name)
        setattr(self, name, found)
        return found
