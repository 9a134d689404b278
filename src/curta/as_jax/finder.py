"""Finds the modules of `jax` among those of `curta`; importing this puts it to work."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from types import ModuleType
from typing import Any

from curta._settings import api_version
from curta.as_jax.modules import MADE, MODULES, NAMES, REFUSED, VERSIONED
from curta.as_jax.refused import refused_module
from curta.core.array import Array

_OURS, _THEIRS, _LIB, _PRIVATE = "curta", "jax", "jaxlib", "jax._src"
_ABOUT_IMPORT = ("__name__", "__loader__", "__package__", "__spec__", "__path__")


class _Alias(Loader):
    """A loader that gives a module that is imported already."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        known = vars(module)
        about = {k: known.get(k) for k in _ABOUT_IMPORT}  # None where one is made here
        self._kept = {k: v for k, v in about.items() if v is not None}

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._kept)


class _Finder(MetaPathFinder):
    """Finds the modules of `jax` among those of `curta`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] not in (_THEIRS, _LIB) and _refusal(name) is None:
            return None
        module = _module(name)
        if module is None:
            raise ModuleNotFoundError(
                f"No module named {name!r}: {_OURS}.as_jax stands for JAX, and Curta"
                f" has no {_own_name(name)!r}",
                name=name,
            )
        return ModuleSpec(name, _Alias(module), is_package=hasattr(module, "__path__"))

    def find_distributions(
        self, context: DistributionFinder.Context
    ) -> Iterator[Distribution]:
        if context.name in (_THEIRS, _LIB):
            yield _Version(context.name)


class _Version(Distribution):
    """Tells `importlib.metadata` the version of JAX whose interface this is."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        release = api_version.release()
        return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {release}\n"

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{_OURS}.as_jax has no files of {self._name}")


def _own_name(name: str) -> str:
    if name.partition(".")[0] == _LIB:
        return name
    private = name.removeprefix(f"{_PRIVATE}.")
    if private == "api":  # the functions, which are modules in Curta's `api`
        return _OURS
    if private != name:
        return f"{_OURS}.{MODULES.get(private, private)}"
    return _OURS + name.removeprefix(_THEIRS)


def _refusal(name: str) -> str | None:
    """What calls into a module are answered; None if they are not refused.

    `from jax.experimental import x` looks for x in the module of ours.
    """
    package, _, inner = name.partition(".")
    if package not in (_THEIRS, _LIB, _OURS):
        return None
    found = (v for k, v in REFUSED.items() if f"{inner}.".startswith(f"{k}."))
    return next(found, None)


def _module(name: str) -> ModuleType | None:
    """Curta's module for one of JAX's; None if there is none."""
    module = _unversioned(name)
    if module is None or name not in VERSIONED:
        return module
    told = _with_names(module.__name__, module, {})
    vars(told)["__getattr__"] = _version_or(vars(module).get("__getattr__"))
    return told


def _version_or(getattr_: Callable[[str], Any] | None) -> Callable[[str], Any]:
    """`__getattr__` of a module that tells the version that is followed now."""

    def versioned(name: str) -> Any:
        if name == "__version__":
            return api_version.release()
        if name == "__version_info__":
            return api_version.version_info()
        if getattr_ is None:
            raise AttributeError(f"no attribute {name!r}")
        return getattr_(name)

    return versioned


def _unversioned(name: str) -> ModuleType | None:
    if name == _PRIVATE or name in MADE:
        made = _with_names(name, ModuleType(name), MADE.get(name, {}))
        vars(made)["__getattr__"] = partial(_submodule, name)
        return made
    refusal = _refusal(name)
    if refusal is not None:
        return refused_module(name, refusal)
    if name.partition(".")[0] == _LIB:
        return None
    own = _own_name(name)
    try:
        module = importlib.import_module(own)
    except ModuleNotFoundError as error:
        if error.name is not None and own.startswith(error.name):
            return None
        raise
    names = NAMES.get(name.removeprefix(f"{_PRIVATE}."))
    return module if names is None else _with_names(name, module, names)


def _submodule(package: str, name: str) -> ModuleType:
    """`__getattr__` of a package: its modules, which programs need not import."""
    try:
        return importlib.import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(str(error)) from None


def _with_names(name: str, module: ModuleType, names: dict[str, str]) -> ModuleType:
    """A module with the names of another and some more."""
    result = ModuleType(name)
    result.__path__ = []
    kept = ("__path__", "__file__", "__getattr__", "__dir__")
    known = vars(module).items()
    vars(result).update({k: v for k, v in known if k[:2] != "__" or k in kept})
    for key, path in names.items():
        name_of_module, _, attribute = path.rpartition(".")
        setattr(
            result, key, getattr(importlib.import_module(name_of_module), attribute)
        )
    return result


def _told_as_theirs(kind: type) -> None:
    """Let a class of arrays or tracers say that it is of `jax`.

    Libraries that work with several frameworks know by it whose an array is.
    """
    if kind.__module__.partition(".")[0] == _OURS:
        kind.__module__ = _THEIRS
    subclass: type
    for subclass in kind.__subclasses__():
        _told_as_theirs(subclass)


def _install() -> None:
    result = sys.modules.get(_THEIRS)
    if result is not None and not isinstance(result.__loader__, _Alias):
        raise ImportError(
            "JAX has been imported already: import curta.as_jax before anything that"
            " imports jax."
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    importlib.import_module(_PRIVATE)  # programs ask for `jax._src` without importing
    importlib.import_module(f"{_THEIRS}.tree_util")  # or look for it in sys.modules
    _told_as_theirs(Array)
    type.__setattr__(Array, "__init_subclass__", classmethod(_told_as_theirs))


_install()
