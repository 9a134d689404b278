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
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from types import ModuleType
from typing import Any

from curta.version import __version_info__

_OURS, _THEIRS, _LIB, _PRIVATE = "curta", "jax", "jaxlib", "jax._src"
# Private modules of JAX that libraries import: where Curta has the like, and names that
# it has in yet other places.
_PLACES = {
    "ad_util": "interpreters.ad",
    "checkify": "experimental.checkify",
    "dispatch": "runtime",
    "literals": "core",
    "mesh": "core.mesh",
    "state": "core.refs",
    "state.types": "core.refs",
    "traceback_util": "core.tracebacks",
    "util": "api_util",
}
_NAMES = {
    "api_util": {
        "infer_argnums_and_argnames": "curta.api.jit_options.infer_argnums_and_argnames"
    },
    "ad_util": {"stop_gradient_p": "curta.lax.stop_gradient_p"},
    "core": {"Primitive": "curta.core.primitive.Primitive"},
    "dtypes": {
        "DType": "numpy.dtype",
        "TypePromotionError": "curta.errors.TypePromotionError",
    },
    "lax": {"lax": "curta.lax"},
    "mesh": {"thread_resources": "curta.interpreters.pxla.thread_resources"},
    "state": {},
    "tree_util": {"_registry": "curta.tree.registration.default_registry"},
}
_BINARIES = {
    "jaxlib": {"__version__": "curta.as_jax._VERSION"},
    "jaxlib._jax": {
        "Device": "curta.Device",
        "PjitFunction": "curta.api.jit.Jitted",
        "XlaRuntimeError": "curta.errors.JaxRuntimeError",
    },
    "jaxlib.xla_client": {
        "Device": "curta.Device",
        "XlaRuntimeError": "curta.errors.JaxRuntimeError",
    },
}
_VERSION = ".".join(map(str, __version_info__))
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
        if name.partition(".")[0] not in (_THEIRS, _LIB):
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
        return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {_VERSION}\n"

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{_OURS}.as_jax has no files of {self._name}")


def _own_name(name: str) -> str:
    if name.partition(".")[0] == _LIB:
        return name
    private = name.removeprefix(f"{_PRIVATE}.")
    if private == "api":  # the functions, which are modules in Curta's `api`
        return _OURS
    if private != name:
        return f"{_OURS}.{_PLACES.get(private, private)}"
    return _OURS + name.removeprefix(_THEIRS)


def _module(name: str) -> ModuleType | None:
    """Curta's module for one of JAX's; None if there is none."""
    if name == _PRIVATE:  # nothing but a place for modules
        package = _with_names(name, ModuleType(name), {})
        vars(package)["__getattr__"] = _private
        return package
    if name.partition(".")[0] == _LIB:
        given = _BINARIES.get(name)
        return None if given is None else _with_names(name, ModuleType(name), given)
    own = _own_name(name)
    try:
        module = importlib.import_module(own)
    except ModuleNotFoundError as error:
        if error.name is not None and own.startswith(error.name):
            return None
        raise
    names = _NAMES.get(name.removeprefix(f"{_PRIVATE}."))
    return module if names is None else _with_names(name, module, names)


def _private(name: str) -> ModuleType:
    try:
        return importlib.import_module(f"{_PRIVATE}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(str(error)) from None


def _with_names(name: str, module: ModuleType, names: dict[str, str]) -> ModuleType:
    """A module with the names of another and some more."""
    found = ModuleType(name)
    found.__path__ = []
    kept = ("__path__", "__getattr__")
    known = vars(module).items()
    vars(found).update({k: v for k, v in known if k[:2] != "__" or k in kept})
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
