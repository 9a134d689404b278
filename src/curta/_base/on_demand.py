"""Modules that are imported when a program first needs them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from types import GenericAlias, ModuleType, UnionType
from typing import Any

from curta._base.user_warnings import warn
from curta._settings import api_version

Listing = Callable[[], list[str]]
_NONE: frozenset[str] = frozenset()
# What a module has and did not define: modules, a feature of Python, types of others.
_IMPORTS = (ModuleType, type(annotations), GenericAlias, UnionType)


def on_demand(
    package: str,
    names: frozenset[str],
    removed: Mapping[str, tuple[str, str]] = {},
    public: frozenset[str] = _NONE,
    made: Mapping[str, Callable[[], Any]] = {},
) -> tuple[Callable[[str], Any], Listing]:
    """`__getattr__` and `__dir__` of a package whose submodules `names` come late.

    Modules that few programs need are imported at first use: `import curta` does not
    load `curta.scipy`, but `curta.scipy.special` and `from curta import scipy` do.
    `removed` gives the deprecation and the replacement of old names. `public` are the
    public ones among the submodules that are already imported. `made` are names whose
    value is computed at each access. `substitutes` gives replacements for names of
    other libraries.
    """

    def getattr_(name: str) -> Any:
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        if name in made:
            return made[name]()
        if name in removed:
            version, replacement = removed[name]
            raise AttributeError(
                f"{package}.{name} was deprecated in {version} and is not there any"
                f" more. Use {package}.{replacement} instead."
            )
        remedy = substitutes.OF_MODULES.get(package, {}).get(name, "")
        remedy = f". {remedy}" if remedy else ""
        raise AttributeError(f"module {package!r} has no attribute {name!r}{remedy}")

    def dir_() -> list[str]:
        return sorted({*imported(), *names})

    imported = without_parts(package, public)
    return getattr_, dir_


def elsewhere(
    package: str, modules: Mapping[str, Sequence[str]], removed: Mapping[str, str] = {}
) -> Callable[[str], Any]:
    """`__getattr__` of a package whose names have partly moved to other modules.

    They are found there, with a DeprecationWarning, unless `api_version` says that they
    are no more; `removed` says of those that no version has what to use.
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def getattr_(name: str) -> Any:
        if name in module_of:
            module = module_of[name]
            api_version.check_name(package, name)
            warn(
                f"{package}.{name} is deprecated. Use {module}.{name}.",
                DeprecationWarning,
            )
            return getattr(importlib.import_module(module), name)
        if name in removed:
            raise AttributeError(f"{package}.{name} was removed. {removed[name]}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return getattr_


def retired(package: str, modules: Mapping[str, str] = {}) -> Callable[[str], Any]:
    """`__getattr__` of a module with names that later versions of JAX removed.

    Called at the module's end: it takes the names that `api_version.GONE` has of it
    from its globals, for what asks for them to be asked about the version, and from
    `__all__`, which has what every version has. `modules` are the modules of those
    that are not in its globals.
    """
    known = vars(sys.modules[package])
    prefix = f"{package}."
    names = [n.removeprefix(prefix) for n in api_version.GONE if n.startswith(prefix)]
    kept = {name: known.pop(name) for name in names if name in known}
    if "__all__" in known:
        known["__all__"][:] = [n for n in known["__all__"] if n not in names]

    def getattr_(name: str) -> Any:
        if name in kept:
            api_version.check_name(package, name)
            return kept[name]
        if name in modules:
            api_version.check_name(package, name)
            return getattr(importlib.import_module(modules[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return getattr_


def without_parts(package: str, public: frozenset[str] = _NONE) -> Listing:
    """`__dir__` of a package: without the submodules it is made of but the `public`."""

    def dir_() -> list[str]:
        result = vars(sys.modules[package]).items()
        return [n for n, x in result if n in public or not isinstance(x, ModuleType)]

    return dir_


def listed(names: Sequence[str]) -> Listing:
    """`__dir__` of a module: its `__all__`, and not what it imports."""
    return lambda: sorted(names)


def own(module: str) -> Listing:
    """`__dir__` of a module: what it defines, and not what it imports."""

    def dir_() -> list[str]:
        return [
            name
            for name, x in vars(sys.modules[module]).items()
            if not isinstance(x, _IMPORTS) and defines(x)
        ]

    def defines(x: Any) -> bool:
        return not hasattr(x, "__qualname__") or x.__module__ == module

    return dir_


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
        if name == "__wrapped__":  # `inspect` asks every object for it
            raise AttributeError(name)
        result = getattr(importlib.import_module(self._late_name), name)
        setattr(self, name, result)
        return result


substitutes: Any = late("curta._base.substitutes")  # when a name is not there
