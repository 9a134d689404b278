"""Available platforms and the default device."""

from __future__ import annotations

from typing import Any

from curta._base.on_demand import Listing, listed
from curta.api.callbacks import effects_barrier
from curta.api.jit_cache import clear_caches, clear_with_the_others
from curta.runtime.devices import (
    Client,
    client,
    default_device as get_default_device,
)

__all__ = [
    "backend_xla_version",
    "backends",
    "clear_backends",
    "clear_in_memory_compilation_cache",
    "get_backend",
    "get_default_device",
    "register_backend_cache",
]
__dir__: Listing = listed(__all__)


def backends() -> dict[str, Client]:
    """The clients by the names of their platforms.

    >>> from curta.extend.backend import backends
    >>> backends()
    {'cpu': Client('cpu')}
    """
    return {"cpu": client("cpu")}


def get_backend(platform: str | Client | None = None) -> Client:
    """The client of a platform, by default the platform of `get_default_device`.

    Raises:
      RuntimeError: if there is no such platform.

    >>> from curta.extend.backend import get_backend
    >>> get_backend().devices()
    [CpuDevice(id=0)]
    """
    if isinstance(platform, Client):
        return platform
    result = backends().get(platform or get_default_device().platform)
    if result is None:
        raise RuntimeError(
            f"Unknown backend {platform}. Available backends are {[*backends()]}"
        )
    return result


def backend_xla_version(platform: str | Client | None = None) -> int | None:
    """The version of XLA in a backend; None for one that is not a plugin with XLA.

    Raises:
      RuntimeError: the platform is unknown.

    >>> from curta.extend.backend import backend_xla_version
    >>> backend_xla_version() is None
    True
    """
    version: int | None = getattr(get_backend(platform), "xla_version", None)
    return version


def clear_backends() -> None:
    """Wait for what is at work and forget all that was traced and compiled.

    The devices stay: they are no more than parts of the memory of this process.

    >>> from curta.extend.backend import clear_backends
    >>> clear_backends()
    """
    effects_barrier()
    clear_caches()


def clear_in_memory_compilation_cache() -> None:
    """Forget all that was traced and compiled; kernels on disk stay.

    >>> from curta.extend.backend import clear_in_memory_compilation_cache
    >>> clear_in_memory_compilation_cache()
    """
    clear_caches()


def register_backend_cache(cache: Any, for_what: str) -> None:
    """Clear a cache of the program's own whenever all that was compiled is forgotten.

    `clear_caches` does that, and `clear_backends`.

    Args:
      cache: has a method `cache_clear`, as what `functools.lru_cache` makes. It is
        forgotten when the program forgets it.
      for_what: what is in it, for the reader.

    Returns:
      None.

    Raises:
      TypeError: it cannot be hashed or weakly referenced.

    >>> import curta, functools
    >>> from curta.extend.backend import register_backend_cache
    >>> @functools.lru_cache
    ... def answer():
    ...     return 42
    >>> register_backend_cache(answer, "answers")
    >>> answer(), answer.cache_info().currsize
    (42, 1)
    >>> curta.clear_caches(); answer.cache_info().currsize
    0
    """
    clear_with_the_others(cache, for_what)
