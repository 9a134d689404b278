"""The registered PJRT plugins and their clients.

A plugin is found where JAX finds it: by PJRT_NAMES_AND_LIBRARY_PATHS, by entry points
`jax_plugins` and packages in the namespace of that name, and libtpu. Their own Python
code, which imports JAX, is not run: the library is looked for beside it.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta._base.once import once
from curta.config import config
from curta.errors import JaxRuntimeError
from curta.hosts.engine import of_process
from curta.runtime.pjrt.client import PluginClient
from curta.runtime.pjrt.handlers import register_vendor
from curta.runtime.pjrt.keyvalue import Callbacks
from curta.runtime.pjrt.library import Library, open_library
from curta.runtime.pjrt.platforms import (
    PLATFORMS,
    Environment,
    package_folders,
    platform_of,
)
from curta.runtime.pjrt.values import Value

logger: Any = logging.getLogger(__name__)

# Libraries of plugins, by what wheels name them; the first that fits.
_PATTERNS = ("xla_*_plugin.so", "pjrt_c_api_*_plugin.so", "*pjrt*.so", "*pjrt*.dylib")


@dataclass(frozen=True)
class Plugin:
    """A plugin that was found.

    `options` come with its registration, `origin` says how it was found.
    """

    name: str
    path: str
    origin: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def priority(self) -> int:
        """Of several plugins, the one of the highest is the default."""
        return platform_of(self.name).priority

    def library(self) -> Library:
        """The plugin, loaded; once in a process."""
        return _library(self.path, self.name)

    def create_options(self, environment: Environment) -> dict[str, Value]:
        """What a client is made with: the platform's options, then what was given."""
        return {
            **platform_of(self.name).options(environment),
            **dict(self.options),
            **config.jax_pjrt_client_create_options,
        }

    def make_client(
        self, store: Callbacks | None = None, process: int = 0, processes: int = 1
    ) -> PluginClient:
        """A client, of one process of several if there is a store.

        Raises RuntimeError, with what to do, where there is no device.
        """
        options = self.create_options(os.environ)
        if store is not None:
            options = {"node_id": process, "num_nodes": processes, **options}
        try:
            return PluginClient(self.library(), options, store)
        except JaxRuntimeError as error:
            advice = platform_of(self.name).advice(os.environ)
            raise RuntimeError(
                f"Unable to initialize backend '{self.name}': {error} (plugin"
                f" {self.path}, {self.origin}.{advice and f' What to do: {advice}.'}"
                " JAX_PLATFORMS=cpu runs on the CPU instead.)"
            ) from error


@once
def _library(path: str, name: str) -> Library:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    platform_of(name).prepare()
    result = open_library(path, name)
    register_vendor(result, name)
    return result


# ---- where plugins are


def discover(environment: Environment = os.environ) -> dict[str, Plugin]:
    """The plugins that are installed or named, by name.

    What the environment names goes before what is installed.
    """
    result: dict[str, Plugin] = {}
    for plugin in (*_installed(environment), *_named(environment)):
        result[plugin.name] = plugin
    return result


def _named(environment: Environment) -> Iterator[Plugin]:
    """PJRT_NAMES_AND_LIBRARY_PATHS: `name:path,name:path`; a path may be of a JSON."""
    variable = "PJRT_NAMES_AND_LIBRARY_PATHS"
    for entry in filter(None, environment.get(variable, "").split(",")):
        name, _, path = entry.partition(os.pathsep)
        if not name or not path:
            logger.warning("%s: %r is not of the form name:path", variable, entry)
        elif path.endswith(".json"):
            yield _described(name, path)
        else:
            yield Plugin(name, path, f"named by {variable}")


def _described(name: str, path: str) -> Plugin:
    said = json.loads(Path(path).read_text())
    if not isinstance(said, Mapping) or "library_path" not in said:
        raise ValueError(f'{path} has to say a plugin\'s "library_path"')
    options = said.get("create_options") or {}
    return Plugin(
        name, said["library_path"], f"described by {path}", tuple(options.items())
    )


def _installed(environment: Environment) -> Iterator[Plugin]:
    for module, how in sorted(_modules().items()):
        library = _library_in(package_folders(module))
        if library is None:
            logger.warning(
                "%s (%s) has no library of a plugin in its folder: name it by"
                " PJRT_NAMES_AND_LIBRARY_PATHS",
                *(module, how),
            )
        else:
            yield Plugin(platform_name(module), os.fspath(library), how)
    tpu = _tpu_library(environment)
    if tpu is not None:
        yield Plugin("tpu", tpu, "the library of package libtpu")


def _modules() -> dict[str, str]:
    """The modules of plugins, and how each was found."""
    folders = map(os.fspath, package_folders("jax_plugins"))
    spread = pkgutil.iter_modules(list(folders), "jax_plugins.")
    result = {module.name: f"package {module.name}" for module in spread}
    for point in importlib.metadata.entry_points(group="jax_plugins"):
        result[point.value.partition(":")[0]] = f"entry point {point.name}"
    return result


def _library_in(folders: Iterable[Path]) -> Path | None:
    for folder in folders:
        for pattern in _PATTERNS:
            if matches := sorted(folder.glob(pattern)):
                return matches[0]
    return None


def _tpu_library(environment: Environment) -> str | None:
    named = environment.get("TPU_LIBRARY_PATH")
    if named and os.path.isfile(named):
        return named
    for folder in package_folders("libtpu"):
        if (folder / "libtpu.so").is_file():
            return os.fspath(folder / "libtpu.so")
    return None


def platform_name(module: str) -> str:
    """The platform of a plugin's module.

    >>> [platform_name(f"jax_plugins.{m}") for m in ("xla_cuda13", "xla_rocm7", "ours")]
    ['cuda', 'rocm', 'ours']
    """
    last = module.rpartition(".")[2]
    known = re.fullmatch(r"xla_([a-z]+)\d*", last)
    return known[1] if known else last


# ---- choosing one


@once
def plugins() -> dict[str, Plugin]:
    """The plugins of this process; looked for once."""
    return discover()


def find(name: str, among: Mapping[str, Plugin] | None = None) -> Plugin:
    """The plugin of a name or an alias (`gpu`).

    Raises RuntimeError, with what to install, if there is none.
    """
    known = plugins() if among is None else among
    names = [p.name for p in PLATFORMS.values() if p.alias == name] or [name]
    for candidate in names:
        if candidate in known:
            return known[candidate]
    extras = {"cuda": "curta[cuda13]", "rocm": "curta[rocm7]", "tpu": "curta[tpu]"}
    wanted = " or ".join(extras[n] for n in names if n in extras)
    remedy = f"pip install '{wanted}' brings it, or name" if wanted else "Name"
    raise RuntimeError(
        f"Unknown backend: '{name}' requested, but no plugin for it is installed."
        f" Platforms present are: {','.join(['cpu', *known])}. {remedy} one by"
        f" PJRT_NAMES_AND_LIBRARY_PATHS={name}:/path/to/library.so"
    )


@once
def client(name: str) -> PluginClient:
    """The client of this process for a platform; made when it is first asked for.

    The processes of one program make theirs together, and tell each other of their
    devices by the store of `distributed.initialize`.
    """
    plugin, here = find(name), of_process()
    if here.count == 1 or not platform_of(plugin.name).takes_store:
        return plugin.make_client()
    store = Callbacks(here.store, f"{plugin.name}:")
    result = plugin.make_client(store, here.index, here.count)
    here.unfinished = (*here.unfinished, result.wait_for_programs)
    return result
