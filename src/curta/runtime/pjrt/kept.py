"""Compiled programs of plugins on disk, so that a second start compiles nothing.

They lie in the cache of compiled kernels, by all that they depend on: the module, the
options, the plugin's file and versions, the devices, and the flags of XLA.
"""

from __future__ import annotations

import os

from curta.compiler.host_target import host
from curta.compiler.machine_code import cache
from curta.errors import JaxRuntimeError
from curta.runtime.pjrt.client import PluginClient
from curta.runtime.pjrt.executable import LoadedExecutable

# Variables that decide what code a plugin makes.
_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")


def compile_or_load(
    client: PluginClient, program: str, options: bytes
) -> LoadedExecutable:
    """`PluginClient.compile`, or what it gave in another process."""
    name = key(client, program, options)
    data = cache.read(name)
    if data is not None:
        try:
            return client.deserialize(data)
        except JaxRuntimeError:
            pass  # the plugin does not take it any more: compile it anew
    loaded = client.compile(program, options)
    try:
        cache.write(name, loaded.serialize())
    except JaxRuntimeError:
        pass  # not every plugin can write its programs
    return loaded


def key(client: PluginClient, program: str, options: bytes) -> str:
    """The name of a program in the cache."""
    library = client.library
    return cache.key(
        host(),
        "pjrt",
        library.identity,
        str(library.version),
        str(sorted(library.attributes().items())),
        client.platform,
        client.platform_version,
        *[f"{d.id} {d.kind}" for d in client.devices],
        *[os.environ.get(flag, "") for flag in _FLAGS],
        options.hex(),
        program,
    )
