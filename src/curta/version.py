"""The version of Curta, which is also part of the keys of the kernel cache.

`__version_info__` is another thing: the version of JAX whose interface this is, since
programs compare it with JAX's versions before they use what is newer or older. It
follows the setting `jax_api_version`.
"""

from typing import Any

from curta._settings import api_version

__version__ = "0.1.0"
__version_info__: tuple[int, ...]  # made by __getattr__


def __getattr__(name: str) -> Any:
    if name == "__version_info__":
        return api_version.version_info()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
