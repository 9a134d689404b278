"""`import jax` as Curta, for libraries that are written for JAX.

>>> import curta.as_jax
>>> import jax, jax.numpy as jnp
>>> jax.grad(jnp.sin)(0.0)
Array(1., dtype=float32, weak_type=True)

A program's own imports are better changed; this is for those of Optax, Haiku, NumPyro
and others. Import it before them. The names of `jax` are those of `curta`; of JAX's
private modules there are such as Curta has itself (`jax._src.core`, `jax._src.dtypes`,
`jax._src.flatten_util` ...), with public names alone.

Raises ImportError if JAX itself has been imported already.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_OURS, _THEIRS, _PRIVATE = "curta", "jax", "jax._src"
# Private modules of JAX that libraries import: where Curta has the like, and names that
# it has in yet other places.
_PLACES = {
    "ad_util": "interpreters.ad",
    "checkify": "experimental.checkify",
    "dispatch": "runtime",
    "literals": "core",
    "state": "core.refs",
    "state.types": "core.refs",
    "traceback_util": "core.tracebacks",
    "util": "api_util",
}
_NAMES = {
    "ad_util": {"stop_gradient_p": "curta.lax.stop_gradient_p"},
    "core": {"Primitive": "curta.core.primitive.Primitive"},
    "dtypes": {
        "DType": "numpy.dtype",
        "TypePromotionError": "curta.errors.TypePromotionError",
    },
    "lax": {"lax": "curta.lax"},
    "state": {},
    "tree_util": {"_registry": "curta.tree.registration.default_registry"},
}
_ABOUT_IMPORT = ("__name__", "__loader__", "__package__", "__spec__", "__path__")


class _Alias(Loader):
    """Gives a module that there is already, and leaves it as it is."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        known = vars(module)
        self._kept: dict[str, Any] = {k: known[k] for k in _ABOUT_IMPORT if k in known}

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._kept)


class _Finder(MetaPathFinder):
    """Finds the modules of `jax` among those of `curta`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _THEIRS and not name.startswith(f"{_THEIRS}."):
            return None
        module = _module(name)
        if module is None:
            raise ModuleNotFoundError(
                f"No module named {name!r}: {_OURS}.as_jax stands for JAX, and Curta"
                f" has no {_own_name(name)!r}",
                name=name,
            )
        return ModuleSpec(name, _Alias(module), is_package=hasattr(module, "__path__"))


def _own_name(name: str) -> str:
    private = name.removeprefix(f"{_PRIVATE}.")
    if private == "api":  # the functions, which are modules in Curta's `api`
        return _OURS
    if private != name:
        return f"{_OURS}.{_PLACES.get(private, private)}"
    return _OURS + name.removeprefix(_THEIRS)


def _module(name: str) -> ModuleType | None:
    """Curta's module for one of JAX's; None if there is none."""
    if name == _PRIVATE:  # nothing but a place for modules
        package = ModuleType(name)
        package.__path__ = []
        return package
    own = _own_name(name)
    try:
        module = importlib.import_module(own)
    except ModuleNotFoundError as error:
        if error.name is not None and own.startswith(error.name):
            return None
        raise
    names = _NAMES.get(name.removeprefix(f"{_PRIVATE}."))
    return module if names is None else _with_names(name, module, names)


def _with_names(name: str, module: ModuleType, names: dict[str, str]) -> ModuleType:
    """A module with the names of another and some more."""
    found = ModuleType(name)
    found.__path__ = []
    kept = {k: v for k, v in vars(module).items() if k[:2] != "__" or k == "__path__"}
    vars(found).update(kept)
    for key, path in names.items():
        place, _, attribute = path.rpartition(".")
        setattr(found, key, getattr(importlib.import_module(place), attribute))
    return found


def _install() -> None:
    found = sys.modules.get(_THEIRS)
    if found is not None and found is not sys.modules[_OURS]:
        raise ImportError(
            "JAX has been imported already: import curta.as_jax before anything that"
            " imports jax."
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


_install()
