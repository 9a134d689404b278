"""The folder of compiled kernels, as JAX's programs choose it.

The same as the setting `jax_compilation_cache_dir`; docs/settings.md tells more.
"""

from __future__ import annotations

import os

from curta._base.on_demand import Listing, listed
from curta.config import config

__all__ = ["reset_cache", "set_cache_dir"]
__dir__: Listing = listed(__all__)


def set_cache_dir(path: str | os.PathLike[str] | None) -> None:
    """Keep compiled kernels in the folder `path`, or where they are kept by default.

    >>> from curta.experimental.compilation_cache import compilation_cache
    >>> compilation_cache.set_cache_dir(None)
    """
    chosen = None if path is None else os.fspath(path)
    config.update("jax_compilation_cache_dir", chosen)


def reset_cache() -> None:
    """Let another folder take effect, which it does here at once.

    >>> from curta.experimental.compilation_cache import compilation_cache
    >>> compilation_cache.reset_cache()
    """
