"""The deprecated module of `shard_map`, which warns."""

from __future__ import annotations

from typing import Any

from curta._base.user_warnings import warn as _warn
from curta.api.shard_map import older_shard_map as _older_shard_map

__all__ = ["shard_map"]

shard_map: Any  # made by __getattr__, which warns


def __getattr__(name: str) -> Any:
    if name != "shard_map":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _warn(
        "jax.experimental.shard_map is deprecated in v0.8.0. Use jax.shard_map"
        " instead.",
        DeprecationWarning,
    )
    return _older_shard_map
